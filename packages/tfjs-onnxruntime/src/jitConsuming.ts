/** Compiled functions that free arguments while they compute results. */
import { flatten, type Tree, type TreeShape, unflatten } from '@tandem-rl/base'
import * as tf from '@tensorflow/tfjs-core'
import { isTensor } from './compiledEntry.js'
import { keyOf, resultTensor, runPlainly } from './jit.js'
import type { RecordingBackend, Traced } from './onnxruntime/backend.js'
import { collect, graphKey, sizeOf, type Value } from './onnxruntime/graph.js'
import type { CompiledGraph } from './onnxruntime/runtime.js'
import { activeRecordingBackend } from './register.js'
import { hasOtherOwner, tensorsOf } from './scope.js'

/** Results that are computed at once. */
interface Part {
  readonly graph: CompiledGraph
  /** The argument of each feed. */
  readonly feeds: readonly number[]
  /** The place of each root among the results. */
  readonly roots: readonly number[]
}

interface Plan {
  readonly backend: RecordingBackend
  readonly shape: TreeShape
  readonly outputs: Traced['outputs']
  readonly parts: readonly Part[]
  /** The last part that reads an argument, by argument. */
  readonly lastUse: ReadonlyMap<number, number>
}

/** A compiled function that frees some of its arguments. */
export interface Consuming<A, B> {
  /** Frees the tensors in `consumed`, except those that a further owner has. */
  (input: A, consumed: unknown): B
  readonly release: () => void
}

/** Elements above which two results that need the same value are computed together. */
const LARGE_ELEMENTS = 2 ** 14

const isLarge = ({ shape }: Value): boolean => sizeOf(shape) > LARGE_ELEMENTS

/** Divides roots into sets that have no large value in common, and one set of those without any. */
const independentRoots = (roots: readonly Value[]): readonly (readonly number[])[] => {
  const sets = new Map<Value, Value>()
  const top = (value: Value): Value => {
    let at = value
    for (let above = sets.get(at); above !== undefined; above = sets.get(at)) at = above
    return at
  }
  const join = (a: Value, b: Value): void => {
    const [one, other] = [top(a), top(b)]
    if (one !== other) sets.set(one, other)
  }
  const { operations } = collect(roots)
  for (const { inputs, outputs } of operations) {
    const large = [...inputs, ...outputs].filter((value): value is Value => value !== null && isLarge(value))
    for (const value of large) join(value, large[0]!)
  }
  const groups = new Map<Value | null, number[]>()
  for (const [i, root] of roots.entries()) {
    const group = isLarge(root) ? top(root) : null
    groups.set(group, [...(groups.get(group) ?? []), i])
  }
  return [...groups.values()]
}

/** Compiles the parts of a recorded function. Equal parts share a graph. */
const compileParts = (
  backend: RecordingBackend,
  { graph, feedParameters }: Traced,
  graphs: Map<string, CompiledGraph>,
): readonly Part[] => {
  const parameterOf = new Map(graph.feeds.map((feed, i) => [feed, feedParameters[i]!]))
  return independentRoots(graph.roots).map((roots) => {
    const part = collect(roots.map((i) => graph.roots[i]!))
    const key = graphKey(part)
    const known = graphs.get(key) ?? backend.compile(part, { memory: 'returned', results: 'device' })
    graphs.set(key, known)
    return { graph: known, feeds: part.feeds.map((feed) => parameterOf.get(feed)!), roots } // all are arguments
  })
}

/**
 * Compiles a pure function of tensors, some of which it frees: the memory of arguments becomes that
 * of results. Results that have no large value in common are computed one after the other, and an
 * argument is freed when no further result needs it.
 *
 * `f` is as in `jit`. On backends that do not record, it runs as it is, and the arguments are freed
 * afterwards.
 *
 * Errors   those of `jit`. If a result cannot be computed, some of the arguments are freed already.
 * Effects  keeps a graph for each different part until `release`.
 * Cost     the memory of arguments and results that one part needs at once.
 *
 * @example
 * const sumOf = jitConsuming(({ a, b }: { readonly a: tf.Tensor; readonly b: tf.Tensor }) => tf.add(a, b))
 * const given = { a: tf.tensor1d([1]), b: tf.tensor1d([2]) }
 * sumOf(given, given.a).dataSync() // [3]
 * given.a.isDisposed // true
 */
export const jitConsuming = <A, B>(f: (input: A) => B): Consuming<A, B> => {
  const graphs = new Map<string, CompiledGraph>()
  let last: { readonly key: string; readonly plan: Plan } | undefined

  const makePlan = (backend: RecordingBackend, shape: TreeShape, leaves: readonly tf.Tensor[]): Plan => {
    let resultShape: TreeShape | undefined
    const traced = backend.trace(
      leaves,
      (inputs) => {
        const result = flatten(f(unflatten(shape, inputs) as A) as Tree<tf.Tensor>, isTensor) // trees by contract
        resultShape = result.shape
        return result.leaves
      },
      'fixed',
    )
    const parts = traced.graph.roots.length === 0 ? [] : compileParts(backend, traced, graphs)
    const lastUse = new Map(parts.flatMap(({ feeds }, part) => feeds.map((feed) => [feed, part] as const)))
    return { backend, shape: resultShape!, outputs: traced.outputs, parts, lastUse }
  }

  const planOf = (
    backend: RecordingBackend,
    input: A,
  ): { readonly plan: Plan; readonly leaves: readonly tf.Tensor[] } => {
    const { shape, leaves } = flatten(input as Tree<tf.Tensor>, isTensor) // a tree by contract
    const key = keyOf({ shape, leaves, axes: [] })
    if (last?.key !== key || last.plan.backend !== backend) last = { key, plan: makePlan(backend, shape, leaves) }
    return { plan: last.plan, leaves }
  }

  const run = (
    { backend, shape, outputs, parts, lastUse }: Plan,
    leaves: readonly tf.Tensor[],
    isFreed: (tensor: tf.Tensor) => boolean,
  ): B => {
    const passed = outputs.map((output): tf.Tensor | undefined =>
      output._tag === 'Parameter' ? tf.reshape(leaves[output.index]!, [...output.shape]) : undefined,
    )
    const computed: tf.Tensor[] = []
    const last = new Map([...lastUse].map(([i, part]) => [leaves[i]!, part] as const).sort(([, a], [, b]) => a - b))
    for (const [at, { graph, feeds, roots }] of parts.entries()) {
      const results = graph.run(feeds.map((i) => backend.feedOf(leaves[i]!)))
      for (const [i, root] of roots.entries()) {
        const output = outputs.find((one) => one._tag === 'Computed' && one.index === root)!
        computed[root] = resultTensor(backend, results[i]!, output.dtype)
      }
      for (const tensor of new Set(feeds.map((i) => leaves[i]!))) {
        if (last.get(tensor) === at && isFreed(tensor)) backend.reclaim(tensor)
      }
    }
    const given = new Set<number>()
    const all = outputs.map((output, i) => {
      if (output._tag === 'Computed') {
        const tensor = computed[output.index]!
        const result = given.has(output.index) ? tf.clone(tensor) : tensor // a handle for each
        given.add(output.index)
        return result
      }
      return (
        passed[i] ??
        backend.adopt((output as Extract<typeof output, { _tag: 'Constant' }>).data, output.shape, output.dtype)
      )
    })
    return unflatten(shape, all) as B // the tree of the results
  }

  const call = (input: A, consumed: unknown): B => {
    const backend = activeRecordingBackend()
    const freed = new Set(tensorsOf(consumed).filter((tensor) => !hasOtherOwner(tensor)))
    const isFreed = (tensor: tf.Tensor): boolean => freed.has(tensor)
    let result: B
    if (backend === undefined) result = runPlainly(f, input) as B
    else {
      const { plan, leaves } = planOf(backend, input)
      result = run(plan, leaves, isFreed)
    }
    for (const tensor of freed) tensor.dispose()
    return result
  }

  return Object.assign(call, {
    release: () => {
      for (const graph of graphs.values()) graph.release()
      graphs.clear()
      last = undefined
    },
  })
}
