/** Compiles graphs to onnxruntime sessions, caches and runs them, and collects statistics. */

import {
  collect,
  encodeModel,
  type FeedValues,
  type Graph,
  graphKey,
  type OpenShapes,
  sizeOf,
  type Value,
} from './graph.js'
import { type GraphMemory, keepsMemory, keptBytes, runBytes } from './graphMemory.js'
import { makeArray, type OnnxArray, type OnnxRuntime, type OnnxSession, type OnnxTensor } from './library.js'
import { kernelError, type StackMode, withoutTensors } from './origin.js'

export interface RuntimeOptions {
  /** The number of threads inside one operation. Default 2, or 1 on a machine with one core. */
  readonly threads: number
  /**
   * Lets idle worker threads spin, which is faster but wastes CPU time if other programs need the
   * cores.
   */
  readonly spinning: 'on' | 'off'
  /**
   * The maximum number of compiled graphs kept for reuse. The least recently used one is released
   * first.
   */
  readonly cacheSize: number
  /**
   * The maximum number of bytes that graphs with large values keep between runs. Default: a quarter
   * of the memory.
   */
  readonly keptBytes: number
  /** Default `all`. Lower levels compile faster and run slower. */
  readonly optimization: OptimizationLevel
  /** Default `on`: errors include the location where the failing operation was recorded. */
  readonly stacks: StackMode
}

/** The extent to which onnxruntime rewrites a graph before it runs it. */
type OptimizationLevel = 'disabled' | 'basic' | 'extended' | 'all'

/** Statistics of the backend. Times in milliseconds. */
export interface EngineStats {
  readonly compiles: number
  readonly cacheHits: number
  readonly runs: number
  /**
   * The number of times that each kernel without an ONNX form ran on the cpu backend, by kernel
   * name.
   */
  readonly fallbacks: Readonly<Record<string, number>>
  readonly compileMs: number
  readonly runMs: number
  readonly cachedSessions: number
  /** Number of live compiled graphs, and the approximate bytes they hold between runs. */
  readonly graphs: number
  readonly heldBytes: number
  /** The bytes of all arrays passed to runs, and of all results. */
  readonly bytesIn: number
  readonly bytesOut: number
}

/** The data of one feed of a graph. */
interface Feed {
  readonly data: OnnxArray
  readonly shape: readonly number[]
}

/** A graph that is ready to run. */
export interface CompiledGraph {
  readonly run: (feeds: readonly Feed[]) => readonly OnnxTensor[]
  /** Approximate bytes of the graph, without the memory of its values. */
  readonly ownBytes: number
  readonly release: () => void
}

interface CompileOptions {
  /**
   * Records the graph again, to explain an error of a run. Default: that data is kept, 3 kB per
   * operation.
   */
  readonly recordAgain?: () => Graph
  /** With open shapes the graph runs at any size of the axes that are null there. */
  readonly open?: OpenShapes
  /** Default `automatic`. */
  readonly memory?: GraphMemory
  /**
   * Feeds that become constants of the graph, which onnxruntime prepares once. A run receives only
   * the others.
   */
  readonly values?: FeedValues
}

interface MemoryPlan {
  readonly mode: 'kept' | 'returned'
  /** Bytes held between runs. */
  readonly bytes: number
}

export interface Runtime {
  readonly stacks: StackMode
  readonly version: string
  readonly threads: number
  readonly compile: (graph: Graph, options?: CompileOptions) => CompiledGraph
  /** Computes every value of `roots` that has no data yet. */
  readonly compute: (roots: readonly Value[]) => void
  readonly countFallback: (kernel: string) => void
  readonly stats: () => EngineStats
  readonly release: () => void
}

/**
 * Number of elements in the largest value below which a graph runs on one thread, because waking
 * another would cost more.
 */
const SMALL_ELEMENTS = 16384

const graphCost = (graph: Graph): 'small' | 'large' =>
  graph.operations.every((operation) => operation.outputs.every((o) => sizeOf(o.shape) <= SMALL_ELEMENTS)) &&
  graph.feeds.every((feed) => sizeOf(feed.shape) <= SMALL_ELEMENTS)
    ? 'small'
    : 'large'

/** Keeps the data that explains errors of a graph, without the graph and its values. */
const keptRecord = (graph: Graph): (() => Parameters<typeof kernelError>[0]) => {
  const operations = graph.operations.map(withoutTensors)
  return () => ({ operations })
}

/** The measured number of bytes that onnxruntime keeps per operation of a graph. */
const OPERATION_BYTES = 8192

const byteLength = (arrays: readonly { readonly data: OnnxArray }[]): number =>
  arrays.reduce((sum, { data }) => sum + data.byteLength, 0)

/**
 * Creates the runtime.
 *
 * Errors   throws RangeError if `cacheSize` is below 1.
 * Effects  native sessions and their threads live until `release`.
 */
export const makeRuntime = (ort: OnnxRuntime, options: RuntimeOptions): Runtime => {
  if (!(options.cacheSize >= 1)) throw new RangeError(`cacheSize must be at least 1, got ${options.cacheSize}`)
  const cache = new Map<string, CompiledGraph>()
  const fallbacks = new Map<string, number>()
  const counters = { compiles: 0, cacheHits: 0, runs: 0, compileMs: 0, runMs: 0, bytesIn: 0, bytesOut: 0 }
  const held = { graphs: 0, heldBytes: 0, keptBytes: 0 }

  /** Decides whether a graph keeps its memory, and how much. Sizes of open shapes are unknown. */
  const planMemory = (graph: Graph, { open, memory = 'automatic' }: CompileOptions): MemoryPlan => {
    if (memory === 'returned') return { mode: 'returned', bytes: 0 }
    if (open !== undefined) return { mode: 'kept', bytes: 0 }
    const bytes = runBytes(graph)
    const mode = keepsMemory(bytes, options.keptBytes - held.keptBytes)
    return { mode, bytes: mode === 'kept' ? keptBytes(bytes) : 0 }
  }

  const createSession = (
    graph: Graph,
    model: Uint8Array,
    { open, mode }: Pick<CompileOptions, 'open'> & Pick<MemoryPlan, 'mode'>,
  ): OnnxSession => {
    const shapes = open === undefined ? 'fixed' : 'open'
    try {
      return ort.createSession(model, {
        intraOpNumThreads: shapes === 'fixed' && graphCost(graph) === 'small' ? 1 : options.threads,
        enableMemPattern: shapes === 'fixed' && mode === 'kept', // one pattern is kept for each combination of sizes
        enableCpuMemArena: mode === 'kept',
        graphOptimizationLevel: options.optimization,
        executionMode: 'sequential',
        logSeverityLevel: 4, // errors are thrown, so they need not be printed as well
        extra: { session: { intra_op: { allow_spinning: options.spinning === 'on' ? '1' : '0' } } },
      })
    } catch (error) {
      throw kernelError(graph, 'compile', error)
    }
  }

  const compile: Runtime['compile'] = (graph, wanted = {}) => {
    const started = performance.now()
    const { values } = wanted
    const { model, feedNames, rootNames } = encodeModel(graph, wanted)
    const feedTypes = graph.feeds.flatMap((feed) => (values?.has(feed) ? [] : [feed.type]))
    const plan = planMemory(graph, wanted)
    const session = createSession(graph, model, { ...wanted, mode: plan.mode })
    const ownBytes = 2 * model.byteLength + OPERATION_BYTES * graph.operations.length // given and prepared constants
    const heldBytes = plan.bytes + ownBytes
    held.graphs++
    held.heldBytes += heldBytes
    held.keptBytes += plan.bytes
    const recorded = wanted.recordAgain ?? keptRecord(graph)
    let isAlive = true
    const fetches = Object.fromEntries(rootNames.map((name) => [name, null]))
    counters.compiles++
    counters.compileMs += performance.now() - started
    const runSession = (feeds: Parameters<OnnxSession['run']>[0]): ReturnType<OnnxSession['run']> => {
      try {
        return session.run(feeds, fetches, {})
      } catch (error) {
        throw kernelError(recorded(), 'run', error)
      }
    }
    return {
      run: (feeds) => {
        const start = performance.now()
        const results = runSession(
          Object.fromEntries(
            feedTypes.map((type, i) => [feedNames[i]!, ort.tensor(type, feeds[i]!.data, feeds[i]!.shape)]),
          ),
        )
        const arrays = rootNames.map((name) => results[name]!)
        counters.runs++
        counters.runMs += performance.now() - start
        counters.bytesIn += byteLength(feeds)
        counters.bytesOut += byteLength(arrays)
        return arrays
      },
      ownBytes,
      release: () => {
        if (!isAlive) return
        isAlive = false
        held.graphs--
        held.heldBytes -= heldBytes
        held.keptBytes -= plan.bytes
        session.dispose()
      },
    }
  }

  const cached = (graph: Graph): CompiledGraph => {
    const key = graphKey(graph)
    const hit = cache.get(key)
    if (hit !== undefined) {
      counters.cacheHits++
      cache.delete(key) // moves the entry to the end of the insertion order
      cache.set(key, hit)
      return hit
    }
    const compiled = compile(graph)
    cache.set(key, compiled)
    if (cache.size > options.cacheSize) {
      const [oldestKey, oldest] = cache.entries().next().value!
      cache.delete(oldestKey)
      oldest.release()
    }
    return compiled
  }

  return {
    version: ort.version,
    stacks: options.stacks,
    threads: options.threads,
    compile,
    compute: (roots) => {
      const wanted = [...new Set(roots)].filter((value) => value.data === null)
      const [empty, full] = [wanted.filter((v) => sizeOf(v.shape) === 0), wanted.filter((v) => sizeOf(v.shape) > 0)]
      for (const value of empty) value.data = makeArray(0, value.type)
      if (full.length > 0) {
        const graph = collect(full)
        const results = cached(graph).run(graph.feeds.map(({ data, shape }) => ({ data: data!, shape })))
        for (const [i, value] of full.entries()) value.data = results[i]!.data
      }
      for (const value of wanted) value.operation = null // the graph behind it is no longer needed
    },
    countFallback: (kernel) => {
      fallbacks.set(kernel, (fallbacks.get(kernel) ?? 0) + 1)
    },
    stats: () => ({
      ...counters,
      ...{ graphs: held.graphs, heldBytes: held.heldBytes },
      ...{ fallbacks: Object.fromEntries(fallbacks), cachedSessions: cache.size },
    }),
    release: () => {
      for (const compiled of cache.values()) compiled.release()
      cache.clear()
    },
  }
}
