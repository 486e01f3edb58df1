import { checkOptions, type Processes, type Timers } from '@tandem-rl/base'
import { liveTimers } from '@tandem-rl/base/host'
import { liveProcesses } from '@tandem-rl/host'
import * as E from 'fp-ts/lib/Either.js'
import { z } from 'zod'
import { PROCESS_MLGYM_OPTIONS } from '../optionKinds.js'
import { lineProcess } from '../processes/lineProcess.js'
import { type MLGym, type MLGymFailure, type MLGymReply, type MLGymSession, mlgymFailure } from './session.js'

export interface ProcessMLGymOptions {
  /**
   * The Python executable of the environment with MLGym, or another program with the bridge's
   * protocol. Default `python3`.
   */
  readonly command?: string
  /** Default: the bridge of this package, `assets/mlgymBridge.py`. */
  readonly args?: readonly string[]
  /** The folder with MLGym's configs: its repository. Default: the folder of this process. */
  readonly folder?: string
  readonly env?: Readonly<Record<string, string | null>>
  /**
   * Time limit to start a container, in milliseconds. Default 30 minutes, because images are built
   * and baselines run.
   */
  readonly openLimitMs?: number
  /**
   * Time limit of a command and its evaluation, in milliseconds. Default 3 hours: MLGym ends a
   * training after one hour.
   */
  readonly stepLimitMs?: number
  readonly processes?: Pick<Processes, 'converse'>
  readonly timers?: Timers
}

const MINUTE = 60_000
/** Time limit to remove a container. */
const CLOSE_MS = MINUTE
const metrics = z.record(z.string(), z.number().nullable())
const shell = z.object({ openFile: z.string(), workingDirectory: z.string() })
const openedReply = z.object({ description: z.string(), commandDocs: z.string(), baseline: metrics.nullable(), shell })
const stepReply = z.object({
  observation: z.string(),
  done: z.boolean(),
  exitStatus: z.string().nullable(),
  scores: z.array(metrics),
  shell,
})
const envelope = z.union([
  z.object({ ok: z.literal(true), result: z.unknown() }),
  z.object({ ok: z.literal(false), reason: z.string() }),
])

const infrastructure = (reason: string): E.Either<MLGymFailure, never> => E.left(mlgymFailure('infrastructure', reason))

/** Parses a response of the bridge with a schema. */
const readReply = <T>(line: string, schema: z.ZodType<T>): E.Either<MLGymFailure, T> => {
  const json = E.tryCatch(
    (): unknown => JSON.parse(line),
    () => null,
  )
  const reply = E.isRight(json) ? envelope.safeParse(json.right) : undefined
  if (reply === undefined || !reply.success)
    return infrastructure(`the bridge sent an invalid response: ${line.slice(0, 200)}`)
  if (!reply.data.ok) return infrastructure(reply.data.reason)
  const result = schema.safeParse(reply.data.result)
  return result.success
    ? E.right(result.data)
    : infrastructure(`the bridge's response does not match its schema: ${z.prettifyError(result.error)}`)
}

const ownBridge = (): string => decodeURIComponent(new URL('../../assets/mlgymBridge.py', import.meta.url).pathname)

/**
 * Runs MLGym in processes, one for each session. A small Python bridge imports `mlgym` and
 * communicates in lines of JSON. Requires MLGym (from its repository; the package of that name on
 * PyPI is a different one) and docker or podman.
 *
 * Errors   `Left(MLGymFailure)` of kind `infrastructure` for a program that does not start, ends,
 *          times out or sends an invalid response, with the end of its error output.
 * Effects  starts processes, which end with their session, with this process, or at their time
 *          limit.
 *
 * @example
 * processMLGym({ command: 'python3', folder: 'MLGym' }).open.length // 1
 */
export const processMLGym = (options: ProcessMLGymOptions = {}): MLGym => {
  checkOptions('processMLGym', options, PROCESS_MLGYM_OPTIONS)
  const {
    command = 'python3',
    args = [ownBridge()],
    folder,
    env,
    processes = liveProcesses,
    timers = liveTimers,
  } = options
  const { openLimitMs = 30 * MINUTE, stepLimitMs = 180 * MINUTE } = options
  return {
    open: (request) => async () => {
      const program = { name: 'MLGym bridge', command, args, graceMs: CLOSE_MS, processes, timers }
      const started = await lineProcess({
        ...program,
        ...(folder !== undefined && { folder }),
        ...(env !== undefined && { env }),
      })()
      if (E.isLeft(started)) return infrastructure(started.left.reason)
      const bridge = started.right
      const ask = async <T>(
        wanted: object,
        schema: z.ZodType<T>,
        limitMs: number,
      ): Promise<E.Either<MLGymFailure, T>> => {
        const line = await bridge.ask(wanted, { limitMs })
        return E.isLeft(line) ? infrastructure(line.left.reason) : readReply(line.right, schema)
      }
      const close = (): Promise<void> => bridge.end({ op: 'close' })
      const opened = await ask({ op: 'open', ...request }, openedReply, openLimitMs)
      if (E.isLeft(opened)) {
        await close()
        return opened
      }
      const session: MLGymSession = {
        opened: opened.right,
        step: (line) => () => ask<MLGymReply>({ op: 'step', command: line }, stepReply, stepLimitMs),
        close,
      }
      return E.right(session)
    },
  }
}
