/**
 * Compiled functions for loops of short calls: arguments and results are arrays in host memory.
 */
import { flatten, type HostArray, type Tree, unflatten } from '@tandem-rl/base'
import * as tf from '@tensorflow/tfjs-core'
import { type CallArguments, type CompiledEntry, isTensor } from './compiledEntry.js'
import { type DeviceTensor, isOnDevice, type OnnxArray, type OnnxTensor } from './onnxruntime/library.js'
import type { CompiledGraph, Feed } from './onnxruntime/runtime.js'
import { scope } from './scope.js'

/** A tree of tensors with arrays in place of the tensors. */
export type Hosted<T> = T extends tf.Tensor ? HostArray : { readonly [K in keyof T]: Hosted<T[K]> }

export interface PreparedArguments {
  /** The arguments that every call gives anew. */
  readonly fed: readonly tf.Tensor[]
  /**
   * Arguments that become constants of the graph. onnxruntime prepares constants once, which
   * reduces the time of products of few rows with a large matrix to 50-90 %. They may be freed
   * afterwards, because the graph holds copies. Compiling takes about the time of 50 products of
   * each matrix with 16 rows; until `release`, constants take their memory twice. Default: none.
   */
  readonly constants?: readonly tf.Tensor[]
}

/** A compiled function of the arguments that `fed` lists, in their order. */
export interface Prepared<B> {
  /**
   * Shapes   those of the tensors that were fed, except where sizes vary.
   * Errors   throws Error for another number of arrays, and what the graph throws for other shapes;
   *          TypeError for a result that is neither float32 nor int32.
   */
  (fed: readonly HostArray[]): Hosted<B>
  /** Frees the graph if it has constants. Do not call the function afterwards. */
  readonly release: () => void
}

const placesOf = ({ leaves }: CallArguments, tensors: readonly tf.Tensor[]): readonly number[] => {
  const places = tensors.map((tensor) => leaves.indexOf(tensor))
  if (places.includes(-1)) throw new Error('prepare: a tensor of the options is not among the arguments')
  return places
}

const checkCount = (given: readonly HostArray[], wanted: readonly number[]): void => {
  if (given.length !== wanted.length) throw new Error(`prepare: ${given.length} arrays given, ${wanted.length} needed`)
}

/** Finds a result of the function, given the results of its graph and the fed arrays. */
type Reader = (results: ReturnType<CompiledGraph['run']>, arrays: readonly HostArray[]) => HostArray

const numbersOf = (array: OnnxArray): HostArray['data'] => {
  if (array instanceof Float32Array || array instanceof Int32Array) return array
  throw new TypeError('prepare: arguments and results must be float32 or int32')
}

const hostArray = (result: OnnxTensor | DeviceTensor): HostArray => {
  if (isOnDevice(result)) throw new Error('prepare: a result was left on the device')
  return { data: numbersOf(result.data), shape: result.dims }
}

/** Prepares a recorded function. */
export const prepareEntry = <B>(
  entry: CompiledEntry,
  given: CallArguments,
  { fed, constants = [] }: PreparedArguments,
): Prepared<B> => {
  const { backend, traced } = entry
  const places = placesOf(given, fed)
  const bound = new Map(placesOf(given, constants).map((i) => [i, given.leaves[i]!]))
  for (const [i, leaf] of given.leaves.entries()) if (!places.includes(i) && !bound.has(i)) backend.share(leaf)
  const withConstants: CompiledGraph | undefined = bound.size === 0 ? undefined : entry.compile(bound)
  /** Of each feed of the graph: the tensor that stays, or its place among the fed ones. */
  const sources = traced.feedParameters
    .filter((parameter) => !bound.has(parameter))
    .map((parameter): Feed | number => {
      const place = places.indexOf(parameter)
      return place >= 0 ? place : backend.feedOf(given.leaves[parameter]!)
    })
  const readers = traced.outputs.map((output): Reader => {
    switch (output._tag) {
      case 'Computed':
        return (results) => hostArray(results[output.index]!)
      case 'Parameter': {
        const place = places.indexOf(output.index)
        const fixed = place >= 0 ? undefined : numbersOf(backend.arrayOf(given.leaves[output.index]!))
        if (fixed !== undefined) return () => ({ data: fixed, shape: output.shape })
        return (_, arrays) => (entry.sizes === 'vary' ? arrays[place]! : { ...arrays[place]!, shape: output.shape })
      }
      case 'Constant': {
        const data = numbersOf(output.data)
        return () => ({ data, shape: output.shape })
      }
    }
  })
  const run = (arrays: readonly HostArray[]): Hosted<B> => {
    checkCount(arrays, places)
    const graph = bound.size === 0 ? entry.plain() : withConstants
    const results = graph?.run(sources.map((source) => (typeof source === 'number' ? arrays[source]! : source))) ?? []
    const outputs = readers.map((read) => read(results, arrays))
    return unflatten(entry.shape, outputs) as Hosted<B> // the tree of the results
  }
  return Object.assign(run, { release: () => withConstants?.release() })
}

/** Prepares a function on a backend that does not record: every call runs it. */
export const prepareFunction = <A, B>(
  f: (input: A) => B,
  given: CallArguments,
  { fed, constants = [] }: PreparedArguments,
): Prepared<B> => {
  const places = placesOf(given, fed)
  placesOf(given, constants)
  const run = (arrays: readonly HostArray[]): Hosted<B> => {
    checkCount(arrays, places)
    const results = scope((): Tree<HostArray> => {
      const leaves = [...given.leaves]
      for (const [i, place] of places.entries()) {
        const { data, shape } = arrays[i]!
        leaves[place] = tf.tensor(data.slice(), [...shape], leaves[place]!.dtype)
      }
      const input = unflatten(given.shape, leaves) as A // the tree of the arguments
      const result = flatten(f(input) as Tree<tf.Tensor>, isTensor) // a tree by the types of `jit`
      const outputs = result.leaves.map((x): HostArray => {
        const data = numbersOf(x.dataSync() as OnnxArray) // a typed array: strings are no results of `jit`
        return { data, shape: x.shape }
      })
      return unflatten(result.shape, outputs)
    })
    return results as Hosted<B> // likewise
  }
  return Object.assign(run, { release: () => {} })
}
