/** Runs of self-play: one policy in all seats, and old weights of it as opponents. */

import { agentPolicy, roleAdvantage } from '@tandem-rl/agents'
import { checkOptions, child, type Key, keyFromSeed, refuse } from '@tandem-rl/base'
import * as E from 'fp-ts/lib/Either.js'
import { pipe } from 'fp-ts/lib/function.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import {
  type AnyRun,
  append,
  defineRun,
  type Env,
  type Evaluator,
  KLRewardTransform,
  type LogProbModel,
  localLearner,
  type Policy,
  PolicyVersion,
  type Pretrained,
  policySettings,
  type TokenAction,
  type TokenPrompt,
  type TransformersPolicy,
  TransformersWrapper,
  type WeightUpdater,
} from 'tandem-rl'
import type { NamedTensors } from 'tandem-rl/files'
import { sharedParams } from 'tandem-rl/models'
import { ALGORITHMS, batchAdvantage } from 'tandem-rl/objectives'
import { closing, type PolicyRunSettings, policyLearnerParts, runReference } from 'tandem-rl/run'
import { z } from 'zod'
import { playersOf } from '../games/game.js'
import { type GameEnvOptions, seatName } from '../games/gameEnv.js'
import { gameTokenEnv } from '../games/gameTokenEnv.js'
import { GAME_RUN_OPTIONS } from '../optionKinds.js'
import { gameMetrics } from './gameMetrics.js'
import { type WeightPool, weightPool, withPools } from './weightPool.js'

const count = z.number().int().positive()

/** The settings of opponents and of the reference in a run of self-play. */
const selfPlay = z
  .strictObject({
    poolSize: count.default(8).describe('most old weights that are kept as opponents'),
    poolEvery: count.default(10).describe('updates between two old weights, until the pool is full'),
    poolShare: z.number().min(0).max(1).default(0).describe('share of games against old weights, in balanced seats'),
    baseline: z
      .enum(['role', 'prompt'])
      .default('role')
      .describe('what is compared: the games of a role, or its turns with equal prompts, for small games'),
    magnetEvery: count
      .nullable()
      .default(null)
      .describe('updates after which the reference of the KL term becomes the current weights; off: it stays'),
  })
  .prefault({})

/** The settings that `gameRun` reads. Its recipes make or load their model. */
export const gameSettings = policySettings.omit({ model: true }).extend({ selfPlay })

export type GameRunSettings = PolicyRunSettings & { readonly selfPlay: z.output<typeof selfPlay> }

/** The models of a run, for evaluators of its own. */
export interface GameRunModels {
  /** The trained policy, with greedy decoding and with sampling. */
  readonly greedy: Policy<TokenPrompt, TokenAction>
  readonly policy: TransformersPolicy
  /** Scores replies under the current weights. */
  readonly model: LogProbModel
}

/** The games of a run, without what the settings choose. */
export type GamePlayOptions<P> = Omit<GameEnvOptions<P>, 'prompts' | 'repeats' | 'start' | 'casts'>

export interface GameRunParts<P> {
  readonly model: Pretrained
  readonly play: GamePlayOptions<P>
  /** Players besides old weights, as in `GameEnv`. Default: `player` in all seats. */
  readonly casts?: readonly (readonly string[])[]
  /** Makes the evaluators. Default: none. */
  readonly evaluate?: (models: GameRunModels) => readonly Evaluator[]
}

const [PLAYER, PAST] = ['player', 'past']

/**
 * Repeats casts so that games against old weights have the given share, as near as 20 casts allow.
 */
const castsOf = (
  players: number,
  casts: readonly (readonly string[])[],
  share: number,
): readonly (readonly string[])[] => {
  if (share === 0) return casts
  const seats = Array.from({ length: players }, (_, seat) => seat)
  const against = seats.map((own) => seats.map((seat) => (seat === own ? PLAYER : PAST)))
  const total = 20
  const ofPast = Math.round(share * total)
  return Array.from({ length: total * players }, (_, i) =>
    i % total < ofPast ? against[i % players]! : casts[i % casts.length]!,
  )
}

/** The opponents and the reference of a run, and the updater that renews them. */
const frozenCopies = (
  settings: GameRunSettings,
  { config }: Pretrained,
  { start, current, key }: { readonly start: NamedTensors; readonly current: TransformersPolicy; readonly key: Key },
) => {
  const { poolSize, poolEvery, poolShare, magnetEvery } = settings.selfPlay
  const copy = (): TransformersPolicy =>
    TransformersWrapper({
      config,
      params: start,
      sampling: { temperature: settings.sampling.temperature, maxNewTokens: settings.sampling.maxNewTokens },
    })
  const [past, reference] = [poolShare === 0 ? null : copy(), copy()]
  const pool = past && weightPool('pool', start, { size: poolSize, every: poolEvery })
  const magnet = magnetEvery === null ? null : weightPool('magnet', start, { size: 1, every: magnetEvery })
  const pools = [pool, magnet].flatMap((each): readonly WeightPool[] => (each === null ? [] : [each]))
  const updater: WeightUpdater<NamedTensors> = {
    push: (weights, version) => async () => {
      for (const each of pools) each.offer(weights, version)
      const loads = [
        current.load(weights, version),
        ...(past === null || pool === null ? [] : [past.load(pool.draw(child(key, version)), version)]),
        ...(magnet === null ? [] : [reference.load(magnet.newest(), version)]),
      ]
      const results = await TE.sequenceSeqArray(loads)()
      return E.map(() => version)(results)
    },
  }
  const release = (): void => {
    for (const each of [past, reference, ...pools]) each?.release()
  }
  return { past, reference, pools, updater, release }
}

/** The policy of all agents: the trained one, and the old weights of `past`. */
const playersPolicy = (
  players: number,
  { current, past }: { readonly current: TransformersPolicy; readonly past: TransformersPolicy | null },
): Policy<TokenPrompt, TokenAction> & { readonly release: () => void } => {
  const seats = Array.from({ length: players }, (_, seat) => seat)
  const named = (who: string, policy: TransformersPolicy) => seats.map((seat) => [seatName(who, seat), policy] as const)
  const policies = Object.fromEntries([...named(PLAYER, current), ...(past === null ? [] : named(PAST, past))])
  return { ...agentPolicy({ policies, name: 'self-play' }), release: current.release }
}

/**
 * Builds a run of self-play: one policy in all seats of a game (or in those that `casts` give to
 * `player`), trained on the rows of each role with a baseline of its own (`roleAdvantage`).
 *
 * With `selfPlay.poolShare`, a share of the games is against old weights, drawn anew for each
 * update from a pool that covers the run. With `selfPlay.magnetEvery`, the reference of the KL term
 * in the loss follows the policy, as in magnetic mirror descent: each stretch approaches the
 * equilibrium of a game with a penalty, and the penalty moves along. Pools and references are part
 * of checkpoints.
 *
 * Errors   throws RangeError if settings contradict each other.
 * Effects  holds the weights of the policy, its reference and the pool until the run is closed.
 * Source   SPIRAL, Liu et al. 2025, arXiv:2506.24119; fictitious self-play, Heinrich et al. 2015,
 *          for the pool; magnetic mirror descent, Sokota et al. 2023, arXiv:2206.05825, for the
 *          reference.
 */
export const gameRun = <P>(settings: GameRunSettings, parts: GameRunParts<P>): AnyRun => {
  checkOptions('gameRun', parts, GAME_RUN_OPTIONS)
  const { model, play, evaluate } = parts
  const { game } = play
  const { tasks, sampling, loss, kl, seed } = settings
  refuse('gameRun', [
    kl.coefficient > 0 && kl.in === 'reward' && 'rewards are those of the game: set kl.in to loss',
    sampling.maxLag > 0 && 'sampling.maxLag: self-play alternates with training',
  ])
  const key = keyFromSeed(seed)
  const trained = policyLearnerParts(settings, model)
  const learner = localLearner(trained)
  using first = sharedParams(model)
  const current = TransformersWrapper({
    config: model.config,
    params: learner.weights(),
    sampling: { temperature: sampling.temperature, maxNewTokens: sampling.maxNewTokens },
  })
  const copies = frozenCopies(settings, model, { start: first.value, current, key: child(key, 'opponents') })
  const agents = playersOf(game).map((seat) => seatName(PLAYER, seat))
  const casts = castsOf(game.players, parts.casts ?? [playersOf(game).map(() => PLAYER)], settings.selfPlay.poolShare)
  const reference = runReference(settings, { loss: trained.loss, model: copies.reference })
  const games = gameTokenEnv({ ...play, prompts: tasks.prompts, repeats: tasks.group, casts }, model.text)
  const measured = (by: LogProbModel) => pipe(games, append(KLRewardTransform({ reference: by, coefficient: 0 }))) // only measures it
  const scored =
    reference.model === undefined ? (games as unknown as ReturnType<typeof measured>) : measured(reference.model) // no loss reads the entries
  const env = pipe(scored, append(PolicyVersion()))
  const run = defineRun({
    env: env as never as Env<TokenPrompt, TokenAction>, // it has more entries
    policy: playersPolicy(game.players, { current, past: copies.past }),
    advantage: roleAdvantage({
      agents,
      baseline: settings.selfPlay.baseline,
      advantage: batchAdvantage(ALGORITHMS[loss.algorithm].advantage, { name: loss.algorithm }),
    }) as never, // its entries are those of the environment
    learner: withPools(learner, copies.pools) as never, // likewise
    updater: copies.updater,
    evaluate: evaluate?.({ greedy: current.withSampling({ temperature: 0 }), policy: current, model: current }) ?? [],
    collect: { key: child(key, 'games'), maxTurns: play.maxReplies ?? 200 },
    record: {
      metrics: (batch) => gameMetrics(batch, game),
      decode: (id) => model.text.tokenizer.decode([id], 'keep'),
      model,
    },
  })
  return { ...closing(run, copies.release), ...reference.part }
}
