/** Probes: rows of token ids whose log-probabilities tell whether an engine has the weights that it should have. */
import * as E from 'fp-ts/lib/Either.js'
import { child, type Key, keyFromSeed, uniformInteger } from '../../core/key.js'
import type { EngineClient } from '../../data/engineClient.js'
import type { GenerationRequest } from '../../data/generation.js'
import { collectEvents, type Generated } from '../../modules/generation/generateAll.js'
import { DEFAULT_SAMPLING } from '../../modules/generation/sampling/params.js'
import type { ProbeGap } from './report.js'

/** Which rows are drawn. */
export interface ProbeShape {
  readonly count: number
  readonly vocabularySize: number
  /** Tokens of a row, at most; at least 2. */
  readonly longest: number
}

/**
 * Rows of random length and random ids.
 *
 * Shapes   `count` rows of 2 to `longest` ids below `vocabularySize`.
 * Errors   throws RangeError for a vocabulary or a row that holds nothing to predict.
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

/** Rows, and the trainer's log-probabilities of each token but the first, in nats. */
export interface ExpectedProbes {
  readonly rows: readonly (readonly number[])[]
  readonly logProbs: readonly ArrayLike<number>[]
}

/** Which weights of an engine are probed. The salt has been used by nobody: no prefix cache hides what it computes. */
export interface ProbedWeights {
  readonly adapter: string | null
  readonly cacheSalt: string
}

/** What an engine said about probes. */
export interface Probed {
  /** One row for each probe, one number for each token but the first, NaN where it gave none. */
  readonly logProbs: readonly Float64Array[]
  /** Versions that its answers were stamped with. */
  readonly versions: ReadonlySet<number>
}

/** The numbers of a prompt. */
const numbersOf = (found: Generated['promptLogProbs'], row: readonly number[]): Float64Array =>
  Float64Array.from(row.slice(1), (id, t) => {
    const entry = found?.[t + 1]
    return entry?.id === id ? entry.logProb : Number.NaN
  })

/**
 * How far an engine's numbers are from those expected.
 *
 * Shapes   as many rows on both sides, of equal lengths.
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
 * Asks an engine for the log-probabilities of all probes.
 *
 * Errors   `Left` with the reason if the engine fails at one of them.
 * Cost     one prompt and one token for each probe.
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
