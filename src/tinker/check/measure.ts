/**
 * Measures what a Tinker server computes.
 *
 * This folder holds the conformance kit of Tinker servers. It does not hold a server (`../server`)
 * or the client that it uses (`../client`).
 */
import type { Cell } from '../../core/cell.js'
import { orThrow } from '../../core/failure.js'
import type { TinkerSession } from '../client/tinkerClient.js'
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

/** The times that a request is sent: 1 or 2. */
export type Repeater = Cell<number>

/** The parts that checks use. */
export interface Bench {
  readonly session: TinkerSession
  readonly repeater: Repeater
  /** A new model: an adapter with seed 0. */
  readonly model: () => Promise<TinkerTrainer>
  readonly maxContextLength: number | null
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

/** An Adam step that is proportional to the gradient, because `eps` outweighs it. */
export const LINEAR: Partial<AdamParams> = { learning_rate: 1, beta1: 0, beta2: 0, eps: 1e4 }

export const ADAM: Partial<AdamParams> = { learning_rate: 1e-2, beta1: 0.9, beta2: 0.95, eps: 1e-8 }

export const backward = async (trainer: TinkerTrainer, data: readonly Datum[]): Promise<void> => {
  orThrow(await orThrow(await trainer.forwardBackward({ data, lossFn: 'cross_entropy' })()).result())
}

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

/** Changes of log-probabilities by one step on data. */
export const response = async (
  { model }: Bench,
  data: readonly Datum[],
  adam: Partial<AdamParams> = LINEAR,
): Promise<readonly number[]> => {
  const trainer = await model()
  const before = await logProbsOf(trainer)
  await backward(trainer, data)
  await step(trainer, adam)
  const after = await logProbsOf(trainer)
  await trainer.unload()()
  return after.map((x, i) => x - before[i]!)
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
