/** What all policy losses have in common, and what each is at the policy that sampled. */
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { Aggregation } from '../../../src/objectives/aggregation.js'
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
} from '../../../src/objectives/index.js'
import { policyLoss } from '../../../src/objectives/policyLoss.js'
import { expectClose } from '../../kit/close.js'
import { useEngine } from '../../kit/engine.js'
import { type LossRows, lossNumbers } from '../../kit/policyLoss.js'

useEngine()

type Matrix = readonly (readonly number[])[]

/** `whole`: covariances and shares are of the whole batch, so that it is not the sum of its rows. */
const OBJECTIVES: readonly { readonly objective: TokenObjective; readonly over: 'rows' | 'whole' }[] = [
  { objective: clippedSurrogate({ dualClip: 3 }), over: 'rows' },
  { objective: cispo(), over: 'rows' },
  { objective: policyGradient(), over: 'rows' },
  { objective: dro(), over: 'rows' },
  { objective: dppo(), over: 'rows' },
  { objective: dppo({ divergence: 'kl' }), over: 'rows' },
  { objective: gspo({ clipEpsilon: 0.2 }), over: 'rows' },
  { objective: gspo({ clipEpsilon: 0.2, form: 'token' }), over: 'rows' },
  { objective: luspo({ clipEpsilon: 0.2 }), over: 'rows' },
  { objective: gmpo(), over: 'rows' },
  { objective: sapo(), over: 'rows' },
  { objective: vespo(), over: 'rows' },
  { objective: clipCov({ share: 0.3, bounds: [0, 5] }), over: 'whole' },
  { objective: klCov({ share: 0.3 }), over: 'whole' },
]

const CASES = OBJECTIVES.map(({ objective, over }, i) => ({
  name: `${objective.name} (${i})`,
  loss: policyLoss({ objective, kl: [{ to: 'reference', coefficient: 0.1, aggregation: 'token-mean' }] }),
  over,
}))

const SIZE = [3, 4] as const

const matrix = (element: fc.Arbitrary<number>): fc.Arbitrary<Matrix> =>
  fc.array(fc.array(element, { minLength: SIZE[1], maxLength: SIZE[1] }), { minLength: SIZE[0], maxLength: SIZE[0] })

const nats = fc.double({ min: -3, max: 0, noNaN: true }).map(Math.fround)
const share = fc.double({ min: 0, max: 0.999, noNaN: true }).map(Math.fround)

/** One advantage for all tokens of a completion, as groups give it. */
const batches: fc.Arbitrary<LossRows> = fc.record({
  logProbs: matrix(nats),
  old: matrix(nats),
  reference: matrix(nats),
  noise: matrix(share),
  mask: matrix(fc.constantFrom(0, 1, 1)),
  advantages: fc.array(
    fc.double({ min: -2, max: 2, noNaN: true }).map((a) => [Math.fround(a)]),
    { minLength: SIZE[0], maxLength: SIZE[0] },
  ),
})

const mapRows = (rows: LossRows, f: (matrix: Matrix) => Matrix): LossRows => ({
  logProbs: f(rows.logProbs),
  old: f(rows.old),
  mask: f(rows.mask),
  advantages: f(rows.advantages),
  reference: f(rows.reference!),
  noise: f(rows.noise!),
})

const tokensOf = ({ mask }: LossRows): number => mask.flat().reduce((sum, m) => sum + m, 0)

const countedOf = ({ mask }: LossRows, gradient: Matrix): readonly number[] =>
  gradient.flatMap((row, b) => row.filter((_, t) => mask[b]![t] === 1))

const FEW = { numRuns: 3 }
const CLOSE = { absolute: 1e-5, relative: 1e-4 }

describe.each(CASES)('$name', ({ loss, over }) => {
  it('does not look under the mask, be it NaN or infinite there', () => {
    fc.assert(
      fc.property(
        batches,
        fc.constantFrom(Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY),
        (rows, junk) => {
          const soil = (x: Matrix): Matrix => x.map((row, b) => row.map((v, t) => (rows.mask[b]![t] === 1 ? v : junk)))
          const spread = rows.advantages.map((row) => Array<number>(SIZE[1]).fill(row[0]!))
          const soiled = { ...mapRows(rows, soil), mask: rows.mask, advantages: soil(spread) }
          const [a, b] = [lossNumbers(loss, { ...rows, advantages: spread }), lossNumbers(loss, soiled)]
          expect(b.value).toBe(a.value)
          expect(b.metrics).toEqual(a.metrics)
          expect(countedOf(rows, b.gradient)).toEqual(countedOf(rows, a.gradient))
        },
      ),
      FEW,
    )
  })

  it('does not depend on the order of the rows', () => {
    fc.assert(
      fc.property(batches, (rows) => {
        const [a, b] = [
          lossNumbers(loss, rows),
          lossNumbers(
            loss,
            mapRows(rows, (x) => x.toReversed()),
          ),
        ]
        expectClose([b.value], [a.value], CLOSE)
        expectClose(b.gradient.toReversed().flat(), a.gradient.flat(), CLOSE)
      }),
      FEW,
    )
  })

  if (over !== 'whole')
    it('of a batch is the sum of those of its rows, with the counts of the whole', () => {
      fc.assert(
        fc.property(batches, (rows) => {
          const whole = lossNumbers(loss, rows)
          const parts = rows.mask.map((_, b) =>
            lossNumbers(
              loss,
              mapRows(rows, (x) => [x[b]!]),
              [tokensOf(rows), rows.mask.length],
            ),
          )
          expectClose([parts.reduce((sum, { value }) => sum + value, 0)], [whole.value], CLOSE)
          expectClose(
            parts.flatMap(({ gradient }) => gradient.flat()),
            whole.gradient.flat(),
            CLOSE,
          )
        }),
        FEW,
      )
    })

  it('is 0 with gradient 0 where nothing counts', () => {
    fc.assert(
      fc.property(batches, (rows) => {
        const { value, gradient } = lossNumbers(loss, { ...rows, mask: rows.mask.map((row) => row.map(() => 0)) })
        expectClose([value, ...gradient.flat()], Array(1 + SIZE[0] * SIZE[1]).fill(0), { absolute: 0, relative: 0 })
      }),
      { numRuns: 2 },
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
      fc.property(batches, (drawn) => {
        const rows = { ...drawn, old: drawn.logProbs }
        const gradientOf = (of: TokenObjective) =>
          lossNumbers(policyLoss({ objective: of, aggregation }), rows).gradient.flat()
        expectClose(gradientOf(objective), gradientOf(policyGradient()), CLOSE)
      }),
      { numRuns: 3 },
    )
  })
})

/** The gradient of one token against its ratio, with kinks at the clip. */
const single = (objective: TokenObjective, logRatio: number, advantage: number): number => {
  const rows = { logProbs: [[logRatio - 1]], old: [[-1]], mask: [[1]], advantages: [[advantage]] }
  return lossNumbers(policyLoss({ objective }), rows).gradient[0]![0]!
}

describe('a token loses its gradient exactly where the range takes it away', () => {
  const away = fc.tuple(fc.double({ min: -1.5, max: 1.5, noNaN: true }), fc.constantFrom(-1.5, 1))

  it('clippedSurrogate and gspo: beyond the bound on the side to which the advantage pushes', () => {
    fc.assert(
      fc.property(away, ([logRatio, advantage]) => {
        const ratio = Math.exp(logRatio)
        fc.pre(Math.abs(ratio - 0.8) > 1e-3 && Math.abs(ratio - 1.2) > 1e-3)
        const isCut = advantage > 0 ? ratio > 1.2 : ratio < 0.8
        for (const objective of [clippedSurrogate(), gspo({ clipEpsilon: 0.2 })])
          expectClose([single(objective, logRatio, advantage)], [isCut ? 0 : -ratio * advantage], CLOSE)
      }),
      { numRuns: 15 },
    )
  })

  it('cispo: nowhere, its weight is limited instead', () => {
    fc.assert(
      fc.property(away, ([logRatio, advantage]) => {
        const weight = Math.min(1.2, Math.max(0.8, Math.exp(logRatio)))
        expectClose([single(cispo(), logRatio, advantage)], [-weight * advantage], CLOSE)
      }),
      { numRuns: 15 },
    )
  })
})

/** The losses whose value is the integral of their gradient: no part of theirs is held still, and none chooses tokens by rank. */
const SMOOTH = [clippedSurrogate({ dualClip: 3 }), policyGradient(), dro(), gspo({ clipEpsilon: 0.2 }), gmpo(), sapo()]

describe('the gradient is the one of finite differences', () => {
  it.each(SMOOTH.map((objective) => ({ name: objective.name, objective })))('$name', ({ objective }) => {
    const loss = policyLoss({ objective })
    const step = 1e-2
    const [logLow, logHigh] = [Math.log(0.8), Math.log(1.2)]
    fc.assert(
      fc.property(batches, fc.nat(SIZE[0] - 1), fc.nat(SIZE[1] - 1), (rows, b, t) => {
        const moved = (by: number): number =>
          lossNumbers(loss, {
            ...rows,
            logProbs: rows.logProbs.map((row, i) => row.map((x, j) => (i === b && j === t ? x + by : x))),
          }).value
        const own = rows.mask[b]!.flatMap((m, j) => (m === 1 ? [rows.logProbs[b]![j]! - rows.old[b]![j]!] : []))
        const mean = own.reduce((sum, d) => sum + d, 0) / Math.max(own.length, 1)
        const kinks = [logLow, logHigh, -0.4, 0.4, Math.log(3)]
        const from = [rows.logProbs[b]![t]! - rows.old[b]![t]!, mean]
        fc.pre(from.every((d) => kinks.every((kink) => Math.abs(d - kink) > 2 * step)))
        const slope = (moved(step) - moved(-step)) / (2 * step)
        expectClose([slope], [lossNumbers(loss, rows).gradient[b]![t]!], { absolute: 2e-3, relative: 5e-3 })
      }),
      { numRuns: 4 },
    )
  })
})
