/**
 * For those who test games of their own: laws that every game keeps, for any test runner. They need
 * fast-check.
 *
 * @module
 */
import { child, type Key, uniformInteger } from '@tandem-rl/base'
import { anyKey, type Law } from '@tandem-rl/testing'
import fc from 'fast-check'
import { isLeft } from 'fp-ts/lib/Either.js'
import { drawChance, type Game, type GameMove, type GameState, playersOf, replayGame } from './games/game.js'
import { parseAction } from './games/gameText.js'

/** Throws an error with the message `problem` unless `holds`. */
const require = (holds: boolean, problem: () => string): void => {
  if (!holds) throw new Error(problem())
}

export interface GameLawOptions {
  /** Number of random games per law. Default 20. */
  readonly numRuns?: number
  /** Maximum number of moves of a game. Default 10,000. */
  readonly longest?: number
}

/** A random game, with frozen states. */
interface Walk<P> {
  /** From the first state to the last. */
  readonly states: readonly GameState<P>[]
  readonly moves: readonly GameMove[]
}

/** Number of random games that are compared with each other. */
const WALKS = 50

const frozen = <T>(value: T): T => {
  if (typeof value === 'object' && value !== null && !Object.isFrozen(value)) {
    Object.freeze(value)
    Object.values(value).forEach(frozen)
  }
  return value
}

/** Returns a text that is equal for equal values, regardless of the order of fields. */
const canonical = (value: unknown): string =>
  JSON.stringify(value, (_, each: unknown) =>
    typeof each === 'object' && each !== null && !Array.isArray(each)
      ? Object.fromEntries(Object.entries(each).sort(([a], [b]) => (a < b ? -1 : 1)))
      : each,
  )

const at = (state: GameState<unknown>): string => `after [${state.history.slice(-20).join(', ')}]`

const randomAction = <P>(game: Game<P>, state: GameState<P>, [player, key]: readonly [number, Key]): number => {
  const actions = game.legalActions(state, player)
  require(actions.length > 0, () => `player ${player} must move and has no legal action ${at(state)}`)
  return actions[uniformInteger(child(key, player), actions.length)]!
}

const randomMove = <P>(game: Game<P>, state: GameState<P>, key: Key): GameMove => {
  const turn = game.turn(state)
  if (turn === 'chance') return drawChance(game, state, key)
  if (turn === 'simultaneous') return playersOf(game).map((player) => randomAction(game, state, [player, key]))
  return randomAction(game, state, [Number(turn), key])
}

const walkOf = <P>(game: Game<P>, key: Key, longest: number): Walk<P> => {
  const [states, moves]: [GameState<P>[], GameMove[]] = [[frozen(game.initial)], []]
  for (let state = game.initial; game.turn(state) !== 'over'; state = states.at(-1)!) {
    require(moves.length < longest, () => `the game is not over after ${longest} moves`)
    const move = randomMove(game, state, child(key, moves.length))
    states.push(frozen(game.apply(state, move)))
    moves.push(move)
  }
  return { states, moves }
}

const throwsRangeError = (act: () => unknown): boolean => {
  try {
    act()
    return false
  } catch (error) {
    return error instanceof RangeError
  }
}

/** Returns the players who move in a state. */
const moversOf = <P>(game: Game<P>, state: GameState<P>): readonly number[] => {
  const turn = game.turn(state)
  return turn === 'simultaneous' ? playersOf(game) : typeof turn === 'number' ? [turn] : []
}

const requireTurns = <P>(game: Game<P>, state: GameState<P>): void => {
  const movers = moversOf(game, state)
  for (const player of playersOf(game)) {
    const actions = game.legalActions(state, player)
    require(movers.includes(player) === actions.length > 0, () =>
      `player ${player} has ${actions.length} legal actions where the turn is '${game.turn(state)}' ${at(state)}`)
    require(actions.every((action, i) => Number.isInteger(action) && action > (actions[i - 1] ?? -1)), () =>
      `the legal actions ${actions.join(', ')} are not ascending integers from 0 ${at(state)}`)
  }
}

const requireMoves = <P>(game: Game<P>, state: GameState<P>): void => {
  const turn = game.turn(state)
  const firsts = playersOf(game).map((player) => game.legalActions(state, player)[0] ?? 0)
  const legal = turn === 'chance' ? game.chance(state).map(({ action }) => action) : []
  const own = typeof turn === 'number' ? game.legalActions(state, turn) : legal
  const moves: readonly GameMove[] =
    turn === 'simultaneous'
      ? playersOf(game).flatMap((player) =>
          game.legalActions(state, player).map((action) => firsts.map((first, i) => (i === player ? action : first))),
        )
      : own
  for (const move of moves) game.turn(game.apply(state, move))
  const wrong: readonly GameMove[] = [-1, 0.5, Number.NaN, Math.max(-1, ...own) + 1, []]
  for (const move of wrong)
    require(throwsRangeError(() => game.apply(state, move)), () =>
      `the illegal move ${JSON.stringify(move)} does not throw RangeError ${at(state)}`)
}

const requireReturns = <P>(game: Game<P>, state: GameState<P>): void => {
  if (game.turn(state) !== 'over') {
    const isRefused = throwsRangeError(() => game.returns(state))
    require(isRefused, () => `there are returns before the game is over ${at(state)}`)
    return
  }
  const returns = game.returns(state)
  require(returns.length === game.players && returns.every(Number.isFinite), () =>
    `the returns [${returns.join(', ')}] are not ${game.players} finite numbers ${at(state)}`)
}

const requireSum = <P>(game: Game<P>, state: GameState<P>): void => {
  if (game.utility !== 'zeroSum' || game.turn(state) !== 'over') return
  const sum = game.returns(state).reduce((total, each) => total + each, 0)
  require(Math.abs(sum) < 1e-9, () => `the returns add up to ${sum} ${at(state)}`)
}

const requireChance = <P>(game: Game<P>, state: GameState<P>): void => {
  const outcomes = game.chance(state)
  require(outcomes.length > 0 === (game.turn(state) === 'chance'), () =>
    `chance has ${outcomes.length} outcomes where the turn is '${game.turn(state)}' ${at(state)}`)
  const sum = outcomes.reduce((total, { probability }) => total + probability, 0)
  require(outcomes.length === 0 || Math.abs(sum - 1) < 1e-9, () => `the probabilities add up to ${sum} ${at(state)}`)
  require(outcomes.every(({ probability }) => probability > 0) &&
    new Set(outcomes.map(({ action }) => action)).size === outcomes.length, () =>
    `an outcome is impossible or listed twice ${at(state)}`)
}

const requireStorage = <P>(game: Game<P>, state: GameState<P>): void => {
  const text = JSON.stringify(state)
  const read = JSON.parse(text) as GameState<P> // equal to a state if the law holds
  require(fc.stringify(read) === fc.stringify(state), () => `the state is not made of JSON values ${at(state)}`)
  require(game.turn(read) === game.turn(state) && game.text(read) === game.text(state), () =>
    `a state that is read again is another one ${at(state)}`)
}

const requireTexts = <P>(game: Game<P>, state: GameState<P>): void => {
  for (const player of moversOf(game, state))
    for (const action of game.legalActions(state, player)) {
      const reply = `I play [${game.actionText(state, player, action)}]`
      const read = parseAction(game, state, { player, reply })
      require(!isLeft(read) && read.right === action, () =>
        `"${reply}" of player ${player} is not read as action ${action} ${at(state)}`)
    }
}

/** Checks that prefixes of a history, at most ten, give the states at that time. */
const requireReplay = <P>(game: Game<P>, { states }: Walk<P>): void => {
  const step = Math.max(1, Math.ceil(states.length / 10))
  for (let i = (states.length - 1) % step; i < states.length; i += step)
    require(canonical(replayGame(game, states[i]!.history)) === canonical(states[i]), () =>
      `a replay of the history gives another state ${at(states[i]!)}`)
}

/** Throws if one player's key has two values. */
const sameForAll = (what: string): ((key: string, value: string, where: string) => void) => {
  const known = new Map<string, readonly [value: string, where: string]>()
  return (key, value, where) => {
    const [before, there] = known.get(key) ?? [value, where]
    require(before === value, () => `${what} '${key}' differ: ${before} ${there}, and ${value} ${where}`)
    known.set(key, [value, where])
  }
}

const requireViews = <P>(game: Game<P>, walks: readonly Walk<P>[]): void => {
  const compare = sameForAll('what a player sees and may do in the information state')
  for (const state of walks.flatMap(({ states }) => states))
    for (const player of moversOf(game, state)) {
      const actions = game.legalActions(state, player)
      const texts = actions.map((action) => game.actionText(state, player, action))
      const seen = JSON.stringify([game.observation(state, player), actions, texts])
      compare(`${player}: ${game.informationState(state, player)}`, seen, at(state))
    }
}

const requireRecall = <P>(game: Game<P>, walks: readonly Walk<P>[]): void => {
  const compare = sameForAll('the past decisions of a player in the information state')
  for (const { states, moves } of walks) {
    const past = playersOf(game).map((): string[] => [])
    for (const [i, state] of states.entries())
      for (const player of moversOf(game, state)) {
        const informationState = game.informationState(state, player)
        compare(`${player}: ${informationState}`, past[player]!.join(' / '), at(state))
        const move = moves[i]!
        past[player] = [`${informationState} -> ${typeof move === 'number' ? move : move[player]}`]
      }
  }
}

/**
 * Returns the laws of a game: legal actions lead to states and others are rejected; the game ends,
 * and has returns only then; claimed zero sums; chance; replay and undo; states of JSON values that
 * no function changes; views that reveal no more than a player's information state; perfect recall;
 * action texts that `parseAction` can parse.
 *
 * @example
 * gameLaws(ticTacToe).length // 10
 */
export const gameLaws = <P>(game: Game<P>, options: GameLawOptions = {}): readonly Law[] => {
  const { numRuns = 20, longest = 10_000 } = options
  const law = (name: string, check: (walk: Walk<P>) => void): Law => ({
    name,
    check: () =>
      fc.assert(
        fc.property(anyKey, (key) => check(walkOf(game, key, longest))),
        { numRuns },
      ),
  })
  const each = (check: (game: Game<P>, state: GameState<P>) => void) => (walk: Walk<P>) => {
    for (const state of walk.states) check(game, state)
  }
  const together = (name: string, check: (game: Game<P>, walks: readonly Walk<P>[]) => void): Law => ({
    name,
    check: () =>
      fc.assert(
        fc.property(anyKey, (key) =>
          check(
            game,
            Array.from({ length: WALKS }, (_, i) => walkOf(game, child(key, i), longest)),
          ),
        ),
        { numRuns: Math.ceil(numRuns / 10) },
      ),
  })
  return [
    law('turns: exactly the players who move have legal actions, in ascending order', each(requireTurns)),
    law('moves: legal moves lead to states, and others throw RangeError', each(requireMoves)),
    law('ends: the game ends, and has returns only then', each(requireReturns)),
    law('sum: the returns of a zero-sum game add up to 0', each(requireSum)),
    law('chance: the probabilities of the outcomes add up to 1', each(requireChance)),
    law('replay: every history gives its state, so that a shorter one undoes moves', (walk) =>
      requireReplay(game, walk),
    ),
    law('storage: states are immutable JSON values', each(requireStorage)),
    law('texts: actions have different texts, and parseAction reads them', each(requireTexts)),
    together('views: a player sees and may do the same in equal information states', requireViews),
    together('recall: equal information states follow equal decisions of the player', requireRecall),
  ]
}
