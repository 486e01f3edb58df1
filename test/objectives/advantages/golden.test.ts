/**
 * Advantages against numbers that verl's functions give in float64: six completions of three
 * prompts, with gaps in two masks.
 */
import { orThrow } from '@tandem-rl/base'
import { describe, expect, it } from 'vitest'
import {
  gdpoAdvantage,
  gpgAdvantage,
  grpoAdvantage,
  opoAdvantage,
  passKAdvantage,
  reinforcePlusPlusBaseline,
  rlooAdvantage,
} from '../../../src/objectives/advantages/outcome.js'
import type { RewardedRows, TokenAdvantages } from '../../../src/objectives/advantages/rows.js'
import { whiten } from '../../../src/objectives/advantages/rows.js'
import {
  gae,
  optimalTokenBaseline,
  reinforcePlusPlus,
  remaxAdvantage,
} from '../../../src/objectives/advantages/temporal.js'
import { expectClose } from '../../kit/close.js'

const bits = (text: string): readonly number[] => [...text].map(Number)

const MASK = ['110011', '111000', '100100', '111110', '110000', '111000'].map(bits)
const SCORES = [1, 0, 0.5, 1, 0, 0.7]
const LAST = [5, 2, 3, 4, 1, 2]

const ROWS: RewardedRows = {
  groups: ['A', 'A', 'A', 'B', 'B', 'C'],
  mask: MASK,
  rewards: MASK.map((row, b) => row.map((_, t) => (t === LAST[b] ? SCORES[b]! : 0))),
}

/** Without the single member of group C. */
const FIVE: RewardedRows = {
  groups: ROWS.groups.slice(0, 5),
  mask: MASK.slice(0, 5),
  rewards: ROWS.rewards.slice(0, 5),
}

const HALF = Math.SQRT1_2 - 1e-6 // less what epsilon takes

/** The tokens that count, row by row. */
const counted = (rows: TokenAdvantages, mask = MASK): readonly (readonly number[])[] =>
  mask.map((row, b) => rows[b]!.filter((_, t) => row[t] === 1))

/** The numbers of rows that are the same for all of their tokens. */
const scalars = (rows: TokenAdvantages): readonly number[] =>
  counted(rows, MASK.slice(0, rows.length)).map((row) => {
    expect(row.every((x) => x === row[0])).toBe(true)
    return row[0]!
  })

const SIX = { absolute: 1e-6 }
const single = 'return' as const

describe('advantages of whole completions against verl', () => {
  it.each([
    ['grpo', grpoAdvantage(ROWS, { epsilonRule: 'add', single }), [0.999998, -0.999998, 0, HALF, -HALF, 0.699999]],
    ['grpo without deviation', grpoAdvantage(ROWS, { normalize: 'mean', single }), [0.5, -0.5, 0, 0.5, -0.5, 0.7]],
    ['rloo', rlooAdvantage(ROWS, { single }), [0.75, -0.75, 0, 1, -1, 0.7]],
    ['rloo, vectorized', rlooAdvantage(ROWS), [0.75, -0.75, 0, 1, -1, 0]],
    ['opo', opoAdvantage(ROWS, { single }), [0.444444, -0.555556, -0.055556, 0.285714, -0.714286, 0.7]],
    ['gpg', gpgAdvantage(ROWS, { single }), [0.75, -0.75, 0, 0.75, -0.75, 1.05]],
    [
      'reinforce++ baseline',
      reinforcePlusPlusBaseline(ROWS, { single }),
      [0.596577, -1.50249, -0.452956, 0.596577, -1.50249, 1.01639],
    ],
    [
      'gdpo',
      gdpoAdvantage(ROWS, [{ rewards: ROWS.rewards, weight: 1 }], { epsilonRule: 'add', single }),
      [0.947916, -1.666326, -0.359205, 0.565069, -1.28348, 0.55578],
    ],
    ['passk', passKAdvantage(FIVE), [0.999998, 0, 0, 1.414212, 0]],
    ['passk without deviation', passKAdvantage(FIVE, { normalize: 'none' }), [0.5, 0, 0, 1, 0]],
  ])('%s', (_, result, expected) => {
    expectClose(scalars(orThrow(result)), expected, { absolute: 1.1e-6 })
  })

  it('remax', () => {
    const advantages = orThrow(remaxAdvantage(ROWS, [0.2, 0.2, 0.2, 0.5, 0.5, 0.1]))
    expectClose(scalars(advantages), [0.8, -0.2, 0.3, 0.5, -0.5, 0.6], SIX)
  })
})

describe('advantages of tokens against verl', () => {
  it('reinforce++ without discount is the same along a row', () => {
    const { advantages } = orThrow(reinforcePlusPlus(ROWS))
    expectClose(scalars(advantages), [0.852791, -1.495474, -0.321342, 0.852791, -1.495474, 0.148311], SIX)
  })

  it('reinforce++ with a discount passes over gaps', () => {
    const { advantages, returns } = orThrow(reinforcePlusPlus(ROWS, { gamma: 0.9 }))
    expectClose(
      counted(returns).flat(),
      [0.729, 0.81, 0.9, 1, 0, 0, 0, 0.45, 0.5, 0.6561, 0.729, 0.81, 0.9, 1, 0, 0, 0.567, 0.63, 0.7],
      SIX,
    )
    expectClose(
      counted(advantages).flat(),
      [
        ...[0.498641, 0.719802, 0.965538, 1.238576, -1.491813, -1.491813, -1.491813, -0.263138, -0.126618],
        ...[0.299596, 0.498641, 0.719802, 0.965538, 1.238576, -1.491813, -1.491813, 0.056318, 0.228332, 0.41946],
      ],
      SIX,
    )
  })

  const VALUES = [
    [0.1, 0.2, 0.9, 0.9, 0.3, 0.4],
    [0.5, 0.4, 0.3, 9, 9, 9],
    [0.2, 7, 7, 0.6, 7, 7],
    [0.1, 0.2, 0.3, 0.4, 0.5, 8],
    [0.3, 0.1, 0, 0, 0, 0],
    [0.2, 0.4, 0.6, 0, 0, 0],
  ]

  it.each([
    {
      gamma: 1,
      lambda: 1,
      raw: [
        [0.9, 0.8, 0.7, 0.6],
        [-0.5, -0.4, -0.3],
        [0.3, -0.1],
        [0.9, 0.8, 0.7, 0.6, 0.5],
        [-0.3, -0.1],
        [0.5, 0.3, 0.1],
      ],
      whitened: [
        [1.238483, 1.026491, 0.814498, 0.602505],
        [-1.729413, -1.517421, -1.305428],
        [-0.033473, -0.881443],
        [1.238483, 1.026491, 0.814498, 0.602505, 0.390513],
        [-1.305428, -0.881443],
        [0.390513, -0.033473, -0.457458],
      ],
    },
    {
      gamma: 0.99,
      lambda: 0.95,
      raw: [
        [0.77329, 0.718012, 0.6603, 0.6],
        [-0.466234, -0.38515, -0.3],
        [0.29995, -0.1],
        [0.744382, 0.687274, 0.627618, 0.56525, 0.5],
        [-0.29505, -0.1],
        [0.466911, 0.28805, 0.1],
      ],
      whitened: [
        [1.13776, 1.009377, 0.875342, 0.735296],
        [-1.741009, -1.552694, -1.354935],
        [0.038437, -0.890439],
        [1.07062, 0.937989, 0.799438, 0.65459, 0.503049],
        [-1.343439, -0.890439],
        [0.4262, 0.010799, -0.425943],
      ],
    },
  ])('gae, gamma $gamma and lambda $lambda', ({ gamma, lambda, raw, whitened }) => {
    const plain = orThrow(gae(ROWS, VALUES, { gamma, lambda, whitened: 'no' }))
    expectClose(counted(plain.advantages).flat(), raw.flat(), SIX)
    expectClose(
      counted(plain.returns).flat(),
      counted(plain.advantages).flatMap((row, b) =>
        row.map((a, j) => a + VALUES[b]!.filter((_, t) => MASK[b]![t] === 1)[j]!),
      ),
      SIX,
    )
    expectClose(counted(orThrow(gae(ROWS, VALUES, { gamma, lambda })).advantages).flat(), whitened.flat(), SIX)
  })

  const SIZES = {
    chosen: [
      [0.5, 0.4, 0.9, 0.9, 0.6, 0.7],
      [0.3, 0.5, 0.8, 0.9, 0.9, 0.9],
      [0.6, 0.9, 0.9, 0.2, 0.9, 0.9],
      [0.5, 0.5, 0.5, 0.5, 0.5, 0.9],
      [0.4, 0.8, 0.9, 0.9, 0.9, 0.9],
      [0.7, 0.6, 0.5, 0.9, 0.9, 0.9],
    ],
    sumOfSquares: MASK.map((row) => row.map(() => 0.4)),
  }

  /** The same in both forms, for the two completions of B and the one of C, which have no gaps. */
  const WITHOUT_GAPS = [
    [0.6, 0.333333, 1, 1, 1],
    [-0.4, -0.666667],
    [0.7, 0.7, 0.7],
  ]

  it.each([
    {
      align: 'tokens',
      expected: [
        [0.642857, 0.529412, 0.454545, 1],
        [-0.357143, -0.470588, -0.545455],
        [0.142857, 0.029412],
      ],
    },
    {
      align: 'columns',
      expected: [
        [0.642857, 0.545455, 1, 1],
        [-0.357143, -0.454545, 0],
        [0.142857, 0],
      ],
    },
  ] as const)('optimal token baseline by $align', ({ align, expected }) => {
    const advantages = orThrow(optimalTokenBaseline(ROWS, SIZES, { align }))
    expectClose(counted(advantages).flat(), [...expected, ...WITHOUT_GAPS].flat(), SIX)
  })

  it('whitening', () => {
    const mask = [
      [1, 1, 0],
      [1, 0, 0],
    ]
    const white = whiten(
      [
        [1, 2, 3],
        [4, 5, 6],
      ],
      mask,
    )
    expectClose(white.flat(), [-0.87287156, -0.21821789, 0, 1.09108946, 0, 0], { absolute: 1e-7 })
    // verl puts what is under the mask on the same line; here it is 0
    const line = (x: number): number => white[0]![0]! + (x - 1) * (white[0]![1]! - white[0]![0]!)
    expectClose([3, 5, 6].map(line), [0.43643579, 1.74574313, 2.4003968], { absolute: 1e-7 })
  })
})
