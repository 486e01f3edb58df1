/** A log of the failed attempts of an agent that does not repeat itself. */
import type { FailedAttempt } from './agentSessions.js'

export interface FailureLog {
  /** Writes a failure with a new reason, and counts the others. */
  readonly note: (failure: FailedAttempt) => void
  /** Writes the counts since the last call. */
  readonly flush: () => void
}

/** Makes a log. Reasons that differ only in numbers are equal. */
export const failureLog = (write: (line: string) => void): FailureLog => {
  const counts = new Map<string, number>()
  return {
    note: ({ task, reason }) => {
      const kind = reason.replaceAll(/\d+/g, '#')
      const count = counts.get(kind)
      counts.set(kind, count === undefined ? 0 : count + 1)
      if (count === undefined) write(`agent: task ${task}: ${reason}`)
    },
    flush: () => {
      for (const [kind, count] of counts) {
        if (count > 0) write(`agent: ${count} more failed attempts: ${kind}`)
        counts.set(kind, 0)
      }
    },
  }
}
