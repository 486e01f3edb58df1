/** The number of threads inside one operation, which a program may change after its start. */
import { activeRecordingBackend } from './register.js'

/** The threads inside one operation of the active backend. */
export interface EngineThreads {
  readonly count: () => number
  /** Sets the number for graphs that are compiled from now on. Compiled graphs keep theirs. */
  readonly use: (count: number) => void
}

/** Returns the threads of the active backend, or `null` if their number is fixed at its start. */
export const engineThreads = (): EngineThreads | null => {
  const runtime = activeRecordingBackend()?.runtime
  return runtime === undefined ? null : { count: runtime.threads, use: runtime.setThreads }
}
