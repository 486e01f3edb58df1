/**
 * The program that `npm run verify -- tfjsConformance` bundles and runs: tfjs-core's own specs, on
 * one backend.
 *
 * The bundle holds one copy of tfjs-core, shared by the specs, by the engine under test and by the
 * kernels of the cpu backend. The gradients are those of the package,
 * packages/tfjs-onnxruntime/assets/gradients.js.
 */
import { createRequire } from 'node:module'
import { type BackendName, type SelectOptions, selectBackend } from '@tandem-rl/tfjs-onnxruntime'
import { setTestEnvs } from '@tensorflow/tfjs-core/dist/jasmine_util.js'
import type { SpecResult } from './judge.js'

export { BACKENDS, isBackendName, NoBackend } from '@tandem-rl/tfjs-onnxruntime'

/** The part of jasmine-core 3.99 that is used here; the package has no types. */
interface JasmineSpec {
  readonly getFullName: () => string
}

interface JasmineEnvironment {
  readonly configure: (options: { readonly random: false; readonly specFilter: (spec: JasmineSpec) => boolean }) => void
  readonly addReporter: (reporter: {
    readonly specDone: (result: {
      readonly fullName: string
      readonly status: string
      readonly failedExpectations: readonly { readonly message: string; readonly stack?: string }[]
    }) => void
    readonly jasmineDone: () => void
  }) => void
  readonly execute: () => void
}

interface JasmineModule {
  readonly boot: (required: JasmineModule) => { readonly getEnv: () => JasmineEnvironment }
}

const statusOf = (status: string): SpecResult['status'] => {
  if (status === 'passed' || status === 'pending' || status === 'excluded') return status
  return 'failed'
}

/**
 * Runs the specs whose full name contains `filter`. The active backend of tfjs changes.
 *
 * Errors   rejects with NoBackend if the backend cannot be loaded.
 */
export const runSpecs = async (
  backend: BackendName,
  filter: string,
  place: Pick<SelectOptions, 'wasmFolder'>,
): Promise<readonly SpecResult[]> => {
  const require = createRequire(import.meta.url)
  const required = require('jasmine-core') as JasmineModule // cast: no types, see above
  const environment = required.boot(required).getEnv()
  await selectBackend({ backend, threads: 2, spinning: 'off', ...place })
  setTestEnvs([{ name: backend, backendName: backend, isDataSync: true }])
  await import('@tensorflow/tfjs-core/dist/tests.js' as string) // cast: its types would add methods to all tensors
  const results: SpecResult[] = []
  environment.configure({ random: false, specFilter: (spec) => spec.getFullName().includes(filter) })
  await new Promise<void>((resolve) => {
    environment.addReporter({
      specDone: ({ fullName, status, failedExpectations }) => {
        const problems = failedExpectations.map(({ message, stack }) => ({ message, stack: stack ?? '' }))
        results.push({ spec: fullName, status: statusOf(status), problems })
      },
      jasmineDone: resolve,
    })
    environment.execute()
  })
  return results
}
