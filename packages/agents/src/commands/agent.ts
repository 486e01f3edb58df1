/** `tandem agent run`: plays the agent of a recipe and prints what happens. */

import { ABORTED, describe, keyFromSeed, unlessAborted } from '@tandem-rl/base'
import { print } from '@tandem-rl/base/host'
import type { RecipeAgent } from 'tandem-rl'
import {
  addRecipeFlags,
  asCommandError,
  type Chosen,
  Command,
  CommandError,
  checkFirst,
  choose,
  countFor,
  type EngineOptions,
  engineOptions,
  integerBetween,
  interruptible,
  Option,
  orFail,
  type Settings,
  say,
  settingsOf,
  startEngine,
} from 'tandem-rl/command'
import type { Agent } from '../agents/agent.js'
import type { MessagesRow } from '../agents/conversations.js'
import type { ChainObserver } from '../agents/events.js'
import { agentMetrics } from '../agents/metrics.js'
import { consoleObserver, progressLine, progressObserver } from '../agents/observers.js'

type Flags = EngineOptions &
  Settings & {
    readonly conversations: number
    readonly chains: number
    readonly first: number
    readonly concurrent?: number
    readonly json?: true
  }

/** Events as lines of JSON, one chain as it is played, or the progress of several. */
const observerOf = ({ json, conversations, chains }: Flags): ChainObserver => {
  if (json === true) return (event) => print(`${JSON.stringify(event)}\n`)
  if (conversations * chains === 1) return consoleObserver(print)
  return progressObserver({
    total: conversations * chains,
    onProgress: (progress) => say(`${progressLine(progress)}\n`),
  })
}

const play = async (
  { agent: given, messages, maxTurns }: RecipeAgent,
  flags: Flags,
  signal: AbortSignal,
): Promise<void> => {
  const agent = given as Agent // recipes return agents of this package
  const { conversations, chains, first, concurrent, json } = flags
  const seed = Number(flags.seed ?? 1)
  const playing = orFail(
    agent.run({
      signal,
      messages: Array.from({ length: conversations }, (_, i) => messages(first + i) as MessagesRow),
      numChains: chains,
      observers: [observerOf(flags)],
      key: keyFromSeed(seed),
      ...(maxTurns !== undefined && { maxTurns }),
      ...(concurrent !== undefined && { maxConcurrentChains: concurrent }),
    }),
  )
  const result = await unlessAborted(playing, signal)
  if (result === ABORTED) return
  const metrics = agentMetrics(result)
  if (json === true) print(`${JSON.stringify({ type: 'metrics', metrics })}\n`)
  else for (const [name, value] of Object.entries(metrics)) print(`${name} ${Number(value.toPrecision(4))}\n`)
  const { trajectories } = result
  if (trajectories.every(({ finishReason }) => finishReason === 'failed'))
    throw new CommandError(
      `${trajectories.length === 1 ? 'the only chain' : `all ${trajectories.length} chains`} failed: ${trajectories[0]?.failure ? describe(trajectories[0].failure) : 'no chain was played'}`,
    )
}

const action =
  (chosen: Chosen) =>
  async (given: string | undefined, flags: Flags): Promise<void> => {
    checkFirst(chosen, given)
    const { recipe } = chosen
    if (recipe.agent === undefined)
      throw new CommandError(`the recipe ${recipe.name} has no agent: add 'agent' to defineRecipe({ ... })`)
    const settings = await settingsOf(chosen, flags)
    await startEngine(flags)
    try {
      const made = await recipe.agent(settings, { onProgress: (text) => say(`${text}\n`) })
      await interruptible('\nstopping the chains', async (signal) => {
        try {
          await play(made, flags, signal)
        } finally {
          await made.agent.close()
        }
      })
    } catch (error) {
      throw asCommandError(error)
    }
  }

const runCommand = async (args: readonly string[]): Promise<Command> => {
  const chosen = await choose(args, 'first')
  const command = new Command('run')
    .description(`Play the agent of a recipe. ${chosen.recipe.name}: ${chosen.recipe.summary}`)
    .argument('[recipe]', 'a recipe with an agent, by name or file')
    .addOption(
      new Option('--conversations <n>', 'number of conversations').argParser(countFor('--conversations')).default(1),
    )
    .addOption(new Option('--chains <n>', 'chains per conversation').argParser(countFor('--chains')).default(1))
    .addOption(new Option('--first <n>', 'index of the first conversation').argParser(integerBetween(0)).default(0))
    .addOption(new Option('--concurrent <n>', 'chains at a time (default: all)').argParser(countFor('--concurrent')))
  addRecipeFlags(command, chosen.recipe)
  for (const option of engineOptions()) command.addOption(option)
  return command.option('--json', 'print all events and the metrics as lines of JSON').action(action(chosen))
}

/** Makes the command, with flags for the settings of the recipe that the arguments name. */
export const agentCommand = async (args: readonly string[]): Promise<Command> => {
  const [first, ...rest] = args
  const command = new Command('agent').description('Play the agent of a recipe and print its events.')
  return command.addCommand(
    first === 'run' ? await runCommand(rest) : new Command('run').description('Play the agent of a recipe.'),
  )
}
