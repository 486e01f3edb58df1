/** Policy losses that servers have: their names, settings and inputs. */
import type { AnyLoss, LossRows, PolicyLossOptions } from 'tandem-rl/objectives'
import { type GradientSums, undoFactors } from '../client/gradientSums.js'
import type { Datum, LossConfig } from '../protocol/values.js'
import { withInputs } from './rowData.js'

/** A loss of the server that equals a loss of ours. */
export interface BuiltIn {
  readonly lossFn: string
  readonly lossConfig: LossConfig
}

const rangeOf = (given: unknown, otherwise: readonly [number, number]): readonly [number, number] => {
  if (typeof given === 'number') return [given, given]
  return Array.isArray(given) ? (given as unknown as readonly [number, number]) : otherwise // checked by the objective
}

/**
 * The server's loss for a policy loss; undefined for one that servers do not have. Sums of the
 * server become means by advantages that are divided by the number of tokens, so only losses that
 * are linear in the advantage have one.
 */
export const builtInOf = ({ name, options }: Pick<AnyLoss, 'name' | 'options'>): BuiltIn | undefined => {
  const { objective, aggregation = 'token-mean', kl = [], klMaskThreshold } = options as PolicyLossOptions // of `policyLoss`
  const hasMore = kl.some(({ coefficient }) => coefficient !== 0) || klMaskThreshold !== undefined
  if (hasMore || aggregation !== 'token-mean') return undefined
  const settings = (objective?.options ?? {}) as Readonly<Record<string, unknown>>
  const [low, high] = rangeOf(settings.clipEpsilon, [0.2, 0.2])
  const lossConfig = { clip_low_threshold: 1 - low, clip_high_threshold: 1 + high }
  if (name === 'clippedSurrogate' && settings.dualClip === undefined) return { lossFn: 'ppo', lossConfig }
  return name === 'cispo' ? { lossFn: 'cispo', lossConfig } : undefined
}

const at = (list: number | ArrayLike<number>, t: number): number => (typeof list === 'number' ? list : list[t]!)

/**
 * Rows as data of a loss of the server: masked tokens have the advantage 0. Averages of the server
 * are undone by factors.
 */
export const builtInData = (rows: LossRows, data: readonly Datum[], sums: GradientSums): readonly Datum[] => {
  const factors = undoFactors(sums, data)
  const { prompts, completions, masks, lists } = rows
  const isOn = (row: number, t: number): number => masks?.[row]?.[t] ?? 1
  const count = completions.reduce(
    (sum, completion, row) => sum + Array.from(completion).filter((_, t) => isOn(row, t) === 1).length,
    0,
  )
  const number = (name: string, row: number, t: number): number => at(lists[name]![row]!, t) // rows of policy losses have them
  return data.map((datum, row) =>
    withInputs(datum, prompts[row]!, {
      logprobs: Float32Array.from(completions[row]!, (_, t) =>
        isOn(row, t) === 1 ? number('oldLogProbs', row, t) : 0,
      ),
      advantages: Float32Array.from(completions[row]!, (_, t) => {
        const weight = lists.weights === undefined ? 1 : number('weights', row, t)
        return (factors[row]! * isOn(row, t) * number('advantages', row, t) * weight) / Math.max(1, count)
      }),
    }),
  )
}
