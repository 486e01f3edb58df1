/** Measures what a Tinker server computes. */
import { type Cell, orThrow } from '@tandem-rl/base'
import type { TinkerTrainer } from '../client/trainer.js'
import type { AdamParams } from '../protocol/jsonWire.js'
import { type Datum, floatTensor, integerTensor } from '../protocol/values.js'

/** The verdict of a check. `failed`: the server did not answer as the protocol requires. */
export type TinkerVerdict = 'as expected' | 'differs' | 'not supported' | 'failed'

/** The outcome of a check, with its numbers. */
export interface TinkerCheck {
  readonly check: string
  readonly verdict: TinkerVerdict
  /** The behavior in one sentence. */
  readonly finding: string
  readonly numbers: Readonly<Record<string, number>>
}

/** A check that has run, without its name. */
export type CheckOutcome = Omit<TinkerCheck, 'check'>

/** The route whose requests are sent twice. */
export type Repeater = Cell<'none' | 'forward_backward' | 'optim_step'>

/** An answer to a request of a check. `body` is undefined if it is not JSON. */
interface CheckReply {
  readonly status: number
  readonly body: unknown
}

/** The parts that checks use. */
export interface Bench {
  readonly repeater: Repeater
  /** A new model: an adapter with seed 0 and rank 8. */
  readonly model: (options?: { readonly rank: number }) => Promise<TinkerTrainer>
  /** A new model in the session of another client. */
  readonly otherModel: () => Promise<TinkerTrainer>
  /** Sends one request as it is, to a path below `/api/v1`. */
  readonly post: (path: string, body: object) => Promise<CheckReply>
  /** Milliseconds for which a result is left on the server. */
  readonly futureMs: number
  readonly maxContextLength: number | null
  /** The size of a step, once it is found. */
  readonly rate: Cell<number | null>
}

/** Two sequences of bytes, which every vocabulary has. */
export const TEXTS = [
  [5, 9, 14, 33, 70, 61, 22, 81],
  [7, 81, 4, 50, 12, 33, 90, 17],
] as const

/** A sequence with weights for its targets, 1 by default. */
export const datumOf = (
  tokens: readonly number[],
  weights: readonly number[] = tokens.slice(1).map(() => 1),
): Datum => ({
  tokens: tokens.slice(0, -1),
  inputs: { target_tokens: integerTensor(tokens.slice(1)), weights: floatTensor(weights) },
})

/** Both texts. */
export const DATA = TEXTS.map((tokens) => datumOf(tokens))

/** A number above every gradient. */
const EPSILON = 1e4

/**
 * An Adam step of `rate` times the gradient, because `eps` outweighs the rest. Its means forget at
 * once; some servers refuse 0, which JSON writes as an integer.
 */
export const linearAdam = (rate: number): Partial<AdamParams> => ({
  learning_rate: rate * EPSILON,
  beta1: 1e-9,
  beta2: 1e-9,
  eps: EPSILON,
})

export const ADAM: Partial<AdamParams> = { learning_rate: 1e-2, beta1: 0.9, beta2: 0.95, eps: 1e-8 }

/** Adds the gradient of data, and waits for the result. */
export const backward = async (
  trainer: TinkerTrainer,
  data: readonly Datum[],
  lossFn = 'cross_entropy',
): Promise<void> => {
  orThrow(await orThrow(await trainer.forwardBackward({ data, lossFn })()).result())
}

/** Applies the gradients, and waits for the result. */
export const step = async (trainer: TinkerTrainer, adam: Partial<AdamParams>): Promise<void> => {
  orThrow(await orThrow(await trainer.optimStep(adam)()).result())
}

/** Log-probabilities of the targets of a text. */
export const logProbsOf = async (
  trainer: TinkerTrainer,
  tokens: readonly number[] = TEXTS[0],
): Promise<readonly number[]> => {
  const pending = orThrow(await trainer.forward({ data: [datumOf(tokens)], lossFn: 'cross_entropy' })())
  return Array.from(orThrow(await pending.result()).outputs[0]!.logprobs!.data)
}

/** One step of a new model. */
interface OneStep {
  readonly clip?: number
  readonly lossFn?: string
  readonly rank?: number
}

const RATES = [1e-4, 1e-3, 1e-2, 1e-1, 1, 10]

/** A change of log-probabilities that rounding does not hide. */
const VISIBLE = 1e-3

const changeOf = async (
  { model }: Bench,
  data: readonly Datum[],
  { rate, clip, lossFn = 'cross_entropy', rank = 8 }: OneStep & { readonly rate: number },
): Promise<readonly number[]> => {
  const trainer = await model({ rank })
  const before = await logProbsOf(trainer)
  await backward(trainer, data, lossFn)
  await step(trainer, { ...linearAdam(rate), ...(clip !== undefined && { grad_clip_norm: clip }) })
  const after = await logProbsOf(trainer)
  await trainer.unload()()
  return after.map((x, i) => x - before[i]!)
}

/** The least rate with a visible change, which is found once for a server. */
export const visibleRate = async (bench: Bench): Promise<number> => {
  const known = bench.rate.get()
  if (known !== null) return known
  for (const rate of RATES) {
    const change = await changeOf(bench, [datumOf(TEXTS[0])], { rate })
    bench.rate.set(rate)
    if (change.some((x) => Math.abs(x) >= VISIBLE)) break
  }
  return bench.rate.get()!
}

/**
 * Changes of log-probabilities by one step of a new model on data, in proportion to the gradient.
 */
export const response = async (
  bench: Bench,
  data: readonly Datum[],
  options: OneStep = {},
): Promise<readonly number[]> => changeOf(bench, data, { ...options, rate: await visibleRate(bench) })

/** Trains a model on both texts for some steps. */
export const trained = async (trainer: TinkerTrainer, steps: number): Promise<TinkerTrainer> => {
  for (let i = 0; i < steps; i++) {
    await backward(trainer, DATA)
    await step(trainer, ADAM)
  }
  return trainer
}

/** Least-squares factor from one vector to another: `a` is about `factor * b`. */
export const factorOf = (a: readonly number[], b: readonly number[]): number =>
  a.reduce((sum, x, i) => sum + x * b[i]!, 0) / b.reduce((sum, x) => sum + x * x, 0)

/** The largest difference; Infinity for lists of different lengths or NaN. */
export const gapOf = (a: readonly number[], b: readonly number[]): number => {
  if (a.length !== b.length) return Number.POSITIVE_INFINITY
  const gap = Math.max(0, ...a.map((x, i) => Math.abs(x - b[i]!)))
  return Number.isNaN(gap) ? Number.POSITIVE_INFINITY : gap
}

/** The outcome of a comparison with a tolerance. */
export const checkWithin = (
  gap: number,
  tolerance: number,
  texts: readonly [same: string, other: string],
): CheckOutcome => ({
  verdict: gap <= tolerance ? 'as expected' : 'differs',
  finding: texts[gap <= tolerance ? 0 : 1],
  numbers: { gap, tolerance },
})
