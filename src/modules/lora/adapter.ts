/**
 * LoRA adapters: for a projection `W`, two small matrices `A` and `B` with
 * `x W^T + scaling * (x A^T) B^T` (Hu et al. 2021, arXiv:2106.09685).
 *
 * An adapter is a separate value: the base weights are never changed. Axis letters: R rank, I
 * inputs and O outputs of a projection.
 */
import { type ConfigFailure, child, type Key, problemList, uniforms } from '@tandem-rl/base'
import type { PlainArray } from '@tandem-rl/text'
import { scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as tf from '@tensorflow/tfjs-core'
import * as E from 'fp-ts/lib/Either.js'
import { pipe } from 'fp-ts/lib/function.js'
import { loraNames, moduleOfLora } from '../transformer/applyLora.js'
import type { DecoderConfig } from '../transformer/config.js'
import { HEAD, type Params } from '../transformer/params.js'
import { type AdaptedProjection, adaptedProjections, type LoraConfig, scalingOf } from './config.js'
import { projections } from './projections.js'

/**
 * An adapter as plain arrays: `MODULE.lora_A.weight` `[R, I]` and `MODULE.lora_B.weight` `[O, R]`.
 */
export interface Adapter {
  readonly config: LoraConfig
  readonly arrays: ReadonlyMap<string, PlainArray>
}

/** An adapter as trainable tensors of the same names. */
export interface LoraParams {
  readonly config: LoraConfig
  readonly tensors: Params
}

/** Returns the names and shapes of an adapter on projections, in the order of the parameters. */
export const adapterShapes = (
  adapted: ReadonlyMap<string, AdaptedProjection>,
): ReadonlyMap<string, readonly [number, number]> =>
  new Map(
    [...adapted].flatMap(([module, { rank, inputs, outputs }]) => {
      const { a, b } = loraNames(module)
      return [[a, [rank, inputs]] as const, [b, [outputs, rank]] as const]
    }),
  )

/**
 * Makes a new adapter, which has no effect yet: `A` uniform in `+- 1 / sqrt(I)` (Kaiming with
 * `a = sqrt(5)`) and `B` zero.
 *
 * Errors   `Left(ConfigFailure)` that lists all problems: settings that do not match the model, and
 *          a dropout, which training does not support.
 * Source   PEFT 0.18, `LoraLayer.reset_lora_parameters`; He et al. 2015, arXiv:1502.01852.
 */
export const initialLora = (config: DecoderConfig, lora: LoraConfig, key: Key): E.Either<ConfigFailure, Adapter> =>
  pipe(
    adaptedProjections(config, lora),
    E.filterOrElse(
      () => lora.dropout === 0,
      (): ConfigFailure => ({
        _tag: 'ConfigFailure',
        reason: `LoRA: training does not support a dropout of ${lora.dropout}: set it to 0`,
      }),
    ),
    E.map((adapted) => ({
      config: lora,
      arrays: new Map(
        [...adapted].flatMap(([module, { rank, inputs, outputs }]) => {
          const { a, b } = loraNames(module)
          const bound = 1 / Math.sqrt(inputs)
          const drawn = Float32Array.from(uniforms(child(key, a), rank * inputs), (u) => (2 * u - 1) * bound)
          return [
            [a, { shape: [rank, inputs], data: drawn }] as const,
            [b, { shape: [outputs, rank], data: new Float32Array(outputs * rank) }] as const,
          ]
        }),
      ),
    })),
  )

/** Returns the modules of an adapter's tensors, in order. */
export const adapterModules = (names: Iterable<string>): readonly string[] => [
  ...new Set([...names].flatMap((name) => moduleOfLora(name) ?? [])),
]

/**
 * Makes the scaling factors of an adapter's products, under the names that the decoder uses.
 *
 * Effects  makes tensors that belong to the enclosing scope.
 */
export const loraScalings = ({ config, tensors }: LoraParams): Params =>
  Object.fromEntries(
    adapterModules(Object.keys(tensors)).map((module) => {
      const names = loraNames(module)
      return [names.scaling, tf.scalar(scalingOf(config, module, rankIn(tensors, module)))]
    }),
  )

const rankIn = (tensors: Params, module: string): number => {
  const { a, b } = loraNames(module)
  const [first, second] = [tensors[a], tensors[b]]
  const missing = first === undefined ? a : b
  if (first === undefined || second === undefined) throw new Error(`LoRA: tensor '${missing}' is missing`)
  return first.shape[0]! // [R, I]
}

/**
 * Combines the parameters of a model with an adapter: the base's tensors, the adapter's, and its
 * scalings. `x W^T + b` becomes `x W^T + b + scaling * (x A^T) B^T` for each module of the adapter.
 *
 * Effects  makes the scalings, which belong to the enclosing scope. Base and adapter are neither
 *          copied nor changed.
 *
 * @example
 * Object.keys(withLora({}, { config: loraConfig({}), tensors: {} })) // []
 */
export const withLora = (base: Params, adapter: LoraParams): Params => ({
  ...base,
  ...adapter.tensors,
  ...loraScalings(adapter),
})

/**
 * Merges an adapter into plain parameters, which compute the same up to rounding:
 * `W + scaling * B A`, or its transpose for weights stored as `[I, O]`. An adapter on the output
 * projection gives a model with tied embeddings a projection of its own, `lm_head.weight`.
 *
 * Errors   throws if the model has no projection for a module of the adapter, or the base lacks its
 *          weight.
 * Effects  makes the changed weights, which belong to the enclosing scope; the others are the
 *          base's own tensors.
 * Source   PEFT's `merge_and_unload`.
 */
export const mergeLora = (model: DecoderConfig, base: Params, { config, tensors }: LoraParams): Params => {
  const all = projections(model)
  const merged = (module: string): tf.Tensor => {
    const tied = module === HEAD && model.tiedEmbeddings ? base[`${model.embedding.name}.weight`] : undefined
    const [projection, weight] = [all.get(module), base[`${module}.weight`] ?? tied]
    if (projection === undefined) throw new Error(`mergeLora: the model has no projection '${module}'`)
    if (weight === undefined) throw new Error(`mergeLora: the base has no '${module}.weight'`)
    const scaling = scalingOf(config, module, rankIn(tensors, module))
    const names = loraNames(module)
    const [a, b] = [tensors[names.a]!, tensors[names.b]!] // `rankIn` has seen both
    const change = projection.layout === 'out-in' ? tf.matMul(b, a) : tf.matMul(a, b, true, true)
    return tf.add(weight, tf.mul(change, scaling))
  }
  const modules = adapterModules(Object.keys(tensors))
  return { ...base, ...Object.fromEntries(modules.map((module) => [`${module}.weight`, scope(() => merged(module))])) }
}

/**
 * Returns why tensors are not a valid adapter of a model, or `undefined`. An adapter includes its
 * scalings.
 *
 * Shapes   by module, `[R, I]`, `[O, R]` and `[]`, with any rank.
 */
export const adapterMismatch = (config: DecoderConfig, tensors: Params): string | undefined => {
  const all = projections(config)
  const problems = adapterModules(Object.keys(tensors)).flatMap((module) => {
    const projection = all.get(module)
    if (projection === undefined) return [`'${module}' is not a projection of this architecture`]
    const names = loraNames(module)
    const rank = tensors[names.a]?.shape[0] ?? 0
    const expected = [
      [names.a, [rank, projection.inputs]],
      [names.b, [projection.outputs, rank]],
      [names.scaling, []],
    ] as const
    return expected.flatMap(([name, shape]) => {
      const got = tensors[name]?.shape
      return got?.join() === shape.join() ? [] : [`'${name}' must be [${shape.join()}], got [${got?.join() ?? 'none'}]`]
    })
  })
  return problems.length === 0 ? undefined : problemList(problems)
}
