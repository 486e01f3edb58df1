/** The computation of a prompt, in pieces, for all completions that start with it. */
import type { GenerationFailure, PromptTokenLogProb } from '@tandem-rl/text'
import { type Either, isLeft, left, right } from 'fp-ts/lib/Either.js'
import type { Params } from '../transformer/params.js'
import { BASE_GROUP } from './engineWeights.js'
import type { StepInput } from './laneSet.js'
import type { Computing } from './plan.js'
import type { PrefixCache } from './prefixCache.js'
import type { KeyValues, ModelRunner, NextToken, PrefillItem, PrefillResult } from './runner/modelRunner.js'
import { tokenLogProbs } from './sampling/logProbs.js'
import type { Row, Ticket } from './ticket.js'

/** Largest size of all scores in one call: 64 MiB as 32-bit numbers. */
const MAX_SCORES = 2 ** 24

/** The computation that rows wait for. Rows with equal needs share it. */
export interface PrefillNeed {
  readonly tokens: Int32Array
  /** Name that separates computations which must not be shared. */
  readonly space: string
  readonly group: string
  readonly params: () => Params
  readonly inverseTemperature: number
  readonly scores: PrefillItem['scores']
}

/** A computation in progress. A mutable value, for the edge of the engine. */
export interface PrefillJob {
  readonly need: PrefillNeed
  readonly rows: () => readonly Row[]
  readonly join: (rows: readonly Row[]) => void
  /** Removes rows whose request has ended. */
  readonly prune: () => void
  readonly computing: Computing
  /** Number of tokens whose keys and values exist. */
  readonly computed: () => number
  /** Number of them that came from the cache. */
  readonly cachedTokens: () => number
  readonly past: () => readonly KeyValues[]
  /** Returns the item that computes the next `count` tokens. */
  readonly item: (count: number) => PrefillItem
  /**
   * Adds the result of an item. Returns the scores after the last token once all tokens are
   * computed.
   */
  readonly take: (result: PrefillResult) => Either<GenerationFailure, NextToken | null>
  readonly promptLogProbs: () => readonly (PromptTokenLogProb | null)[] | null
}

const inverseOf = ({ request }: Ticket): number =>
  request.sampling.temperature === 0 ? 1 : 1 / request.sampling.temperature

/** Returns the input of a row to a decoding step. */
export const stepInput = ({ tokens, ticket }: Row): StepInput => ({
  token: tokens.last(),
  inverseTemperature: inverseOf(ticket),
})

/**
 * Returns the computation that a row needs before decoding. Its tokens are a view, not a copy,
 * because the list only grows at its end.
 */
export const prefillNeed = ({ tokens, ticket }: Row, space: string): PrefillNeed => ({
  tokens: tokens.view(),
  space,
  group: ticket.use.group,
  params: ticket.use.params,
  inverseTemperature: inverseOf(ticket),
  scores: ticket.request.sampling.promptLogProbs !== null && !ticket.hasBegun() ? 'all' : 'last',
})

const sameTokens = (a: Int32Array, b: Int32Array): boolean => a.length === b.length && a.every((id, i) => id === b[i])

/** Returns true if one computation serves both. */
export const isSameNeed = (a: PrefillNeed, b: PrefillNeed): boolean =>
  a.space === b.space &&
  a.inverseTemperature === b.inverseTemperature &&
  a.scores === b.scores &&
  sameTokens(a.tokens, b.tokens)

/**
 * Starts a computation from the cached beginning of the prompt. The last token is always computed,
 * because its scores are needed. If the scores of all positions are needed, everything is computed.
 *
 * Effects  a mutable value; the cache records the use.
 */
export const makePrefillJob = (
  need: PrefillNeed,
  first: readonly Row[],
  options: { readonly cache: PrefixCache | null; readonly vocabularySize: number },
): PrefillJob => {
  const { tokens } = need
  const { sampling } = first[0]!.ticket.request
  const found = need.scores === 'all' ? [] : (options.cache?.find(need.space, tokens, tokens.length - 1) ?? [])
  const cachedTokens = found.reduce((sum, part) => sum + part.length, 0)
  const past: KeyValues[] = [...found]
  const scored: (PromptTokenLogProb | null)[] = [null]
  const limit =
    need.scores === 'all' ? Math.max(1, Math.floor(MAX_SCORES / options.vocabularySize)) : Number.MAX_SAFE_INTEGER
  let rows = first
  let computed = cachedTokens

  /**
   * Adds the log-probabilities of prompt tokens from the scores of a piece. The scores after the
   * last token are not part of the prompt's.
   */
  const score = (logits: Float32Array, count: number): Either<GenerationFailure, void> => {
    const following = tokens.subarray(computed + 1, computed + count + 1)
    const result = tokenLogProbs(logits.subarray(0, following.length * options.vocabularySize), following, {
      top: sampling.promptLogProbs ?? 0,
      mode: sampling.logProbsMode,
      temperature: sampling.temperature,
    })
    if (isLeft(result)) return result
    for (const each of result.right) scored.push(each)
    return right(undefined)
  }

  return {
    need,
    rows: () => rows,
    join: (others) => {
      rows = [...rows, ...others]
    },
    prune: () => {
      rows = rows.filter((row) => row.isOpen())
    },
    get computing() {
      return { remaining: tokens.length - computed, limit }
    },
    computed: () => computed,
    cachedTokens: () => cachedTokens,
    past: () => past,
    item: (count) => ({
      tokens: tokens.slice(computed, computed + count),
      past,
      inverseTemperature: need.inverseTemperature,
      scores: need.scores,
    }),
    take: ({ keyValues, next, logits }) => {
      if (need.scores === 'all') {
        if (logits === null) {
          return left({
            _tag: 'GenerationFailure',
            kind: 'internal',
            reason: 'the runner gave no scores of the prompt',
          })
        }
        const result = score(logits, keyValues.length)
        if (isLeft(result)) return result
      }
      past.push(keyValues)
      computed += keyValues.length
      return right(computed === tokens.length ? next : null)
    },
    promptLogProbs: () => (need.scores === 'all' ? scored : null),
  }
}

/** A part of a prompt that is computed in this step. */
export interface Piece {
  readonly job: PrefillJob
  readonly count: number
}

/**
 * Computes pieces with the weights of the first. The base weights are served until others are
 * loaded.
 */
export const computePieces = (runner: ModelRunner, pieces: readonly Piece[]): readonly PrefillResult[] => {
  const { params, group } = pieces[0]!.job.need
  const items = pieces.map(({ job, count }) => job.item(count))
  return runner.prefill(params(), items, group === BASE_GROUP ? runner.servedWeights.prompts : 'fed')
}
