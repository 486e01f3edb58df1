/** `tandem serve --env`: a server of rewards for OpenRLHF. */
import { keyFromSeed } from '../core/key.js'
import { rewardApp } from '../serve/rewards/app.js'
import { CommandError } from './failure.js'
import { type EngineOptions, startEngine } from './options.js'
import { loadRecipe } from './recipeFile.js'
import { checkedSettings, givenSettings } from './recipeFlags.js'
import { listening, type ServerFlags, untilStopped, warnIfOpen } from './serving.js'

interface RewardFlags extends EngineOptions, ServerFlags {
  readonly set?: readonly string[]
}

/** Scores completions with the environment of a recipe until a signal arrives. */
export const serveRewards = async (name: string, flags: RewardFlags): Promise<void> => {
  const { recipe } = await loadRecipe(name)
  if (recipe.env === undefined)
    throw new CommandError(`the recipe ${recipe.name} has no environment to serve: add 'env' to defineRecipe({ ... })`)
  const settings = checkedSettings(recipe, await givenSettings(recipe, { set: flags.set ?? [] }))
  await startEngine(flags)
  const app = rewardApp({
    env: recipe.env(settings),
    key: keyFromSeed(flags.seed),
    access: { apiKeys: flags.keys, corsOrigins: flags.allowedOrigins ?? [] },
    ...(flags.maxBodyBytes !== undefined && { maxBodyBytes: flags.maxBodyBytes }),
  })
  const nothing = { close: async () => undefined, abort: async () => 0 }
  const server = await listening(app, nothing, flags)
  warnIfOpen(flags.host, flags.keys)
  process.stdout.write(`serving rewards of ${recipe.name} at ${server.url}/get_reward\n`)
  await untilStopped(server, nothing, 1000 * flags.shutdownSeconds)
}
