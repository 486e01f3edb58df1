/**
 * Compiled tensor functions.
 *
 * On the onnxruntime backend a function is recorded once per combination of input shapes and
 * compiled to a native graph; later calls run none of its JavaScript. On other backends it runs
 * normally.
 */
import * as tf from '@tensorflow/tfjs-core'
import { flatten, formatShape, type Tree, type TreeShape, unflatten } from '../core/tree.js'
import type { RecordingBackend, Traced } from './onnxruntime/backend.js'
import type { Graph } from './onnxruntime/graph.js'
import { type GraphMemory, type RunBytes, runBytes } from './onnxruntime/graphMemory.js'
import { isOnDevice } from './onnxruntime/library.js'
import type { CompiledGraph, ResultPlace } from './onnxruntime/runtime.js'
import { type AxisNames, axisNames, recordingShapes, unify } from './onnxruntime/symbolic.js'
import { activeRecordingBackend } from './register.js'
import { scope } from './scope.js'

export const isTensor = (value: unknown): value is tf.Tensor => value instanceof tf.Tensor

/** A function recorded for arguments of one structure, with their types and sizes. */
interface Entry {
  readonly backend: RecordingBackend
  readonly traced: Pick<Traced, 'feedParameters' | 'outputs'>
  /**
   * Compiles the graph with these arguments as constants. Returns undefined if no result needs
   * computing.
   */
  readonly compile: (bound: ReadonlyMap<number, tf.Tensor>) => CompiledGraph | undefined
  /** Returns the graph without constant arguments, compiled on first use. */
  readonly plain: () => CompiledGraph | undefined
  readonly release: () => void
  /** Returns the bytes of the compiled graph. */
  readonly ownBytes: () => number
  readonly shape: TreeShape
  /** `vary` if one graph serves several sizes. */
  readonly sizes: 'fixed' | 'vary'
}

/** A compiled function with some arguments as constants. */
export interface Bound<A, B> {
  /**
   * Errors   throws Error unless the constant tensors are among the arguments, in the places of the
   *          first call.
   */
  (input: A): B
  /** Frees the graphs with the constants. Do not call the function afterwards. */
  readonly release: () => void
}

/** A compiled function of trees of tensors, with a method that frees its graphs. */
export interface Jitted<A, B> {
  (input: A): B
  /**
   * Returns the function with `tensors`, which must be among the arguments of every call, as
   * constants of its graphs. onnxruntime prepares constants once, which reduces the time of
   * products of few rows with a large matrix to 50-90 %. The tensors may be freed after the first
   * call of each structure and size, because graphs hold copies.
   *
   * Cost     a graph is compiled at the first call, in about the time of 50 products of each matrix
   *          with 16 rows; until `release`, its constants take their memory twice.
   */
  readonly bind: (tensors: readonly tf.Tensor[]) => Bound<A, B>
  /** Frees the compiled graphs. The function still works: it compiles again when called. */
  readonly release: () => void
  /** Returns the number of compiled graphs, one for each combination of input shapes. */
  readonly compiles: () => number
}

const NO_GRAPH: ReturnType<CompiledGraph['run']> = []

/** Parameters that are constants, by their index among the leaves of the arguments. */
const NOTHING_BOUND: ReadonlyMap<number, tf.Tensor> = new Map()

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

/** Leaves of one call with the names of their varying axes. */
interface Arguments {
  readonly shape: TreeShape
  readonly leaves: readonly tf.Tensor[]
  readonly axes: readonly (AxisNames | undefined)[]
}

/**
 * Rejects results that are arguments or constants and depend on a varying size, because they are
 * not recomputed.
 */
const checkPassedThrough = (first: Traced, second: Traced, given: readonly (readonly number[])[]): void => {
  for (const [i, output] of first.outputs.entries()) {
    if (output._tag === 'Computed') continue
    const expected = output._tag === 'Parameter' ? given[output.index]! : second.outputs[i]!.shape
    if (output.shape.join() !== expected.join()) {
      const what = output._tag === 'Constant' ? 'a constant' : 'a reshaped argument'
      throw new Error(`jit: result ${i} is ${what} of varying size`)
    }
  }
}

interface CompiledFunction<A, B> {
  readonly f: (input: A) => B
  readonly memory: GraphMemory | undefined
  readonly results: ResultPlace
}

const compileEntry = <A, B>(
  backend: RecordingBackend,
  { f, ...kept }: CompiledFunction<A, B>,
  { shape, leaves, axes }: Arguments,
): Entry => {
  let resultShape: TreeShape | undefined
  const names = axisNames(axes)
  const specs = leaves.map(({ dtype, shape }, i) => ({ dtype, shapes: recordingShapes(shape, axes[i] ?? [], names) }))
  const shapesOf = (which: 0 | 1): number[][] => specs.map(({ shapes }) => [...shapes[which]])
  const record = (shapes: readonly number[][]): Traced => {
    const parameters = shapes.map((sizes, i) => ({ dtype: specs[i]!.dtype, shape: sizes }))
    return backend.trace(parameters, (inputs) => {
      const result = flatten(f(unflatten(shape, inputs) as A) as Tree<tf.Tensor>, isTensor) // trees by the types of `jit`
      resultShape = result.shape
      return result.leaves
    })
  }
  const recordGraph = () => {
    const traced = record(shapesOf(0))
    const second = names.length === 0 ? undefined : record(shapesOf(1))
    if (second !== undefined) checkPassedThrough(traced, second, shapesOf(0))
    const unified = second === undefined ? undefined : unify(traced.graph, second.graph)
    return { traced, graph: unified?.graph ?? traced.graph, open: unified?.shapes }
  }
  let recorded: ReturnType<typeof recordGraph> | undefined = recordGraph()
  const { outputs, feedParameters } = recorded.traced
  const isComputed = recorded.graph.roots.length > 0
  /**
   * Returns the recorded graph once, then records again: most graphs compile once, and records are
   * large.
   */
  const takeGraph = (): ReturnType<typeof recordGraph> => {
    const taken = recorded ?? recordGraph()
    recorded = undefined
    return taken
  }
  const given = leaves.map(({ shape }) => [...shape])
  /** Returns the bytes at the sizes of the first call, if they decide on an open graph's memory. */
  const openBytes = (): RunBytes | undefined =>
    names.length > 0 && kept.memory === 'automatic' ? runBytes(record(given).graph) : undefined
  const recordAgain = (): Graph => recordGraph().graph // outside `compile`, so that no closure retains the first graph
  const compile: Entry['compile'] = (bound) => {
    if (!isComputed) return undefined
    const { graph, open } = takeGraph()
    const values = new Map(
      feedParameters.flatMap((parameter, i) => {
        const tensor = bound.get(parameter)
        return tensor === undefined ? [] : [[graph.feeds[i]!, backend.arrayOf(tensor)] as const]
      }),
    )
    const bytes = openBytes()
    const { memory = 'automatic', results } = kept
    return backend.compile(graph, {
      memory,
      results,
      values,
      ...(open && { open }),
      ...(bytes && { bytes }),
      recordAgain,
    })
  }
  let plain: CompiledGraph | undefined
  return {
    backend,
    traced: { feedParameters, outputs },
    compile,
    plain: () => {
      plain ??= compile(NOTHING_BOUND)
      return plain
    },
    release: () => {
      plain?.release()
      plain = undefined
    },
    ownBytes: () => plain?.ownBytes ?? 0,
    shape: resultShape!,
    sizes: names.length === 0 ? 'fixed' : 'vary',
  }
}

/** A graph, with the parameters that are constants in it. */
interface Runnable {
  readonly compiled: CompiledGraph | undefined
  readonly bound: ReadonlyMap<number, tf.Tensor>
}

const runEntry = (entry: Entry, { compiled, bound }: Runnable, leaves: readonly tf.Tensor[]): Tree<tf.Tensor> => {
  const { backend, traced } = entry
  const feeds = traced.feedParameters.flatMap((i) => (bound.has(i) ? [] : [backend.feedOf(leaves[i]!)]))
  const results = compiled?.run(feeds) ?? NO_GRAPH
  const outputs = traced.outputs.map((output) => {
    switch (output._tag) {
      case 'Computed': {
        const result = results[output.index]!
        return isOnDevice(result)
          ? backend.adoptResident(result, output.dtype)
          : backend.adopt(result.data, result.dims, output.dtype)
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
const runPlainly = <A, B>(f: (input: A) => B, input: A): Tree<tf.Tensor> => {
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
const keyOf = ({ shape, leaves, axes }: Arguments): string =>
  formatShape(shape) +
  leaves.map(({ dtype, shape }, i) => `${dtype}[${shape.map((size, axis) => axes[i]?.[axis] ?? size).join()}]`).join('')

const MOVED = 'jit: a tensor that is bound is not among the arguments, where it was when the graph was compiled'

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
 * const w = tf.tensor2d([[2], [1]])
 * const withWeights = product.bind([w])
 * withWeights({ x: tf.tensor2d([[3, 4]]), w }).dataSync() // [10]
 */
export const jit = <A, B>(f: (input: A) => B, options: JitOptions<A> = {}): Jitted<A, B> => {
  const { cacheSize = 32, cacheBytes = 256 * 2 ** 20, varying, memory, results = 'host' } = options
  if (!(cacheSize >= 1)) throw new RangeError(`jit: cacheSize must be at least 1, got ${cacheSize}`)
  const entries = new Map<string, Entry>()
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

  const lookUp = (backend: RecordingBackend, given: Arguments): Entry => {
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

  /** Returns a function that calls the graphs of `graphOf`. If nothing is compiled, it runs `f`. */
  const calling =
    (graphOf: (entry: Entry, leaves: readonly tf.Tensor[]) => Runnable) =>
    (input: A): B => {
      const backend = activeRecordingBackend()
      if (backend === undefined) return runPlainly(f, input) as B
      if (backend.isTracing() || isDifferentiating()) return f(input) // part of a larger compiled function or of a gradient
      const { shape, leaves } = flatten(input as Tree<tf.Tensor>, isTensor) // a tree by the types of `jit`
      const named = new Map(varying?.(input).map(({ tensor, axes }) => [tensor, axes]))
      const entry = lookUp(backend, { shape, leaves, axes: leaves.map((leaf) => named.get(leaf)) })
      return runEntry(entry, graphOf(entry, leaves), leaves) as B
    }

  const bind: Jitted<A, B>['bind'] = (tensors) => {
    const wanted = new Set(tensors)
    const graphs = new Map<Entry, Runnable>()
    const call = calling((entry, leaves) => {
      const known = graphs.get(entry)
      if (known !== undefined) {
        for (const [i, tensor] of known.bound) if (leaves[i] !== tensor) throw new Error(MOVED)
        return known
      }
      const bound = new Map(leaves.flatMap((leaf, i) => (wanted.has(leaf) ? [[i, leaf] as const] : [])))
      if (new Set(bound.values()).size < wanted.size) throw new Error(MOVED)
      const made = { compiled: entry.compile(bound), bound }
      graphs.set(entry, made)
      return made
    })
    return Object.assign(call, {
      release: () => {
        for (const { compiled } of graphs.values()) compiled?.release()
        graphs.clear()
      },
    })
  }

  return Object.assign(
    calling((entry) => ({ compiled: entry.plain(), bound: NOTHING_BOUND })),
    {
      bind,
      release: () => {
        for (const entry of entries.values()) entry.release()
        entries.clear()
      },
      compiles: () => compiles,
    },
  )
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
