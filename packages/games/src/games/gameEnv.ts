/** Games as environments for language models: self-play, frozen opponents and fixed players. */

import { type AgentTurn, MultiAgentEnv, type MultiAgentState } from '@tandem-rl/agents'
import { checkOptions, child, formatKey, parseKey, refuse } from '@tandem-rl/base'
import { History, type Message, message } from '@tandem-rl/text'
import { scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as tf from '@tensorflow/tfjs-core'
import { pipe } from 'fp-ts/lib/function.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import type { Env, GroupEntry, HistoryAction, RewardEntries } from 'tandem-rl'
import { assign, type Data, type DeepMerge, data, dataSpec, get, TensorDict, tensorSpec } from 'tandem-rl/tensordict'
import { GAME_ENV_OPTIONS, GAME_ENV_TEXT_OPTIONS } from '../optionKinds.js'
import { type Game, type GameState, playersOf } from './game.js'
import {
  type ActionReader,
  type GameScene,
  type GameShaping,
  openingScene,
  type PlayRules,
  sceneAfter,
} from './gameScene.js'
import { gamePrompt, nextGamePrompt, parseAction, playableText } from './gameText.js'
import { checkIllegalMoveRule, type IllegalMoveRule } from './illegalMove.js'
import type { GameStrategy } from './strategies.js'

/** A game in which a player is to reply, for the text of its prompt. */
export interface PromptScene<P> {
  readonly game: Game<P>
  readonly state: GameState<P>
  readonly player: number
  /** The reason why the last reply of the player in this turn was illegal, or `null`. */
  readonly feedback: string | null
  /**
   * `opening` for the first prompt of the player in a game, and for all if each turn is
   * independent.
   */
  readonly place: 'opening' | 'later'
}

/** The course of a game, for metrics and logs. */
export interface PlayedGame {
  readonly game: string
  /** The names of the players by seat, such as `['player', 'minimax']`. */
  readonly cast: readonly string[]
  /** All actions so far, with those of chance. */
  readonly history: readonly number[]
  /** The numbers of replies and of illegal replies, by seat. */
  readonly replies: readonly number[]
  readonly illegal: readonly number[]
  /** The result of each seat, or `null` if the game is not over or was truncated. */
  readonly returns: readonly number[] | null
  /** The seat that lost by an illegal move, or `null`. */
  readonly forfeit: number | null
}

/** The entries of a game besides those of `MultiAgentEnv`. */
export type GameEntries = GroupEntry & RewardEntries & { readonly game: Data<PlayedGame> }

/** The states of a `GameEnv`. */
export type GameEnvState = DeepMerge<MultiAgentState, GameEntries>

/** The text of a game, for language models. */
export interface GameText<P> {
  /** Default: `gamePrompt` first, then `nextGamePrompt`. */
  readonly prompt?: (scene: PromptScene<P>) => string
  /** Default `parseAction`. */
  readonly read?: ActionReader<P>
  /**
   * `conversation`: a player reads its earlier prompts and replies. `turn`: each prompt is
   * independent, which is shorter; use it with `agentTemplate({ prompts: 'fresh' })`. Default
   * `conversation`.
   */
  readonly memory?: 'conversation' | 'turn'
}

export interface GameEnvOptions<P> {
  readonly game: Game<P>
  /** Number of different deals in a batch: games with other cards or dice. */
  readonly prompts: number
  /** Games of each deal, with equal draws of chance and equal seats. Default 1. */
  readonly repeats?: number
  /** Number of the first deal, which chooses its seats. Default 0. */
  readonly start?: number
  /**
   * The names of the players by seat. Deal `i` uses entry `i` modulo their number, so that
   * `[['player', 'old'], ['old', 'player']]` balances the seats. Default: `player` in all seats.
   */
  readonly casts?: readonly (readonly string[])[]
  /** The strategies of names that are fixed players. They move within the environment. */
  readonly fixed?: Readonly<Record<string, GameStrategy<P>>>
  /** Default `{ kind: 'forfeit' }`. */
  readonly illegal?: IllegalMoveRule
  /** The cost of a forfeit. In a zero-sum game, the others share it. Default 1. */
  readonly stake?: number
  readonly text?: GameText<P>
  readonly shaping?: GameShaping<P>
  /** A game is truncated after this many replies. Default 200. */
  readonly maxReplies?: number
  /**
   * The result from which a game is a success for the last player. Default: above 0.
   */
  readonly solvedAt?: number
}

const NAME = 'GameEnv'

/**
 * The default prompt: `gamePrompt`, then `nextGamePrompt`, after the reason of an illegal reply.
 */
export const defaultGamePrompt = <P>({ game, state, player, feedback, place }: PromptScene<P>): string => {
  const text = place === 'opening' ? gamePrompt(game, state, { player }) : nextGamePrompt(game, state, { player })
  return feedback === null ? text : `Your reply was illegal: ${feedback}.\n${text}`
}

const PLAYER = 'player'
const MAX_REPLIES = 200
/** Deals that are tried if a game ends before a player has replied. */
const MOST_DEALS = 100

/** A game as its query encodes it: everything that its course depends on besides the replies. */
interface Deal {
  readonly game: string
  readonly cast: readonly string[]
  /** Keys of chance and of fixed players. */
  readonly deal: string
  readonly play: string
}

/**
 * Returns the name of a seat as an agent: `player_0` for the seat 0 of `player`.
 *
 * @example
 * seatName('opponent', 1) // 'opponent_1'
 */
export const seatName = (who: string, seat: number): string => `${who}_${seat}`

const seatOf = (agent: string): number => Number(agent.slice(agent.lastIndexOf('_') + 1))

/** The scenes of a game: before the first reply, and after each. */
interface Course<P> {
  readonly query: string
  readonly scenes: readonly GameScene<P>[]
}

/** Replays games. The scenes of a turn are kept with it, so that each reply is read once. */
const coursesOf = <P>(rulesOf: (deal: Deal) => PlayRules<P>) => {
  const known = new WeakMap<AgentTurn, Course<P>>()
  return (query: string, turns: readonly AgentTurn[]): readonly GameScene<P>[] => {
    const last = turns.at(-1)
    const course = last === undefined ? undefined : known.get(last)
    if (course?.query === query && course.scenes.length === turns.length + 1) return course.scenes
    const rules = rulesOf(JSON.parse(query) as Deal) // written by `reset`
    const before = turns.at(-2) === undefined ? undefined : known.get(turns.at(-2)!)
    const isLonger = before?.query === query && before.scenes.length === turns.length
    const scenes = isLonger ? [...before.scenes] : [openingScene(rules)]
    for (const turn of turns.slice(scenes.length - 1))
      scenes.push(sceneAfter(rules, scenes.at(-1)!, playableText(turn.message)))
    if (last !== undefined) known.set(last, { query, scenes })
    return scenes
  }
}

const problemsOf = <P>({
  game,
  casts = [],
  fixed = {},
  ...numbers
}: GameEnvOptions<P>): readonly (string | false)[] => {
  const isCount = (value: number | undefined): boolean => value === undefined || (Number.isInteger(value) && value >= 1)
  const names = casts.flat()
  return [
    casts.some((cast) => cast.length !== game.players) && `a cast of ${game.name} must have ${game.players} names`,
    casts.some((cast) => cast.every((name) => Object.hasOwn(fixed, name))) && 'a cast must have a player who replies',
    ...Object.keys(fixed).map((name) => !names.includes(name) && `the fixed player '${name}' is in no cast`),
    ...(['prompts', 'repeats', 'maxReplies'] as const).map(
      (name) => !isCount(numbers[name]) && `${name} must be a whole number of at least 1, got ${numbers[name]}`,
    ),
  ]
}

/** The text that a player reads: all of its prompts and replies, or the last prompt. */
const historyOf = <P>(
  { game, prompt, memory }: { readonly game: Game<P> } & Required<Pick<GameText<P>, 'prompt' | 'memory'>>,
  scenes: readonly GameScene<P>[],
  { turns, agent, system }: { readonly turns: readonly AgentTurn[]; readonly agent: string; readonly system?: string },
): History => {
  const player = seatOf(agent)
  const own = turns.flatMap((turn, i) => (turn.agent === agent ? [i] : []))
  const last = scenes.at(-1)!
  const isOver = last.end !== null
  const places = [...own, ...(isOver ? [] : [turns.length])]
  const shown = memory === 'turn' ? places.slice(-1) : places
  const messages = shown.flatMap((at, i): readonly Message[] => {
    const { state, attempt, feedback } = scenes[at]!
    const reported = { feedback: attempt === 0 ? null : feedback, place: i === 0 ? 'opening' : 'later' } as const
    const text = prompt({ game, state, player, ...reported })
    return [message('user', text), ...(at < turns.length ? [turns[at]!.message] : [])]
  })
  const result = last.returns === null ? 'truncated' : `over. Returns: ${last.returns.join(', ')}`
  return History([
    ...(system === undefined ? [] : [message('system', system)]),
    ...messages,
    ...(isOver ? [message('user', `The game is ${result}.`)] : []),
  ])
}

/**
 * A game as an environment of conversations: `MultiAgentEnv` in which the turns are those of the
 * game.
 *
 * Each seat is an agent, `player_0`, `player_1`, so that one policy can play all seats and
 * `agentRows` gives each role its rows. Names of `casts` other than `player`, such as `old`, are
 * agents of their own (`old_1`), for `agentPolicy`. Chance and `fixed` players move within a step.
 * Replies are read by `read`; an illegal one is handled by `illegal`, and counted in `game`.
 *
 * `query` encodes the deal as JSON: with the replies, it determines the whole game, so that an
 * episode can be replayed, forked and stored. Elements of a deal form a group; without repeats, all
 * games of a cast form one group.
 *
 * Shapes   all entries `[B]`, with `B` = `prompts * repeats`. `reward` is that of the player who
 *          replied.
 * Errors   throws RangeError for options that do not fit each other or the game.
 * Source   SPIRAL (arXiv:2506.24119) and TextArena (arXiv:2504.11442) for the setting; the form is
 *          ours.
 *
 * @example
 * GameEnv({ game: kuhnPoker(), prompts: 8 }).batchSize // 8
 * GameEnv({ game: ticTacToe, prompts: 2, casts: [['player', 'perfect']], fixed: { perfect: minimaxStrategy(ticTacToe) } }).name // 'GameEnv'
 */
export const GameEnv = <P>(options: GameEnvOptions<P>): Env<GameEnvState, HistoryAction> => {
  checkOptions(NAME, options, GAME_ENV_OPTIONS) // the same names for all P
  refuse(NAME, problemsOf(options))
  const { game, prompts, repeats = 1, start = 0, fixed = {}, text = {}, solvedAt } = options
  const { illegal = { kind: 'forfeit' }, stake = 1, shaping = {}, maxReplies = MAX_REPLIES } = options
  checkOptions(`${NAME}: text`, text, GAME_ENV_TEXT_OPTIONS)
  const { read = parseAction, prompt = defaultGamePrompt, memory = 'conversation' } = text
  const { casts = [playersOf(game).map(() => PLAYER)] } = options
  checkIllegalMoveRule(`${NAME}: illegal`, illegal)
  const batchSize = prompts * repeats

  const rulesOf = ({ cast, deal, play }: Deal): PlayRules<P> => ({
    game,
    illegal,
    stake,
    read,
    shaping,
    maxReplies,
    fixed: cast.map((name) => (Object.hasOwn(fixed, name) ? fixed[name] : undefined)),
    deal: parseKey(deal)!, // written by `reset`
    play: parseKey(play)!, // likewise
  })
  const courseOf = coursesOf(rulesOf)
  const isFixed = (name: string): boolean => Object.hasOwn(fixed, name)
  const names = [
    ...new Set(casts.flatMap((cast) => cast.flatMap((name, seat) => (isFixed(name) ? [] : [seatName(name, seat)])))),
  ]
  const castOf = (query: string): readonly string[] => (JSON.parse(query) as Deal).cast // written by `reset`

  const inner = MultiAgentEnv({
    batchSize,
    agents: names.map((name) => ({ name })),
    order: (turns, _agents, query) => {
      const { player } = courseOf(query, turns).at(-1)!
      return player === null ? 'end' : { agent: seatName(castOf(query)[player]!, player), sees: turns.length }
    },
    judge: ({ query, turns }) => {
      const { rewards, end } = courseOf(query, turns).at(-1)!
      const earned = castOf(query).flatMap((name, seat) =>
        isFixed(name) ? [] : [[seatName(name, seat), rewards[seat]!] as const],
      )
      return { rewards: Object.fromEntries(earned), ...(end !== null && { end }) }
    },
    view: ({ query, turns, agent }) => historyOf({ game, prompt, memory }, courseOf(query, turns), { turns, agent }),
  })

  /** The entries of games, from the queries and replies in a state. */
  const entriesOf = (state: TensorDict<MultiAgentState>): TensorDict<Omit<GameEntries, 'groupId'>> => {
    const [queries, agents] = [get(state, 'query').items.toArray(), get(state, 'agent').items]
    const scenes = queries.map((query, i) => courseOf(query, get(state, 'turns').items.get(i)!).at(-1)!) // one for each element
    const success = scenes.map(({ returns }, i) => {
      const earned = returns?.[seatOf(agents.get(i)!)]
      return earned !== undefined && (solvedAt === undefined ? earned > 0 : earned >= solvedAt)
    })
    const played = scenes.map(
      ({ state: { history }, replies, illegal: wrong, returns, forfeit }, i): PlayedGame => ({
        game: game.name,
        cast: castOf(queries[i]!),
        history,
        replies,
        illegal: wrong,
        returns,
        forfeit,
      }),
    )
    return TensorDict({ game: data(played), success: tf.tensor1d(success.map(Number), 'bool') }, state.batchShape)
  }

  return {
    name: NAME,
    batchSize,
    specs: {
      observation: {
        ...inner.specs.observation,
        groupId: dataSpec<string>('string'),
        game: dataSpec<PlayedGame>('PlayedGame'),
        success: tensorSpec('bool'),
      },
      action: inner.specs.action,
    },
    reset: (request, key) => {
      const dealt = (place: number, repeat: number): Deal => {
        const cast = casts[(start + place) % casts.length]!
        const own = child(child(key, 'deal'), place)
        const play = child(child(child(key, 'play'), place), repeat)
        for (let attempt = 0; attempt < MOST_DEALS; attempt++) {
          const deal = {
            game: game.name,
            cast,
            deal: formatKey(child(own, attempt)),
            play: formatKey(child(play, attempt)),
          }
          if (openingScene(rulesOf(deal)).player !== null) return deal
        }
        throw new RangeError(`${NAME}: ${game.name} ends before a player can reply`)
      }
      const queries = Array.from({ length: batchSize }, (_, i) =>
        JSON.stringify(dealt(Math.floor(i / repeats), i % repeats)),
      )
      const groups = queries.map((query, i) =>
        repeats === 1 ? `${game.name} ${castOf(query).join('-')}` : `${game.name} ${Math.floor(i / repeats)}`,
      )
      return pipe(
        inner.reset(assign(request, { query: data(queries) }) as TensorDict, key),
        TE.map((state) =>
          scope(() => assign(assign(state, { groupId: data(groups) }), Object.fromEntries(entriesOf(state).entries))),
        ),
        TE.map((state) => state as unknown as TensorDict<GameEnvState>), // with all of its entries
      )
    },
    step: (state, action, stepOptions) =>
      pipe(
        inner.step(state as unknown as TensorDict<MultiAgentState>, action, stepOptions), // with more entries
        TE.map((next) => scope(() => assign(next, Object.fromEntries(entriesOf(next as never).entries)))),
        TE.map((next) => next as never), // with the entries of the state
      ),
  }
}
