/** The parameters of a decoder: named tensors in an immutable record, with Hugging Face's names. */
import { child, type Key, normals } from '@tandem-rl/base'
import * as tf from '@tensorflow/tfjs-core'
import type { Norm, Projection } from './config/description.js'
import type { DecoderConfig } from './config.js'

/** Tensors by Hugging Face's names. Never changed in place: an update makes a new record. */
export type Params = Readonly<Record<string, tf.Tensor>>

/** The shape of a parameter, and its initial value. */
interface Parameter {
  readonly shape: readonly number[]
  readonly initial: 'zeros' | 'ones' | 'normal'
}

type Entries = readonly (readonly [string, Parameter])[]

const ofProjection = (prefix: string, { name, inputs, outputs, bias, layout }: Projection): Entries => {
  const weight = { shape: layout === 'out-in' ? [outputs, inputs] : [inputs, outputs], initial: 'normal' } as const
  const entries: Entries = [[`${prefix}${name}.weight`, weight]]
  return bias === 'none' ? entries : [...entries, [`${prefix}${name}.bias`, { shape: [outputs], initial: 'zeros' }]]
}

/** Returns the parameters of a norm. A weight that is stored around 0 starts at 0. */
const ofNorm = (prefix: string, norm: Norm | null): Entries => {
  if (norm === null) return []
  const shape = [norm.width]
  const weight = [`${prefix}${norm.name}.weight`, { shape, initial: norm.offset === 1 ? 'zeros' : 'ones' }] as const
  return norm.kind === 'rms' ? [weight] : [weight, [`${prefix}${norm.name}.bias`, { shape, initial: 'zeros' }]]
}

const ofLayer = ({ attention, feedForward }: DecoderConfig, prefix: string): Entries => [
  ...[...attention.inputs, attention.output].flatMap((projection) => ofProjection(prefix, projection)),
  ...ofNorm(prefix, attention.queryNorm),
  ...ofNorm(prefix, attention.keyNorm),
  ...[...feedForward.inputs, feedForward.output].flatMap((projection) => ofProjection(prefix, projection)),
  ...[attention.before, attention.after, feedForward.before, feedForward.after].flatMap((norm) => ofNorm(prefix, norm)),
]

/** Name of the output projection. A model with tied embeddings has no weight of this name. */
export const HEAD = 'lm_head'

const parametersOf = (config: DecoderConfig): Entries => {
  const { vocabularySize, hiddenSize, embedding, learnedPositions } = config
  const table = (name: string, rows: number) =>
    [`${name}.weight`, { shape: [rows, hiddenSize], initial: 'normal' }] as const
  return [
    table(embedding.name, vocabularySize),
    ...(learnedPositions === null ? [] : [table(learnedPositions, config.maxPositions)]),
    ...Array.from({ length: config.layers }, (_, i) => ofLayer(config, `${config.layerName}.${i}.`)).flat(),
    ...ofNorm('', config.finalNorm),
    ...(config.tiedEmbeddings ? [] : [table(HEAD, vocabularySize)]),
  ]
}

/**
 * Returns the names and shapes of all parameters, in a fixed order: embeddings, each layer's
 * projections and then its norms, the last norm, and the output projection unless it is the
 * embedding.
 */
export const parameterShapes = (config: DecoderConfig): ReadonlyMap<string, readonly number[]> =>
  new Map(parametersOf(config).map(([name, { shape }]) => [name, shape]))

const sizeOf = (shape: readonly number[]): number => shape.reduce((n, m) => n * m, 1)

/** Returns the number of trainable numbers. */
export const parameterCount = (config: DecoderConfig): number =>
  parametersOf(config).reduce((sum, [, { shape }]) => sum + sizeOf(shape), 0)

/**
 * Makes initial parameters: norms 1, biases 0, normal weights with standard deviation `scale`
 * (Transformers' default 0.02).
 *
 * Effects  makes tensors that belong to the enclosing scope.
 */
export const initialParams = (config: DecoderConfig, key: Key, scale = 0.02): Params => {
  const fresh = (name: string, { shape, initial }: Parameter): tf.Tensor => {
    if (initial === 'ones') return tf.ones([...shape])
    if (initial === 'zeros') return tf.zeros([...shape])
    return tf.tensor(
      normals(child(key, name), sizeOf(shape)).map((x) => x * scale),
      [...shape],
    )
  }
  return Object.fromEntries(parametersOf(config).map(([name, parameter]) => [name, fresh(name, parameter)]))
}
