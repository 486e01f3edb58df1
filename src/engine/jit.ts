/**
 * Compiled tensor functions.
 *
 * On the onnxruntime backend a function is recorded once per combination of input shapes, compiled to one native graph,
 * and from then on called without running any of its JavaScript. On other backends it simply runs.
 */
import * as tf from '@tensorflow/tfjs'
import { flatten, formatShape, type Tree, type TreeShape, unflatten } from '../core/tree.js'
import type { RecordingBackend, Traced } from './onnxruntime/backend.js'
import type { OnnxTensor } from './onnxruntime/binding.js'
import { activeRecordingBackend } from './onnxruntime/register.js'
import type { CompiledGraph, GraphMemory } from './onnxruntime/runtime.js'
import { type AxisNames, axisNames, recordingShapes, unify } from './onnxruntime/symbolic.js'
import { scope } from './scope.js'

export const isTensor = (value: unknown): value is tf.Tensor => value instanceof tf.Tensor

interface Entry {
  readonly backend: RecordingBackend
  readonly traced: Traced
  readonly compiled: CompiledGraph | undefined
  readonly shape: TreeShape
  /** Whether one graph serves several sizes. */
  readonly sizes: 'fixed' | 'vary'
}

/** A function of trees of tensors, with a way to free what it compiled. */
export interface Jitted<A, B> {
  (input: A): B
  /** Frees the compiled graphs. The function still works: it compiles again when called. */
  readonly release: () => void
  /** How many graphs have been compiled, one for each combination of input shapes. */
  readonly compiles: () => number
}

const NO_GRAPH: readonly OnnxTensor[] = []

/** A tensor among the arguments of a compiled function with the names of its axes whose sizes may vary, such as `rows` or `cached + new`; null for the others. */
export interface VaryingAxes {
  readonly tensor: tf.Tensor
  readonly axes: AxisNames
}

export interface JitOptions<A> {
  /** Graphs kept, at least 1. Default 32. */
  readonly cacheSize?: number
  /**
   * Arguments with axes whose sizes may vary from call to call: one graph serves all of them. Axes of one name have one size in a call.
   * What `f` does may depend on such sizes only through the shapes of its arguments.
   */
  readonly varying?: (input: A) => readonly VaryingAxes[]
  /** What a graph does with its memory between runs: `kept` (default) is faster where graphs are small, `returned` takes much less where they are large. */
  readonly memory?: GraphMemory
}

/** Leaves of one call with the names of their varying axes. */
interface Arguments {
  readonly shape: TreeShape
  readonly leaves: readonly tf.Tensor[]
  readonly axes: readonly (AxisNames | undefined)[]
}

/** A result that is an argument or a constant must not depend on a varying size: nothing computes it anew. */
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

const compileEntry = <A, B>(
  backend: RecordingBackend,
  { f, memory }: { readonly f: (input: A) => B; readonly memory: GraphMemory },
  { shape, leaves, axes }: Arguments,
): Entry => {
  let resultShape: TreeShape | undefined
  const names = axisNames(axes)
  const shapesOf = (which: 0 | 1): readonly number[][] =>
    leaves.map(({ shape }, i) => [...recordingShapes(shape, axes[i] ?? [], names)[which]])
  const record = (which: 0 | 1): Traced => {
    const shapes = shapesOf(which)
    const parameters = leaves.map(({ dtype }, i) => ({ dtype, shape: shapes[i]! }))
    return backend.trace(parameters, (inputs) => {
      const result = flatten(f(unflatten(shape, inputs) as A) as Tree<tf.Tensor>, isTensor) // trees by the types of `jit`
      resultShape = result.shape
      return result.leaves
    })
  }
  const traced = record(0)
  const second = names.length === 0 ? undefined : record(1)
  if (second !== undefined) checkPassedThrough(traced, second, shapesOf(0))
  const compile = (): CompiledGraph => {
    if (second === undefined) return backend.compile(traced.graph, { memory })
    const { graph, shapes } = unify(traced.graph, second.graph)
    return backend.compile(graph, { open: shapes, memory })
  }
  return {
    backend,
    traced,
    compiled: traced.graph.roots.length > 0 ? compile() : undefined,
    shape: resultShape!,
    sizes: names.length === 0 ? 'fixed' : 'vary',
  }
}

const runEntry = (entry: Entry, leaves: readonly tf.Tensor[]): Tree<tf.Tensor> => {
  const { backend, traced, compiled } = entry
  const feeds = traced.feedParameters.map((i) => ({ data: backend.arrayOf(leaves[i]!), shape: leaves[i]!.shape }))
  const results = compiled?.run(feeds) ?? NO_GRAPH
  const outputs = traced.outputs.map((output) => {
    switch (output._tag) {
      case 'Computed': {
        const { data, dims } = results[output.index]!
        return backend.adopt(data, dims, output.dtype)
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

/** On a backend that does not record. The results are new handles here too: freeing them never frees an argument. */
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

/** Whether tfjs now watches every operation for a gradient. It does not see those inside a compiled graph. */
const isDifferentiating = (): boolean => tf.engine().isTapeOn()

/** Equal keys, one graph: the structure of the arguments, types, and the sizes that may not vary. */
const keyOf = ({ shape, leaves, axes }: Arguments): string =>
  formatShape(shape) +
  leaves.map(({ dtype, shape }, i) => `${dtype}[${shape.map((size, axis) => axes[i]?.[axis] ?? size).join()}]`).join('')

/**
 * Compiles a pure function of tensors.
 *
 * `f` takes a tree (records and arrays) of tensors and returns one. It must depend on nothing else that changes: numbers
 * that it closes over become constants, random numbers are drawn once, and reading a value inside it is an error. Gradients
 * are best taken inside `f`: while one is taken around a call, `f` runs uncompiled, so that the gradient passes through it.
 *
 * Errors   throws RangeError if `cacheSize` is below 1. Calls throw if `f` closes over a tensor, reads a value, or uses a
 *          kernel without an ONNX form.
 * Effects  keeps at most `cacheSize` native graphs, the least recently used goes first.
 * Cost     the first call for a combination of shapes compiles (tens to hundreds of milliseconds); later calls only run.
 *
 * @example
 * const norm = jit(({ x }: { x: tf.Tensor }) => ({ y: tf.sqrt(tf.sum(tf.square(x))) }))
 * norm({ x: tf.tensor1d([3, 4]) }).y.dataSync() // [5]
 */
export const jit = <A, B>(f: (input: A) => B, options: JitOptions<A> = {}): Jitted<A, B> => {
  const { cacheSize = 32, varying, memory = 'kept' } = options
  if (!(cacheSize >= 1)) throw new RangeError(`jit: cacheSize must be at least 1, got ${cacheSize}`)
  const entries = new Map<string, Entry>()
  let compiles = 0

  const lookUp = (backend: RecordingBackend, given: Arguments): Entry => {
    const key = keyOf(given)
    const known = entries.get(key)
    if (known !== undefined && known.backend === backend) {
      entries.delete(key) // moves the entry to the young end of the insertion order
      entries.set(key, known)
      return known
    }
    entries.delete(key) // of another backend
    known?.compiled?.release()
    const entry = compileEntry(backend, { f, memory }, given)
    compiles++
    entries.set(key, entry)
    if (entries.size > cacheSize) {
      const [oldestKey, oldest] = entries.entries().next().value!
      entries.delete(oldestKey)
      oldest.compiled?.release()
    }
    return entry
  }

  const call = (input: A): B => {
    const backend = activeRecordingBackend()
    if (backend === undefined) return runPlainly(f, input) as B
    if (backend.isTracing() || isDifferentiating()) return f(input) // part of a larger compiled function or of a gradient
    const { shape, leaves } = flatten(input as Tree<tf.Tensor>, isTensor) // a tree by the types of `jit`
    const named = new Map(varying?.(input).map(({ tensor, axes }) => [tensor, axes]))
    return runEntry(lookUp(backend, { shape, leaves, axes: leaves.map((leaf) => named.get(leaf)) }), leaves) as B
  }

  return Object.assign(call, {
    release: () => {
      for (const entry of entries.values()) entry.compiled?.release()
      entries.clear()
    },
    compiles: () => compiles,
  })
}

/**
 * A tensor over `data` without a copy where the backend allows it.
 *
 * The caller must not write to `data` before the tensor is disposed and everything recorded on it has run: this is for
 * buffers that a loop updates between calls of a compiled function, such as a key-value cache.
 *
 * Errors   throws RangeError if the number of elements does not fit the shape.
 */
export const adoptTensor = (
  data: Float32Array | Int32Array,
  shape: readonly number[],
  dtype: 'float32' | 'int32',
): tf.Tensor => activeRecordingBackend()?.adopt(data, shape, dtype) ?? tf.tensor(data, [...shape], dtype)
