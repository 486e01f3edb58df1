/** `tandem train --profile`: shows where the time of steps goes. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { countOf, errorMessage } from '@tandem-rl/base'
import { BACKENDS, type SelectedBackend } from '@tandem-rl/tfjs-onnxruntime'
import { type Profiler, profileBackend } from '@tandem-rl/tfjs-onnxruntime/profile'
import { Option } from 'commander'
import type { RunEvent } from '../run/train/events.js'
import { CommandError } from './failure.js'
import { countFor, type EngineOptions, startEngine } from './options.js'
import { say } from './plan.js'

/** The flags of a profile, and those that do not go together with it. */
export interface ProfileFlags extends EngineOptions {
  readonly profile?: number
  readonly calibrate?: true
  readonly dryRun?: true
  readonly learner?: 'tinker'
}

export const profileOption = (): Option =>
  new Option(
    '--profile <steps>',
    'measure every operator in so many steps after the first; write a table and a picture to the run folder',
  ).argParser(countFor('--profile'))

/** Throws CommandError for flags that do not go together with `--profile`. */
export const checkProfile = ({ profile, backend, calibrate, dryRun, learner }: ProfileFlags): void => {
  if (profile === undefined) return
  if (backend !== undefined && backend !== 'onnxruntime')
    throw new CommandError(`--profile measures onnxruntime, one of the backends ${BACKENDS.join(', ')}: omit --backend`)
  if (learner !== undefined) throw new CommandError('--profile measures this machine, but --learner trains on a server')
  if (calibrate === true) throw new CommandError('--calibrate chooses settings: omit it, and profile the chosen ones')
  if (dryRun === true) throw new CommandError('--dry-run trains no step that --profile could measure')
}

/** The engine of a run, with a profiler if one is wanted. */
interface StartedEngine {
  readonly engine: Omit<SelectedBackend, 'attempts'>
  readonly profiler: Profiler | null
}

/** Starts the tensor engine, with a profiler if the flags have one. */
export const startMeasuredEngine = async (flags: ProfileFlags): Promise<StartedEngine> => {
  const { attempts: _, ...engine } = await startEngine({ ...flags, ...(flags.profile && { backend: 'onnxruntime' }) })
  if (flags.profile === undefined) return { engine, profiler: null }
  const { threads } = flags
  return { engine, profiler: await profileBackend(threads === undefined ? {} : { threads }) }
}

/** Follows the events of a run. */
export interface ProfileWatch {
  readonly follow: (event: RunEvent) => void
  /** Deletes the records, and names what is missing if the run ended before its profile. */
  readonly close: () => void
}

/**
 * Profiles the steps after the first one, which compiles graphs.
 *
 * Effects  writes `profile.txt` and `profile.svg` to the run folder, and prints the table.
 */
export const profileWatch = (profiler: Profiler | null, steps: number, folder: string): ProfileWatch => {
  let seen = 0
  const write = (): void => {
    const title = `${countOf(steps, 'step')} of ${folder}`
    try {
      const { table, picture } = profiler!.finish(steps, title) // there is one where this is called
      say(`\n${table}\n\n`)
      writeFileSync(join(folder, 'profile.txt'), `${title}\n\n${table}\n`)
      writeFileSync(join(folder, 'profile.svg'), picture)
      say(`profile: ${join(folder, 'profile.svg')}\n`)
    } catch (error) {
      say(`no profile of ${countOf(steps, 'step')}: ${errorMessage(error)}\n`) // the run continues
    }
  }
  return {
    follow: ({ type }) => {
      if (profiler === null || type !== 'step') return
      if (seen === 0) profiler.start()
      if (seen === steps) write()
      seen++
    },
    close: () => {
      if (profiler !== null && seen <= steps)
        say(`no profile: it needs ${countOf(steps + 1, 'step')}, the first of which compiles graphs\n`)
      profiler?.close()
    },
  }
}
