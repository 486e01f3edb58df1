/** Compiles graphs to onnxruntime sessions, caches and runs them, and collects statistics. */
import {
  collect,
  type EncodedModel,
  encodeModel,
  type FeedValues,
  type Graph,
  graphKey,
  isUncomputed,
  makeOperation,
  type OpenShapes,
  sizeOf,
  type Value,
} from './graph.js'
import { graphCache } from './graphCache.js'
import { type GraphMemory, keptBytes, type MemoryMode, memoryMode, type RunBytes, runBytes } from './graphMemory.js'
import {
  type Device,
  type DeviceTensor,
  isOnDevice,
  makeArray,
  type OnnxArray,
  type OnnxRuntime,
  type OnnxSession,
  type OnnxTensor,
  type OnnxType,
  type SessionOptions,
} from './library.js'
import { type MergedGraph, mergeEqual } from './merging.js'
import { kernelError, type StackMode, withoutTensors } from './origin.js'
import { resultArrays } from './resultArrays.js'
import { forWebGpu } from './webGpu.js'

export interface RuntimeOptions {
  /**
   * The device that computes graphs. `webgpu` is a GPU, through Vulkan, Metal or Direct3D 12, with
   * the library that comes with onnxruntime-node. Default: the value of TANDEM_DEVICE, or `cpu`.
   */
  readonly device: Device
  /** The number of threads inside one operation. Default 2, or 1 on a machine with one core. */
  readonly threads: number
  /**
   * Lets worker threads spin between the operations of a run, which is faster unless other programs
   * need the cores. Between runs they sleep.
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

/** The data of one feed of a graph, in host memory or on the device. */
export interface Feed {
  readonly data: OnnxArray | DeviceTensor
  readonly shape: readonly number[]
}

/** A graph that is ready to run. */
export interface CompiledGraph {
  readonly run: (feeds: readonly Feed[]) => readonly (OnnxTensor | DeviceTensor)[]
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
  /** Bytes of a graph with open shapes at usual sizes. Default: unknown, and memory is kept. */
  readonly bytes?: RunBytes
  /** Default `automatic`. */
  readonly memory?: GraphMemory
  /**
   * Feeds that become constants of the graph, which onnxruntime prepares once. A run receives only
   * the others.
   */
  readonly values?: FeedValues
  /** The place of results if graphs are computed on a device. Default `host`. */
  readonly results?: ResultPlace
}

/** `device` leaves results in the memory of the GPU until they are read. */
export type ResultPlace = 'host' | 'device'

interface MemoryPlan {
  readonly mode: MemoryMode
  /** Bytes held between runs. */
  readonly bytes: number
}

export interface Runtime {
  readonly stacks: StackMode
  readonly version: string
  /** The number of threads inside one operation of graphs that are compiled now. */
  readonly threads: () => number
  /** Changes that number. Compiled graphs keep theirs. */
  readonly setThreads: (threads: number) => void
  readonly compile: (graph: Graph, options?: CompileOptions) => CompiledGraph
  /** Computes every value of `roots` that has no data yet. */
  readonly compute: (roots: readonly Value[]) => void
  /** Copies a tensor from the device. */
  readonly download: (tensor: DeviceTensor, type: OnnxType) => OnnxArray
  /** Gives an array that nothing else uses to later runs, for their results. */
  readonly reuse: (array: OnnxArray) => void
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

/**
 * Number of operations from which a graph is merged here. onnxruntime takes about 2 ms of processor
 * time per operation for its passes, most of which find nothing to change in these graphs.
 */
const LONG_OPERATIONS = 1000

const isLong = ({ operations }: Graph): boolean => operations.length >= LONG_OPERATIONS

/** Returns the graph that is compiled on a device for a recorded one. */
const graphsOf =
  (device: Device) =>
  (recorded: Graph): MergedGraph => {
    const graph = device === 'webgpu' ? forWebGpu(recorded) : recorded
    return isLong(graph) ? mergeEqual(graph) : { graph, inPlaceOf: (value) => value }
  }

const encodeMerged = (
  { largeConstants }: Pick<OnnxRuntime, 'largeConstants'>,
  { graph, inPlaceOf }: MergedGraph,
  { open, values }: CompileOptions,
): EncodedModel =>
  encodeModel(graph, {
    ...(open && { open: new Map([...open].map(([value, shape]) => [inPlaceOf(value), shape])) }),
    ...(values && { values }),
    largeConstants,
  })

/** Keeps the data that explains errors of a graph, without the graph and its values. */
const keptRecord = (graph: Graph): (() => Parameters<typeof kernelError>[0]) => {
  const operations = graph.operations.map(withoutTensors)
  return () => ({ operations })
}

/** The measured number of bytes that onnxruntime keeps per operation of a graph. */
const OPERATION_BYTES = 8192

const modelBytes = ({ model, externalData }: EncodedModel): number =>
  externalData.reduce((sum, { data }) => sum + data.byteLength, model.byteLength)

/** Bytes that cross the border of onnxruntime. Tensors on a device do not. */
const byteLength = (arrays: readonly (OnnxArray | DeviceTensor)[]): number =>
  arrays.reduce((sum, array) => sum + (ArrayBuffer.isView(array) ? array.byteLength : 0), 0)

/**
 * Returns the results that stay on the device. Small ones are copied to host memory at once: they
 * are mostly read.
 */
const residents = ({ roots }: Graph, names: readonly string[]): Readonly<Record<string, 'gpu-buffer'>> =>
  Object.fromEntries(roots.flatMap(({ shape }, i) => (sizeOf(shape) >= 1024 ? [[names[i]!, 'gpu-buffer']] : [])))

interface SessionPlan extends Pick<CompileOptions, 'open' | 'results'> {
  readonly mode: MemoryPlan['mode']
}

const sessionOptions = (
  { threads, optimization, device, spinning }: RuntimeOptions,
  graph: Graph,
  { open, mode, results = 'host', rootNames, externalData }: SessionPlan & Omit<EncodedModel, 'model' | 'feedNames'>,
): SessionOptions => {
  const shapes = open === undefined ? 'fixed' : 'open'
  return {
    intraOpNumThreads: shapes === 'fixed' && graphCost(graph) === 'small' ? 1 : threads,
    enableMemPattern: shapes === 'fixed' && mode === 'planned',
    enableCpuMemArena: mode !== 'returned',
    graphOptimizationLevel: isLong(graph) ? 'disabled' : optimization,
    executionMode: 'sequential',
    logSeverityLevel: 4, // errors are thrown, so they need not be printed as well
    ...(externalData.length > 0 && { externalData }),
    ...(device === 'webgpu' && {
      executionProviders: ['webgpu'],
      ...(results === 'device' && { preferredOutputLocation: residents(graph, rootNames) }),
    }),
    extra: { session: { intra_op: { allow_spinning: spinning === 'on' ? '1' : '0' }, force_spinning_stop: '1' } },
  }
}

/** Returns the data of a result that is not left on a device. */
const hostData = (tensor: OnnxTensor | DeviceTensor): OnnxArray => {
  if (isOnDevice(tensor)) throw new Error('onnxruntime left a result on the device')
  return tensor.data
}

/** Returns the number of threads of a runtime, which may change. */
const threadCount = (initial: number): Pick<Runtime, 'threads' | 'setThreads'> => {
  let count = initial
  return {
    threads: () => count,
    setThreads: (next) => {
      count = next
    },
  }
}

/**
 * Creates the runtime.
 *
 * Errors   throws RangeError if `cacheSize` is below 1.
 * Effects  native sessions and their threads live until `release`.
 */
export const makeRuntime = (ort: OnnxRuntime, options: RuntimeOptions): Runtime => {
  if (!(options.cacheSize >= 1)) throw new RangeError(`cacheSize must be at least 1, got ${options.cacheSize}`)
  const cache = graphCache<CompiledGraph>(options.cacheSize)
  const fallbacks = new Map<string, number>()
  const counters = { compiles: 0, runs: 0, compileMs: 0, runMs: 0, bytesIn: 0, bytesOut: 0 }
  const held = { graphs: 0, heldBytes: 0, keptBytes: 0 }
  const { threads, setThreads } = threadCount(options.threads)
  const arrays = resultArrays(ort)

  /** Decides whether a graph keeps its memory, and how much. Sizes of open shapes are unknown. */
  const planMemory = (graph: Graph, { open, memory = 'automatic', ...given }: CompileOptions): MemoryPlan => {
    if (memory === 'returned') return { mode: 'returned', bytes: 0 }
    if (open !== undefined && given.bytes === undefined) return { mode: 'kept', bytes: 0 }
    const bytes = given.bytes ?? runBytes(graph)
    const mode = memoryMode(bytes, options.keptBytes - held.keptBytes)
    return { mode, bytes: mode === 'returned' ? 0 : keptBytes(bytes, mode) }
  }

  const createSession = (graph: Graph, { model, ...encoded }: EncodedModel, plan: SessionPlan): OnnxSession => {
    try {
      const given = sessionOptions({ ...options, threads: threads() }, graph, { ...plan, ...encoded })
      return ort.createSession(model, given)
    } catch (error) {
      throw kernelError(graph, 'compile', error)
    }
  }

  const prepared = graphsOf(options.device)

  const compile: Runtime['compile'] = (recordedGraph, wanted = {}) => {
    const started = performance.now()
    const { values, recordAgain } = wanted
    const merged = prepared(recordedGraph)
    const { graph } = merged
    const encoded = encodeMerged(ort, merged, wanted)
    const feedTypes = graph.feeds.flatMap((feed) => (values?.has(feed) ? [] : [feed.type]))
    const plan = planMemory(graph, wanted)
    const { feedNames, rootNames } = encoded
    const session = createSession(graph, encoded, { ...wanted, mode: plan.mode })
    const ownBytes = 2 * modelBytes(encoded) + OPERATION_BYTES * graph.operations.length // given and prepared constants
    const heldBytes = plan.bytes + ownBytes
    held.graphs++
    held.heldBytes += heldBytes
    held.keptBytes += plan.bytes
    const recorded = recordAgain === undefined ? keptRecord(graph) : () => prepared(recordAgain()).graph
    let isAlive = true
    const fetches = wanted.open === undefined ? arrays.fetches(graph.roots, rootNames) : arrays.fetches([], rootNames)
    counters.compiles++
    counters.compileMs += performance.now() - started
    const runSession = (feeds: Parameters<OnnxSession['run']>[0]): readonly (OnnxTensor | DeviceTensor)[] => {
      try {
        const wanted = fetches()
        const results = session.run(feeds, wanted, {})
        return rootNames.map((name) => wanted[name] ?? results[name]!)
      } catch (error) {
        throw kernelError(recorded(), 'run', error)
      }
    }
    return {
      run: (feeds) => {
        const start = performance.now()
        const given = feeds.map(({ data, shape }, i) =>
          ArrayBuffer.isView(data) ? ort.tensor(feedTypes[i]!, data, shape) : data,
        )
        const tensors = runSession(Object.fromEntries(given.map((tensor, i) => [feedNames[i]!, tensor])))
        counters.runs++
        counters.runMs += performance.now() - start
        counters.bytesIn += byteLength(feeds.map(({ data }) => data))
        counters.bytesOut += byteLength(tensors.map((tensor) => (isOnDevice(tensor) ? tensor : tensor.data)))
        return tensors
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

  const cached = (graph: Graph): CompiledGraph => cache.of(`${threads()} ${graphKey(graph)}`, () => compile(graph))

  return {
    version: ort.version,
    stacks: options.stacks,
    threads,
    setThreads,
    compile,
    compute: (roots) => {
      const wanted = [...new Set(roots)].filter(isUncomputed)
      const [empty, full] = [wanted.filter((v) => sizeOf(v.shape) === 0), wanted.filter((v) => sizeOf(v.shape) > 0)]
      for (const value of empty) value.data = makeArray(0, value.type)
      if (full.length > 0) {
        const graph = collect(full)
        const results = cached(graph).run(
          graph.feeds.map(({ data, resident, shape }) => ({ data: resident ?? data!, shape })),
        )
        for (const [i, value] of full.entries()) value.data = hostData(results[i]!)
      }
      for (const value of wanted) value.operation = null // the graph behind it is no longer needed
    },
    download: (tensor, type) => {
      const value: Value = { shape: tensor.dims, type, isConstant: false, trace: 0, operation: null, data: null }
      const copy = makeOperation('Identity', [value], [value], { trace: 0 }).outputs[0]!
      return hostData(cached(collect([copy])).run([{ data: tensor, shape: tensor.dims }])[0]!)
    },
    reuse: arrays.give,
    countFallback: (kernel) => {
      fallbacks.set(kernel, (fallbacks.get(kernel) ?? 0) + 1)
    },
    stats: () => ({
      ...counters,
      cacheHits: cache.hits(),
      graphs: held.graphs,
      heldBytes: held.heldBytes,
      fallbacks: Object.fromEntries(fallbacks),
      cachedSessions: cache.size(),
    }),
    release: () => {
      arrays.clear()
      cache.release()
    },
  }
}
