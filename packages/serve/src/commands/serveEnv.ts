/** `tandem serve --env`: environments in OpenEnv's form, and rewards for OpenRLHF. */
import { child, keyFromSeed } from '@tandem-rl/base'
import { CommandError, chosenRecipe, type EngineOptions, startEngine } from 'tandem-rl/command'
import { openEnvApp } from '../openEnv/app.js'
import { rewardApp } from '../rewards/app.js'
import { listening, type ServerFlags, untilStopped, warnIfOpen } from './serving.js'

interface EnvFlags extends EngineOptions, ServerFlags {
  readonly set?: readonly string[]
  readonly maxNumSeqs?: number
}

/** Plays the environment of a recipe until a signal arrives. */
export const serveEnv = async (name: string, flags: EnvFlags): Promise<void> => {
  const { recipe, settings } = await chosenRecipe(name, flags.set ?? [])
  if (recipe.envOfTask === undefined)
    throw new CommandError(
      `the recipe ${recipe.name} has no environment to serve: add 'envOfTask' to defineRecipe({ ... })`,
    )
  await startEngine(flags)
  const [key, tasksOf] = [keyFromSeed(flags.seed), recipe.tasks]
  const shared = {
    env: recipe.envOfTask(settings),
    access: { apiKeys: flags.keys, corsOrigins: flags.allowedOrigins ?? [] },
    ...(flags.maxBodyBytes !== undefined && { maxBodyBytes: flags.maxBodyBytes }),
  }
  const rewards = rewardApp({ ...shared, key })
  const episodes = openEnvApp({
    ...shared,
    name: recipe.name,
    description: recipe.summary,
    key: child(key, 'episodes'),
    ...(tasksOf !== undefined && { tasks: () => tasksOf(settings) }),
    ...(flags.maxNumSeqs !== undefined && { maxSessions: flags.maxNumSeqs }),
  })
  const app = {
    fetch: (request: Request) =>
      new URL(request.url).pathname === '/get_reward' ? rewards.fetch(request) : episodes.fetch(request),
    sockets: {
      path: '/ws',
      open: episodes.frames,
      ...(flags.maxBodyBytes !== undefined && { maxBytes: flags.maxBodyBytes }),
    },
  }
  const nothing = { close: async () => undefined, abort: async () => 0 }
  const server = await listening(app, nothing, flags)
  warnIfOpen(flags.host, flags.keys)
  await untilStopped(server, nothing, {
    graceMs: 1000 * flags.shutdownSeconds,
    ready: `serving the environment of ${recipe.name} at ${server.url}`,
  })
}
