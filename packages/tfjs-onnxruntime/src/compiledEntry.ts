/** A function recorded as a graph for arguments of one structure, and its compiled forms. */
import { flatten, type Tree, type TreeShape, unflatten } from '@tandem-rl/base'
import * as tf from '@tensorflow/tfjs-core'
import type { RecordingBackend, Traced } from './onnxruntime/backend.js'
import type { Graph } from './onnxruntime/graph.js'
import { type GraphMemory, type RunBytes, runBytes } from './onnxruntime/graphMemory.js'
import type { GraphSizes } from './onnxruntime/rule.js'
import type { CompiledGraph, ResultPlace } from './onnxruntime/runtime.js'
import { type AxisNames, axisNames, recordingShapes, unify } from './onnxruntime/symbolic.js'

export const isTensor = (value: unknown): value is tf.Tensor => value instanceof tf.Tensor

/** A function recorded for arguments of one structure, with their types and sizes. */
export interface CompiledEntry {
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
  readonly sizes: GraphSizes
}

/** Leaves of one call with the names of their varying axes. */
export interface CallArguments {
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

/** Records a function for arguments of this structure. */
export const compileEntry = <A, B>(
  backend: RecordingBackend,
  { f, ...kept }: CompiledFunction<A, B>,
  { shape, leaves, axes }: CallArguments,
): CompiledEntry => {
  let resultShape: TreeShape | undefined
  const names = axisNames(axes)
  const sizes = names.length === 0 ? 'fixed' : 'vary'
  const specs = leaves.map(({ dtype, shape }, i) => ({ dtype, shapes: recordingShapes(shape, axes[i] ?? [], names) }))
  const shapesOf = (which: 0 | 1): number[][] => specs.map(({ shapes }) => [...shapes[which]])
  const record = (shapes: readonly number[][]): Traced => {
    const parameters = shapes.map((sizes, i) => ({ dtype: specs[i]!.dtype, shape: sizes }))
    const leavesOf = (inputs: readonly tf.Tensor[]): readonly tf.Tensor[] => {
      const result = flatten(f(unflatten(shape, inputs) as A) as Tree<tf.Tensor>, isTensor) // trees by the types of `jit`
      resultShape = result.shape
      return result.leaves
    }
    return backend.trace(parameters, leavesOf, sizes)
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
  let firstBytes: RunBytes | undefined
  /** Returns the bytes at the sizes of the first call, if they decide on an open graph's memory. */
  const openBytes = (): RunBytes | undefined => {
    if (names.length === 0 || kept.memory !== 'automatic') return undefined
    firstBytes ??= runBytes(record(given).graph)
    return firstBytes
  }
  const recordAgain = (): Graph => recordGraph().graph // outside `compile`, so that no closure retains the first graph
  const compile: CompiledEntry['compile'] = (bound) => {
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
      plain ??= compile(new Map())
      return plain
    },
    release: () => {
      plain?.release()
      plain = undefined
    },
    ownBytes: () => plain?.ownBytes ?? 0,
    shape: resultShape!,
    sizes,
  }
}
