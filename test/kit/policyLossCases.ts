/** Every policy objective beside its spec for the float64 oracle, and random batches for them. */
import fc from 'fast-check'
import {
  cispo,
  clipCov,
  clippedSurrogate,
  dppo,
  dro,
  gmpo,
  gspo,
  klCov,
  luspo,
  policyGradient,
  sapo,
  type TokenObjective,
  vespo,
} from '../../src/doors/objectives.js'
import type { Aggregation } from '../../src/objectives/tokenLosses/aggregation.js'
import type { LossRows } from './policyLoss.js'
import type { ObjectiveSpec, OracleSettings } from './policyLossOracle.js'

export interface ObjectiveCase {
  readonly name: string
  readonly objective: TokenObjective
  readonly spec: ObjectiveSpec
  /** Aggregations that it may have. */
  readonly aggregations: readonly Aggregation[]
  /** `rows`: the loss of a completion depends on no other one. */
  readonly over: 'rows' | 'batch'
}

export const AGGREGATIONS: readonly Aggregation[] = [
  'token-mean',
  'token-sum',
  'prompt-mean',
  'seq-mean-token-sum',
  'seq-mean-token-mean',
  { mode: 'seq-mean-token-sum-norm', length: 7 },
]

const case_ = (
  name: string,
  objective: TokenObjective,
  spec: ObjectiveSpec,
  over: ObjectiveCase['over'] = 'rows',
): ObjectiveCase => ({
  name,
  objective,
  spec,
  aggregations: objective.aggregation === null ? AGGREGATIONS : [objective.aggregation],
  over,
})

const clip = [0.2, 0.28] as const

export const OBJECTIVE_CASES: readonly ObjectiveCase[] = [
  case_('clippedSurrogate', clippedSurrogate({ clipEpsilon: clip }), { name: 'clippedSurrogate', clip }),
  case_('clippedSurrogate, dual clip', clippedSurrogate({ clipEpsilon: clip, dualClip: 1.5 }), {
    name: 'clippedSurrogate',
    clip,
    dual: 1.5,
  }),
  case_('cispo', cispo({ clipEpsilon: clip }), { name: 'cispo', clip }),
  case_('cispo without a low side', cispo({ clipEpsilon: [1, 0.4] }), { name: 'cispo', clip: [1, 0.4] }),
  case_('policyGradient', policyGradient(), { name: 'policyGradient' }),
  case_('sapo', sapo({ positive: 1, negative: 1.5 }), { name: 'sapo', positive: 1, negative: 1.5 }),
  case_('dro', dro({ beta: 0.3 }), { name: 'dro', beta: 0.3 }),
  case_('gspo', gspo({ clipEpsilon: clip }), { name: 'gspo', clip, form: 'sequence' }),
  case_('gspo by tokens', gspo({ clipEpsilon: clip, form: 'token' }), { name: 'gspo', clip, form: 'token' }),
  case_('luspo', luspo({ clipEpsilon: clip }), { name: 'luspo', clip, form: 'sequence' }),
  case_('gmpo', gmpo({ clipEpsilon: [0.4, 0.3] }), { name: 'gmpo', clip: [0.4, 0.3] }),
  case_('vespo', vespo(), { name: 'vespo', positive: [2, 3], negative: [3, 2] }),
  case_('dppo, total variation', dppo({ epsilon: [0.3, 0.01], largestRatio: 2 }), {
    name: 'dppo',
    divergence: 'tv',
    epsilon: [0.3, 0.01],
    largest: 2,
  }),
  case_('dppo, divergence', dppo({ divergence: 'kl', epsilon: [0.005, 0.1], largestRatio: 2 }), {
    name: 'dppo',
    divergence: 'kl',
    epsilon: [0.005, 0.1],
    largest: 2,
  }),
  case_('klCov', klCov({ share: 0.3, coefficient: 0.7 }), { name: 'klCov', share: 0.3, coefficient: 0.7 }, 'batch'),
  case_(
    'clipCov',
    clipCov({ share: 0.2, bounds: [0, 0.6], clipEpsilon: clip }),
    { name: 'clipCov', share: 0.2, bounds: [0, 0.6], clip },
    'batch',
  ),
]

/** An aggregation in the words of the oracle. */
export const oracleAggregation = (aggregation: Aggregation): OracleSettings['aggregation'] =>
  typeof aggregation === 'object' ? { length: aggregation.length } : aggregation

type Matrix = readonly (readonly number[])[]

/**
 * Numbers that float32 has, evenly from a range, and none of those that fast-check likes best: at 0
 * and at the ends of ranges there are kinks.
 */
export const evenly = (min: number, max: number): fc.Arbitrary<number> =>
  fc.noBias(fc.nat(999_999)).map((i) => Math.fround(min + ((max - min) * (i + 0.37)) / 1e6))

/** A batch with everything that a loss may ask for. */
export type DrawnBatch = Required<Omit<LossRows, 'chosen'>>

/**
 * Batches of 1 to 3 completions of 1 to 4 tokens with everything that a loss may ask for. One
 * advantage for each completion, or for each token.
 */
export const lossBatches = (advantages: 'completion' | 'token' | 'either'): fc.Arbitrary<DrawnBatch> =>
  fc.tuple(fc.integer({ min: 1, max: 3 }), fc.integer({ min: 1, max: 4 }), fc.boolean()).chain(([b, t, isWide]) => {
    const matrix = (element: fc.Arbitrary<number>, width = t): fc.Arbitrary<Matrix> =>
      fc.array(fc.array(element, { minLength: width, maxLength: width }), { minLength: b, maxLength: b })
    const isByToken = advantages === 'token' || (advantages === 'either' && isWide)
    const moves = matrix(evenly(-0.7, 0.7))
    return fc
      .record({
        old: matrix(evenly(-3, -0.8)),
        policy: moves,
        sampler: moves,
        ref: moves,
        noise: matrix(evenly(0, 0.999)),
        weights: matrix(evenly(0, 2)),
        entropy: matrix(evenly(0, 2)),
        mask: matrix(fc.constantFrom(0, 1, 1)),
        advantages: matrix(evenly(-2, 2), isByToken ? t : 1),
      })
      .map(({ policy, sampler, ref, ...rest }) => {
        const near = (by: Matrix): Matrix => rest.old.map((row, i) => row.map((x, j) => Math.fround(x + by[i]![j]!)))
        return { ...rest, logProbs: near(policy), behavior: near(sampler), reference: near(ref) }
      })
  })
