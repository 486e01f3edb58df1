/** Checks of gradients: how they add up, their size, clipping, and the scale of adapters. */
import { floatTensor, integerTensor } from '../protocol/values.js'
import {
  type Bench,
  type CheckOutcome,
  checkWithin,
  datumOf,
  factorOf,
  gapOf,
  logProbsOf,
  response,
  TEXTS,
} from './measure.js'

const FIRST = [datumOf(TEXTS[0])]

/** The first text, with one weight for all targets, or one for each. */
const weighted = (weight: number | ((t: number) => number)) => [
  datumOf(
    TEXTS[0],
    TEXTS[0].slice(1).map((_, t) => (typeof weight === 'number' ? weight : weight(t))),
  ),
]

/** Factors this near are equal. Averages over tokens depend on the text, so they differ more. */
const NEAR = { expected: 0.05, known: 0.1 } as const

/** The outcome of a model that no step changes, so that no factor can be measured. */
const UNCHANGED: CheckOutcome = { verdict: 'differs', finding: 'a step leaves the model as it is', numbers: {} }

/** The outcome of a factor of which one value is expected and another is known. */
const factorOutcome = (
  factor: number,
  expected: readonly [value: number, finding: string],
  known: readonly [value: number, finding: string],
): CheckOutcome => {
  if (!Number.isFinite(factor)) return UNCHANGED
  const isExpected = Math.abs(factor - expected[0]) <= NEAR.expected
  const isKnown = Math.abs(factor - known[0]) <= NEAR.known
  const finding = isExpected ? expected[1] : isKnown ? known[1] : `the factor is ${factor.toFixed(3)}`
  return { verdict: isExpected ? 'as expected' : 'differs', finding, numbers: { factor, expected: expected[0] } }
}

const gradientsOverData = async (bench: Bench): Promise<CheckOutcome> =>
  factorOutcome(
    factorOf(await response(bench, [...FIRST, ...FIRST]), await response(bench, FIRST)),
    [2, 'gradients are summed over data'],
    [1, 'gradients are averaged over data'],
  )

const gradientsOverTokens = async (bench: Bench): Promise<CheckOutcome> => {
  const half = (part: 0 | 1) => weighted((t) => (Math.floor(t / 4) === part ? 1 : 0))
  const [first, second] = [await response(bench, half(0)), await response(bench, half(1))]
  return factorOutcome(
    factorOf(
      await response(bench, FIRST),
      first.map((x, i) => x + second[i]!),
    ),
    [1, 'gradients are summed over tokens'],
    [0.5, 'gradients are averaged over tokens'],
  )
}

const normOf = (numbers: readonly number[]): number => Math.hypot(...numbers)

/** The outcome of doubled and negated coefficients, whose gradients must be doubled and negated. */
const proportional = (
  name: string,
  [one, doubled, negated]: readonly [readonly number[], readonly number[], readonly number[]],
): CheckOutcome => {
  if (normOf(one) === 0) return UNCHANGED
  const [twice, minus] = [factorOf(doubled, one), factorOf(negated, one)]
  const isSame = Math.abs(twice - 2) <= NEAR.expected && Math.abs(minus + 1) <= NEAR.expected
  const numbers = {
    ...(Number.isFinite(twice) && { doubled: twice }),
    ...(Number.isFinite(minus) && { negated: minus }),
  }
  return {
    verdict: isSame ? 'as expected' : 'differs',
    finding: `gradients are ${isSame ? '' : 'not '}proportional to ${name}`,
    numbers,
  }
}

const sizesOfWeights = async (bench: Bench): Promise<CheckOutcome> =>
  proportional('weights', [
    await response(bench, weighted(1)),
    await response(bench, weighted(2)),
    await response(bench, weighted(-1)),
  ])

const sizesOfAdvantages = async (bench: Bench): Promise<CheckOutcome> => {
  const logProbs = await logProbsOf(await bench.model())
  const advantaged = (advantage: number) => [
    {
      tokens: TEXTS[0].slice(0, -1),
      inputs: {
        target_tokens: integerTensor(TEXTS[0].slice(1)),
        logprobs: floatTensor(logProbs),
        advantages: floatTensor(logProbs.map(() => advantage)),
      },
    },
  ]
  const lossFn = 'importance_sampling'
  return proportional('advantages', [
    await response(bench, advantaged(1), { lossFn }),
    await response(bench, advantaged(2), { lossFn }),
    await response(bench, advantaged(-1), { lossFn }),
  ])
}

const gradientClipping = async (bench: Bench): Promise<CheckOutcome> =>
  factorOutcome(
    factorOf(await response(bench, FIRST, { clip: 1e-9 }), await response(bench, FIRST)),
    [0, 'gradients are clipped'],
    [1, 'grad_clip_norm is ignored'],
  )

const zeroWeights = async (bench: Bench): Promise<CheckOutcome> => {
  const change = await response(bench, weighted(0))
  return checkWithin(
    gapOf(
      change,
      change.map(() => 0),
    ),
    1e-6,
    ['weights of 0 leave the model as it is', 'weights of 0 change the model'],
  )
}

const RANKS = [4, 16] as const

/**
 * The first step of an adapter changes the model in proportion to `alpha ** 2 / rank`: its update
 * and its gradient both have the factor `alpha / rank`, and it has as many terms as the rank.
 */
const adapterScale = async (bench: Bench): Promise<CheckOutcome> => {
  const [low, high] = [
    normOf(await response(bench, FIRST, { rank: RANKS[0] })),
    normOf(await response(bench, FIRST, { rank: RANKS[1] })),
  ]
  const numbers = { factor: low / high, expected: RANKS[1] / RANKS[0] }
  if (!Number.isFinite(numbers.factor)) return UNCHANGED
  const isSame = numbers.factor > 2
  const finding = isSame
    ? 'alpha is the same for every rank'
    : numbers.factor > 0.5
      ? 'alpha grows with the root of the rank'
      : 'alpha grows with the rank'
  return { verdict: isSame ? 'as expected' : 'differs', finding, numbers }
}

/** Checks by name. */
export const GRADIENT_CHECKS = {
  'gradients over data': gradientsOverData,
  'gradients over tokens': gradientsOverTokens,
  'sizes of weights': sizesOfWeights,
  'sizes of advantages': sizesOfAdvantages,
  'gradient clipping': gradientClipping,
  'weights of zero': zeroWeights,
  'adapter scale': adapterScale,
} as const
