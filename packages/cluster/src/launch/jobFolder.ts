/** Run folders of jobs on a Ray cluster. */
import {
  describe,
  FailureError,
  type Files,
  type Json,
  type Locks,
  orThrow,
  pauseFor,
  type Timers,
} from '@tandem-rl/base'
import * as E from 'fp-ts/lib/Either.js'
import { createRunFolder, type RunWriter, readRun, writeRun } from 'tandem-rl/run'
import { z } from 'zod'
import { knownMetric, type LoggedStep, stepReader } from './metricLines.js'
import { hasEnded, type RayFailure, type RayJob, type RayJobInfo, type RayJobs } from './rayJobs.js'

/** The effects that following a job needs. */
interface FollowWorld {
  readonly files: Files
  readonly locks: Locks
  readonly timers: Timers
}

/** The job of a run folder. */
interface JobOfFolder {
  readonly url: string
  readonly id: string
}

const settingsSchema = z.object({ url: z.string(), id: z.string() })

/** The log of a job, in its run folder. */
export const jobLogPath = (folder: string): string => `${folder}/job.log`

/** A job without the values of its environment variables, which may be secrets. */
const withoutSecrets = ({ runtime_env: env, ...job }: RayJob): Readonly<Record<string, Json>> => {
  const { env_vars: variables, ...rest } = env ?? {}
  const names = typeof variables === 'object' && variables !== null ? Object.keys(variables) : []
  return JSON.parse(
    JSON.stringify({
      ...job,
      ...(env !== undefined && { runtime_env: { ...rest, ...(names.length > 0 && { env_vars: names }) } }),
    }),
  ) as Readonly<Record<string, Json>> // JSON of a record
}

/** Creates the run folder of a job. */
export const createJobFolder = (
  files: Files,
  folder: string,
  { job, ...place }: JobOfFolder & { readonly job: RayJob },
): ReturnType<typeof createRunFolder> =>
  createRunFolder(folder, { recipe: 'ray job', settings: { ...place, job: withoutSecrets(job) } }, files)

/** Reads the job of a run folder. `null` if it is not the folder of a job. */
export const readJobFolder = async (files: Files, folder: string): Promise<JobOfFolder | null> => {
  const run = await readRun(folder, files)
  return run === null ? null : (settingsSchema.safeParse((await run.records()).settings).data ?? null)
}

/** A record of a step. Quantities that the trainer did not log are absent. */
const stepRecord = (logged: LoggedStep): object => {
  const known = (name: 'loss' | 'entropy' | 'gradNorm') => {
    const value = knownMetric(logged, name)
    return value === null ? {} : { [name]: value }
  }
  const reward = knownMetric(logged, 'reward')
  return {
    type: 'step',
    step: logged.step,
    ...(reward !== null && { reward }),
    update: { ...known('loss'), ...known('entropy'), ...known('gradNorm') },
    metrics: logged.metrics,
    sampling: null,
    parts: {},
    updates: [],
    seconds: {},
  }
}

/** News about a job that is followed. */
export type JobEvent =
  | { readonly type: 'log'; readonly text: string }
  | { readonly type: 'step'; readonly step: LoggedStep }
  | { readonly type: 'waiting'; readonly reason: string }

/** The run folder of a job, and its listener. */
interface FollowedFolder {
  readonly folder: string
  readonly onEvent: (event: JobEvent) => void
}

/** The job's state when following ended, or `null` if it was left running. */
export type Followed = RayJobInfo | null

/** Pauses between looks at the log, in milliseconds, and failures in a row that are endured. */
const [SHORTEST, LONGEST, MAX_FAILURES] = [1000, 60_000, 30] as const

/** Writes what is new in a log to the folder, from its beginning in each session. */
const logWriter = (files: Files, run: RunWriter, { folder, onEvent }: FollowedFolder) => {
  const reader = stepReader()
  let seen = 0
  const steps = async (found: readonly (LoggedStep | null)[]): Promise<void> => {
    const logged = found.filter((step) => step !== null)
    orThrow(await run.append(logged.map(stepRecord))())
    for (const step of logged) onEvent({ type: 'step', step })
  }
  const write = async (log: string): Promise<void> => {
    const isFirst = seen === 0
    const added = log.slice(seen, log.lastIndexOf('\n') + 1)
    if (isFirst) {
      orThrow(await files.write(jobLogPath(folder), '')())
      await steps([]) // without those of an earlier session
    }
    if (added === '') return
    seen += added.length
    orThrow(await files.append(jobLogPath(folder), added)())
    onEvent({ type: 'log', text: added })
    await steps(added.split('\n').map(reader.read))
  }
  return { write, end: () => steps([reader.end()]) }
}

/**
 * Follows a job until it ends or `signal` aborts: copies its log and the metrics in it to the run
 * folder. Following a folder again writes both files anew from the cluster's log.
 *
 * Errors   rejects if another process follows it, if the cluster does not know the job, or after
 *          30 failed requests in a row.
 */
export const followJob = async (
  jobs: RayJobs,
  { id, signal, ...followed }: FollowedFolder & { readonly id: string; readonly signal: AbortSignal },
  { files, locks, timers }: FollowWorld,
): Promise<Followed> => {
  const run = await writeRun(followed.folder, { files, locks })
  try {
    const writer = logWriter(files, run, followed)
    let failures = 0
    while (!signal.aborted) {
      const began = performance.now()
      const looked = await look(jobs, id)
      if (E.isRight(looked)) {
        failures = 0
        const { info, log } = looked.right
        await writer.write(hasEnded(info) && !log.endsWith('\n') ? `${log}\n` : log)
        if (hasEnded(info)) {
          await writer.end()
          const status = info.status === 'SUCCEEDED' ? 'finished' : info.status.toLowerCase()
          orThrow(await run.finish(status)())
          return info
        }
      } else if (looked.left.kind !== 'unreachable' || ++failures === MAX_FAILURES) throw new FailureError(looked.left)
      else followed.onEvent({ type: 'waiting', reason: describe(looked.left) })
      const waitMs = Math.min(LONGEST, Math.max(SHORTEST, 20 * (performance.now() - began), failures * SHORTEST))
      await pauseFor(waitMs, timers, signal)
    }
    return null
  } finally {
    await run.release()
  }
}

/** Reads the state of a job, then its log, so that the log of an ended job is whole. */
const look = async (
  jobs: RayJobs,
  id: string,
): Promise<E.Either<RayFailure, { readonly info: RayJobInfo; readonly log: string }>> => {
  const info = await jobs.info(id)()
  if (E.isLeft(info)) return info
  const log = await jobs.logs(id)()
  return E.isLeft(log) ? log : E.right({ info: info.right, log: log.right })
}
