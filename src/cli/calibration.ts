/** `tandem train --calibrate`: chooses threads, workers and micro-batch before the first step. */
import { defaultThreads, host, liveClock } from '@tandem-rl/base/host'
import { engineThreads } from '@tandem-rl/tfjs-onnxruntime'
import { Option } from 'commander'
import { calibrate, type LearningTrials } from '../run/define/calibrate.js'
import { type Calibration, candidateText, isSameCandidate, measuredText } from '../run/metrics/calibration.js'
import { withSetting } from '../run/parts/recipe.js'
import type { AnyRun } from '../run/parts/run.js'
import { asCommandError } from './expectedErrors.js'
import { CommandError } from './failure.js'
import { interruption } from './interruption.js'
import { type BuildFlags, build, type Chosen, type Settings, say } from './plan.js'
import { checkedSettings } from './recipeFlags.js'

/** The flags that decide whether a run can be calibrated. */
export interface CalibrateFlags {
  readonly calibrate?: true
  readonly learner?: string
  readonly queue?: string
  readonly resume?: string
}

export const calibrateOption = (): Option =>
  new Option(
    '--calibrate',
    'time a few threads, workers and micro-batches for up to 30 s before the first step, and use the fastest',
  )

/** Throws CommandError for flags that do not go together with `--calibrate`. */
export const checkCalibrate = ({ calibrate: isWanted, learner, queue, resume }: CalibrateFlags): void => {
  if (isWanted === undefined) return
  if (learner !== undefined)
    throw new CommandError('--calibrate measures this machine, but --learner trains on a server')
  if (queue !== undefined)
    throw new CommandError(
      '--calibrate changes settings that the workers of --queue share: give --workers and --micro-batch',
    )
  if (resume !== undefined)
    throw new CommandError('--resume keeps the threads and settings of the run: omit --calibrate')
}

/**
 * Returns the threads inside operations of a run: those of its calibration, else the default
 * divided among its workers.
 */
export const threadsOfRun = ({ run }: Pick<Chosen, 'run'>, { compute }: Settings): { readonly threads?: number } => {
  const calibrated = run?.config.calibration?.chosen.threads ?? null
  if (calibrated !== null) return { threads: calibrated }
  const workers = typeof compute === 'object' && compute !== null && 'workers' in compute ? Number(compute.workers) : 1
  return workers > 1 ? { threads: Math.max(1, Math.floor(defaultThreads() / workers)) } : {}
}

const trialsOf = (run: AnyRun, { recipe }: Pick<Chosen, 'recipe'>): LearningTrials => {
  if ('trials' in run) return run.trials as LearningTrials // only runs of grpoParts have the field
  throw new CommandError(
    `the recipe ${recipe.name} cannot be calibrated: --calibrate needs a recipe that uses grpoParts`,
  )
}

/** Measures the candidates, and prints each. Returns `null` after Ctrl-C. */
const measured = async (trials: LearningTrials): Promise<Calibration | null> => {
  const { signal, release } = interruption('\nending the calibration')
  say('calibrating threads, workers and micro-batch\n') // with Ctrl-C handled from here
  try {
    return await calibrate({
      trials,
      signal,
      threads: engineThreads(),
      cores: host().cores,
      clock: liveClock,
      onMeasured: (row) => say(`  ${measuredText(row)}\n`),
    })
  } finally {
    release()
  }
}

/** A built run, its settings, and the measurements that chose some of them. */
interface CalibratedRun {
  readonly run: AnyRun
  readonly settings: Settings
  readonly calibration: Calibration
}

/** Measures the candidates of a run. Closes it after an error and after Ctrl-C. */
const calibrationOf = async (run: AnyRun, chosen: Chosen): Promise<Calibration | null> => {
  try {
    const found = await measured(trialsOf(run, chosen))
    if (found === null) await run.close()
    return found
  } catch (error) {
    await run.close()
    throw asCommandError(error)
  }
}

/**
 * Measures the candidates of a built run. Returns it if its own candidate is the fastest. Else
 * closes it, and builds a new one as if the fastest candidate had been given by flags.
 *
 * Returns  `null` after Ctrl-C.
 * Errors   throws CommandError if the recipe does not use `grpoParts`, and for expected failures of
 *          the trials.
 * Effects  sets the threads of the engine.
 */
export const calibratedRun = async (
  { chosen, settings }: { readonly chosen: Chosen; readonly settings: Settings },
  run: AnyRun,
  flags: BuildFlags,
): Promise<CalibratedRun | null> => {
  const calibration = await calibrationOf(run, chosen)
  if (calibration === null) {
    say('the calibration was interrupted: no run was started\n')
    return null
  }
  const { chosen: best, measured: rows, omitted } = calibration
  const rest = omitted === 0 ? '' : ` (${omitted} candidates were not measured, for lack of time or memory)`
  say(`chosen: ${candidateText(best)}${rest}\n`)
  if (isSameCandidate(best, rows[0]!)) return { run, settings, calibration } // the first one is that of the settings
  await run.close()
  if (best.threads !== null) engineThreads()?.use(best.threads)
  const withWorkers = withSetting(settings, ['compute', 'workers'], best.workers)
  const changed = checkedSettings(chosen.recipe, withSetting(withWorkers, ['compute', 'microBatch'], best.microBatch))
  return { run: await build(chosen, changed, flags), settings: changed, calibration }
}
