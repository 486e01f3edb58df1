/** Losses as functions of a decoder's states, and the scalars that they measure. */
import * as tf from '@tensorflow/tfjs-core'
import type { NamedTensors } from '../../data/weights.js'
import type { DecoderConfig } from '../../modules/transformer/config.js'
import type { Readout } from '../../modules/transformer/layerwise.js'
import {
  type AnyLoss,
  type LossSelection,
  type MetricReduction,
  type StepSums,
  scalarsOf,
  type TokenTensors,
  totalLoss,
} from '../../objectives/loss.js'
import type { LossRows } from '../../objectives/lossRows.js'
import { modelOutputs, NO_NEEDS } from './readout.js'
import type { ComputedPart, StepLoss } from './stepGradients.js'
import type { RowTensors } from './tokenRows.js'

/** The scalars of a micro-batch, and measures of its tokens for losses that have them. */
export interface StepMeasures {
  readonly scalars: NamedTensors
  readonly tokens?: TokenTensors
}

/** The tensors of a micro-batch that a loss receives. */
export const lossTensors = ({
  mask,
  lists,
  counts,
}: Pick<RowTensors, 'mask' | 'lists'> & Partial<Pick<RowTensors, 'counts'>>): never =>
  ({ ...lists, mask, ...(counts && { counts }) }) as never // the lists of the loss's own rows

/** Returns a loss as a function of the decoder's states and a micro-batch. */
export const stepLoss =
  (config: DecoderConfig, loss: AnyLoss): StepLoss<StepMeasures> =>
  (readout, rows) => {
    const [model, batch] = [modelOutputs(config, loss, { readout, rows }), lossTensors(rows)]
    const output = loss.apply(model, batch)
    const tokens = loss.measures.tokens?.(model, batch, output)
    return { value: totalLoss(output), aux: { scalars: scalarsOf(output), ...(tokens && { tokens }) } }
  }

const REDUCED: Readonly<Record<MetricReduction, (numbers: readonly number[]) => number>> = {
  sum: (numbers) => numbers.reduce((a, b) => a + b, 0),
  max: (numbers) => Math.max(...numbers),
  logSumExp: (numbers) => {
    const highest = Math.max(...numbers)
    return highest + Math.log(numbers.reduce((total, x) => total + Math.exp(x - highest), 0))
  },
}

/** Combines the scalars of micro-batches, which are scaled to the whole mini-batch. */
export const stepSums = (
  { measures: { reduce } }: Pick<AnyLoss, 'measures'>,
  parts: readonly Pick<ComputedPart<StepMeasures>, 'loss' | 'aux'>[],
): StepSums['sums'] => {
  const numbers = (name: string): readonly number[] => parts.map(({ aux }) => aux.scalars[name]!.dataSync()[0]!)
  const names = Object.keys(parts[0]?.aux.scalars ?? {})
  return {
    ...Object.fromEntries(names.map((name) => [name, REDUCED[reduce[name] ?? 'sum'](numbers(name))])),
    loss: REDUCED.sum(parts.map(({ loss }) => loss.dataSync()[0]!)),
  }
}

/** Returns the number of trained tokens of a micro-batch, a scalar, for losses that select them. */
export const countedTokens = (
  config: DecoderConfig,
  { name, counted }: Pick<AnyLoss, 'name'> & Pick<Required<LossSelection>, 'counted'>,
  { readout, rows }: { readonly readout: Readout; readonly rows: Omit<RowTensors, 'counts'> },
): tf.Tensor => tf.sum(counted(modelOutputs(config, { name, needs: NO_NEEDS }, { readout, rows }), lossTensors(rows)))

/** Returns for each row whether all of its advantages are 0 where the mask is 1. */
export const hasNoAdvantage = ({ completions, masks, lists }: LossRows): readonly boolean[] => {
  const { advantages } = lists
  return completions.map((completion, row) => {
    const advantage = advantages?.[row]
    const isZero = (t: number): boolean =>
      masks?.[row]?.[t] === 0 || (typeof advantage === 'number' ? advantage : advantage?.[t]) === 0
    return Array.from(completion).every((_, t) => isZero(t))
  })
}
