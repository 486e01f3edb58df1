/** Measures whether a server sums or averages gradients. */
import * as E from 'fp-ts/lib/Either.js'
import type { TaskEither } from 'fp-ts/lib/TaskEither.js'
import { type Datum, floatTensor, integerTensor } from '../protocol/values.js'
import type { TinkerFailure } from './calls.js'
import { type GradientSums, gradientNorm, SUMMED } from './gradientSums.js'
import type { TinkerSession } from './tinkerClient.js'
import type { TinkerTrainer } from './trainer.js'

const TEXT = [5, 9, 14, 33, 70, 61, 22, 81, 50]
const HALF = 4

/** The first `length` targets of the text, with one number for each. */
const textDatum = (length: number, inputs: Readonly<Record<string, readonly number[]>>): Datum => ({
  tokens: TEXT.slice(0, length),
  inputs: {
    target_tokens: integerTensor(TEXT.slice(1, length + 1)),
    ...Object.fromEntries(Object.entries(inputs).map(([name, numbers]) => [name, floatTensor(numbers)])),
  },
})

/** The norm of the gradient of data; undefined if the server does not report it. */
const normOf = async (
  trainer: TinkerTrainer,
  data: readonly Datum[],
  lossFn: string,
): Promise<E.Either<TinkerFailure, number | undefined>> => {
  const sent = await trainer.forwardBackward({ data, lossFn })()
  if (E.isLeft(sent)) return sent
  const computed = await sent.right.result()
  if (E.isLeft(computed)) return computed
  const stepped = await trainer.optimStep({ learning_rate: 0 })() // ends the sum, and leaves the weights
  if (E.isLeft(stepped)) return stepped
  const metrics = await stepped.right.result()
  return E.isLeft(metrics) ? metrics : E.right(gradientNorm(metrics.right))
}

/** Largest relative error of a ratio of norms. */
const NEAR = 0.1

const isNear = (ratio: number, expected: number): boolean => Math.abs(ratio - expected) < NEAR * expected

/** The norms of several gradients; undefined if the server does not report them. */
const normsOf = async (
  trainer: TinkerTrainer,
  lossFn: string,
  requests: readonly (readonly Datum[])[],
): Promise<E.Either<TinkerFailure, readonly number[] | undefined>> => {
  const norms: number[] = []
  for (const data of requests) {
    const norm = await normOf(trainer, data, lossFn)
    if (E.isLeft(norm)) return norm
    if (norm.right === undefined) return E.right(undefined)
    norms.push(norm.right)
  }
  return E.right(norms)
}

const ones = (length: number): readonly number[] => Array.from({ length }, () => 1)

const weighted = (weight: number): Datum => textDatum(2 * HALF, { weights: ones(2 * HALF).map((x) => x * weight) })

/** The first half of the text has advantages; the other half is there or not. */
const advantaged = (length: number, logProbs: readonly number[]): Datum =>
  textDatum(length, {
    logprobs: logProbs.slice(0, length),
    advantages: ones(length).map((x, t) => (t < HALF ? x : 0)),
  })

const measured = async (trainer: TinkerTrainer): Promise<E.Either<TinkerFailure, GradientSums>> => {
  const norms = await normsOf(trainer, 'cross_entropy', [[weighted(1)], [weighted(2)], [weighted(1), weighted(1)]])
  if (E.isLeft(norms)) return norms
  const [one, double, both] = norms.right ?? []
  if (one === undefined || (isNear(double! / one, 2) && isNear(both! / one, 2))) return E.right(SUMMED)
  const forward = await trainer.forward({ data: [weighted(0)], lossFn: 'cross_entropy' })()
  if (E.isLeft(forward)) return forward
  const output = await forward.right.result()
  if (E.isLeft(output)) return output
  const logProbs = Array.from(output.right.outputs[0]!.logprobs!.data)
  const [whole, half] = [advantaged(2 * HALF, logProbs), advantaged(HALF, logProbs)]
  const ratios = await normsOf(trainer, 'importance_sampling', [[whole], [half], [whole, whole]])
  if (E.isLeft(ratios)) return ratios
  const [first, shorter, twice] = ratios.right!.map((norm) => norm / ratios.right![0]!) as [number, number, number] // three requests
  const lossFn = 'importance_sampling'
  const tokens = isNear(shorter / first, 1) ? 'sum' : isNear(shorter / first, 2) ? 'mean' : undefined
  const data = isNear(twice / first, 2) ? 'sum' : isNear(twice / first, 1) ? 'mean' : undefined
  if (tokens !== undefined && data !== undefined) return E.right({ lossFn, tokens, data })
  const factors = `half of the tokens have the factor ${shorter}, and twice the data the factor ${twice}`
  return E.left({
    _tag: 'TinkerFailure',
    kind: 'unsupported',
    server: trainer.server.name,
    call: '/forward_backward',
    reason: `the server adds gradients up in an unknown way: ${factors}`,
  })
}

/**
 * Measures whether a server sums or averages gradients, on a separate model whose weights do not
 * change. Pass the result to `session.trainer`, so that averages are corrected.
 *
 * Errors   `Left` of kind `unsupported` for a server that adds up in an unknown way, or that
 *          divides by weights and does not have the loss `importance_sampling`. A server that does
 *          not report the norm of gradients is assumed to sum them, as in the protocol.
 * Effects  makes a model on the server, and frees it.
 */
export const measureGradients =
  (session: TinkerSession, { baseModel }: { readonly baseModel: string }): TaskEither<TinkerFailure, GradientSums> =>
  async () => {
    const made = await session.trainer({ baseModel, lora: { rank: 8, seed: 0 } })()
    if (E.isLeft(made)) return made
    const found = await measured(made.right)
    await made.right.unload()() // a server without it frees the model with the session
    return found
  }
