/** Values of settings that are left open, by the size of the model. */
import type { DecoderConfig } from '../../modules/transformer/config.js'
import { parameterCount } from '../../modules/transformer/params.js'
import type { PolicySettings } from '../parts/settings.js'

/** A value and the reason for it: `null` if the settings have the value. */
export interface Sized<T> {
  readonly value: T
  readonly reason: string | null
}

/** The settings that depend on the size of a model. */
export interface SizedSettings {
  readonly learningRate: Sized<number>
  readonly microBatch: Sized<number>
  readonly recompute: Sized<'none' | 'layers'>
}

const MILLION = 1e6

/**
 * Parameters -> learning rate of all weights and of an adapter. Large models collapse at the rates
 * of small ones.
 */
const RATES: readonly (readonly [below: number, all: number, adapter: number])[] = [
  [30 * MILLION, 1e-4, 1e-3],
  [300 * MILLION, 1e-5, 1e-3],
  [1000 * MILLION, 1e-5, 1e-4],
  [Number.POSITIVE_INFINITY, 1e-6, 1e-4],
]

/** Sizes from which micro-batches are smaller, and from which layers are computed twice. */
const LARGE = 100 * MILLION
const VERY_LARGE = 300 * MILLION

const millions = (count: number): string =>
  count < MILLION ? `${Math.round(count / 1000)} thousand` : `${Number((count / MILLION).toPrecision(3))} million`

const open = <T>(given: T | null, value: T, reason: string): Sized<T> =>
  given === null ? { value, reason } : { value: given, reason: null }

/**
 * Returns the settings that depend on the size of a model, each as given, or else by the number of
 * its parameters.
 *
 * | Parameters | Learning rate of all weights | Of an adapter | Micro-batch | Recomputed |
 * | --- | --: | --: | --: | --- |
 * | below 30 million | 1e-4 | 1e-3 | 4096 | nothing |
 * | below 100 million | 1e-5 | 1e-3 | 4096 | nothing |
 * | below 300 million | 1e-5 | 1e-3 | 1024 | nothing |
 * | below 1000 million | 1e-5 | 1e-4 | 1024 | layers |
 * | more | 1e-6 | 1e-4 | 1024 | layers |
 */
export const bySize = (
  { learner, lora, compute }: Pick<PolicySettings, 'learner' | 'lora'> & Partial<Pick<PolicySettings, 'compute'>>,
  config: DecoderConfig,
): SizedSettings => {
  const count = parameterCount(config)
  const size = `${millions(count)} parameters`
  const [, all, adapter] = RATES.find(([below]) => count < below)!
  const [rate, trained] =
    lora.rank === null ? [all, `all weights of ${size} are`] : [adapter, `an adapter on ${size} is`]
  return {
    learningRate: open(learner.learningRate, rate, `${trained} trained`),
    microBatch: open(compute?.microBatch ?? null, count < LARGE ? 4096 : 1024, `the model has ${size}`),
    recompute: open(compute?.recompute ?? null, count < VERY_LARGE ? 'none' : 'layers', `the model has ${size}`),
  }
}

const NAMES = {
  learningRate: 'learner.learningRate',
  microBatch: 'compute.microBatch',
  recompute: 'compute.recompute',
} as const satisfies Readonly<Record<keyof SizedSettings, string>>

/** Returns a line for each setting that depends on the size of the model. */
export const sizedLines = (sized: SizedSettings): readonly string[] =>
  Object.entries(sized).flatMap(
    ([name, { value, reason }]: [string, Sized<unknown>]) =>
      reason === null ? [] : [`${NAMES[name as keyof SizedSettings]} ${String(value)}: ${reason}`], // its own keys
  )
