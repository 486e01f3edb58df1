/** Checks of requests: order, repetition, futures, clients at a time, checkpoints and refusals. */
import { orThrow, pauseFor } from '@tandem-rl/base'
import { liveTimers } from '@tandem-rl/base/host'
import { isLeft } from 'fp-ts/lib/Either.js'
import type { TinkerTrainer } from '../client/trainer.js'
import {
  ADAM,
  type Bench,
  backward,
  type CheckOutcome,
  checkWithin,
  DATA,
  gapOf,
  linearAdam,
  logProbsOf,
  step,
  trained,
  visibleRate,
} from './measure.js'

/** The largest relative difference of two changes that are equal. */
const REPEATED = 0.05

/** Returns whether a status refuses a request for good. */
const isRefusal = (status: number): boolean => status >= 400 && status < 500 && status !== 408 && status !== 429

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

/** Runs work while the requests of a route are sent twice. */
const repeating = async <T>({ repeater }: Bench, route: 'forward_backward' | 'optim_step', work: () => Promise<T>) => {
  repeater.set(route)
  try {
    return await work()
  } finally {
    repeater.set('none')
  }
}

/**
 * The change of a model by one step on the gradients of two requests. A repetition of the first
 * changes their sum, and their average too.
 */
const twoGradients = async (bench: Bench, first: (add: () => Promise<void>) => Promise<void>) => {
  const [rate, trainer] = [await visibleRate(bench), await bench.model()]
  const before = await logProbsOf(trainer)
  await first(() => backward(trainer, [DATA[0]!]))
  await backward(trainer, [DATA[1]!])
  await step(trainer, linearAdam(rate))
  const after = await logProbsOf(trainer)
  return after.map((x, i) => x - before[i]!)
}

const repeatedGradients = async (bench: Bench): Promise<CheckOutcome> => {
  const once = await twoGradients(bench, (add) => add())
  const repeated = await twoGradients(bench, (add) => repeating(bench, 'forward_backward', add))
  return checkWithin(gapOf(repeated, once) / Math.max(...once.map(Math.abs)), REPEATED, [
    'a repeated gradient is added once',
    'a repeated gradient is added twice',
  ])
}

const repeatedSteps = async (bench: Bench): Promise<CheckOutcome> => {
  const [one, other] = [await trained(await bench.model(), 2), await trained(await bench.model(), 1)]
  await backward(other, DATA)
  await repeating(bench, 'optim_step', () => step(other, ADAM))
  return checkWithin(gapOf(await logProbsOf(one), await logProbsOf(other)), 1e-4, [
    'a repeated step is carried out once',
    'a repeated step is carried out twice',
  ])
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

const futures = async ({ model, post }: Bench): Promise<CheckOutcome> => {
  const trainer = await model()
  const pending = orThrow(await trainer.forwardBackward({ data: DATA, lossFn: 'cross_entropy' })())
  orThrow(await pending.result())
  const poll = async (id: string) => (await post('/retrieve_future', { request_id: id })).status
  const [again, unknown] = [await poll(pending.requestId), await poll(otherId(pending.requestId))]
  const isClear = isRefusal(unknown)
  const repeated = again === 200 ? 'a result can be fetched again' : 'a result is given once'
  const absent = isClear ? 'an unknown one is refused' : 'an unknown one is not refused'
  return {
    verdict: isClear ? 'as expected' : 'differs',
    finding: `${repeated}, and ${absent}`,
    numbers: { again, unknown },
  }
}

/** A result that is not fetched at once: held, or gone with the status 410, which clients know. */
const expiry = async ({ model, post, futureMs }: Bench): Promise<CheckOutcome> => {
  const trainer = await model()
  const pending = orThrow(await trainer.forward({ data: DATA, lossFn: 'cross_entropy' })())
  await pauseFor(futureMs, liveTimers)
  let reply = await post('/retrieve_future', { request_id: pending.requestId })
  while (reply.status === 408) reply = await post('/retrieve_future', { request_id: pending.requestId })
  const seconds = futureMs / 1000
  const numbers = { seconds, status: reply.status }
  if (reply.status === 200) return { verdict: 'as expected', finding: 'the result is still held', numbers }
  return reply.status === 410
    ? { verdict: 'as expected', finding: 'the result has expired, with the status 410', numbers }
    : { verdict: 'differs', finding: 'the result has expired without the status 410', numbers }
}

/** The text of a refusal: `detail` or `error` of a JSON object. */
const hasReason = (body: unknown): boolean => {
  if (typeof body !== 'object' || body === null) return false
  const { detail, error } = body as { readonly detail?: unknown; readonly error?: unknown } // an object
  return (typeof detail === 'string' ? detail : JSON.stringify(detail ?? error ?? '')).length > 2
}

const errorShapes = async ({ post }: Bench): Promise<CheckOutcome> => {
  const forward_backward_input = { data: [], loss_fn: 'cross_entropy' }
  const replies = {
    empty: await post('/optim_step', {}),
    unknownModel: await post('/optim_step', {
      model_id: 'no_such_model',
      seq_id: 1,
      adam_params: {},
      type: 'optim_step',
    }),
    unknownSession: await post('/create_model', { session_id: 'no_such_session', model_seq_id: 0, base_model: 'none' }),
    noData: await post('/forward_backward', { model_id: 'no_such_model', seq_id: 1, forward_backward_input }),
  }
  const clear = Object.values(replies).filter(({ status, body }) => isRefusal(status) && hasReason(body)).length
  const count = Object.keys(replies).length
  return {
    verdict: clear === count ? 'as expected' : 'differs',
    finding: `${clear} of ${count} wrong requests are refused with a reason`,
    numbers: Object.fromEntries(Object.entries(replies).map(([name, { status }]) => [name, status])),
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
  'repeated gradients': repeatedGradients,
  'repeated steps': repeatedSteps,
  'concurrent models': concurrentModels,
  'concurrent clients': concurrentClients,
  futures,
  'expiry of results': expiry,
  'error shapes': errorShapes,
  'unknown loss': unknownLoss,
} as const
