/** Probes: rows of token ids whose log-probabilities verify the weights of an engine. */
import { child, type Key, keyFromSeed, uniformInteger } from '@tandem-rl/base'
import type { GenerationRequest } from '@tandem-rl/text'
import * as E from 'fp-ts/lib/Either.js'
import type { EngineClient } from '../../data/engineClient.js'
import { collectEvents, type Generated } from '../../modules/generation/generateAll.js'
import { DEFAULT_SAMPLING } from '../../modules/generation/sampling/params.js'
import type { ProbeGap } from './report.js'

/** The shape of the probes to draw. */
export interface ProbeShape {
  readonly count: number
  readonly vocabularySize: number
  /** Maximum number of tokens in a row; at least 2. */
  readonly longest: number
}

/**
 * Draws rows of random lengths and ids.
 *
 * Shapes   `count` rows of 2 to `longest` ids below `vocabularySize`.
 * Errors   throws RangeError for an empty vocabulary or rows without a token to predict.
 *
 * @example
 * drawProbes(keyFromSeed(1), { count: 20, vocabularySize: 64, longest: 24 }).length // 20
 */
export const drawProbes = (
  key: Key,
  { count, vocabularySize, longest }: ProbeShape,
): readonly (readonly number[])[] => {
  if (longest < 2) throw new RangeError(`drawProbes: a row needs at least 2 tokens, got ${longest}`)
  return Array.from({ length: count }, (_, i) => {
    const row = child(key, i)
    const length = 2 + uniformInteger(child(row, 'length'), longest - 1)
    return Array.from({ length }, (_, t) => uniformInteger(child(row, 'ids'), vocabularySize, t))
  })
}

/** Rows, and the trainer's log-probabilities of each token except the first, in nats. */
export interface ExpectedProbes {
  readonly rows: readonly (readonly number[])[]
  readonly logProbs: readonly ArrayLike<number>[]
}

/**
 * The weights of an engine to probe. The salt must be unused, so that no prefix cache affects the
 * result.
 */
export interface ProbedWeights {
  readonly adapter: string | null
  readonly cacheSalt: string
}

/** The results of an engine for the probes. */
export interface Probed {
  /** Per probe, one number for each token except the first, or NaN if missing. */
  readonly logProbs: readonly Float64Array[]
  /** The versions that stamped the responses. */
  readonly versions: ReadonlySet<number>
}

/** Returns the log-probabilities of a prompt's tokens. */
const numbersOf = (found: Generated['promptLogProbs'], row: readonly number[]): Float64Array =>
  Float64Array.from(row.slice(1), (id, t) => {
    const entry = found?.[t + 1]
    return entry?.id === id ? entry.logProb : Number.NaN
  })

/**
 * Compares an engine's log-probabilities with the expected ones.
 *
 * Shapes   equal numbers of rows on both sides, of equal lengths.
 *
 * @example
 * probeGap([[-1, -2]], [[-1, -2.5]]) // { worst: 0.5, mean: 0.25, probe: 0 }
 */
export const probeGap = (found: readonly ArrayLike<number>[], wanted: readonly ArrayLike<number>[]): ProbeGap => {
  const perProbe = found.map((row, i) =>
    Array.from(row, (x, t) => {
      const gap = Math.abs(x - wanted[i]![t]!)
      return Number.isNaN(gap) ? Number.POSITIVE_INFINITY : gap
    }),
  )
  const worsts = perProbe.map((gaps) => Math.max(0, ...gaps))
  const worst = Math.max(0, ...worsts)
  const all = perProbe.flat()
  const mean = all.reduce((sum, gap) => sum + gap, 0) / Math.max(1, all.length)
  return { worst, mean, probe: Math.max(0, worsts.indexOf(worst)) }
}

const requestOf = (prompt: readonly number[], { adapter, cacheSalt }: ProbedWeights, i: number): GenerationRequest => ({
  id: `${cacheSalt}-${i}`,
  prompt: Int32Array.from(prompt),
  sampling: { ...DEFAULT_SAMPLING, maxTokens: 1, endTokens: 'ignore', promptLogProbs: 0, key: keyFromSeed(i) },
  adapter,
  cacheSalt,
})

/**
 * Requests the log-probabilities of all probes from an engine.
 *
 * Errors   `Left` with the reason if a probe fails.
 * Cost     one prompt and one token per probe.
 */
export const probe = async (
  client: Pick<EngineClient, 'generate'>,
  rows: readonly (readonly number[])[],
  options: ProbedWeights & { readonly signal: AbortSignal },
): Promise<E.Either<string, Probed>> => {
  const controls = rows.map(() => new AbortController())
  options.signal.addEventListener('abort', () => {
    for (const control of controls) control.abort()
  })
  const answers = await Promise.all(
    rows.map((row, i) => collectEvents(client.generate(requestOf(row, options, i), controls[i]!), 1)),
  )
  const found: Generated[] = []
  for (const [i, answer] of answers.entries()) {
    if (E.isLeft(answer)) return E.left(`probe ${i} was not scored: ${answer.left.reason}`)
    const { finishReason } = answer.right.completions[0]!
    if (finishReason === 'abort' || finishReason === 'error')
      return E.left(`probe ${i} was not scored: it ended with '${finishReason}'`)
    found.push(answer.right)
  }
  return E.right({
    logProbs: found.map(({ promptLogProbs }, i) => numbersOf(promptLogProbs, rows[i]!)),
    versions: new Set(found.flatMap(({ completions }) => completions[0]!.tokens.map(({ version }) => version))),
  })
}
