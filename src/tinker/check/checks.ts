/** The checks of the conformance kit, by name. */
import { isLeft } from 'fp-ts/lib/Either.js'
import { orThrow } from '../../core/failure.js'
import type { TinkerTrainer } from '../client/trainer.js'
import {
  ADAM,
  type Bench,
  backward,
  type CheckOutcome,
  checkWithin,
  datumOf,
  factorOf,
  gapOf,
  LINEAR,
  logProbsOf,
  response,
  step,
  TEXTS,
} from './measure.js'

const DATA = TEXTS.map((tokens) => datumOf(tokens))
const FIRST = [DATA[0]!]

/** Factors this near are equal. Averages over tokens depend on the text, so they differ more. */
const NEAR = { expected: 0.05, known: 0.1 } as const

/** The outcome of a factor of which one value is expected and another is known. */
const factorOutcome = (
  factor: number,
  expected: readonly [value: number, finding: string],
  known: readonly [value: number, finding: string],
): CheckOutcome => {
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
  const half = (part: 0 | 1) =>
    datumOf(
      TEXTS[0],
      TEXTS[0].slice(1).map((_, t) => (Math.floor(t / 4) === part ? 1 : 0)),
    )
  const [first, second] = [await response(bench, [half(0)]), await response(bench, [half(1)])]
  return factorOutcome(
    factorOf(
      await response(bench, FIRST),
      first.map((x, i) => x + second[i]!),
    ),
    [1, 'gradients are summed over tokens'],
    [0.5, 'gradients are averaged over tokens'],
  )
}

const gradientClipping = async (bench: Bench): Promise<CheckOutcome> =>
  factorOutcome(
    factorOf(await response(bench, FIRST, { ...LINEAR, grad_clip_norm: 1e-3 }), await response(bench, FIRST)),
    [0, 'gradients are clipped'],
    [1, 'grad_clip_norm is ignored'],
  )

const zeroWeights = async (bench: Bench): Promise<CheckOutcome> => {
  const change = await response(bench, [
    datumOf(
      TEXTS[0],
      TEXTS[0].slice(1).map(() => 0),
    ),
  ])
  return checkWithin(
    gapOf(
      change,
      change.map(() => 0),
    ),
    1e-6,
    ['weights of 0 leave the model as it is', 'weights of 0 change the model'],
  )
}

const samplerGap = async (trainer: TinkerTrainer): Promise<number> => {
  const scored = orThrow(await orThrow(await trainer.sampler()()).logProbs(TEXTS[0])())
  const own = await logProbsOf(trainer)
  return gapOf(
    own,
    scored.slice(1).map((x) => x ?? Number.NaN),
  )
}

const logProbAlignment = async ({ model }: Bench): Promise<CheckOutcome> =>
  checkWithin(await samplerGap(await model()), 1e-4, [
    'the sampler and the trainer give the same log-probabilities',
    'the log-probabilities of the sampler and the trainer differ',
  ])

/** Trains a model for some steps. */
const trained = async (trainer: TinkerTrainer, steps: number): Promise<TinkerTrainer> => {
  for (let i = 0; i < steps; i++) {
    await backward(trainer, DATA)
    await step(trainer, ADAM)
  }
  return trainer
}

const samplerDrift = async ({ model }: Bench): Promise<CheckOutcome> =>
  checkWithin(await samplerGap(await trained(await model(), 5)), 1e-4, [
    'after 5 steps, the sampler has the weights of the trainer',
    'after 5 steps, the sampler and the trainer differ',
  ])

const requestOrder = async ({ model }: Bench): Promise<CheckOutcome> => {
  const [one, other] = [await model(), await model()]
  await trained(one, 3)
  const pending: { readonly result: () => Promise<unknown> }[] = []
  for (let i = 0; i < 3; i++) {
    pending.push(orThrow(await other.forwardBackward({ data: DATA, lossFn: 'cross_entropy' })()))
    pending.push(orThrow(await other.optimStep(ADAM)()))
  }
  for (const { result } of pending) await result()
  return checkWithin(gapOf(await logProbsOf(one), await logProbsOf(other)), 1e-4, [
    'pipelined requests are carried out in order',
    'pipelined requests give another model',
  ])
}

/** The difference after one more step on a model and on its restored checkpoint. */
const restoredGap = async ({ model }: Bench, optimizer: 'restored' | 'fresh'): Promise<number> => {
  const [one, other] = [await trained(await model(), 3), await model()]
  const path = orThrow(await orThrow(await one.saveState(`check-${optimizer}`)()).result())
  orThrow(await orThrow(await other.loadState(path, { optimizer })()).result())
  if (optimizer === 'restored') await Promise.all([trained(one, 1), trained(other, 1)])
  return gapOf(await logProbsOf(one), await logProbsOf(other))
}

const checkpointOptimizer = async (bench: Bench): Promise<CheckOutcome> =>
  checkWithin(await restoredGap(bench, 'restored'), 1e-4, [
    'a checkpoint restores weights and optimizer',
    'a step after restoring the optimizer gives another model',
  ])

const checkpointWeights = async (bench: Bench): Promise<CheckOutcome> =>
  checkWithin(await restoredGap(bench, 'fresh'), 1e-4, [
    'a checkpoint restores weights',
    'restored weights give other log-probabilities',
  ])

const repeatedRequests = async ({ model, repeater }: Bench): Promise<CheckOutcome> => {
  const [one, other] = [await trained(await model(), 2), await model()]
  repeater.update(() => 2)
  try {
    await trained(other, 2)
  } finally {
    repeater.update(() => 1)
  }
  return checkWithin(gapOf(await logProbsOf(one), await logProbsOf(other)), 1e-4, [
    'a repeated request is carried out once',
    'a repeated request is carried out twice',
  ])
}

const concurrentModels = async ({ model }: Bench): Promise<CheckOutcome> => {
  const alone = await trained(await model(), 3)
  const both = await Promise.all([trained(await model(), 3), trained(await model(), 3)])
  const expected = await logProbsOf(alone)
  const gaps = [gapOf(expected, await logProbsOf(both[0])), gapOf(expected, await logProbsOf(both[1]))]
  return checkWithin(Math.max(...gaps), 1e-4, [
    'models that train at the same time do not affect each other',
    'models that train at the same time affect each other',
  ])
}

const longSequences = async ({ model, maxContextLength }: Bench): Promise<CheckOutcome> => {
  const length = Math.min(maxContextLength ?? 1024, 2048)
  const tokens = Array.from({ length }, (_, i) => (i * 7) % 97)
  const logProbs = await logProbsOf(await model(), tokens)
  const finite = logProbs.filter((x) => Number.isFinite(x) && x <= 0).length
  return {
    verdict: finite === length - 1 ? 'as expected' : 'differs',
    finding: `${finite} of ${length - 1} log-probabilities are finite`,
    numbers: { length, finite },
  }
}

const unknownLoss = async ({ model }: Bench): Promise<CheckOutcome> => {
  const sent = await (await model()).forwardBackward({ data: FIRST, lossFn: 'no_such_loss' })()
  const result = isLeft(sent) ? sent : await sent.right.result()
  if (!isLeft(result)) return { verdict: 'differs', finding: 'an unknown loss is computed', numbers: {} }
  const { kind, status = 0 } = result.left
  const isClear = kind === 'refused' || kind === 'failed'
  return { verdict: isClear ? 'as expected' : 'differs', finding: `an unknown loss is ${kind}`, numbers: { status } }
}

/** Every check of the kit, in order. */
export const CHECKS: Readonly<Record<string, (bench: Bench) => Promise<CheckOutcome>>> = {
  'gradients over data': gradientsOverData,
  'gradients over tokens': gradientsOverTokens,
  'gradient clipping': gradientClipping,
  'weights of zero': zeroWeights,
  'log-prob alignment': logProbAlignment,
  'sampler drift': samplerDrift,
  'request order': requestOrder,
  'checkpoint with optimizer': checkpointOptimizer,
  'checkpoint without optimizer': checkpointWeights,
  'repeated requests': repeatedRequests,
  'concurrent models': concurrentModels,
  'long sequences': longSequences,
  'unknown loss': unknownLoss,
}
