/** Which tensor backend to use. */
import * as tf from '@tensorflow/tfjs'
import { BACKEND_NAME } from './onnxruntime/backend.js'
import { cpuBackend } from './onnxruntime/fallback.js'
import { registerOnnxRuntime } from './onnxruntime/register.js'
import type { RuntimeOptions } from './onnxruntime/runtime.js'

/** Backends by the names that the option and the environment variable TANDEM_BACKEND take, best first. */
export const BACKENDS = ['tensorflow', 'onnxruntime', 'wasm', 'cpu'] as const

export type BackendName = (typeof BACKENDS)[number]

/** A backend that was tried, and what came of it. */
export interface BackendAttempt {
  readonly backend: BackendName
  readonly packageName: string
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

/** How to load each backend; the package's name is an argument of `import`, so that optional ones are looked for only when asked. */
const LOADERS: Readonly<
  Record<
    BackendName,
    readonly { readonly packageName: string; readonly load: (options: Partial<RuntimeOptions>) => Promise<string> }[]
  >
> = {
  tensorflow: ['@tensorflow/tfjs-node-gpu', '@tensorflow/tfjs-node'].map((packageName) => ({
    packageName,
    load: async () => {
      await import(packageName)
      return 'tensorflow'
    },
  })),
  onnxruntime: [
    {
      packageName: 'onnxruntime-node',
      load: async (options) => {
        registerOnnxRuntime(options)
        return BACKEND_NAME
      },
    },
  ],
  wasm: [
    {
      packageName: '@tensorflow/tfjs-backend-wasm',
      load: async (options) => {
        await import('@tensorflow/tfjs-backend-wasm' as string) // an optional peer: its types may be missing
        void options
        return 'wasm'
      },
    },
  ],
  cpu: [{ packageName: '@tensorflow/tfjs', load: async () => 'cpu' }],
}

/** Chosen without being asked for: the first that loads. tfjs-node is slower than onnxruntime without a GPU, so it comes after it. */
const ORDER: readonly { readonly backend: BackendName; readonly packageName: string }[] = [
  { backend: 'tensorflow', packageName: '@tensorflow/tfjs-node-gpu' },
  { backend: 'onnxruntime', packageName: 'onnxruntime-node' },
  { backend: 'tensorflow', packageName: '@tensorflow/tfjs-node' },
  { backend: 'wasm', packageName: '@tensorflow/tfjs-backend-wasm' },
  { backend: 'cpu', packageName: '@tensorflow/tfjs' },
]

export interface SelectOptions extends Partial<RuntimeOptions> {
  /** Only this one. Default: the value of TANDEM_BACKEND, or the first of the list that loads. */
  readonly backend?: BackendName
}

export interface SelectedBackend {
  readonly backend: BackendName
  readonly packageName: string
  /** Those that were tried before it. */
  readonly attempts: readonly BackendAttempt[]
}

export const isBackendName = (name: string): name is BackendName => BACKENDS.some((known) => known === name)

/** The backend that TANDEM_BACKEND names. Errors: throws RangeError for a name that is none. */
const backendFromEnvironment = (): BackendName | undefined => {
  const name = process.env.TANDEM_BACKEND
  if (name === undefined || name === '') return undefined
  if (!isBackendName(name)) {
    throw new RangeError(`TANDEM_BACKEND is '${name}'; expected one of ${BACKENDS.join(', ')}`)
  }
  return name
}

const candidates = (wanted: BackendName | undefined): typeof ORDER =>
  wanted === undefined ? ORDER : LOADERS[wanted].map(({ packageName }) => ({ backend: wanted, packageName }))

/**
 * Loads a backend and makes it tfjs's active one.
 *
 * Errors   rejects with NoBackend, saying of each candidate why it did not load; a backend that was asked for by name is never replaced
 *          by another one. Rejects with RangeError if TANDEM_BACKEND is no backend.
 * Effects  sets the process-wide backend of tfjs.
 */
export const selectBackend = async (options: SelectOptions = {}): Promise<SelectedBackend> => {
  const { backend: wanted = backendFromEnvironment(), ...runtime } = options
  const attempts: BackendAttempt[] = []
  for (const { backend, packageName } of candidates(wanted)) {
    const loader = LOADERS[backend].find((entry) => entry.packageName === packageName)!
    try {
      const name = await loader.load(runtime)
      if (!(await tf.setBackend(name))) throw new Error(`tfjs could not initialize '${name}'`)
      await tf.ready()
      cpuBackend()
      return { backend, packageName, attempts }
    } catch (error) {
      attempts.push({
        backend,
        packageName,
        problem: error instanceof Error ? (error.message.split('\n')[0] ?? '') : String(error),
      })
    }
  }
  throw new NoBackend(attempts)
}
