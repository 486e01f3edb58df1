/** Observations of programs that ran in the sandbox. */
import type { SandboxEnd, SandboxLimits, SandboxStop, SandboxText } from '@tandem-rl/base'
import type { CellResult } from './cellSessions.js'

const mebibytes = (bytes: number): string => `${Math.round(bytes / 2 ** 20)} MiB`

const stopReason = (stopped: SandboxStop, limits: SandboxLimits): string => {
  switch (stopped) {
    case 'wall':
      return `it ran longer than ${limits.wallMs / 1000} s`
    case 'cpu':
      return `it used more than ${limits.cpuSeconds} s of processor time`
    case 'memory':
      return `it used more than ${mebibytes(limits.memoryBytes)} of memory`
    case 'disk':
      return `its files took more than ${mebibytes(limits.diskBytes)}`
    case 'output':
      return 'it wrote too much output'
    case 'cancelled':
      return 'the call was cancelled'
  }
}

/** Joins the lines of parts, without the empty parts. */
const lines = (parts: readonly string[]): string =>
  parts
    .map((part) => part.replace(/\n$/, ''))
    .filter((part) => part !== '')
    .join('\n')

const shown = ({ text, dropped }: SandboxText): readonly string[] => [
  text,
  ...(dropped === 0 ? [] : [`[${dropped} more bytes of output]`]),
]

/** Describes the end of a program: its output and the reason. */
const endText = ({ code, stopped, stdout, stderr }: SandboxEnd, limits: SandboxLimits): string => {
  const why = stopped === null ? `it ended with exit code ${code}` : stopReason(stopped, limits)
  return lines([...shown(stdout), ...shown(stderr), `[stopped: ${why}]`])
}

/**
 * Returns the observation of a cell: its output, and a line in brackets for each problem.
 *
 * @example
 * cellObservation({ _tag: 'Ran', output: { text: '4\n', dropped: 0 }, status: '0', running: 0 }, SANDBOX_LIMITS) // '4'
 */
export const cellObservation = (result: CellResult, limits: SandboxLimits): string => {
  switch (result._tag) {
    case 'Ran': {
      const failed = result.status === '0' ? [] : [`[exit code ${result.status}]`]
      const text = lines([...shown(result.output), ...failed])
      return text === '' ? '[no output]' : text
    }
    case 'Ended':
      return endText(result.end, limits)
    case 'Lost':
      return `[the session is lost: its call ${result.cell + 1} failed when it was run again; this call was not run, and the next one starts a new session]`
  }
}
