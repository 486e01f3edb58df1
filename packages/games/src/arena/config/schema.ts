/** Configurations of the arena: their keys, games and players by name, and overrides. */
import { type Failure, ownValue, unknownName } from '@tandem-rl/base'
import * as E from 'fp-ts/lib/Either.js'
import { z } from 'zod'

/** A text. Numbers and booleans count as the text that spells them. */
const text = z.union([z.string(), z.number(), z.boolean()]).transform(String)
/** Largest count of a configuration. `docs/limits.md` lists it. */
export const MOST_COUNTED = 2 ** 20

const natural = z.number().int().min(0).max(MOST_COUNTED)
const count = natural.min(1)

const price = z.strictObject({ input: z.number().min(0), output: z.number().min(0) })

const AGENT_TYPES = ['llm', 'random', 'human', 'minimax', 'mcts', 'cfr', 'mixture'] as const

const agentFields = {
  type: z.enum(AGENT_TYPES).optional(),
  model: text.optional(),
  name: text.optional(),
  system_prompt: z.string().optional(),
  actions: z.enum(['listed', 'hidden']).optional(),
  max_requests_per_minute: count.optional(),
  price: price.optional(),
  seed: z.number().int().nullish(),
  depth: count.optional(),
  simulations: count.optional(),
  exploration: z.number().min(0).optional(),
  iterations: count.optional(),
}

const part = z.strictObject({ ...agentFields, weight: z.number().positive().default(1) })

const agent = z.strictObject({
  ...agentFields,
  parts: z.array(part).optional(),
  draw: z.enum(['game', 'move']).optional(),
})

const gameConfig = z.looseObject({ game_name: z.string(), max_game_rounds: count.nullish() })

const illegalMove = z.union([
  z.enum(['forfeit', 'random']).transform((kind) => ({ kind })),
  z.strictObject({ kind: z.enum(['forfeit', 'random']) }),
  z.literal('retry').transform(() => ({ kind: 'retry' as const, attempts: 2, fallback: 'forfeit' as const })),
  z.strictObject({
    kind: z.literal('retry'),
    attempts: count.default(2),
    fallback: z.enum(['forfeit', 'random']).default('forfeit'),
  }),
])

const backend = z.strictObject({
  max_tokens: count.default(250),
  temperature: z.number().min(0).default(0.1),
  default_model: text.default('litellm_groq/llama-3.1-8b-instant'),
  inference_backend: z.enum(['litellm', 'vllm', 'hf', 'openai', 'openrouter', 'hybrid']).default('hybrid'),
  timeout: z.number().positive().optional(),
})

const MODES = [
  ...['llm_vs_random', 'llm_vs_llm', 'human_vs_random', 'human_vs_llm', 'random_vs_random'],
  ...['multi_agent', 'round_robin', 'gauntlet'],
] as const

const fields = {
  env_name: z.string().optional(),
  env_config: gameConfig.optional(),
  env_configs: z.array(gameConfig).min(1).optional(),
  num_episodes: count.default(1),
  seed: z.number().int().min(0).default(42),
  use_ray: z.literal(false).default(false),
  mode: z.enum(MODES).default('llm_vs_random'),
  agents: z.record(z.string().regex(/^player_\d+$/), agent).default({ player_0: { type: 'llm' } }),
  models: z.array(text).optional(),
  llm_backend: backend.prefault({}),
  illegal_move: illegalMove.prefault('random'),
  seats: z.enum(['balanced', 'fixed']).default('balanced'),
  parallel_episodes: z.union([count, z.boolean().transform((isOn) => (isOn ? 8 : 1))]).default(1),
  exploitability: z.strictObject({ samples: natural.default(0), max_states: count.default(100) }).prefault({}),
  tensorboard_logging: z.boolean().default(false),
  log_level: z.enum(['DEBUG', 'INFO', 'WARNING', 'ERROR', 'CRITICAL']).default('INFO'),
}

const schema = z.strictObject(fields)

/** A checked configuration. */
export type ArenaConfig = z.output<typeof schema>

/** A player of a configuration. */
export type AgentConfig = NonNullable<ArenaConfig['agents'][string]>

/** A configuration cannot be used. */
export interface ConfigProblem extends Failure {
  readonly _tag: 'ArenaConfigFailure'
}

/** Makes the failure of a configuration. */
export const configProblem = (reason: string): ConfigProblem => ({ _tag: 'ArenaConfigFailure', reason })

/** The reason for refusing Ray, and the alternative. */
export const NO_RAY =
  'there is no Ray here; set parallel_episodes to play many games at a time in one process, or start one `tandem arena` with its own --out on each machine'

/** Keys that the arena refuses, and what to do instead. */
const REFUSED: Readonly<Record<string, string>> = {
  ray_config: NO_RAY,
  slurm:
    'the arena does not submit SLURM jobs; call `tandem arena` in the job script, and the same command continues after a time limit',
}

/** The known keys at a path, for suggestions. */
const knownKeys = (path: readonly PropertyKey[]): readonly string[] => {
  const [first, , third] = path
  if (first === undefined) return Object.keys(fields)
  if (first === 'llm_backend') return Object.keys(backend.shape)
  if (first === 'exploitability') return ['samples', 'max_states']
  if (first === 'illegal_move') return ['kind', 'attempts', 'fallback']
  if (first !== 'agents') return []
  if (third === 'price') return ['input', 'output']
  return Object.keys(third === 'parts' ? part.shape : agent.shape)
}

type Issue = z.core.$ZodIssue

const dotted = (path: readonly PropertyKey[]): string => path.map(String).join('.')

const problemsOf = (issue: Issue): readonly string[] => {
  if (issue.code === 'unrecognized_keys')
    return issue.keys.map((key) => {
      const known = knownKeys(issue.path)
      const refused = issue.path.length === 0 ? ownValue(REFUSED, key) : undefined
      if (refused !== undefined) return `${key}: ${refused}`
      return `${unknownName(
        'key',
        dotted([...issue.path, key]),
        known.map((each) => dotted([...issue.path, each])),
      )} (the keys are ${known.join(', ')})`
    })
  if (dotted(issue.path) === 'use_ray') return [`use_ray: ${NO_RAY}`]
  if (issue.code === 'invalid_key') return [`${dotted(issue.path)}: players are named player_0, player_1, ...`]
  if (issue.code === 'invalid_union') return [`${dotted(issue.path)}: ${unionText(issue)}`]
  return [`${dotted(issue.path)}: ${issue.message}`]
}

const unionText = ({ errors }: Extract<Issue, { readonly code: 'invalid_union' }>): string =>
  [...new Set(errors.flat().map(({ message }) => message))].join(', or ')

/**
 * Checks a configuration and fills in the defaults.
 *
 * Errors   `Left` with every unknown key and its nearest known one, every wrong value, and every
 *          key that the arena refuses with what to do instead.
 *
 * @example
 * arenaConfig({ num_episodes: 3 })._tag // 'Right'
 */
export const arenaConfig = (given: unknown): E.Either<ConfigProblem, ArenaConfig> => {
  const parsed = schema.safeParse(given)
  return parsed.success
    ? E.right(parsed.data)
    : E.left(configProblem(parsed.error.issues.flatMap(problemsOf).join('; ')))
}
