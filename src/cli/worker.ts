/** `tandem worker RECIPE`: plays rollouts for a remote trainer, on engines served elsewhere. */

import { Command, Option } from 'commander'
import { openRolloutQueue } from '../collectors/queues/rolloutQueue.js'
import { runRolloutWorker, type WorkerEvent } from '../collectors/workers/rolloutWorker.js'
import { print } from '../live/output.js'
import { vLLMWrapper } from '../modules/remote/vllm/vLLMWrapper.js'
import { inputsRefusal } from '../run/queued.js'
import { CommandError, orFail } from './failure.js'
import { interruption } from './interruption.js'
import { checkServerUrl, type EngineOptions, engineOptions, positiveInteger, startEngine } from './options.js'
import { build, type Chosen, checkFirst, choose, type Settings, settingsOf } from './plan.js'
import { type QueueFlags, queueLog, queueOptions } from './queue.js'
import { addRecipeFlags } from './recipeFlags.js'

interface WorkerFlags extends EngineOptions, QueueFlags {
  readonly on: readonly string[]
  readonly servedModel: string
  readonly apiKey?: string
  readonly slots: number
  readonly name: string
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

const action =
  (chosen: Chosen) =>
  async (given: string | undefined, flags: WorkerFlags & Settings): Promise<void> => {
    checkFirst(chosen, given)
    for (const url of flags.on) checkServerUrl('--on', url)
    const log = queueLog(flags)
    const settings = await settingsOf(chosen, flags)
    await startEngine(flags)
    const run = await build(chosen, settings, { memory: 'ignore' })
    const { groups } = run
    if (groups === null) throw new CommandError(`the recipe ${chosen.recipe.name} has no groups of tasks for workers`)
    const inputs = groups.inputs()
    const queue = await orFail(openRolloutQueue(log, { name: flags.name }))
    const policy = vLLMWrapper({
      ...{ url: flags.on, model: flags.servedModel, ...(flags.apiKey !== undefined && { apiKey: flags.apiKey }) },
      sampling: samplingOf(settings),
    })
    const { signal, release } = interruption('returning unfinished rollouts to the queue')
    try {
      const report = await orFail(
        runRolloutWorker({
          ...{ queue, policy, signal, key: groups.key, limits: { slots: flags.slots } },
          env: (_, ticket) => groups.env(ticket),
          refusal: (task) => inputsRefusal(task, inputs),
          onRollout: (event) => print(lineOf(event)),
        }),
      )
      print(`${JSON.stringify({ type: 'end', ...report })}\n`)
    } finally {
      release()
      await queue.close()
      await policy.close()
      await run.close()
    }
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
    .addOption(new Option('--slots <n>', 'concurrent rollouts').argParser(positiveInteger).default(8))
    .addOption(new Option('--name <name>', 'name of the worker in the queue').default('worker'))
  for (const option of queueOptions()) command.addOption(option.makeOptionMandatory())
  addRecipeFlags(command, chosen.recipe)
  for (const option of engineOptions()) command.addOption(option)
  return command.action(action(chosen))
}
