/** `tandem train`: options to settings, events to the screen. */
import { availableParallelism } from 'node:os'
import { resolve } from 'node:path'
import { Command, Option } from 'commander'
import { formatEstimate } from '../collectors/memoryEstimate.js'
import type { SelectedBackend } from '../engine/select.js'
import { EMBEDDED_MODEL } from '../live/embeddedModel.js'
import { liveFiles } from '../live/files.js'
import type { RunEvent } from '../run/events.js'
import { finishRun, type PreparedRun, prepareRun } from '../run/prepare.js'
import type { RunSummary } from '../run/records.js'
import { openRun } from '../run/runFolder.js'
import { ALGORITHM_NAMES, DEFAULT_SETTINGS, OPTIMIZER_NAMES, type RunSettings } from '../run/settings.js'
import { stepName } from '../run/stepName.js'
import { train } from '../run/train.js'
import { asCommandError, CommandError, orFail } from './failure.js'
import {
  DATASET_ARGUMENT,
  DATASET_HELP,
  datasetName,
  type EngineOptions,
  engineOptions,
  MODEL_HELP,
  modelName,
  naturalNumber,
  nonNegativeNumber,
  oneOf,
  positiveInteger,
  positiveNumber,
  startEngine,
} from './options.js'
import { barDisplay, type Display, jsonDisplay, lineDisplay } from './progress.js'
import { replayStep } from './replay.js'
import { openTracking, type Tracking, type TrackingFlags, trackingOptions } from './tracking.js'

interface TrainFlags extends EngineOptions, TrackingFlags, Partial<RunSettings> {
  readonly out?: string
  readonly resume?: string
  readonly replay?: string
  readonly json?: boolean
  readonly merge?: boolean
  readonly memory?: 'check' | 'ignore'
  readonly samplerThreads?: number
}

/** Settings that can be given on the command line: flag, argument, what it is, how it is read. */
const FLAGS: readonly (readonly [
  name: keyof RunSettings,
  argument: string,
  help: string,
  read: (text: string) => unknown,
])[] = [
  ['algorithm', '<name>', 'how advantages and the loss are made', oneOf(ALGORITHM_NAMES)],
  ['steps', '<n>', 'batches that are collected and learned from', positiveInteger],
  ['seed', '<n>', 'seed of everything random', naturalNumber],
  ['prompts', '<n>', 'different problems in a step', positiveInteger],
  ['group', '<n>', 'completions of each problem', positiveInteger],
  ['maxNewTokens', '<n>', 'longest completion in tokens', positiveInteger],
  ['temperature', '<x>', 'sampling temperature', positiveNumber],
  ['learningRate', '<x>', 'learning rate', positiveNumber],
  ['clipLow', '<x>', 'how far a ratio may fall below 1; off: as the algorithm has it', nonNegativeNumber],
  ['clipHigh', '<x>', 'how far a ratio may rise above 1; off: as the algorithm has it', nonNegativeNumber],
  ['klCoefficient', '<x>', 'weight of the KL divergence from the first weights', nonNegativeNumber],
  ['maxGradNorm', '<x>', 'longest gradient', positiveNumber],
  ['evalEvery', '<n>', 'steps between evaluations', positiveInteger],
  ['evalProblems', '<n>', 'problems in an evaluation', positiveInteger],
  ['checkpointEvery', '<n>', 'steps between checkpoints', positiveInteger],
  ['trajectories', '<n>', 'completions kept of each step', naturalNumber],
  ['loraRank', '<n>', 'train an adapter of this rank in the place of all weights', positiveInteger],
  ['loraAlpha', '<x>', 'strength of the adapter', positiveNumber],
  ['loraTarget', '<names>', 'modules that the adapter changes, with commas between them', String],
  [
    'loraScaling',
    '<how>',
    'scale of the adapter, alpha/rank or alpha/sqrt(rank)',
    oneOf(['alpha/rank', 'alpha/sqrt(rank)']),
  ],
  ['epochs', '<n>', 'passes over the completions of a step', positiveInteger],
  ['miniBatches', '<n>', 'optimizer steps of a pass, each on groups of its own', positiveInteger],
  [
    'oldLogProbs',
    '<whose>',
    'which probabilities ratios are taken against: sampled, or rescored before the first update of a step',
    oneOf(['sampled', 'rescored']),
  ],
  [
    'dynamicSampling',
    '<rounds>',
    'sample groups without a signal again, in so many rounds for a batch; 1: never, off: as the algorithm has it',
    positiveInteger,
  ],
  [
    'overlongCache',
    '<n>',
    'last tokens of the longest completion that cost something; 0: none, off: as the algorithm has it',
    naturalNumber,
  ],
  ['overlongFactor', '<x>', 'what a completion of the longest length costs', nonNegativeNumber],
  ['truncated', '<how>', 'learn from completions that the token limit cut off, or mask them', oneOf(['learn', 'mask'])],
  [
    'alarms',
    '<mode>',
    'when a run gets into trouble: off, warn, or stop after the step, saved',
    oneOf(['off', 'warn', 'stop']),
  ],
  [
    'alarmLimits',
    '<list>',
    'other limits of alarms, such as truncation=0.2 or truncation=off, with commas between them',
    String,
  ],
  ['saveBatches', '<n>', 'steps between batches that are kept for --replay', positiveInteger],
  ['keepBatches', '<n>', 'how many of them are kept, the newest', positiveInteger],
  [
    'correction',
    '<how>',
    'weights for tokens that the trainer rates otherwise than the sampler, by token or sequence, truncated or masked at limits',
    oneOf(['none', 'token-truncated', 'sequence-truncated', 'token-masked', 'sequence-masked']),
  ],
  ['correctionLow', '<x>', 'smallest weight before it is masked; off: 0.5', nonNegativeNumber],
  [
    'correctionHigh',
    '<x>',
    'largest weight; off: 2 where weights are truncated, 5 where they are masked',
    positiveNumber,
  ],
  ['rejection', '<what>', 'leave out what is above a limit in this statistic of the page about runs', String],
  ['rejectionLimit', '<x>', 'that limit', positiveNumber],
  ['optimizer', '<name>', `how weights follow gradients: ${OPTIMIZER_NAMES.join(', ')}`, oneOf(OPTIMIZER_NAMES)],
  ['optimizerOptions', '<list>', 'its options, such as beta2=0.95,weightDecay=0.01, with commas between them', String],
  [
    'schedule',
    '<name>',
    'how the learning rate falls to 0 at the end of the run: constant, linear or cosine',
    oneOf(['constant', 'linear', 'cosine']),
  ],
  ['warmup', '<n>', 'steps in which the learning rate rises first', naturalNumber],
  ['klIn', '<where>', 'where the KL divergence counts: in the reward or in the loss', oneOf(['reward', 'loss'])],
  ['klForm', '<name>', 'estimate of the KL divergence; off: k1 in the reward, k3 in the loss', String],
  ['klTarget', '<nats>', 'divergence of a completion that the weight in the reward leads to', positiveNumber],
  ['klHorizon', '<n>', 'completions in which that weight changes by a factor of about e', positiveNumber],
  [
    'maxLag',
    '<n>',
    'updates that a completion may be behind what learns from it: above 0, sampling goes on beside learning, on a thread of its own',
    naturalNumber,
  ],
  [
    'stale',
    '<how>',
    'groups that would be older: wait for them in time, drop them, or correct their tokens',
    oneOf(['wait', 'drop', 'correct']),
  ],
  [
    'workers',
    '<n>',
    'threads that sample and compute gradients side by side, each with the weights; the cores are shared out to them',
    positiveInteger,
  ],
  ['microBatch', '<n>', 'tokens computed in one run, about', positiveInteger],
  [
    'recompute',
    '<what>',
    'what is computed again for the gradient to save memory: none or layers',
    oneOf(['none', 'layers']),
  ],
  ['dtype', '<type>', 'write the trained model at the end, in F32, BF16 or F16', oneOf(['F32', 'BF16', 'F16'])],
]

const kebab = (name: string): string => name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)

/** The settings among the flags: only those that were given. */
const givenSettings = (flags: TrainFlags): Partial<RunSettings> => {
  const given = Object.fromEntries(
    FLAGS.map(([name]) => [name, flags[name]] as const).filter(([, value]) => value !== undefined),
  ) as Partial<RunSettings> // the values were read by the flags' own parsers
  return {
    ...(flags.merge === true && { dtype: 'F32' as const }),
    ...given,
    ...(flags.model && { model: modelName(flags.model) }),
    ...(flags.dataset && { dataset: datasetName(flags.dataset) }),
    ...(flags.evalDataset && { evalDataset: datasetName(flags.evalDataset) }),
  }
}

const timestamp = (): string => new Date().toISOString().slice(0, 19).replaceAll(':', '-')

const displayFor = (flags: TrainFlags): Display => {
  if (flags.json === true) return jsonDisplay((line) => process.stdout.write(line))
  return process.stderr.isTTY ? barDisplay(process.stderr) : lineDisplay((line) => process.stdout.write(line))
}

/** Runs to the end, or to the end of the step in which somebody presses Ctrl-C. */
const runToEnd = async (
  run: PreparedRun,
  { display, tracking }: { readonly display: Display; readonly tracking: Tracking },
  say: (text: string) => void,
): Promise<RunEvent | undefined> => {
  const abort = new AbortController()
  const onSignal = (): void => {
    if (abort.signal.aborted) process.exit(130)
    abort.abort()
    say('\nfinishing this step, then saving; press Ctrl-C again to stop at once\n')
  }
  process.on('SIGINT', onSignal)
  process.on('SIGTERM', onSignal)
  let last: RunEvent | undefined
  try {
    for await (const event of tracking.follow(run, train({ ...run, signal: abort.signal }))) {
      display.show(event)
      last = event
    }
  } catch (error) {
    throw asCommandError(error)
  } finally {
    display.close()
    await tracking.close()
    process.off('SIGINT', onSignal)
    process.off('SIGTERM', onSignal)
  }
  return last
}

/** Says so if the last evaluation is older than the weights, as in a run that was interrupted. */
const measuredEarlier = ({ evaluations, steps }: RunSummary): string => {
  const measured = evaluations.at(-1)?.step ?? 0
  return measured === steps ? '' : ` (measured after ${measured} steps)`
}

/** Where the best weights are, if they are not the last ones. */
const bestLine = ({ paths }: PreparedRun, { best, steps }: RunSummary): readonly string[] =>
  best === null || best === undefined || best.step === steps
    ? []
    : [
        `best: ${(100 * best.accuracy).toFixed(1)} % after ${best.step} steps, in ${paths.checkpoints}/${stepName(best.step)}`,
      ]

const conclude = async (run: PreparedRun, last: RunEvent | undefined, say: (text: string) => void): Promise<void> => {
  if (last?.type !== 'end') return
  const { summary } = last
  await orFail(finishRun(run.paths, summary))
  const percent = (share: number): string => `${(100 * share).toFixed(1)} %`
  const { generation, training } = summary.tokensPerSecond
  say(
    [
      '',
      `${summary.steps} steps in ${summary.secondsTotal.toFixed(0)} s (${generation.toFixed(0)} tokens/s sampled, ${training.toFixed(0)} tokens/s trained)`,
      `accuracy on ${summary.evalProblems} held-out problems: ${percent(summary.accuracyBefore)} -> ${percent(summary.accuracyAfter)}${measuredEarlier(summary)}`,
      ...bestLine(run, summary),
      `worked-out completions:          ${percent(summary.workedBefore)} -> ${percent(summary.workedAfter)}`,
      `report: ${run.paths.report}`,
      ...(summary.status === 'interrupted' ? [`go on with: tandem train --resume ${run.paths.folder}`] : []),
      '',
    ].join('\n'),
  )
}

/** Prepares the run of the flags, and follows it to its end. */
const trainRun = async (
  flags: TrainFlags,
  { engine, tracking }: { readonly engine: SelectedBackend; readonly tracking: Tracking },
  say: (text: string) => void,
): Promise<void> => {
  const given = givenSettings(flags)
  const run = await orFail(
    prepareRun(
      flags.resume === undefined
        ? {
            _tag: 'New',
            folder: resolve(flags.out ?? `runs/${timestamp()}`),
            settings: { model: EMBEDDED_MODEL, ...DEFAULT_SETTINGS, ...given },
          }
        : { _tag: 'Resume', folder: resolve(flags.resume), asked: given },
      { memory: flags.memory ?? 'check' },
    ),
  )
  say(
    `${engine.backend} backend (${engine.packageName}); run folder ${run.paths.folder}\n${formatEstimate(run.memory)}\n`,
  )
  const sampler = {
    ...(flags.backend && { backend: flags.backend }),
    ...(flags.samplerThreads !== undefined && { threads: flags.samplerThreads }),
  }
  await conclude(
    run,
    await runToEnd(
      { ...run, sampler, samples: flags.trackSamples ?? 0 },
      { display: displayFor(flags), tracking },
      say,
    ),
    say,
  )
}

/** The run's own engine. Threads that compute side by side share the cores out, unless somebody says otherwise. */
const besideOthers = async (flags: TrainFlags): Promise<EngineOptions> => {
  if (flags.threads !== undefined) return flags
  const { resume } = flags
  const settings = resume === undefined ? flags : (await orFail(openRun(liveFiles, resolve(resume)))).settings
  const { maxLag = 0, workers = 1 } = settings
  const computing = workers + (maxLag === 0 ? 0 : 1)
  return computing === 1 ? flags : { ...flags, threads: Math.max(1, Math.floor(availableParallelism() / computing)) }
}

/** A step to do again needs a run, and changes nothing of it. */
const replayed = ({ resume, replay, ...flags }: TrainFlags): { readonly resume: string; readonly replay: string } => {
  if (resume === undefined || replay === undefined)
    throw new CommandError('--replay does a step of a run again: name the run with --resume')
  const given = Object.keys(givenSettings(flags))
  if (given.length > 0)
    throw new CommandError(
      `--replay takes the settings of the run: leave out ${given.map((name) => `--${kebab(name)}`).join(', ')}`,
    )
  return { resume, replay }
}

const action = async (flags: TrainFlags): Promise<void> => {
  const say = (text: string): void => {
    process.stderr.write(text)
  }
  if (flags.resume !== undefined && flags.out !== undefined) {
    throw new CommandError('--resume goes on in its own folder: leave out --out')
  }
  if (flags.merge === true && flags.resume === undefined && flags.loraRank === undefined) {
    throw new CommandError(
      '--merge merges an adapter into the model: give its --lora-rank, or --dtype for a model without one',
    )
  }
  const step = flags.replay === undefined ? undefined : { ...flags, ...replayed(flags) }
  const engine = await startEngine(await besideOthers(flags))
  if (step !== undefined) return replayStep(step, say)
  const tracking = await openTracking(flags, say)
  try {
    await trainRun(flags, { engine, tracking }, say)
  } finally {
    await tracking.close()
  }
}

export const trainCommand = (): Command => {
  const command = new Command('train')
    .description(
      'Train a model by GRPO or one of its relatives on word problems, and write a run folder with metrics, checkpoints and a report.',
    )
    .option('--out <folder>', 'run folder (default: runs/ and the time)')
    .option('--resume <folder>', 'go on with a run from its last checkpoint')
    .option(
      '--replay <batch>',
      'with --resume: do one step again, by number or by the folder of its batch, and say what differs',
    )
    .option('--model <name>', `model to begin with: ${MODEL_HELP} (default: the one that comes with Tandem)`)
    .option(`--dataset ${DATASET_ARGUMENT}`, `${DATASET_HELP} (default: generated word problems)`)
    .option(`--eval-dataset ${DATASET_ARGUMENT}`, 'rows to evaluate on (default: held-out problems)')
  for (const [name, argument, help, read] of FLAGS) {
    const value = DEFAULT_SETTINGS[name as keyof typeof DEFAULT_SETTINGS] // no flag in the list is the model
    const shown = value === null ? 'off' : String(value)
    command.addOption(new Option(`--${kebab(name)} ${argument}`, `${help} (default: ${shown})`).argParser(read))
  }
  for (const option of [...engineOptions(), ...trackingOptions()]) command.addOption(option)
  command.addOption(
    new Option(
      '--sampler-threads <n>',
      'threads of what samples beside the run, with --max-lag (default: 1)',
    ).argParser(positiveInteger),
  )
  command.addOption(
    new Option(
      '--memory <mode>',
      'refuse a run that takes more memory than there is, or ignore it (default: check)',
    ).choices(['check', 'ignore']),
  )
  command.addHelpText('after', `\nAlgorithms: ${ALGORITHM_NAMES.join(', ')}`)
  command.option('--merge', 'write the model with the adapter merged into it at the end')
  return command.option('--json', 'print every event as a line of JSON').action(action)
}
