/**
 * Compiled tensor functions.
 *
 * On the onnxruntime backend a function is recorded once per combination of input shapes and
 * compiled to a native graph; later calls run none of its JavaScript. On other backends it runs
 * normally.
 */
import { flatten, formatShape, type Tree, unflatten } from '@tandem-rl/base'
import * as tf from '@tensorflow/tfjs-core'
import { type CallArguments, type CompiledEntry, compileEntry, isTensor } from './compiledEntry.js'
import type { RecordingBackend } from './onnxruntime/backend.js'
import type { GraphMemory } from './onnxruntime/graphMemory.js'
import { isOnDevice } from './onnxruntime/library.js'
import type { CompiledGraph, ResultPlace } from './onnxruntime/runtime.js'
import type { AxisNames } from './onnxruntime/symbolic.js'
import { type Prepared, type PreparedArguments, prepareEntry, prepareFunction } from './prepared.js'
import { activeRecordingBackend } from './register.js'
import { scope } from './scope.js'

/** A compiled function of trees of tensors, with a method that frees its graphs. */
export interface Jitted<A, B> {
  (input: A): B
  /**
   * Returns the function for calls with arguments of the structure of `input`, in which arrays in
   * host memory take the places of the tensors `fed` and all others stay what they are. For loops
   * of short calls: nothing is looked up, and no tensors are made.
   *
   * Errors   throws Error if a tensor of `options` is not among the arguments.
   * Effects  the other tensors of `input` must not be freed before `release`, except constants.
   */
  readonly prepare: (input: A, options: PreparedArguments) => Prepared<B>
  /** Frees the compiled graphs. The function still works: it compiles again when called. */
  readonly release: () => void
  /** Returns the number of compiled graphs, one for each combination of input shapes. */
  readonly compiles: () => number
}

const NO_GRAPH: ReturnType<CompiledGraph['run']> = []

/**
 * A tensor argument of a compiled function, with names of its axes of varying size, such as `rows`
 * or `cached + new`, and `null` for the others.
 */
export interface VaryingAxes {
  readonly tensor: tf.Tensor
  readonly axes: AxisNames
}

export interface JitOptions<A> {
  /** The maximum number of graphs, at least 1. Default 32. */
  readonly cacheSize?: number
  /**
   * The maximum number of bytes of the graphs. Above it, least recently used graphs are released.
   * Default 256 MiB.
   */
  readonly cacheBytes?: number
  /**
   * Arguments with axes whose sizes may vary between calls; one graph serves all sizes. Axes with
   * the same name have the same size in a call. `f` may depend on these sizes only through the
   * shapes of its arguments.
   */
  readonly varying?: (input: A) => readonly VaryingAxes[]
  /**
   * Memory of a graph between runs. `automatic` keeps it if that is faster at the sizes of the
   * first call, and memory allows. Default: `automatic`, and kept for a graph with varying sizes.
   */
  readonly memory?: GraphMemory
  /**
   * The place of results on a backend that computes on a device: host memory, to be read, or the
   * device, for the next call. Default `host`.
   */
  readonly results?: ResultPlace
}

/** Creates a tensor of a result of a graph. */
export const resultTensor = (
  backend: RecordingBackend,
  result: ReturnType<CompiledGraph['run']>[number],
  dtype: tf.DataType,
): tf.Tensor =>
  isOnDevice(result) ? backend.adoptResident(result, dtype) : backend.adoptResult(result.data, result.dims, dtype)

const runEntry = (entry: CompiledEntry, leaves: readonly tf.Tensor[]): Tree<tf.Tensor> => {
  const { backend, traced } = entry
  const results = entry.plain()?.run(traced.feedParameters.map((i) => backend.feedOf(leaves[i]!))) ?? NO_GRAPH
  const outputs = traced.outputs.map((output) => {
    switch (output._tag) {
      case 'Computed': {
        return resultTensor(backend, results[output.index]!, output.dtype)
      }
      case 'Parameter':
        return entry.sizes === 'vary'
          ? tf.clone(leaves[output.index]!)
          : tf.reshape(leaves[output.index]!, [...output.shape])
      case 'Constant':
        return backend.adopt(output.data, output.shape, output.dtype)
    }
  })
  return unflatten(entry.shape, outputs)
}

/**
 * Calls the function on a backend that does not record. Results are new handles, so freeing them
 * never frees an argument.
 */
export const runPlainly = <A, B>(f: (input: A) => B, input: A): Tree<tf.Tensor> => {
  const given = new Set(flatten(input as Tree<tf.Tensor>, isTensor).leaves) // a tree by the types of `jit`
  return scope(() => {
    const { shape, leaves } = flatten(f(input) as Tree<tf.Tensor>, isTensor) // likewise
    return unflatten(
      shape,
      leaves.map((leaf) => (given.has(leaf) ? tf.clone(leaf) : leaf)),
    )
  })
}

/**
 * Returns `true` while tfjs records operations for a gradient. It cannot see those in a compiled
 * graph.
 */
const isDifferentiating = (): boolean => tf.engine().isTapeOn()

/**
 * Makes the cache key of a graph: structure of the arguments, types, and sizes that do not vary.
 */
export const keyOf = ({ shape, leaves, axes }: CallArguments): string =>
  formatShape(shape) +
  leaves.map(({ dtype, shape }, i) => `${dtype}[${shape.map((size, axis) => axes[i]?.[axis] ?? size).join()}]`).join('')

/**
 * Compiles a pure function of tensors.
 *
 * `f` maps a tree (records and arrays) of tensors to another. It must not depend on other changing
 * values: captured numbers become constants, random numbers are drawn once, and reading a value is
 * an error. Compute gradients inside `f`: if a gradient is computed around a call, `f` runs
 * uncompiled so that the gradient can pass through it.
 *
 * Errors   throws RangeError if `cacheSize` is below 1. Calls throw if `f` closes over a tensor,
 *          reads a value, or uses a kernel without an ONNX form.
 * Effects  keeps at most `cacheSize` native graphs of about `cacheBytes`; evicts the least recently
 *          used.
 * Cost     the first call for a combination of shapes compiles (tens to hundreds of milliseconds);
 *          later calls only run.
 *
 * @example
 * const norm = jit(({ x }: { x: tf.Tensor }) => ({ y: tf.sqrt(tf.sum(tf.square(x))) }))
 * norm({ x: tf.tensor1d([3, 4]) }).y.dataSync() // [5]
 * const product = jit(({ x, w }: { x: tf.Tensor; w: tf.Tensor }) => tf.matMul(x, w))
 * const given = { x: tf.zeros([1, 2]), w: tf.tensor2d([[2], [1]]) }
 * const withWeights = product.prepare(given, { fed: [given.x], constants: [given.w] })
 * withWeights([{ data: Float32Array.of(3, 4), shape: [1, 2] }]).data // [10]
 */
export const jit = <A, B>(f: (input: A) => B, options: JitOptions<A> = {}): Jitted<A, B> => {
  const { cacheSize = 32, cacheBytes = 256 * 2 ** 20, varying, memory, results = 'host' } = options
  if (!(cacheSize >= 1)) throw new RangeError(`jit: cacheSize must be at least 1, got ${cacheSize}`)
  const entries = new Map<string, CompiledEntry>()
  let compiles = 0

  const dropOldest = (): void => {
    let bytes = [...entries.values()].reduce((sum, entry) => sum + entry.ownBytes(), 0)
    for (const [key, entry] of entries) {
      if (entries.size <= 1 || (entries.size <= cacheSize && bytes <= cacheBytes)) return
      bytes -= entry.ownBytes()
      entries.delete(key)
      entry.release()
    }
  }

  /** Returns the arguments of a call, with the names of their varying axes. */
  const argumentsOf = (input: A): CallArguments => {
    const { shape, leaves } = flatten(input as Tree<tf.Tensor>, isTensor) // a tree by the types of `jit`
    const named = new Map(varying?.(input).map(({ tensor, axes }) => [tensor, axes]))
    return { shape, leaves, axes: leaves.map((leaf) => named.get(leaf)) }
  }

  const lookUp = (backend: RecordingBackend, given: CallArguments): CompiledEntry => {
    const key = keyOf(given)
    const known = entries.get(key)
    if (known !== undefined && known.backend === backend) {
      entries.delete(key) // moves the entry to the end of the insertion order
      entries.set(key, known)
      return known
    }
    entries.delete(key) // of another backend
    known?.release()
    const entry = compileEntry(backend, { f, memory, results }, given)
    compiles++
    entries.set(key, entry)
    dropOldest()
    return entry
  }

  /** Calls the graph of the arguments. If nothing is compiled, it runs `f`. */
  const call = (input: A): B => {
    const backend = activeRecordingBackend()
    if (backend === undefined) return runPlainly(f, input) as B
    if (backend.isTracing() || isDifferentiating()) return f(input) // part of a larger compiled function or of a gradient
    const given = argumentsOf(input)
    return runEntry(lookUp(backend, given), given.leaves) as B
  }

  const prepare: Jitted<A, B>['prepare'] = (input, prepareOptions) => {
    const backend = activeRecordingBackend()
    const given = argumentsOf(input)
    return backend === undefined
      ? prepareFunction(f, given, prepareOptions)
      : prepareEntry(lookUp(backend, given), given, prepareOptions)
  }

  return Object.assign(call, {
    prepare,
    release: () => {
      for (const entry of entries.values()) entry.release()
      entries.clear()
    },
    compiles: () => compiles,
  })
}

/**
 * Creates a tensor over `data`, without a copy if the backend allows it.
 *
 * The caller must not write to `data` until the tensor is disposed and all operations recorded on
 * it have run. Use it for buffers that a loop updates between calls of a compiled function, such as
 * a KV cache.
 *
 * Errors   throws RangeError if the number of elements does not fit the shape.
 */
export const adoptTensor = (
  data: Float32Array | Int32Array,
  shape: readonly number[],
  dtype: 'float32' | 'int32',
): tf.Tensor => activeRecordingBackend()?.adopt(data, shape, dtype) ?? tf.tensor(data, [...shape], dtype)
