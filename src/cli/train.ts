/** `tandem train RECIPE`: starts or resumes a run of a recipe. */
import { existsSync } from 'node:fs'
import { resolve } from 'node:path'
import { countOf, differingSettings, FailureError } from '@tandem-rl/base'
import { liveClock, print } from '@tandem-rl/base/host'
import { filesBelow } from '@tandem-rl/host'
import { Command, type Option } from 'commander'
import { stepName } from '../data/runLayout.js'
import { formatEstimate } from '../learners/memoryEstimate.js'
import { trainOptionsOf } from '../run/define/choices.js'
import type { PolicyRun } from '../run/define/policyParts.js'
import type { Calibration } from '../run/metrics/calibration.js'
import { type RunSummary, scoreText } from '../run/metrics/records.js'
import type { Recipe } from '../run/parts/recipe.js'
import type { AnyRun } from '../run/parts/run.js'
import { MAY_CHANGE } from '../run/parts/settings.js'
import type { RecipeRecord } from '../run/store/options.js'
import { checkFree } from '../run/store/runFolder.js'
import { runFolder } from '../run/store/store.js'
import { describeStep, sampleStep } from '../run/train/step.js'
import { train } from '../run/train/train.js'
import { calibratedRun, calibrateOption, checkCalibrate, threadsOfRun } from './calibration.js'
import { asCommandError } from './expectedErrors.js'
import { CommandError, orFail } from './failure.js'
import { interruption } from './interruption.js'
import { engineOptions } from './options.js'
import {
  type AcceptFlags,
  acceptOption,
  type BuildFlags,
  build,
  type Chosen,
  changesOf,
  checkFirst,
  choose,
  memoryOption,
  type Settings,
  say,
  settingsOf,
  storedSettings,
} from './plan.js'
import {
  checkProfile,
  type ProfileFlags,
  type ProfileWatch,
  profileOption,
  profileWatch,
  startMeasuredEngine,
} from './profiling.js'
import { barDisplay, type Display, jsonDisplay, lineDisplay } from './progress.js'
import { leaseOption, type QueueFlags, queueOptions, withQueue } from './queue.js'
import { addRecipeFlags } from './recipeFlags.js'
import { recipeDigest } from './recipeTrust.js'
import { openedBy, type RemoteFlags, remoteOptions, remoteTraining } from './remoteTraining.js'
import { openTracking, type Tracking, type TrackingFlags, trackingOptions } from './tracking.js'

interface TrainFlags extends ProfileFlags, TrackingFlags, BuildFlags, RemoteFlags, AcceptFlags, Partial<QueueFlags> {
  readonly out?: string
  readonly resume?: string
  readonly json?: true
  readonly printConfig?: true
}

type Flags = TrainFlags & Settings

const timestamp = (): string => new Date().toISOString().slice(0, 19).replaceAll(':', '-')

/** A planned run: the recipe, its settings, and the run folder. */
interface Planned {
  readonly chosen: Chosen
  readonly settings: Settings
  readonly folder: string
  readonly calibration?: Calibration
}

/** Returns `true` if a setting may change on resume. With a decaying schedule, `steps` may not. */
const mayChange = (recipe: Recipe, path: string, { learner }: Settings): boolean => {
  const isScheduled =
    typeof learner === 'object' && learner !== null && 'schedule' in learner && learner.schedule !== 'constant'
  if (path === 'steps' && isScheduled) return false
  return [...MAY_CHANGE, ...recipe.mayChange].some((each) => path === each || path.startsWith(`${each}.`))
}

/** Throws CommandError that lists every changed setting that must not change on resume. */
const checkResumed = (chosen: Chosen, request: Settings): void => {
  if (chosen.run === null) return
  const stored = storedSettings(chosen, chosen.run.config)
  const refused = differingSettings(stored, request).filter(({ path }) => !mayChange(chosen.recipe, path, stored))
  if (refused.length === 0) return
  const list = refused.map(({ path, was, is }) => `${path} is ${JSON.stringify(was)}, not ${JSON.stringify(is)}`)
  throw new CommandError(
    `the run has other settings: ${list.join('; ')}. Resume without these, or start a new run with --out`,
  )
}

const plan = async (chosen: Chosen, flags: Flags): Promise<Planned> => {
  if (flags.resume !== undefined && flags.out !== undefined)
    throw new CommandError('--resume continues in the same folder: omit --out')
  const settings = await settingsOf(chosen, flags)
  checkResumed(chosen, settings)
  return { chosen, settings, folder: chosen.run?.folder ?? resolve(flags.out ?? `runs/${timestamp()}`) }
}

const recordOf = async ({ chosen: { recipe, file }, settings, calibration }: Planned): Promise<RecipeRecord> => ({
  name: recipe.name,
  file,
  ...(file !== null && { digest: await recipeDigest(file) }),
  ...(calibration && { calibration }),
  settings: settings as RecipeRecord['settings'], // JSON: they were read from text
})

const displayFor = ({ json }: Flags): Display => {
  if (json === true) return jsonDisplay(print)
  return process.stderr.isTTY ? barDisplay(process.stderr) : lineDisplay(print)
}

/** Returns the options of `train` from the shared settings of a recipe. */
const optionsOf = (settings: Settings) =>
  'keep' in settings
    ? trainOptionsOf(settings as Parameters<typeof trainOptionsOf>[0]) // the group of that name, by the schema of the recipe
    : { steps: Number(settings.steps ?? 1) }

/** Formats the result of a run for the terminal. */
const conclusion = (folder: string, summary: RunSummary): string => {
  const { steps, best, secondsTotal, tokensPerSecond, evaluated, status } = summary
  const speeds = Object.entries({ sampled: tokensPerSecond.generation, trained: tokensPerSecond.training })
    .flatMap(([what, rate]) => (rate === 0 ? [] : [`${rate.toFixed(0)} tokens/s ${what}`]))
    .join(', ')
  const measured = summary.evaluations.at(-1)?.step ?? 0
  const late = measured === steps ? '' : ` (measured after ${countOf(measured, 'step')})`
  return [
    '',
    `${countOf(steps, 'step')} in ${secondsTotal.toFixed(0)} s${speeds === '' ? '' : ` (${speeds})`}`,
    ...evaluated.map(({ name, score, measure, tasks, before, after }) => {
      const [first, last] = [before, after].map((scores) => scoreText(measure, scores[score] ?? Number.NaN))
      return `${name}, ${countOf(tasks, 'task')}: ${score} ${first} -> ${last}${late}`
    }),
    ...(best === null || best.step === steps
      ? []
      : [
          `best: ${best.name} ${scoreText(evaluated[0]?.measure ?? 'return', best.value)} after ${countOf(best.step, 'step')}, in checkpoints/${stepName(best.step)}`,
        ]),
    `report: ${folder}/report.html`,
    ...(status === 'interrupted' ? [`resume with: tandem train --resume ${folder}`] : []),
    '',
  ].join('\n')
}

/** Tags of failures without a run that can be resumed. */
const OF_FOLDER: readonly string[] = ['RunFolderFailure', 'LockFailure', 'CheckpointFailure', 'FileFailure']

/** Returns true if a run can continue: after a checkpoint, or a failure outside its environment. */
const canResume = ({ failure }: FailureError, folder: string): boolean =>
  !OF_FOLDER.includes(failure._tag) &&
  existsSync(failure._tag === 'EnvFailure' ? `${folder}/checkpoints` : `${folder}/config.json`)

/** Adds the command that resumes the run to its failure, where that can help. */
const failedRun = (error: unknown, folder: string): unknown =>
  error instanceof FailureError && canResume(error, folder)
    ? new CommandError(`${error.message}\nresume with: tandem train --resume ${folder}`)
    : asCommandError(error)

/** Trains to the end, or, after Ctrl-C, to the end of the current step. */
const follow = async (planned: Planned, run: AnyRun, { flags, tracking, profile }: Started): Promise<void> => {
  const { folder, chosen, settings } = planned
  const { signal, release } = interruption('\nfinishing this step, then saving')
  const display = displayFor(flags)
  const store = runFolder(folder, { existing: chosen.run === null ? 'refuse' : 'resume', ...changesOf(flags) })
  let summary: RunSummary | undefined
  try {
    const events = train(run, { ...optionsOf(settings), store, signal, recipe: await recordOf(planned) })
    for await (const event of tracking.follow({ folder, isResumed: chosen.run !== null }, events)) {
      display.show(event)
      profile.follow(event)
      if (event.type === 'end') summary = event.summary
    }
  } catch (error) {
    throw failedRun(error, folder)
  } finally {
    display.close()
    profile.close()
    await tracking.close()
    release()
  }
  if (summary !== undefined) say(conclusion(folder, summary))
}

/** Collects one batch and prints its metrics, without training. */
const dryRun = async (run: AnyRun): Promise<void> => {
  try {
    await run.begin?.()
    const source = await run.source.open({ step: 0, lastStep: 1, position: null, push: run.push })
    const open = { run, source, clock: liveClock }
    try {
      using sampled = await sampleStep(open, {
        step: 0,
        position: source.position,
        klCoefficient: run.source.kl?.coefficient ?? 0,
      })
      const batch = { type: 'batch', ...describeStep(open, sampled), seconds: sampled.seconds }
      print(`${JSON.stringify(batch, undefined, 2)}\n`)
    } finally {
      await source.close()
    }
  } catch (error) {
    throw asCommandError(error)
  } finally {
    await run.close()
  }
}

/** The flags, the opened trackers and the profile of a run. */
interface Started {
  readonly flags: Flags
  readonly tracking: Tracking
  readonly profile: ProfileWatch
}

/** Returns the choices by size and the memory estimate of a run as text, if it has them. */
const estimateOf = (run: AnyRun & Pick<PolicyRun, 'memory'>): string =>
  [...(run.learner.choices ?? []), ...(run.memory === undefined ? [] : [formatEstimate(run.memory)])]
    .map((line) => `${line}\n`)
    .join('')

/** Builds the run. With `--calibrate`, chooses its settings. Returns `null` after Ctrl-C. */
const builtRun = async (planned: Planned, flags: Flags): Promise<(Planned & { readonly run: AnyRun }) | null> => {
  const { chosen, settings } = planned
  const training = await remoteTraining(flags)
  const run = await openedBy(training, (context) => build(chosen, settings, { ...flags, ...context }))
  if (flags.calibrate === undefined) return { ...planned, run: await withQueue(run, flags) }
  const calibrated = await calibratedRun(planned, run, flags)
  return calibrated && { ...planned, ...calibrated }
}

const start = async (planned: Planned, flags: Flags): Promise<void> => {
  const { chosen, settings, folder } = planned
  const isNew = chosen.run === null && flags.dryRun !== true
  if (isNew) await orFail(checkFree(filesBelow(folder), folder)) // before the recipe builds, which may take minutes
  const { engine, profiler } = await startMeasuredEngine({ ...threadsOfRun(chosen, settings), ...flags })
  const tracking = await openTracking(flags, say)
  try {
    const built = await builtRun(planned, flags)
    if (built === null) return
    const { run } = built
    say(`${engine.backend} backend (${engine.packageName}); recipe ${chosen.recipe.name}\n${estimateOf(run)}`)
    if (flags.dryRun === true) return await dryRun(run)
    say(`run folder ${folder}\n`)
    await follow(built, run, { flags, tracking, profile: profileWatch(profiler, flags.profile ?? 0, folder) })
  } finally {
    profiler?.close()
    await tracking.close()
  }
}

const action =
  (chosen: Chosen) =>
  async (given: string | undefined, flags: Flags): Promise<void> => {
    checkFirst(chosen, given)
    checkCalibrate(flags)
    checkProfile(flags)
    const planned = await plan(chosen, flags)
    if (flags.printConfig !== true) return start(planned, flags)
    print(`${JSON.stringify(planned.settings, undefined, 2)}\n`)
  }

/** Makes the command, with flags for the settings of the recipe that the arguments name. */
export const trainCommand = async (args: readonly string[]): Promise<Command> => {
  const chosen = await choose(args, 'resume')
  const command = new Command('train')
    .description(chosen.recipe.summary)
    .argument('[recipe]', 'a recipe by name, or a file that exports one (default: wordProblems)')
    .option('--out <folder>', 'run folder (default: runs/TIME)')
    .option('--resume <folder>', 'resume a run from its last checkpoint')
    .option('--print-config', 'print all settings as JSON, usable with --config, and exit')
    .option('--dry-run', 'check the run and its memory, collect one batch, print its metrics, and exit')
  addRecipeFlags(command, chosen.recipe)
  const options: readonly Option[] = [
    acceptOption(),
    calibrateOption(),
    profileOption(),
    memoryOption(),
    ...remoteOptions(),
    ...engineOptions(),
    ...queueOptions(),
    leaseOption(),
    ...trackingOptions(),
  ]
  for (const option of options) command.addOption(option)
  return command.option('--json', 'print every event as a line of JSON').action(action(chosen))
}
