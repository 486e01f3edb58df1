/** Checks of requests: order, repetition, futures, clients at a time, checkpoints and refusals. */
import { isLeft } from 'fp-ts/lib/Either.js'
import { orThrow } from '../../core/failure.js'
import type { TinkerTrainer } from '../client/trainer.js'
import { factorOutcome } from './gradientChecks.js'
import {
  ADAM,
  type Bench,
  type CheckOutcome,
  checkWithin,
  DATA,
  factorOf,
  gapOf,
  logProbsOf,
  response,
  trained,
} from './measure.js'

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

const repeatedRequests = async (bench: Bench): Promise<CheckOutcome> => {
  const { repeater } = bench
  const once = await response(bench, DATA)
  repeater.update(() => 2)
  try {
    return factorOutcome(
      factorOf(await response(bench, DATA), once),
      [1, 'a repeated request is carried out once'],
      [2, 'a repeated request is carried out twice'],
    )
  } finally {
    repeater.update(() => 1)
  }
}

/** The largest gap between a model that trains alone and two that train at the same time. */
const concurrentGap = async ({ model }: Bench, otherModel: () => Promise<TinkerTrainer>): Promise<number> => {
  const alone = await trained(await model(), 3)
  const both = await Promise.all([trained(await model(), 3), trained(await otherModel(), 3)])
  const expected = await logProbsOf(alone)
  return Math.max(gapOf(expected, await logProbsOf(both[0])), gapOf(expected, await logProbsOf(both[1])))
}

const concurrentModels = async (bench: Bench): Promise<CheckOutcome> =>
  checkWithin(await concurrentGap(bench, bench.model), 1e-4, [
    'models that train at the same time do not affect each other',
    'models that train at the same time affect each other',
  ])

const concurrentClients = async (bench: Bench): Promise<CheckOutcome> =>
  checkWithin(await concurrentGap(bench, bench.otherModel), 1e-4, [
    'clients that train at the same time do not affect each other',
    'clients that train at the same time affect each other',
  ])

/** An id like this one that the server has not given. */
const otherId = (id: string): string => (/^\d+$/.test(id) ? String(Number(id) + 1_000_000) : `${id}0`)

const futures = async ({ model, poll }: Bench): Promise<CheckOutcome> => {
  const trainer = await model()
  const pending = orThrow(await trainer.forwardBackward({ data: DATA, lossFn: 'cross_entropy' })())
  orThrow(await pending.result())
  const [again, unknown] = [await poll(pending.requestId), await poll(otherId(pending.requestId))]
  const isClear = unknown >= 400 && unknown < 500 && unknown !== 408 && unknown !== 429
  const repeated = again === 200 ? 'a result can be fetched again' : 'a result is given once'
  const absent = isClear ? 'an unknown one is refused' : 'an unknown one is not refused'
  return {
    verdict: isClear ? 'as expected' : 'differs',
    finding: `${repeated}, and ${absent}`,
    numbers: { again, unknown },
  }
}

const unknownLoss = async ({ model }: Bench): Promise<CheckOutcome> => {
  const sent = await (await model()).forwardBackward({ data: DATA, lossFn: 'no_such_loss' })()
  const result = isLeft(sent) ? sent : await sent.right.result()
  if (!isLeft(result)) return { verdict: 'differs', finding: 'an unknown loss is computed', numbers: {} }
  const { kind, status = 0 } = result.left
  const isClear = kind === 'refused' || kind === 'failed'
  return { verdict: isClear ? 'as expected' : 'differs', finding: `an unknown loss is ${kind}`, numbers: { status } }
}

/** Checks by name. */
export const REQUEST_CHECKS = {
  'request order': requestOrder,
  'checkpoint with optimizer': checkpointOptimizer,
  'checkpoint without optimizer': checkpointWeights,
  'repeated requests': repeatedRequests,
  'concurrent models': concurrentModels,
  'concurrent clients': concurrentClients,
  futures,
  'unknown loss': unknownLoss,
} as const
