/** Selects the tensor backend. */
import { environmentVariable, ONNXRUNTIME_PACKAGE } from '@tandem-rl/base/host'
import * as tf from '@tensorflow/tfjs-core'
import { completeWasm } from './borrowed.js'
import { BACKEND_NAME } from './onnxruntime/backend.js'
import { prepareOnnxRuntime } from './onnxruntime/binding.js'
import { cpuBackend } from './onnxruntime/fallback.js'
import type { PrepareOptions } from './onnxruntime/library.js'
import type { RuntimeOptions } from './onnxruntime/runtime.js'
import { registerOnnxRuntime } from './register.js'

/** Names of backends for the option and the variable TANDEM_BACKEND, best first. */
export const BACKENDS = ['tensorflow', 'onnxruntime', 'wasm', 'cpu'] as const

export type BackendName = (typeof BACKENDS)[number]

/** A backend and the npm package that provides it. */
export interface BackendCandidate {
  readonly backend: BackendName
  readonly packageName: string
}

/** An attempt to load a backend, with its result. */
export interface BackendAttempt extends BackendCandidate {
  /** Undefined if it loaded. */
  readonly problem?: string
}

/** None of the backends that were tried could be used. */
export class NoBackend extends Error {
  readonly attempts: readonly BackendAttempt[]

  constructor(attempts: readonly BackendAttempt[]) {
    const list = attempts.map((a) => `${a.backend} (${a.packageName}): ${a.problem ?? 'loaded'}`).join('; ')
    super(`no tensor backend could be loaded. ${list}`)
    this.name = 'NoBackend'
    this.attempts = attempts
  }
}

/**
 * Sets the number of threads for libtensorflow, which reads it from its environment once, when it
 * is loaded.
 */
const loadTensorFlow = async (packageName: string, { threads }: Partial<RuntimeOptions>): Promise<string> => {
  if (threads !== undefined) process.env.TF_NUM_INTRAOP_THREADS ??= String(threads)
  await import(/* webpackIgnore: true */ /* @vite-ignore */ packageName)
  return 'tensorflow'
}

type LoadOptions = Partial<RuntimeOptions> & Pick<PrepareOptions, 'wasmFolder'>

/** Loads the package of a backend and returns its name in tfjs. */
const load = async ({ backend, packageName }: BackendCandidate, options: LoadOptions): Promise<string> => {
  switch (backend) {
    case 'tensorflow':
      return loadTensorFlow(packageName, options)
    case 'onnxruntime':
      await prepareOnnxRuntime(options)
      registerOnnxRuntime(options)
      return BACKEND_NAME
    case 'wasm': // has one thread in Node
      await import(/* webpackIgnore: true */ /* @vite-ignore */ packageName)
      completeWasm()
      return 'wasm'
    case 'cpu':
      return 'cpu'
  }
}

/** With `gpu`, the backend is used only if it finds a GPU. */
type Rank = BackendCandidate & { readonly needs?: 'gpu' }

/** The package of the backend that is preferred to onnxruntime if it finds a GPU. */
export const GPU_PACKAGE = '@tensorflow/tfjs-node-gpu'

const TFJS_NODE_GPU: BackendCandidate = { backend: 'tensorflow', packageName: GPU_PACKAGE }

/**
 * The default candidates; the first one that loads is used. Without a GPU, TensorFlow's packages
 * are slower than onnxruntime, so they come after it.
 */
const ORDER: readonly Rank[] = [
  { ...TFJS_NODE_GPU, needs: 'gpu' },
  { backend: 'onnxruntime', packageName: ONNXRUNTIME_PACKAGE },
  TFJS_NODE_GPU,
  { backend: 'tensorflow', packageName: '@tensorflow/tfjs-node' },
  { backend: 'wasm', packageName: '@tensorflow/tfjs-backend-wasm' },
  { backend: 'cpu', packageName: '@tensorflow/tfjs-backend-cpu' },
]

/** Every backend and package that `selectBackend` can load, each once, best first. */
export const BACKEND_CANDIDATES: readonly BackendCandidate[] = ORDER.filter(({ needs }) => needs === undefined)

export interface SelectOptions extends Partial<RuntimeOptions>, Pick<PrepareOptions, 'wasmFolder'> {
  /**
   * The only backend to try. Default: the value of TANDEM_BACKEND, or the first of the list that
   * loads.
   */
  readonly backend?: BackendName
  /** The only package to load the backend from, if several provide it. */
  readonly packageName?: string
}

export interface SelectedBackend extends BackendCandidate {
  /** The attempts before it. */
  readonly attempts: readonly BackendAttempt[]
}

export const isBackendName = (name: string): name is BackendName => BACKENDS.some((known) => known === name)

/** Returns the backend in TANDEM_BACKEND. Errors: throws RangeError for an unknown name. */
export const backendFromEnvironment = (): BackendName | undefined => {
  const name = environmentVariable('TANDEM_BACKEND')
  if (name === undefined || name === '') return undefined
  if (!isBackendName(name)) {
    throw new RangeError(`TANDEM_BACKEND is '${name}'; expected one of ${BACKENDS.join(', ')}`)
  }
  return name
}

const candidatesFor = (backend: BackendName | undefined, packageName: string | undefined): readonly Rank[] => {
  if (backend === undefined && packageName === undefined) return ORDER
  const found = BACKEND_CANDIDATES.filter(
    (candidate) =>
      (backend === undefined || candidate.backend === backend) &&
      (packageName === undefined || candidate.packageName === packageName),
  )
  if (found.length === 0) throw new RangeError(`'${packageName}' provides no ${backend ?? 'tensor'} backend`)
  return found
}

/** Returns true if tfjs-node's backend computes on a GPU. */
const usesGpu = (): boolean =>
  'isUsingGpuDevice' in tf.backend() && Reflect.get(tf.backend(), 'isUsingGpuDevice') === true

const EVENTS = ['uncaughtException', 'unhandledRejection'] as const

/**
 * Runs `f` and removes the process-wide error handlers that it installs; those of wasm's loader
 * would end the process.
 */
const withoutHandlers = async (f: () => Promise<unknown>): Promise<void> => {
  const before = EVENTS.map((event) => new Set<unknown>(process.rawListeners(event)))
  try {
    await f()
  } finally {
    for (const [i, event] of EVENTS.entries()) {
      const added = process.rawListeners(event).filter((listener) => !before[i]!.has(listener))
      for (const listener of added) process.removeListener(event, listener as () => void) // takes any listener
    }
  }
}

/** Computes a number, because onnxruntime looks for a GPU only when it compiles its first graph. */
const requireDevice = (): void => {
  tf.tidy(() => tf.exp(tf.scalar(1)).dataSync())
}

const activate = async (candidate: Rank, options: LoadOptions): Promise<void> => {
  const guarded = candidate.backend === 'wasm' ? withoutHandlers : (f: () => Promise<void>) => f()
  await guarded(async () => {
    const name = await load(candidate, options)
    if (!(await tf.setBackend(name))) throw new Error(`tfjs could not initialize '${name}'`)
    await tf.ready()
  })
  if (candidate.needs === 'gpu' && !usesGpu()) throw new Error('loads, but finds no GPU')
  if (options.device === 'webgpu') requireDevice()
}

const problemOf = (error: unknown): string =>
  error instanceof Error ? (error.message.split('\n')[0] ?? '').trim() : String(error)

/**
 * Loads a backend and makes it the active one of tfjs. Programs that use onnxruntime with default
 * options do not need it: the first tensor operation starts onnxruntime.
 *
 * Errors   rejects with NoBackend, with the reason why each candidate did not load; a backend that
 *          is requested by name or by a device is never replaced by another one; without a GPU,
 *          the device `webgpu` is refused. Rejects with RangeError if TANDEM_BACKEND is not a
 *          backend, or if `packageName` does not provide the requested one.
 * Effects  sets the process-wide backend of tfjs. `threads` applies to onnxruntime, and to
 *          TensorFlow through the variable TF_NUM_INTRAOP_THREADS, unless that is already set.
 */
export const selectBackend = async (options: SelectOptions = {}): Promise<SelectedBackend> => {
  const { backend: named, packageName: wantedPackage, ...runtime } = options
  const wanted = named ?? (runtime.device === undefined ? backendFromEnvironment() : 'onnxruntime')
  const attempts: BackendAttempt[] = []
  for (const candidate of candidatesFor(wanted, wantedPackage)) {
    const { backend, packageName } = candidate
    try {
      await activate(candidate, runtime)
      cpuBackend()
      return { backend, packageName, attempts }
    } catch (error) {
      attempts.push({ backend, packageName, problem: problemOf(error) })
    }
  }
  throw new NoBackend(attempts)
}
