/** `tandem launch`: runs jobs of other trainers on a Ray cluster. */
import { shortNumber } from '@tandem-rl/base'
import { liveIds, liveTimers, print, printError } from '@tandem-rl/base/host'
import { filesBelow, liveLocks } from '@tandem-rl/host'
import {
  asCommandError,
  Command,
  CommandError,
  checkServerUrl,
  interruption,
  orFail,
  readSettingsFile,
  reminded,
} from 'tandem-rl/command'
import { checkFree } from 'tandem-rl/run'
import { createJobFolder, type Followed, followJob, type JobEvent, readJobFolder } from '../launch/jobFolder.js'
import { knownMetric } from '../launch/metricLines.js'
import { jobSchema, type RayJob, type RayJobs, rayJobs } from '../launch/rayJobs.js'

interface Flags {
  readonly url?: string
  readonly out?: string
  readonly entrypoint?: string
  readonly resume?: string
  readonly stop?: string
}

/** Reads the description of a job. */
const readJob = async (file: string | undefined, { entrypoint }: Flags): Promise<RayJob> => {
  const given = file === undefined ? {} : await readSettingsFile(file)
  const fields = typeof given === 'object' && given !== null ? given : {}
  const job = jobSchema.safeParse({ ...fields, ...(entrypoint !== undefined && { entrypoint }) })
  if (job.success) return job.data
  const problems = job.error.issues.map(({ path, message }) => `${path.join('.') || 'job'}: ${message}`)
  throw new CommandError(`${file ?? '--entrypoint'}: ${problems.join('; ')}`)
}

const jobsAt = (url: string): RayJobs => {
  checkServerUrl('--url', url)
  const token = process.env.RAY_AUTH_TOKEN
  return rayJobs({ url, ...(token && { token }) })
}

const write = (text: string): void => {
  print(text)
}

/** Prints the log, and a line for each step that was found in it. */
const onEvent = (event: JobEvent): void => {
  if (event.type === 'log') write(event.text)
  if (event.type === 'waiting') printError(`${event.reason}; trying again\n`)
  if (event.type !== 'step') return
  const parts = (['reward', 'loss', 'entropy'] as const).flatMap((name) => {
    const value = knownMetric(event.step, name)
    return value === null ? [] : [`${name} ${shortNumber(value)}`]
  })
  printError(`step ${event.step.step}${parts.length === 0 ? '' : `: ${parts.join(', ')}`}\n`)
}

/** Turns the end of a job into the end of the command. */
const finish = (folder: string, ended: Followed): void => {
  if (ended === null) {
    const [again, stop] = [`tandem launch --resume ${folder}`, `tandem launch --stop ${folder}`]
    printError(`the job keeps running; to follow it again: ${again}; to stop it: ${stop}\n`)
    return
  }
  if (ended.status === 'SUCCEEDED') return
  throw new CommandError(`the job ${ended.status.toLowerCase()}: ${ended.message ?? 'no message'}`)
}

const follow = async (jobs: RayJobs, folder: string, id: string): Promise<void> => {
  const { signal, release } = interruption('\nleaving the job alone')
  try {
    finish(
      folder,
      await followJob(
        jobs,
        { folder, id, signal, onEvent },
        { files: filesBelow(folder), locks: liveLocks, timers: liveTimers },
      ),
    )
  } catch (error) {
    throw asCommandError(error)
  } finally {
    release()
  }
}

/** Returns the job of a folder, at the address that a flag gives instead of the stored one. */
const jobOf = async (folder: string, { url }: Flags): Promise<{ readonly jobs: RayJobs; readonly id: string }> => {
  const job = await readJobFolder(filesBelow(folder), folder)
  if (job === null) throw new CommandError(`${folder} is not the folder of a job on a Ray cluster`)
  return { jobs: jobsAt(url ?? job.url), id: job.id }
}

const stop = async (folder: string, flags: Flags): Promise<void> => {
  const { jobs, id } = await jobOf(folder, flags)
  write(
    (await reminded(`waiting for the cluster ${jobs.url}`, () => orFail(jobs.stop(id))))
      ? `asked the job ${id} to stop\n`
      : `the job ${id} had ended\n`,
  )
}

const launch = async (file: string | undefined, flags: Flags): Promise<void> => {
  if (flags.stop !== undefined) return stop(flags.stop, flags)
  if (flags.resume !== undefined) {
    const { jobs, id } = await jobOf(flags.resume, flags)
    return follow(jobs, flags.resume, id)
  }
  if (flags.url === undefined) throw new CommandError('give the address of the cluster: --url http://head:8265')
  const [jobs, job, id] = [jobsAt(flags.url), await readJob(file, flags), `tandem-${liveIds.fresh().slice(0, 16)}`]
  const folder = flags.out ?? `runs/${id}`
  await orFail(checkFree(filesBelow(folder), folder))
  await reminded(`waiting for the cluster ${jobs.url}`, () => orFail(jobs.submit(job, id)))
  await orFail(createJobFolder(filesBelow(folder), folder, { url: jobs.url, id, job }))
  printError(`submitted ${id} to ${jobs.url}; run folder ${folder}\n`)
  await follow(jobs, folder, id)
}

/** Makes the command. */
export const launchCommand = (): Command =>
  new Command('launch')
    .description(
      'Submits a job to the Jobs API of a Ray cluster, and copies its log and metrics to a run folder. Ctrl-C leaves the job running.',
    )
    .argument('[job]', 'YAML or JSON file with entrypoint, runtime_env and further fields of the Jobs API')
    .option('--url <url>', "address of the cluster's dashboard, such as http://head:8265")
    .option('--out <folder>', 'run folder (default: a new one in runs)')
    .option('--entrypoint <command>', 'command of the job, instead of the one in the file')
    .option('--resume <folder>', 'follow the job of a run folder again')
    .option('--stop <folder>', 'stop the job of a run folder')
    .action(launch)
