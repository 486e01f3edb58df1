/** Tools that run code in the sandbox. */
import { SANDBOX_LIMITS, type Sandbox, type SandboxLimits, type SandboxProgram } from '@tandem-rl/base'
import { pipe } from 'fp-ts/lib/function.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { z } from 'zod'
import { liveSandbox } from '../sandbox/liveSandbox.js'
import { cellObservation } from './cellObservation.js'
import { type CellProgram, type CellResult, type CellSessionsOptions, cellSessions } from './cellSessions.js'
import { type Tool, tool, toolFailure } from './tool.js'

export interface CellToolOptions {
  readonly name?: string
  /** Default: its own bubblewrap sandbox. */
  readonly sandbox?: Sandbox
  /**
   * `none`: each call starts from an empty state. `session`: variables and files of the
   * conversation's earlier calls are kept; a call that ended the program is dropped. Default
   * `none`.
   */
  readonly memory?: 'none' | 'session'
  readonly limits?: Partial<SandboxLimits>
  /**
   * Folders and files of this machine that programs may read in addition to those of the system,
   * such as an environment with packages.
   */
  readonly readOnly?: readonly string[]
  readonly sessions?: Partial<Pick<CellSessionsOptions, 'maxIdle' | 'idleMs' | 'timers' | 'ids'>>
}

/** A tool that keeps programs running between calls. */
export interface CellTool extends Tool {
  /** Returns the number of programs waiting for the next call of their conversation. */
  readonly idle: () => number
  /** Ends these programs. Resolves once all have ended. */
  readonly close: () => Promise<void>
}

/** The parts of a tool that depend on the programming language. */
export interface CellLanguage {
  readonly name: string
  readonly description: string
  readonly argument: string
  readonly program: (options: CellToolOptions) => Pick<SandboxProgram, 'command' | 'args' | 'env'>
  readonly request: CellProgram['request']
}

/** Maximum number of cells in a conversation. Each new program runs all of them. */
const MAX_CELLS = 256
const MAX_CODE_LENGTH = 100_000
const MAX_IDLE = 8
const IDLE_MS = 60_000

/**
 * Returns the state after a cell. A cell that ended the program is left out, because it would also
 * end the next program.
 */
const cellsAfter = (earlier: readonly string[], code: string, result: CellResult): readonly string[] => {
  switch (result._tag) {
    case 'Ran':
      return [...earlier, code]
    case 'Ended':
      return earlier
    case 'Lost':
      return []
  }
}

/**
 * Makes a tool with one argument: code in the given language.
 *
 * Errors   `call` returns `Left(ToolFailure)`: `infrastructure` if the sandbox is not available,
 *          `failed` if the conversation has too many cells. The result of the code, with its
 *          errors, is the observation.
 * Effects  processes; with `memory: 'session'`, some stay idle between calls until `close`.
 */
export const cellTool = (language: CellLanguage, options: CellToolOptions): CellTool => {
  const { name = language.name, sandbox = liveSandbox(), memory = 'none', readOnly = [], sessions = {} } = options
  const limits = { ...SANDBOX_LIMITS, ...options.limits }
  // The processor time of a session covers all its cells, and the wall time of each is limited.
  const cpuSeconds = memory === 'none' ? limits.cpuSeconds : limits.cpuSeconds * MAX_CELLS
  const program = { ...language.program(options), readOnly, limits: { ...limits, cpuSeconds } }
  const cells = cellSessions(
    { program, request: language.request },
    { sandbox, maxIdle: MAX_IDLE, idleMs: IDLE_MS, ...sessions },
  )
  const after = memory === 'none' ? 'forget' : 'keep'
  const made = tool<Record<string, z.ZodString>, readonly string[] | null>({
    name,
    description: `${language.description} ${memory === 'none' ? 'Each call starts from an empty state.' : 'Variables and files of earlier calls are kept.'}`,
    parameters: { [language.argument]: z.string().max(MAX_CODE_LENGTH) },
    initial: memory === 'none' ? null : [],
    run: (args, { state, signal }) => {
      const code = args[language.argument]!
      const earlier = state ?? []
      if (earlier.length >= MAX_CELLS)
        return TE.left(toolFailure(name, 'failed', `at most ${MAX_CELLS} calls are allowed`))
      return pipe(
        cells.run(earlier, code, { signal, after }),
        TE.bimap(
          ({ reason }) => toolFailure(name, 'infrastructure', reason),
          (result) => ({
            content: cellObservation(result, program.limits),
            state: state === null ? null : cellsAfter(state, code, result),
          }),
        ),
      )
    },
  })
  return { ...made, idle: cells.idle, close: cells.close }
}
