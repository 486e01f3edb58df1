/** Records what onnxruntime does in every session, by its own profiler. */
import { mkdirSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import type { OnnxRuntime, OnnxSession } from '../onnxruntime/library.js'
import { type ProfiledCall, readCalls, type TraceEvent } from './trace.js'

export interface SessionRecorder {
  readonly library: OnnxRuntime
  /** Starts to keep calls; those before it are a warm-up. */
  readonly start: () => void
  /**
   * Ends the profiles and returns all kept calls. The sessions still work, but are not recorded.
   */
  readonly finish: () => readonly ProfiledCall[]
}

/** Wraps `library`, so that its sessions write profiles to a new folder at `folder`. */
export const recordSessions = (library: OnnxRuntime, folder: string): SessionRecorder => {
  rmSync(folder, { recursive: true, force: true })
  mkdirSync(folder, { recursive: true })
  const open = new Set<OnnxSession>()
  const calls: { readonly milliseconds: number; readonly kept: 'kept' | 'warm-up' }[][] = []
  let kept: 'kept' | 'warm-up' = 'warm-up'

  const end = (session: OnnxSession): void => {
    if (open.delete(session)) session.endProfiling()
  }

  const createSession: OnnxRuntime['createSession'] = (model, options) => {
    const own: (typeof calls)[number] = []
    const profileFilePrefix = join(folder, String(calls.length))
    calls.push(own)
    const session = library.createSession(model, { ...options, enableProfiling: true, profileFilePrefix })
    open.add(session)
    return {
      run: (feeds, fetches, runOptions) => {
        const started = performance.now()
        const results = session.run(feeds, fetches, runOptions)
        own.push({ milliseconds: performance.now() - started, kept })
        return results
      },
      endProfiling: () => end(session),
      dispose: () => {
        end(session)
        session.dispose()
      },
    }
  }

  return {
    library: { ...library, createSession },
    start: () => {
      kept = 'kept'
    },
    finish: () => {
      for (const session of [...open]) end(session)
      return readdirSync(folder).flatMap((file) => {
        const events = JSON.parse(readFileSync(join(folder, file), 'utf8')) as readonly TraceEvent[] // as onnxruntime writes it
        const own = calls[Number.parseInt(file, 10)]!
        return readCalls(events).flatMap((call, i) =>
          own[i]?.kept === 'kept' ? [{ ...call, outerMs: own[i].milliseconds }] : [],
        )
      })
    },
  }
}
