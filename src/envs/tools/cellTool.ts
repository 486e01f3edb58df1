/** Tools that run code in the sandbox. */
import { pipe } from 'fp-ts/lib/function.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { z } from 'zod'
import { aList, aRecord, aText, type OptionKinds, oneOf } from '../../core/options.js'
import { SANDBOX_LIMITS, type Sandbox, type SandboxLimits, type SandboxProgram } from '../../core/sandbox.js'
import { liveSandbox } from '../../live/sandbox/liveSandbox.js'
import { cellObservation } from './cellObservation.js'
import { type CellProgram, type CellResult, type CellSessionsOptions, cellSessions } from './cellSessions.js'
import { type Tool, tool, toolFailure } from './tool.js'

export interface CellToolOptions {
  readonly name?: string
  /** Default: one of its own, in bubblewrap. */
  readonly sandbox?: Sandbox
  /**
   * `none`: each call begins with nothing. `session`: variables and files of the conversation's
   * earlier calls are there; a call that ended the program is forgotten. Default `none`.
   */
  readonly memory?: 'none' | 'session'
  readonly limits?: Partial<SandboxLimits>
  /**
   * Folders and files of this machine that programs may read, besides those of the system: an
   * environment with packages.
   */
  readonly readOnly?: readonly string[]
  readonly sessions?: Partial<Pick<CellSessionsOptions, 'maxIdle' | 'idleMs' | 'timers' | 'ids'>>
}

/** The options of every tool that runs code in the sandbox, for `checkOptions`. */
export const CELL_TOOL_OPTIONS: OptionKinds<CellToolOptions> = {
  name: aText,
  sandbox: aRecord,
  memory: oneOf('none', 'session'),
  limits: aRecord,
  readOnly: aList,
  sessions: aRecord,
}

/** A tool that keeps programs between calls. */
export interface CellTool extends Tool {
  /** Programs that wait for the next call of their conversation. */
  readonly idle: () => number
  /** Ends them. Resolves when nothing is left. */
  readonly close: () => Promise<void>
}

/** What a language brings. */
export interface CellLanguage {
  readonly name: string
  readonly description: string
  readonly argument: string
  readonly program: (options: CellToolOptions) => Pick<SandboxProgram, 'command' | 'args' | 'env'>
  readonly request: CellProgram['request']
}

/** Cells that a conversation may have: each new program runs them all. */
const MAX_CELLS = 256
const MAX_CODE_LENGTH = 100_000
const MAX_IDLE = 8
const IDLE_MS = 60_000

/**
 * What is remembered after a cell: one that ended the program was not, so that it does not end the
 * next one as well.
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
 * A tool of one argument: code in a language.
 *
 * Errors   `call` gives `Left(ToolFailure)`: `infrastructure` where the sandbox cannot be had,
 *          `failed` in a conversation of too many cells. What the code does is told as the
 *          observation.
 * Effects  processes; with `memory: 'session'` some wait between calls until `close`.
 */
export const cellTool = (language: CellLanguage, options: CellToolOptions): CellTool => {
  const { name = language.name, sandbox = liveSandbox(), memory = 'none', readOnly = [], sessions = {} } = options
  const limits = { ...SANDBOX_LIMITS, ...options.limits }
  // A session's processor time is that of all its cells. Each of them has a limited time anyway.
  const cpuSeconds = memory === 'none' ? limits.cpuSeconds : limits.cpuSeconds * MAX_CELLS
  const program = { ...language.program(options), readOnly, limits: { ...limits, cpuSeconds } }
  const cells = cellSessions(
    { program, request: language.request },
    { sandbox, maxIdle: MAX_IDLE, idleMs: IDLE_MS, ...sessions },
  )
  const after = memory === 'none' ? 'forget' : 'keep'
  const made = tool<Record<string, z.ZodString>, readonly string[] | null>({
    name,
    description: `${language.description} ${memory === 'none' ? 'Every call begins anew.' : 'What earlier calls made is still there.'}`,
    parameters: { [language.argument]: z.string().max(MAX_CODE_LENGTH) },
    initial: memory === 'none' ? null : [],
    run: (args, { state, signal }) => {
      const code = args[language.argument]!
      const earlier = state ?? []
      if (earlier.length >= MAX_CELLS) return TE.left(toolFailure(name, 'failed', `${MAX_CELLS} calls are the most`))
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
