/** The exact policy of a language model in a small game, by the probabilities of its replies. */
import { checkOptions, orThrow } from '@tandem-rl/base'
import { encodeRendered, History, message, render } from '@tandem-rl/text'
import type { Evaluator, LogProbModel, ModelText } from 'tandem-rl'
import { ragged, raggedRows } from 'tandem-rl/tensordict'
import { type GamePolicy, nashConv } from '../games/exactValues.js'
import { type Game, type GameState, playersOf } from '../games/game.js'
import { defaultGamePrompt, type PromptScene } from '../games/gameEnv.js'
import { MODEL_DECISIONS_OPTIONS, NASH_CONV_EVALUATOR_OPTIONS } from '../optionKinds.js'

/** A decision of a game, and the probabilities of a model in it. */
export interface ModelDecision {
  readonly player: number
  readonly informationState: string
  /** The probability of each legal action among them, in order. */
  readonly probabilities: readonly number[]
  /** The texts of the actions. */
  readonly actions: readonly string[]
  /** The probability that the reply is one of the legal actions. */
  readonly legal: number
}

export interface ModelDecisionsOptions<P> {
  readonly game: Game<P>
  readonly model: LogProbModel
  readonly text: ModelText
  /** The prompt of a decision, as in training. Default: that of `GameEnv`. */
  readonly prompt?: (scene: PromptScene<P>) => string
  /** The reply for the text of an action. Default: in square brackets. */
  readonly reply?: (action: string) => string
  /** Default 1. */
  readonly temperature?: number
}

/** A decision with one of the states in which it is made. */
interface Decision<P> {
  readonly state: GameState<P>
  readonly player: number
  readonly informationState: string
}

/** Returns every decision of a game once. */
const decisionsOf = <P>(game: Game<P>): readonly Decision<P>[] => {
  const found = new Map<string, Decision<P>>()
  const visit = (state: GameState<P>): void => {
    const turn = game.turn(state)
    if (turn === 'over') return
    if (turn === 'chance') {
      for (const { action } of game.chance(state)) visit(game.apply(state, action))
      return
    }
    const movers = turn === 'simultaneous' ? playersOf(game) : [turn]
    for (const player of movers) {
      const informationState = game.informationState(state, player)
      const name = `${player} ${informationState}`
      if (!found.has(name)) found.set(name, { state, player, informationState })
    }
    const joint = movers.reduce<readonly (readonly number[])[]>(
      (before, player) => before.flatMap((own) => game.legalActions(state, player).map((action) => [...own, action])),
      [[]],
    )
    for (const actions of joint) visit(game.apply(state, turn === 'simultaneous' ? actions : actions[0]!))
  }
  visit(game.initial)
  return [...found.values()]
}

const bracketed = (action: string): string => `[${action}]`

/**
 * Returns the probabilities of a model in every decision of a game, by scoring the reply of each
 * legal action. Each decision is a conversation of one prompt, as in `GameEnv` with
 * `memory: 'turn'`.
 *
 * Errors   rejects with FailureError if the model fails or the template refuses a prompt.
 * Cost     visits every history, and scores each action of each decision: for small games.
 */
export const modelDecisions = async <P>(options: ModelDecisionsOptions<P>): Promise<readonly ModelDecision[]> => {
  checkOptions('modelDecisions', options, MODEL_DECISIONS_OPTIONS)
  const { game, model, text, prompt = defaultGamePrompt, reply = bracketed, temperature = 1 } = options
  const { template, tokenizer, endOfTurn } = text
  const decisions = decisionsOf(game).map((decision) => {
    const { state, player } = decision
    const wanted = prompt({ game, state, player, feedback: null, place: 'opening' })
    const rendered = orThrow(render(template, History([message('user', wanted)]), { generationPrompt: 'add' }))
    const actions = game.legalActions(state, player).map((action) => game.actionText(state, player, action))
    return { ...decision, ids: encodeRendered(tokenizer, rendered).ids, actions }
  })
  const rows = decisions.flatMap(({ ids, actions }) =>
    actions.map((action) => ({ ids, reply: [...tokenizer.encode(reply(action)), tokenizer.idOf(endOfTurn)!] })),
  )
  const scored = orThrow(
    await model.score(
      ragged(
        'int32',
        rows.map(({ ids }) => ids),
      ),
      ragged(
        'int32',
        rows.map((row) => row.reply),
      ),
      temperature,
    )(),
  )
  const each = raggedRows(scored).map((row) => Math.exp(row.reduce((sum, logProb) => sum + logProb, 0)))
  let at = 0
  return decisions.map(({ player, informationState, actions }) => {
    const own = each.slice(at, at + actions.length)
    at += actions.length
    const legal = own.reduce((sum, p) => sum + p, 0)
    return { player, informationState, actions, legal, probabilities: own.map((p) => p / legal) }
  })
}

/**
 * Returns the decisions of a model as a `GamePolicy`, for `nashConv` and `bestResponse`.
 *
 * Errors   the policy throws RangeError for a decision that is not in the list.
 */
export const decisionPolicy = (decisions: readonly ModelDecision[]): GamePolicy => {
  const table = new Map(
    decisions.map(({ player, informationState, probabilities }) => [`${player} ${informationState}`, probabilities]),
  )
  return ({ player, informationState }) => {
    const found = table.get(`${player} ${informationState}`)
    if (found === undefined)
      throw new RangeError(`decisionPolicy: there is no decision of player ${player} in '${informationState}'`)
    return found
  }
}

export interface NashConvOptions<P> extends ModelDecisionsOptions<P> {
  /** Default `equilibrium`. */
  readonly name?: string
}

/**
 * Makes an evaluator of how far a model is from an equilibrium of a game: `nashConv` of its exact
 * policy, and `legal`, the mean probability that its reply is a legal action. Each result is a
 * decision.
 *
 * Cost     as `modelDecisions` and `nashConv`.
 */
export const nashConvEvaluator = <P>({ name = 'equilibrium', ...options }: NashConvOptions<P>): Evaluator => {
  checkOptions('nashConvEvaluator', options, NASH_CONV_EVALUATOR_OPTIONS)
  const { game } = options
  return {
    name,
    score: 'nashConv',
    measure: 'loss',
    tasks: decisionsOf(game).length,
    run: async function* () {
      const decisions = await modelDecisions(options)
      const results = decisions.map(({ player, informationState, actions, probabilities, legal }) => ({
        taskId: `${player} ${informationState}`,
        query: informationState,
        completion: actions.map((action, i) => `${action} ${probabilities[i]!.toFixed(3)}`).join(', '),
        score: legal,
        parts: Object.fromEntries(probabilities.map((probability, i) => [`p${i}`, probability])),
        tokens: 0,
        turns: 1,
      }))
      yield { results, done: results.length, tasks: results.length }
    },
    scoresOf: (results) => {
      const table = new Map(results.map(({ taskId, parts }) => [taskId, Object.values(parts)]))
      const policy: GamePolicy = ({ player, informationState }) => table.get(`${player} ${informationState}`)!
      return {
        nashConv: nashConv(
          game,
          playersOf(game).map(() => policy),
        ),
        legal: results.reduce((sum, { score }) => sum + score, 0) / results.length,
      }
    },
  }
}
