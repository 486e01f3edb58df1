/** Models with adapters: their weights with the adapters merged. */
import type { Files, HostArray, ModelFailure } from '@tandem-rl/base'
import { scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as tf from '@tensorflow/tfjs-core'
import { pipe } from 'fp-ts/lib/function.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { type Adapter, adapterModules, mergeLora } from '../lora/adapter.js'
import { loadAdapter } from '../lora/peft.js'
import type { DecoderConfig } from '../transformer/config.js'
import { HEAD, type Params } from '../transformer/params.js'
import { untieEmbeddings } from './untie.js'

interface Weights {
  readonly config: DecoderConfig
  readonly arrays: ReadonlyMap<string, HostArray>
}

const tensorsOf = (arrays: Iterable<readonly [string, HostArray]>): Params =>
  Object.fromEntries(Array.from(arrays, ([name, { data, shape }]) => [name, tf.tensor(data, [...shape], 'float32')]))

/** Merges an adapter. Arrays that it does not change are shared. */
const merged = (model: Weights, adapter: Adapter): Weights =>
  scope(() => {
    const modules = adapterModules(adapter.arrays.keys())
    const { config, arrays } = modules.includes(HEAD) ? untieEmbeddings(model) : model
    const changed = modules.map((module) => `${module}.weight`)
    const base = tensorsOf(changed.map((name) => [name, arrays.get(name)!] as const)) // the adapter fits the config
    const sums = mergeLora(config, base, { config: adapter.config, tensors: tensorsOf(adapter.arrays) })
    const plain = changed.map((name) => {
      const tensor = sums[name]!
      return [name, { shape: [...tensor.shape], data: Float32Array.from(tensor.dataSync()) }] as const
    })
    return { config, arrays: new Map([...arrays, ...plain]) }
  })

/**
 * Merges the adapters of folders into a model, in order.
 *
 * Errors   those of `loadAdapter`.
 * Effects  computes on the tensor backend.
 */
export const mergeAdapters =
  (folders: readonly string[], files: Files) =>
  (model: Weights): TE.TaskEither<ModelFailure, Weights> =>
    folders.reduce<TE.TaskEither<ModelFailure, Weights>>(
      (before, folder) =>
        pipe(
          before,
          TE.chain((base) =>
            pipe(
              loadAdapter(folder, base.config, files),
              TE.map(({ adapter }) => merged(base, adapter)),
            ),
          ),
        ),
      TE.right(model),
    )
