/** `tandem serve --env`: a server of rewards for OpenRLHF. */
import { keyFromSeed } from '../core/key.js'
import { isLoopback } from '../live/httpServer.js'
import { rewardApp } from '../serve/rewards/app.js'
import { CommandError } from './failure.js'
import { type EngineOptions, startEngine } from './options.js'
import { loadRecipe } from './recipeFile.js'
import { checkedSettings, givenSettings } from './recipeFlags.js'
import { type ListenFlags, listening, sayLine, untilStopped } from './serving.js'

interface RewardFlags extends EngineOptions, ListenFlags {
  readonly set?: readonly string[]
  readonly keys: readonly string[]
  readonly allowedOrigins?: readonly string[]
  readonly maxBodyBytes?: number
  readonly seed: number
  readonly shutdownSeconds: number
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
  if (!isLoopback(flags.host) && flags.keys.length === 0)
    sayLine(`warning: ${flags.host} can be reached from other machines, and there is no --api-key`)
  process.stdout.write(`serving rewards of ${recipe.name} at ${server.url}/get_reward\n`)
  await untilStopped(server, nothing, 1000 * flags.shutdownSeconds)
}
