/** Chooses the next token of one row: a pure function on plain arrays. */
import { type Key, uniform } from '@tandem-rl/base'
import type { GeneratedToken, GenerationFailure, SamplingParams } from '@tandem-rl/text'
import * as E from 'fp-ts/lib/Either.js'
import type { NextToken } from '../runner/modelRunner.js'
import { type Cuts, draw, keep, NO_CUTS, type Scale } from './cuts.js'
import { type EditContext, editLogits, hasEdits } from './edits.js'
import { argMaxOf, mostProbable, rankOf, unusable, wrongLogits } from './logProbs.js'

/** The state of a completion that sampling depends on. */
export interface SampleState extends EditContext {
  /** Random key of the completion: `child(params.key, index)`. */
  readonly key: Key
  /** Number of tokens of the completion. The next one is drawn with `uniform(key, step)`. */
  readonly step: number
}

/** A sampled token. The engine adds the version of the weights. */
export type SampledToken = Omit<GeneratedToken, 'version'>

/** A sampled token and its distribution. */
interface Choice {
  readonly id: number
  /** Logits after changes. */
  readonly logits: Float32Array
  readonly max: number
  /** Returns the log-probability of a kept token with this logit. */
  readonly logProbOf: (logit: number) => number
  /** Number of kept tokens. */
  readonly count: number
}

/** Returns the runner's scale of the row, which is 1 at temperature 0. */
const inverseOf = ({ temperature }: SamplingParams): number => (temperature === 0 ? 1 : 1 / temperature)

/**
 * Returns the cuts. At temperature 0 they have no effect, because the most probable token is always
 * kept.
 */
const cutsOf = ({ temperature, minP, topK, topP }: SamplingParams): Cuts =>
  temperature === 0 ? NO_CUTS : { minP, topK, topP }

const isUncut = ({ minP, topK, topP }: Cuts, vocabulary: number): boolean =>
  minP === 0 && topP === 1 && (topK === 0 || topK >= vocabulary)

/**
 * Smallest mass to draw from, as a share of the largest weight. Below it, float32 sums are too
 * coarse.
 */
const LEAST_MASS = 1e-30

/**
 * Returns the weights of one block, with 0 for banned tokens. `[blockSize]`, shorter at the end of
 * the vocabulary.
 */
const blockWeights = (next: NextToken, scale: Scale, block: number, banned: readonly number[]): Float64Array => {
  const start = block * next.blockSize
  const row = next.logits.subarray(start, start + next.blockSize)
  const weights = new Float64Array(row.length)
  for (let i = 0; i < row.length; i++) weights[i] = Math.exp((row[i]! - scale.max) * scale.inverseTemperature)
  for (const id of banned) if (id >= start && id < start + row.length) weights[id - start] = 0
  return weights
}

const sumOf = (numbers: Float64Array | Float32Array): number => {
  let sum = 0
  for (let i = 0; i < numbers.length; i++) sum += numbers[i]!
  return sum
}

/**
 * Returns the sums of the blocks without banned tokens. Blocks that contain one are summed again.
 */
const massesWithout = (next: NextToken, scale: Scale, banned: readonly number[]): Float32Array => {
  if (banned.length === 0) return next.blockMasses
  const masses = next.blockMasses.slice()
  for (const id of banned) {
    const block = Math.floor(id / next.blockSize)
    masses[block] = sumOf(blockWeights(next, scale, block, banned))
  }
  return masses
}

/**
 * Returns the index at which a running sum of weights passes `target`: the last with a weight if
 * rounding leaves a remainder, or -1 if all are 0.
 */
const placeOf = (
  weights: Float64Array | Float32Array,
  target: number,
): { readonly place: number; readonly before: number } => {
  let [place, before, sum] = [-1, 0, 0]
  for (let i = 0; i < weights.length; i++) {
    if (weights[i]! <= 0) continue
    place = i
    before = sum
    sum += weights[i]!
    if (sum > target) break
  }
  return { place, before }
}

/** Draws a block by its sum, then a token of the block, without a pass over the vocabulary. */
const drawByBlocks = (
  next: NextToken,
  scale: Scale,
  {
    masses,
    banned,
    target,
  }: { readonly masses: Float32Array; readonly banned: readonly number[]; readonly target: number },
): number => {
  const { place: block, before } = placeOf(masses, target)
  const weights = blockWeights(next, scale, block, banned)
  // The runner's sum is a float32, so the position within the block is scaled to the exact sum.
  const share = Math.min((target - before) / masses[block]!, 1)
  return block * next.blockSize + placeOf(weights, share * sumOf(weights)).place
}

/**
 * Samples when only temperature and bans matter. Returns null if the sums of blocks are not
 * sufficient.
 */
const chooseQuickly = (next: NextToken, params: SamplingParams, state: SampleState): Choice | null => {
  const scale = { max: next.logits[next.argMax]!, inverseTemperature: inverseOf(params) }
  const { banned } = state
  const isGreedy = params.temperature === 0
  if (isGreedy && banned.includes(next.argMax)) return null
  const masses = massesWithout(next, scale, banned)
  const mass = sumOf(masses)
  if (!(mass > LEAST_MASS)) return null
  const logNormalizer =
    banned.length === 0 ? next.temperedLogNormalizer : Math.log(mass) + scale.max * scale.inverseTemperature
  const target = isGreedy ? 0 : uniform(state.key, state.step) * mass
  return {
    id: isGreedy ? next.argMax : drawByBlocks(next, scale, { masses, banned, target }),
    logits: next.logits,
    max: scale.max,
    logProbOf: (logit) => logit * scale.inverseTemperature - logNormalizer,
    count: next.logits.length,
  }
}

/** Samples with passes over the vocabulary, or returns the reason why no token can be sampled. */
const chooseThoroughly = (next: NextToken, params: SamplingParams, state: SampleState): E.Either<string, Choice> => {
  const isChanged = state.banned.length > 0 || hasEdits(params, state)
  const logits = isChanged ? editLogits(next.logits, params, state) : next.logits
  const best = isChanged ? argMaxOf(logits) : next.argMax
  if (best < 0) return E.left('no token can be sampled: all possible ones are banned')
  const max = logits[best]!
  if (max === Number.POSITIVE_INFINITY) return E.left(`bias and penalties give token ${best} the logit Infinity`)
  const scale = { max, inverseTemperature: inverseOf(params) }
  const kept = keep(logits, scale, cutsOf(params))
  const logMass = Math.log(kept.mass)
  return E.right({
    id: params.temperature === 0 ? best : draw(logits, scale, { kept, point: uniform(state.key, state.step) }),
    logits,
    max,
    logProbOf: (logit) => (logit - max) * scale.inverseTemperature - logMass,
    count: kept.count,
  })
}

/**
 * Returns true if the token and all reported values can be computed without a pass over the
 * vocabulary.
 */
const isQuick = (next: NextToken, params: SamplingParams, state: SampleState): boolean => {
  if (!isUncut(cutsOf(params), next.logits.length) || hasEdits(params, state)) return false
  const reportsProcessed = params.topLogProbs !== null && params.logProbsMode === 'processed'
  return state.banned.length === 0 || !reportsProcessed
}

const choose = (next: NextToken, params: SamplingParams, state: SampleState): E.Either<string, Choice> => {
  const quick = isQuick(next, params, state) ? chooseQuickly(next, params, state) : null
  return quick === null ? chooseThoroughly(next, params, state) : E.right(quick)
}

/** Limits a log-probability to 0, because rounding of the runner's sums may exceed it slightly. */
const atMostZero = (logProb: number): number => Math.min(logProb, 0)

/** Returns rank and alternatives according to `logProbsMode`, if requested. */
const report = (next: NextToken, params: SamplingParams, choice: Choice): Pick<SampledToken, 'rank' | 'top'> => {
  const { topLogProbs, logProbsMode } = params
  if (topLogProbs === null) return { rank: 0, top: [] }
  if (logProbsMode === 'processed') {
    const { logits, max, logProbOf } = choice
    const count = Math.min(topLogProbs, choice.count)
    return { rank: rankOf(logits, choice.id), top: mostProbable(logits, { count, max, logProbOf }) }
  }
  const { logits, logNormalizer, temperedLogNormalizer } = next
  const inverse = inverseOf(params)
  const logProbOf =
    logProbsMode === 'raw'
      ? (logit: number): number => atMostZero(logit - logNormalizer)
      : (logit: number): number => atMostZero(logit * inverse - temperedLogNormalizer)
  return {
    rank: rankOf(logits, choice.id),
    top: mostProbable(logits, { count: topLogProbs, max: logits[next.argMax]!, logProbOf }),
  }
}

/**
 * Samples the next token of a row and returns it with its log-probabilities.
 *
 * Tokens are drawn by inverse transform with `uniform(state.key, state.step)`, in order of their
 * ids, after bans, allowed tokens, biases, penalties, temperature, min-p, top-k and top-p, in this
 * order. Temperature 0 selects the most probable token; of equal ones, the lower id. With only
 * temperature and bans, the sums of blocks find the token without a pass over the vocabulary.
 *
 * Shapes   `next` scaled by 1 / `params.temperature`, by 1 at temperature 0; counts and bans have
 *          ids of the vocabulary.
 * Units    nats
 * Errors   `Left(GenerationFailure)` of kind `internal` if a logit is NaN or Infinity (its token is
 *          named) or no token can be sampled.
 * Effects  none: equal arguments give equal tokens.
 * Cost     O(V / blockSize + blockSize) with only temperature and bans, otherwise O(V). Rank and
 *          alternatives, if requested: O(V).
 * Source   vLLM's order of effects. Ids that tie at a cut are kept by id, whereas vLLM keeps all of
 *          them.
 *
 * @example
 * const logits = Float32Array.of(0, 0)
 * const sums = { logNormalizer: Math.LN2, temperedLogNormalizer: Math.LN2, blockMasses: Float32Array.of(2), blockSize: 2 }
 * const state = { promptCounts: new Map(), outputCounts: new Map(), banned: [0], step: 0, key: DEFAULT_SAMPLING.key }
 * orThrow(sampleToken({ logits, argMax: 0, ...sums }, DEFAULT_SAMPLING, state)).id // 1
 */
export const sampleToken = (
  next: NextToken,
  params: SamplingParams,
  state: SampleState,
): E.Either<GenerationFailure, SampledToken> => {
  if (!Number.isFinite(next.logNormalizer) || !Number.isFinite(next.temperedLogNormalizer)) {
    const sums = `the sums of logits are ${next.logNormalizer} and, with temperature, ${next.temperedLogNormalizer}`
    return E.left(unusable(wrongLogits(next.logits) ?? sums))
  }
  const choice = choose(next, params, state)
  if (E.isLeft(choice)) return E.left(unusable(choice.left))
  const { id, logits, logProbOf } = choice.right
  const logit = next.logits[id]!
  return E.right({
    id,
    rawLogProb: atMostZero(logit - next.logNormalizer),
    temperedLogProb: atMostZero(logit * inverseOf(params) - next.temperedLogNormalizer),
    processedLogProb: atMostZero(logProbOf(logits[id]!)),
    ...report(next, params, choice.right),
  })
}
