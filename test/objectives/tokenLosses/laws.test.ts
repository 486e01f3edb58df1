/** Laws of all policy losses, and their values at ratio 1. `oracle.test.ts` checks gradients. */
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  cispo,
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
} from '../../../src/doors/objectives.js'
import { type PolicyLossOptions, policyLoss } from '../../../src/objectives/policyLoss.js'
import type { Aggregation } from '../../../src/objectives/tokenLosses/aggregation.js'
import { expectClose } from '../../kit/close.js'
import { useEngine } from '../../kit/engine.js'
import { chosenRows, type LossRows, lossNumbers } from '../../kit/policyLoss.js'
import { AGGREGATIONS, type DrawnBatch, evenly, lossBatches, OBJECTIVE_CASES } from '../../kit/policyLossCases.js'

useEngine()

type Matrix = readonly (readonly number[])[]

/** Everything that a loss may have besides its objective. */
const EVERYTHING: PolicyLossOptions = {
  kl: [
    { to: 'reference', coefficient: 0.1, aggregation: 'token-mean' },
    { to: 'behavior', coefficient: 0.2, form: 'k2', correction: 'ratio' },
  ],
  entropyCoefficient: 0.1,
  klMaskThreshold: 0.2,
}

const mapRows = (rows: LossRows, f: (matrix: Matrix) => Matrix): LossRows =>
  Object.fromEntries(Object.entries(rows).map(([name, x]: [string, Matrix]) => [name, f(x)])) as unknown as LossRows // the same names

const wide = (rows: DrawnBatch): DrawnBatch => ({
  ...rows,
  advantages: rows.advantages.map((row, b) => rows.mask[b]!.map((_, t) => (row.length === 1 ? row[0]! : row[t]!))),
})

const CLOSE = { absolute: 1e-5, relative: 1e-4 }
const RUNS = { numRuns: 3 }

/**
 * The parts of the rows of a batch, each with the rows that the objective chose in the whole,
 * summed.
 */
const inParts = (options: PolicyLossOptions, rows: LossRows, cuts: readonly boolean[]) => {
  const loss = policyLoss(options)
  const whole = lossNumbers(loss, rows)
  const chosen = chosenRows(loss, rows)
  const given: LossRows = chosen === null ? rows : { ...rows, chosen }
  const starts = rows.mask.flatMap((_, b) => (b === 0 || cuts[b] ? [b] : []))
  const parts = starts.map((start, i) =>
    lossNumbers(
      loss,
      mapRows(given, (x) => x.slice(start, starts[i + 1])),
      [whole.metrics.tokens!, rows.mask.length],
    ),
  )
  return { whole, parts }
}

const expectSame = ({ whole, parts }: ReturnType<typeof inParts>): void => {
  expectClose([parts.reduce((sum, { value }) => sum + value, 0)], [whole.value], CLOSE)
  const gradient = parts.flatMap((part) => part.gradient.flat())
  expectClose(gradient, whole.gradient.flat(), CLOSE)
}

const cuts = fc.array(fc.boolean(), { minLength: 3, maxLength: 3 })

describe.each(OBJECTIVE_CASES)('$name', ({ objective, aggregations, over }) => {
  const options = (aggregation: Aggregation): PolicyLossOptions => ({ ...EVERYTHING, objective, aggregation })
  const aggregation = fc.constantFrom(...aggregations)

  it('does not look under the mask, be it NaN or infinite there, and has gradient 0 there', () => {
    const junk = fc.constantFrom(Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY)
    fc.assert(
      fc.property(lossBatches('either'), aggregation, junk, (drawn, how, bad) => {
        const loss = policyLoss(options(how))
        const rows = wide(drawn)
        const soil = (x: Matrix): Matrix => x.map((row, b) => row.map((v, t) => (rows.mask[b]![t] === 1 ? v : bad)))
        const [clean, soiled] = [
          lossNumbers(loss, rows),
          lossNumbers(loss, { ...mapRows(rows, soil), mask: rows.mask }),
        ]
        expect(soiled.value).toBe(clean.value)
        expect(soiled.metrics).toEqual(clean.metrics)
        expectClose(soiled.gradient.flat(), clean.gradient.flat(), { absolute: 0, relative: 0 })
        const under = soiled.gradient.flatMap((row, b) => row.filter((_, t) => rows.mask[b]![t] === 0))
        expect(under.every((g) => g === 0)).toBe(true)
      }),
      RUNS,
    )
  })

  it('of a batch is the sum of those of its micro-batches, with the counts and the choice of the whole', () => {
    fc.assert(
      fc.property(lossBatches('either'), aggregation, cuts, (rows, how, at) => {
        expectSame(inParts(options(how), rows, at))
      }),
      RUNS,
    )
  })

  it('chooses tokens of the whole batch, if it chooses any', () => {
    fc.assert(
      fc.property(lossBatches('either'), (rows) => {
        const chosen = chosenRows(policyLoss({ objective }), rows)
        expect(chosen === null).toBe(over === 'rows')
        expect((chosen ?? []).every((row, b) => row.every((c, t) => c === 0 || rows.mask[b]![t] === 1))).toBe(true)
      }),
      { numRuns: 1 },
    )
  })

  it('is 0 with gradient 0 where nothing counts', () => {
    fc.assert(
      fc.property(lossBatches('either'), aggregation, (rows, how) => {
        const none = { ...rows, mask: rows.mask.map((row) => row.map(() => 0)) }
        const { value, gradient } = lossNumbers(policyLoss(options(how)), none)
        expect([value, ...gradient.flat()].every((x) => x === 0)).toBe(true)
      }),
      { numRuns: 2 },
    )
  })
})

describe('a batch is the sum of its rows', () => {
  it.each(AGGREGATIONS)('by %j', (aggregation) => {
    fc.assert(
      fc.property(lossBatches('token'), (rows) => {
        expectSame(inParts({ ...EVERYTHING, aggregation }, rows, [true, true, true]))
      }),
      RUNS,
    )
  })
})

/** At the policy that sampled, the gradient by that of `policyGradient` in the same aggregation. */
const AT_RATIO_ONE: readonly (readonly [TokenObjective, Aggregation])[] = [
  ...(['token-mean', 'seq-mean-token-sum'] as const).flatMap((aggregation) =>
    [clippedSurrogate({ dualClip: 3 }), cispo(), dppo(), dppo({ divergence: 'kl' }), dro(), vespo(), klCov()].map(
      (objective) => [objective, aggregation] as const,
    ),
  ),
  ...[gspo(), gspo({ form: 'token' }), gmpo(), sapo()].map((o) => [o, 'seq-mean-token-mean'] as const),
  [luspo(), 'seq-mean-token-sum'],
]

describe('at ratio 1, without divergences, the gradient is that of REINFORCE in the same aggregation', () => {
  it.each(
    AT_RATIO_ONE.map(([objective, aggregation], i) => ({ name: `${objective.name} (${i})`, objective, aggregation })),
  )('$name, $aggregation', ({ objective, aggregation }) => {
    fc.assert(
      fc.property(lossBatches('completion'), (drawn) => {
        const { weights: _, ...plain } = drawn // a weight of one token is one of all tokens of its completion, where the ratio is theirs
        const rows = { ...plain, old: drawn.logProbs }
        const gradientOf = (of: TokenObjective) =>
          lossNumbers(policyLoss({ objective: of, aggregation }), rows).gradient.flat()
        expectClose(gradientOf(objective), gradientOf(policyGradient()), CLOSE)
      }),
      { numRuns: 2 },
    )
  })
})

/** The gradient of one token against its ratio, and whether it is reported as clipped. */
const single = (objective: TokenObjective, logRatio: number, advantage: number) => {
  const rows = { logProbs: [[logRatio]], old: [[0]], mask: [[1]], advantages: [[advantage]] }
  const { gradient, metrics } = lossNumbers(policyLoss({ objective }), rows)
  return { gradient: gradient[0]![0]!, cut: metrics.pgClipFraction! }
}

describe('a token loses its gradient exactly where the range takes it away', () => {
  const clip = [0.2, 0.28] as const
  const side = { below: evenly(Math.log(0.3), Math.log(0.799)), above: evenly(Math.log(1.281), Math.log(2.9)) }
  const inside = evenly(Math.log(0.801), Math.log(1.279))

  it.each([
    { where: 'above the range, better than expected', ratio: side.above, advantage: 1.5, kept: false },
    { where: 'above the range, worse than expected', ratio: side.above, advantage: -1.5, kept: true },
    { where: 'below the range, better than expected', ratio: side.below, advantage: 1.5, kept: true },
    { where: 'below the range, worse than expected', ratio: side.below, advantage: -1.5, kept: false },
    { where: 'inside, better than expected', ratio: inside, advantage: 1.5, kept: true },
    { where: 'inside, worse than expected', ratio: inside, advantage: -1.5, kept: true },
  ])('$where: kept is $kept', ({ ratio, advantage, kept }) => {
    const objectives = [
      clippedSurrogate({ clipEpsilon: clip }),
      gspo({ clipEpsilon: clip }),
      luspo({ clipEpsilon: clip }),
    ]
    const bounded = [clippedSurrogate({ clipEpsilon: clip, dualClip: 3 }), gspo({ clipEpsilon: clip, form: 'token' })]
    fc.assert(
      fc.property(ratio, (logRatio) => {
        for (const objective of [...objectives, ...bounded]) {
          const { gradient, cut } = single(objective, logRatio, advantage)
          expectClose([gradient, cut], kept ? [-Math.exp(logRatio) * advantage, 0] : [0, 1], CLOSE)
        }
      }),
      { numRuns: 3 },
    )
  })

  it('a dual clip takes it away above its bound, and only of tokens that are worse than expected', () => {
    const dual = clippedSurrogate({ clipEpsilon: clip, dualClip: 3 })
    fc.assert(
      fc.property(evenly(Math.log(3.001), Math.log(20)), (logRatio) => {
        const { gradient, cut } = single(dual, logRatio, -1.5)
        expect([Math.abs(gradient), cut]).toEqual([0, 1])
        expectClose(
          [single(clippedSurrogate({ clipEpsilon: clip }), logRatio, -1.5).gradient],
          [1.5 * Math.exp(logRatio)],
          CLOSE,
        )
        expect(single(dual, logRatio, 1.5).cut).toBe(1) // by the range
      }),
      { numRuns: 4 },
    )
  })

  it('on the bounds nothing is cut, and an advantage of 0 has no gradient anywhere', () => {
    for (const logRatio of [Math.log1p(-0.2), Math.log1p(0.28)].map(Math.fround))
      for (const advantage of [1, -1])
        expect(single(clippedSurrogate({ clipEpsilon: clip }), logRatio, advantage).cut).toBe(0)
    for (const logRatio of [-1, 0, 1])
      for (const objective of [clippedSurrogate({ dualClip: 3 }), gspo(), cispo(), sapo(), gmpo(), vespo(), dppo()]) {
        const { gradient } = single(objective, logRatio, 0)
        expect(Math.abs(gradient), objective.name).toBe(0)
      }
  })

  it('cispo: nowhere, its weight is limited instead', () => {
    fc.assert(
      fc.property(evenly(-1.5, 1.5), fc.constantFrom(-1.5, 1), (logRatio, advantage) => {
        const weight = Math.min(1.2, Math.max(0.8, Math.exp(logRatio)))
        const { gradient, cut } = single(cispo(), logRatio, advantage)
        expectClose([gradient, cut], [-weight * advantage, 0], CLOSE)
      }),
      { numRuns: 12 },
    )
  })
})

describe('completions whose advantages are 0', () => {
  it.each(OBJECTIVE_CASES)('$name: have a gradient of exactly 0 where it is marked', ({ objective, aggregations }) => {
    const gradientsOf = ({ advantages, ...rows }: DrawnBatch, aggregation: Aggregation) =>
      lossNumbers(policyLoss({ objective, aggregation }), {
        ...rows,
        advantages: advantages.map((row) => row.map(() => 0)),
      }).gradient.flat()
    const drawn = fc.sample(lossBatches('either'), 4)
    const gradients = drawn.map((rows, i) => gradientsOf(rows, aggregations[i % aggregations.length]!))
    const areZero = gradients.flat().every((x) => x === 0)
    if (objective.apply.atZeroAdvantage === 'none') expect(areZero).toBe(true)
    else expect(['dro', 'klCov', 'clipCov']).toContain(objective.name)
    if (objective.name === 'dro') expect(areZero).toBe(false)
  })

  it('have one with a divergence, an entropy bonus, and an objective of your own', () => {
    const of = (options: PolicyLossOptions) => policyLoss(options).selection.atZeroAdvantage
    expect(of({ kl: [{ to: 'reference', coefficient: 0 }] })).toBe('none')
    expect(of({ kl: [{ to: 'reference', coefficient: 0.1 }] })).toBe('computed')
    expect(of({ entropyCoefficient: 0.1 })).toBe('computed')
    const objective = cispo()
    expect(of({ objective: { ...objective, name: 'mine' } })).toBe('none')
    expect(of({ objective: { ...objective, apply: (terms) => objective.apply(terms) } })).toBe('computed')
  })
})
