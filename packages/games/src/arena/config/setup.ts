/** Games and players of a configuration. */
import { errorMessage, type Failure, keyFromSeed } from '@tandem-rl/base'
import * as E from 'fp-ts/lib/Either.js'
import { pipe } from 'fp-ts/lib/function.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import type { NamedPolicy, RegistryOptions } from 'tandem-rl/remote'
import type { GamePolicy } from '../../games/exactValues.js'
import type { Game } from '../../games/game.js'
import { type Pairing, planTournament } from '../matches/plan.js'
import type { GamePlan } from '../matches/playGame.js'
import { solveGame } from '../players/cfr.js'
import { languageModelPlayer } from '../players/languageModel.js'
import { mctsPlayer } from '../players/mcts.js'
import { minimaxPlayer } from '../players/minimax.js'
import type { Player } from '../players/player.js'
import { humanPlayer, mixturePlayer, randomPlayer, tabularPlayer } from '../players/simple.js'
import type { TokenPrice } from '../statistics/results.js'
import { loadGame } from './games.js'
import { type AgentConfig, type ArenaConfig, configProblem } from './schema.js'

/** The effects that players need. */
export interface SetupWorld {
  /** Finds a policy by its name. */
  readonly resolvePolicy: (name: string, options: RegistryOptions) => TE.TaskEither<Failure, NamedPolicy>
  /** Asks a person. */
  readonly ask: Parameters<typeof humanPlayer>[0]['ask']
}

/** A configuration as values. */
export interface ArenaSetup {
  readonly config: ArenaConfig
  readonly games: readonly Game[]
  readonly players: readonly Player[]
  readonly plans: readonly GamePlan[]
  /** By the name of the game. */
  readonly maxRounds: Readonly<Record<string, number | null>>
  /** Names of the players that move at random. */
  readonly randomPlayers: readonly string[]
  readonly prices: Readonly<Record<string, TokenPrice>>
  /** Frees models and connections. */
  readonly close: () => Promise<void>
}

/** The games of a configuration, and their limits of rounds. */
const gamesOf = (config: ArenaConfig): TE.TaskEither<Failure, Pick<ArenaSetup, 'games' | 'maxRounds'>> => {
  const { env_name, env_config, env_configs } = config
  const configs = env_configs ?? [{ ...env_config, game_name: env_name ?? env_config?.game_name ?? 'tic_tac_toe' }]
  return pipe(
    configs,
    TE.traverseArray(({ game_name, max_game_rounds: _, ...options }) => loadGame(game_name, options)),
    TE.map((games) => ({
      games,
      maxRounds: Object.fromEntries(games.map(({ name }, i) => [name, configs[i]!.max_game_rounds ?? null])),
    })),
  )
}

const PREFIX = /^(litellm|vllm|hf|openai|openrouter|scripted)_/

/** The name of an agent's model. A name without a prefix gets that of the configured backend. */
const modelOf = (
  { model }: Pick<AgentConfig, 'model'>,
  { default_model, inference_backend }: ArenaConfig['llm_backend'],
): string => {
  const name = model ?? default_model
  return PREFIX.test(name) || inference_backend === 'hybrid' ? name : `${inference_backend}_${name}`
}

/** An agent whose type is decided. */
type TypedAgent = AgentConfig & { readonly type: NonNullable<AgentConfig['type']> }

/** Decides the type of an agent. In the mode `llm_vs_llm`, every agent is a language model. */
const typed = (agent: AgentConfig, mode: ArenaConfig['mode']): TypedAgent => ({
  ...agent,
  type:
    mode === 'llm_vs_llm' || (agent.type === undefined && agent.model !== undefined) ? 'llm' : (agent.type ?? 'llm'),
})

/** A table for each game, solved when it is first needed. */
const solvedTables = (games: readonly Game[], iterations: number | undefined) => {
  const tables = new Map<string, GamePolicy>()
  return (name: string): GamePolicy => {
    const known = tables.get(name)
    if (known !== undefined) return known
    const game = games.find((each) => each.name === name)!
    const made = solveGame(game, { ...(iterations !== undefined && { iterations }) })
    tables.set(name, made)
    return made
  }
}

/** Makes a player that solves each game by CFR before its first move in it. */
const solvedPlayer = (name: string, { iterations }: AgentConfig, games: readonly Game[]): Player => {
  const table = solvedTables(games, iterations)
  const playerOf = (game: string): Player => tabularPlayer({ name, policy: table(game) })
  return {
    name,
    move: (scene, context) => playerOf(scene.game).move(scene, context),
    probabilities: (scene, context) => playerOf(scene.game).probabilities!(scene, context),
  }
}

/**
 * Policies by name, each made once and shared, so that limits of requests hold for all of its
 * seats.
 */
const policyCache = (config: ArenaConfig, world: SetupWorld) => {
  const made = new Map<string, Promise<E.Either<Failure, NamedPolicy>>>()
  const { max_tokens, temperature, timeout } = config.llm_backend
  return {
    find: (name: string, requestsPerMinute: number | undefined): Promise<E.Either<Failure, NamedPolicy>> => {
      const known = made.get(name)
      if (known !== undefined) return known
      const found = world.resolvePolicy(name, {
        sampling: { maxNewTokens: max_tokens, temperature },
        limits: {
          ...(requestsPerMinute !== undefined && { maxRequestsPerMinute: requestsPerMinute }),
          ...(timeout !== undefined && { timeoutSeconds: timeout }),
        },
      })()
      made.set(name, found)
      return found
    },
    close: async (): Promise<void> => {
      for (const found of made.values()) {
        const policy = await found
        if (E.isRight(policy)) await policy.right.close()
      }
    },
  }
}

type Policies = ReturnType<typeof policyCache>

/** The context in which a player is made. */
interface Making {
  readonly config: ArenaConfig
  readonly games: readonly Game[]
  readonly policies: Policies
  readonly world: SetupWorld
}

const present = <T extends object>(record: T): { readonly [K in keyof T]: Exclude<T[K], undefined> } =>
  Object.fromEntries(Object.entries(record).filter(([, value]) => value !== undefined)) as never // only undefined is left out

const languageModel = async (
  name: string,
  agent: AgentConfig,
  { config, policies }: Making,
): Promise<E.Either<Failure, Player>> => {
  const found = await policies.find(modelOf(agent, config.llm_backend), agent.max_requests_per_minute)
  return E.map((policy: NamedPolicy) =>
    languageModelPlayer({
      policy,
      name,
      ...present({ scoreReplies: policy.scoreReplies, systemPrompt: agent.system_prompt, actions: agent.actions }),
    }),
  )(found)
}

const mixture = async (name: string, agent: AgentConfig, making: Making): Promise<E.Either<Failure, Player>> => {
  const parts = agent.parts ?? []
  const players = await Promise.all(
    parts.map((part) =>
      playerOf(nameOf(typed(part, 'multi_agent'), making.config), typed(part, 'multi_agent'), making),
    ),
  )
  return E.map((all: readonly Player[]) =>
    mixturePlayer(
      all.map((player, i) => ({ player, weight: parts[i]!.weight })),
      { name, ...present({ draw: agent.draw }) },
    ),
  )(E.sequenceArray(players))
}

const playerOf = async (name: string, agent: TypedAgent, making: Making): Promise<E.Either<Failure, Player>> => {
  const { depth, simulations, exploration } = agent
  switch (agent.type) {
    case 'llm':
      return languageModel(name, agent, making)
    case 'mixture':
      return mixture(name, agent, making)
    case 'random':
      return E.right(randomPlayer(name))
    case 'human':
      return E.right(humanPlayer({ name, ask: making.world.ask }))
    case 'minimax':
      return E.right(minimaxPlayer({ name, ...present({ depth }) }))
    case 'mcts':
      return E.right(mctsPlayer({ name, ...present({ simulations, exploration }) }))
    case 'cfr':
      return E.right(solvedPlayer(name, agent, making.games))
  }
}

/** Most characters of a folder in the name of a player, if its last part is not longer. */
const LONGEST_FOLDER = 32

/** Returns the end of the path of a folder, for tables. Names of models stay. */
const shortFolder = (name: string): string => {
  const parts = name.split('/')
  if (parts.length <= 3 && !/^(?:hf_)?[.~]*\//.test(name)) return name
  let at = parts.length - 1
  while (at > 0 && parts.slice(at - 1).join('/').length <= LONGEST_FOLDER) at--
  return parts.slice(at).join('/')
}

const nameOf = (agent: TypedAgent, { llm_backend }: ArenaConfig): string =>
  agent.name ?? (agent.type === 'llm' ? shortFolder(modelOf(agent, llm_backend)) : agent.type)

/** An agent and its key in the configuration. */
type KeyedAgent = readonly [key: string, agent: TypedAgent]

/**
 * Returns the agents by number. In modes against random players, seats without an agent are random.
 */
const seatedAgents = ({ agents, mode }: ArenaConfig, games: readonly Game[]): readonly KeyedAgent[] => {
  const numbers = Object.keys(agents).map((key) => Number(key.slice('player_'.length)))
  const seats = Math.max(...games.map(({ players }) => players))
  const missing = Array.from({ length: seats }, (_, seat) => seat).filter((seat) => !numbers.includes(seat))
  const filled = mode.endsWith('_vs_random') ? missing : []
  return [...numbers, ...filled]
    .sort((a, b) => a - b)
    .map((number) => {
      const key = `player_${number}`
      return [key, typed(agents[key] ?? { type: 'random' }, mode)]
    })
}

/** Puts each of `models` in the place of the first agent. */
const triedAgents = (given: readonly KeyedAgent[], models: readonly string[] | undefined): readonly KeyedAgent[] => {
  if (models === undefined) return given
  const { name: _, ...first } = given[0]?.[1] ?? {}
  return [...models.map((model, i): KeyedAgent => [`models.${i}`, { ...first, type: 'llm', model }]), ...given.slice(1)]
}

/** An agent, its key and its name, which no other agent has. */
interface NamedAgent {
  readonly name: string
  readonly agent: TypedAgent
}

/** Agents by number. Equal names get the key of the agent behind them. */
const namedAgents = (
  agents: readonly (readonly [string, TypedAgent])[],
  config: ArenaConfig,
): readonly NamedAgent[] => {
  const names = agents.map(([, agent]) => nameOf(agent, config))
  return agents.map(([key, agent], i) => {
    const isShared = names.some((other, j) => other === names[i] && j !== i)
    return { agent, name: isShared ? `${names[i]} (${key})` : names[i]! }
  })
}

const PAIRINGS: Partial<Readonly<Record<ArenaConfig['mode'], Pairing>>> = {
  round_robin: 'roundRobin',
  gauntlet: 'gauntlet',
}

/** Plans all games. Each of `models` takes the first seat of a tournament of its own. */
const plansOf = (config: ArenaConfig, games: readonly Game[], players: readonly Player[]): readonly GamePlan[] => {
  const { num_episodes: episodes, seed, seats, mode, models } = config
  const shared = { games, episodes, key: keyFromSeed(seed), seats, pairing: PAIRINGS[mode] ?? 'match' }
  if (models === undefined) return planTournament({ ...shared, players })
  const others = players.slice(models.length)
  return players.slice(0, models.length).flatMap((model) => planTournament({ ...shared, players: [model, ...others] }))
}

/**
 * Makes the games, the players and the plan of a configuration.
 *
 * Errors   `Left` for an unknown game, wrong options of a game, too many or too few players, and
 *          models that cannot be had. Nothing is left open then.
 */
export const setUpArena =
  (config: ArenaConfig, world: SetupWorld): TE.TaskEither<Failure, ArenaSetup> =>
  async () => {
    const policies = policyCache(config, world)
    const fail = async (failure: Failure): Promise<E.Either<Failure, never>> => {
      await policies.close()
      return E.left(failure)
    }
    try {
      const loaded = await gamesOf(config)()
      if (E.isLeft(loaded)) return await fail(loaded.left)
      const { games, maxRounds } = loaded.right
      const given = seatedAgents(config, games)
      const agents = namedAgents(triedAgents(given, config.models), config)
      const making: Making = { config, games, policies, world }
      const made = E.sequenceArray(await Promise.all(agents.map(({ name, agent }) => playerOf(name, agent, making))))
      if (E.isLeft(made)) return await fail(made.left)
      return E.right({
        config,
        games,
        maxRounds,
        players: made.right,
        close: policies.close,
        plans: plansOf(config, games, made.right),
        randomPlayers: agents.filter(({ agent }) => agent.type === 'random').map(({ name }) => name),
        prices: Object.fromEntries(agents.flatMap(({ name, agent: { price } }) => (price ? [[name, price]] : []))),
      })
    } catch (error) {
      // Wrong names, options and numbers are RangeErrors of the factories.
      if (error instanceof RangeError) return fail(configProblem(errorMessage(error)))
      throw error
    }
  }
