/**
 * Loads and tests one backend in a separate process, so that a crash of a native library does not
 * affect the command. The argument is a `ProbeRequest` as JSON; a `ProbeResult` is sent back.
 */
import {
  type BackendAttempt,
  engineReport,
  NoBackend,
  type SelectOptions,
  selectBackend,
} from '@tandem-rl/tfjs-onnxruntime'
import { type SelfTest, selfTest } from './selfTest.js'

export type ProbeRequest = Pick<SelectOptions, 'backend' | 'packageName' | 'threads'>

export type ProbeResult =
  | {
      readonly _tag: 'Loaded'
      readonly packageName: string
      readonly threads: number | null
      readonly test: SelfTest
    }
  | { readonly _tag: 'Failed'; readonly problem: string; readonly attempts: readonly BackendAttempt[] }

const firstLine = (error: unknown): string => String(error instanceof Error ? error.message : error).split('\n')[0]!

const probe = async (request: ProbeRequest): Promise<ProbeResult> => {
  try {
    const { packageName } = await selectBackend(request)
    return { _tag: 'Loaded', packageName, test: selfTest(), threads: engineReport().threads }
  } catch (error) {
    if (!(error instanceof NoBackend)) return { _tag: 'Failed', problem: firstLine(error), attempts: [] }
    const { attempts } = error
    const problem = attempts.length === 1 ? attempts[0]!.problem! : 'none could be loaded'
    return { _tag: 'Failed', problem, attempts }
  }
}

const result = await probe(JSON.parse(process.argv[2] ?? '{}') as ProbeRequest) // written by `doctor.ts`
process.send?.(result, () => process.exit(0))
