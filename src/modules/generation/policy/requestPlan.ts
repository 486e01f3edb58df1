/** Plans the requests for rows of prompts: truncation, grouping, numbering. */
import { type Key, problemList } from '@tandem-rl/base'
import type { GenerationRequest, SamplingParams } from '@tandem-rl/text'
import * as E from 'fp-ts/lib/Either.js'
import { runStarts } from '../../../data/completions.js'
import type { EngineAbilities } from '../../../data/engineClient.js'

/**
 * Treatment of a prompt that leaves no room for the completion: refuse it, or keep `keep` tokens of
 * its start or end.
 */
export type Truncation = 'refuse' | { readonly keep: number; readonly side: 'start' | 'end' }

/** A request, and the rows of its completions. */
export interface PlannedRequest {
  readonly request: Omit<GenerationRequest, 'id'>
  /** The first row. */
  readonly row: number
  /** Number of rows from there on: one completion each, or one for all at temperature 0. */
  readonly rows: number
}

export interface PlanOptions {
  readonly sampling: SamplingParams
  readonly key: Key
  readonly truncate: Truncation
  /** Maximum number of completions per request. */
  readonly maxPerRequest: number
  readonly abilities: Pick<EngineAbilities, 'maxModelLength' | 'vocabularySize'>
}

const cut = (row: Int32Array, truncate: Truncation): Int32Array => {
  if (truncate === 'refuse' || row.length <= truncate.keep) return row
  return truncate.side === 'start' ? row.slice(0, truncate.keep) : row.slice(row.length - truncate.keep)
}

/** Returns the problem with a prompt, if any. */
const promptProblem = (row: Int32Array, i: number, options: PlanOptions): readonly string[] => {
  const { maxModelLength, vocabularySize } = options.abilities
  const maxTokens = options.sampling.maxTokens ?? 1
  if (row.length === 0) return [`prompt ${i} is empty`]
  const wrong = row.findIndex((id) => id < 0 || id >= vocabularySize)
  if (wrong >= 0) {
    return [
      `prompt ${i} has id ${row[wrong]} at ${wrong}, the engine's vocabulary has ids from 0 to ${vocabularySize - 1}`,
    ]
  }
  if (row.length + maxTokens <= maxModelLength) return []
  const room = maxModelLength - maxTokens
  const wayOut =
    room > 0 ? `: request fewer, or set truncate: { keep: ${room}, side: 'end' }` : ': request fewer new tokens'
  return [
    `prompt ${i} has ${row.length} tokens; with ${maxTokens} new ones it passes the engine's limit of ${maxModelLength}${wayOut}`,
  ]
}

/**
 * Makes one request per run of neighboring rows with equal prompts, or several for a run that
 * exceeds `maxPerRequest`.
 *
 * All requests have the same key, and each has the number of its first row. Row i therefore draws
 * as completion i of the key, however rows are grouped.
 *
 * Errors   `Left` that lists every prompt that is empty, has ids outside the vocabulary, or leaves
 *          no room.
 */
export const planRequests = (
  prompts: readonly Int32Array[],
  options: PlanOptions,
): E.Either<string, readonly PlannedRequest[]> => {
  const { sampling, key, truncate, maxPerRequest } = options
  const rows = prompts.map((row) => cut(row, truncate))
  const problems = rows.flatMap((row, i) => promptProblem(row, i, options))
  if (problems.length > 0) return E.left(problemList(problems))
  const starts = runStarts(rows)
  const isGreedy = sampling.temperature === 0
  return E.right(
    starts.flatMap((start, run) => {
      const count = (starts[run + 1] ?? rows.length) - start
      const size = isGreedy ? count : maxPerRequest
      return Array.from({ length: Math.ceil(count / size) }, (_, part): PlannedRequest => {
        const row = start + part * size
        const rowsOfPart = Math.min(size, start + count - row)
        return {
          row,
          rows: rowsOfPart,
          request: {
            prompt: rows[row]!,
            sampling: { ...sampling, key, n: isGreedy ? 1 : rowsOfPart },
            adapter: null,
            cacheSalt: '',
            firstCompletion: row,
          },
        }
      })
    }),
  )
}
