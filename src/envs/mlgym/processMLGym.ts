import * as E from 'fp-ts/lib/Either.js'
import { z } from 'zod'
import type { Processes, Timers } from '../../core/capabilities.js'
import { aList, aNumber, aRecord, aText, checkOptions, type OptionKinds } from '../../core/options.js'
import { liveTimers } from '../../live/clock.js'
import { liveProcesses } from '../../live/processes.js'
import { lineProcess } from '../../live/resources/lineProcess.js'
import { type MLGym, type MLGymFailure, type MLGymReply, type MLGymSession, mlgymFailure } from './session.js'

export interface ProcessMLGymOptions {
  /**
   * The Python that MLGym is installed in, or another program that speaks the bridge's protocol.
   * Default `python3`.
   */
  readonly command?: string
  /** Default: the bridge of this package, `assets/mlgymBridge.py`. */
  readonly args?: readonly string[]
  /** Where MLGym looks for its configs: its repository. Default: the folder of this process. */
  readonly folder?: string
  readonly env?: Readonly<Record<string, string | null>>
  /** A container is ready in this time. Default 30 minutes: images are built, and baselines run. */
  readonly openLimitMs?: number
  /**
   * A command, and its evaluation, is over in this time. Default 3 hours: MLGym itself ends a
   * training after one.
   */
  readonly stepLimitMs?: number
  readonly processes?: Pick<Processes, 'converse'>
  readonly timers?: Timers
}

const MINUTE = 60_000
/** What a container has to be removed in. */
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

/** What a bridge said to a request, as the schema has it. */
const readReply = <T>(line: string, schema: z.ZodType<T>): E.Either<MLGymFailure, T> => {
  const json = E.tryCatch(
    (): unknown => JSON.parse(line),
    () => null,
  )
  const said = E.isRight(json) ? envelope.safeParse(json.right) : undefined
  if (said === undefined || !said.success)
    return infrastructure(`the bridge said what is no answer: ${line.slice(0, 200)}`)
  if (!said.data.ok) return infrastructure(said.data.reason)
  const result = schema.safeParse(said.data.result)
  return result.success
    ? E.right(result.data)
    : infrastructure(`the bridge's answer does not fit: ${z.prettifyError(result.error)}`)
}

const ownBridge = (): string => decodeURIComponent(new URL('../../../assets/mlgymBridge.py', import.meta.url).pathname)

const PROCESS_MLGYM_OPTIONS: OptionKinds<ProcessMLGymOptions> = {
  command: aText,
  args: aList,
  folder: aText,
  env: aRecord,
  openLimitMs: aNumber,
  stepLimitMs: aNumber,
  processes: aRecord,
  timers: aRecord,
}

/**
 * MLGym in processes of its own, one for each session: a small Python bridge imports `mlgym` and is
 * talked to in lines of JSON. It needs MLGym (from its repository; the package of that name on PyPI
 * is another one) and docker or podman.
 *
 * Errors   `Left(MLGymFailure)` of kind `infrastructure` for a program that cannot be started,
 *          ends, is late, or says what is no answer, with the end of what it wrote to its errors.
 * Effects  starts processes, which end with their session, with this process, or after their limit.
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
        asked: object,
        schema: z.ZodType<T>,
        limitMs: number,
      ): Promise<E.Either<MLGymFailure, T>> => {
        const line = await bridge.ask(asked, { limitMs })
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
