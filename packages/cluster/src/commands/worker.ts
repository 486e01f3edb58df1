/** `tandem worker RECIPE`: plays rollouts for a remote trainer, on engines served elsewhere. */
import { describe } from '@tandem-rl/base'
import { print, printError } from '@tandem-rl/base/host'
import * as E from 'fp-ts/lib/Either.js'
import {
  addRecipeFlags,
  build,
  type Chosen,
  Command,
  CommandError,
  checkFirst,
  checkServerUrl,
  choose,
  type EngineOptions,
  engineOptions,
  integerBetween,
  interruption,
  Option,
  orFail,
  type QueueFlags,
  queueOptions,
  type Settings,
  settingsOf,
  startEngine,
  withResources,
} from 'tandem-rl/command'
import { type ClientPolicy, vLLMWrapper } from 'tandem-rl/remote'
import { inputsRefusal } from '../queuedRun.js'
import type { QueueLog } from '../queues/queueLog.js'
import { openRolloutQueue, type RolloutQueue } from '../queues/rolloutQueue.js'
import { runRolloutWorker, type WorkerEvent } from '../workers/rolloutWorker.js'
import { OPEN_MS, queueLog } from './queueLog.js'

/** The most rollouts at a time. `docs/limits.md` lists it. */
export const MOST_SLOTS = 2 ** 16

export const parseSlots = integerBetween(1, MOST_SLOTS)

/** Seconds to which timers are limited. */
const LONGEST_WAIT = 2_147_483

interface WorkerFlags extends EngineOptions, QueueFlags {
  readonly on: readonly string[]
  readonly servedModel: string
  readonly apiKey?: string
  readonly slots: number
  readonly name: string
  readonly waitSeconds: number
}

/** Formats a finished rollout as a line of JSON. */
const lineOf = (event: WorkerEvent): string => {
  const { ticket, place, attempt } = event.lease
  const reason = 'reason' in event ? { reason: event.reason } : {}
  return `${JSON.stringify({ type: event._tag.toLowerCase(), ticket, place, attempt, ...reason })}\n`
}

/** Returns the sampling parameters from the shared settings of the recipe. */
const samplingOf = ({ sampling }: Settings): { readonly maxTokens?: number; readonly temperature?: number } => {
  if (typeof sampling !== 'object' || sampling === null) return {}
  const { maxNewTokens, temperature } = sampling as Settings // a group of settings
  return {
    ...(typeof maxNewTokens === 'number' && { maxTokens: maxNewTokens }),
    ...(typeof temperature === 'number' && { temperature }),
  }
}

/** Throws CommandError unless an engine responds. Warns of those that do not. */
const checkEngines = async ({ clients }: ClientPolicy): Promise<void> => {
  const connected = await Promise.all(clients.map(({ connect }) => connect()))
  const failures = connected.filter(E.isLeft).map(({ left }) => describe(left))
  if (failures.length === clients.length) throw new CommandError(`--on: ${failures.join('; ')}`)
  for (const failure of failures) printError(`warning: ${failure}\n`)
}

/** Opens the queue of a trainer, which may start later. Returns `null` if a signal comes first. */
const openQueue = async (
  log: QueueLog,
  { name, queueName, waitSeconds }: WorkerFlags,
  signal: AbortSignal,
): Promise<RolloutQueue | null> => {
  const onWait = (): void => printError(`waiting for the trainer of queue ${queueName} for up to ${waitSeconds} s\n`)
  const wait = { limitMs: 1000 * waitSeconds, signal, onWait }
  const opened = await openRolloutQueue(log, { name, openMs: OPEN_MS, wait })()
  return E.isLeft(opened) && signal.aborted ? null : orFail(() => Promise.resolve(opened))
}

const action =
  (chosen: Chosen) =>
  async (given: string | undefined, flags: WorkerFlags & Settings): Promise<void> => {
    checkFirst(chosen, given)
    for (const url of flags.on) checkServerUrl('--on', url)
    const log = queueLog(flags)
    const settings = await settingsOf(chosen, flags)
    await startEngine(flags)
    await withResources(async ({ hold }) => {
      const run = await hold(build(chosen, settings, { memory: 'ignore' }), ({ close }) => close())
      const { groups } = run
      if (groups === null) throw new CommandError(`the recipe ${chosen.recipe.name} has no groups of tasks for workers`)
      const inputs = groups.inputs()
      const policy = await hold(
        vLLMWrapper({
          url: flags.on,
          model: flags.servedModel,
          ...(flags.apiKey !== undefined && { apiKey: flags.apiKey }),
          sampling: samplingOf(settings),
        }),
        ({ close }) => close(),
      )
      await checkEngines(policy)
      await hold(log, ({ close }) => close())
      const { signal } = await hold(interruption('returning unfinished rollouts to the queue'), ({ release }) =>
        release(),
      )
      const queue = await openQueue(log, flags, signal)
      if (queue === null) return
      const report = await orFail(
        runRolloutWorker({
          queue,
          policy,
          signal,
          key: groups.key,
          limits: { slots: flags.slots },
          env: (_, ticket) => groups.env(ticket),
          refusal: (task) => inputsRefusal(task, inputs),
          onRollout: (event) => print(lineOf(event)),
        }),
      )
      print(`${JSON.stringify({ type: 'end', ...report })}\n`)
    })
  }

/** Makes the command, with flags for the settings of the recipe that the arguments name. */
export const workerCommand = async (args: readonly string[]): Promise<Command> => {
  const chosen = await choose(args, 'first')
  const command = new Command('worker')
    .description(`Play rollouts for a remote trainer, on engines served elsewhere. ${chosen.recipe.summary}`)
    .argument('[recipe]', "the trainer's recipe by name or file, or its run folder (default: wordProblems)")
    .addOption(
      new Option('--on <url...>', 'URL of tandem serve or vLLM; several URLs are replicas').makeOptionMandatory(),
    )
    .addOption(new Option('--served-model <name>', 'name of the model on the engine').default('policy'))
    .addOption(new Option('--api-key <key>', 'API key of the engine').env('TANDEM_ENGINE_API_KEY'))
    .addOption(new Option('--slots <n>', 'concurrent rollouts').argParser(parseSlots).default(8))
    .addOption(new Option('--name <name>', 'name of the worker in the queue').default('worker'))
    .addOption(
      new Option('--wait-seconds <n>', 'longest wait for a trainer that creates the queue')
        .argParser(integerBetween(0, LONGEST_WAIT))
        .default(600),
    )
  for (const option of queueOptions()) command.addOption(option.makeOptionMandatory())
  addRecipeFlags(command, chosen.recipe)
  for (const option of engineOptions()) command.addOption(option)
  return command.action(action(chosen))
}
