/** Players without search: random, tables of probabilities, scripts, and mixtures. */
import { child, uniformInteger } from '@tandem-rl/base'
import * as TE from 'fp-ts/lib/TaskEither.js'
import type { GamePolicy } from '../../games/exactValues.js'
import { drawIndex } from '../../games/game.js'
import { type Player, type PlayerMove, playerFailure, type Scene } from './player.js'

/**
 * Makes a player that chooses legal actions uniformly.
 *
 * @example
 * randomPlayer().name // 'random'
 */
export const randomPlayer = (name = 'random'): Player => ({
  name,
  move: ({ legalActions }, { key }) => TE.right({ action: legalActions[uniformInteger(key, legalActions.length)]! }),
  probabilities: ({ legalActions }) => TE.right(legalActions.map(() => 1 / legalActions.length)),
})

const decisionOf = ({ player, informationState, legalActions }: Scene) => ({ player, informationState, legalActions })

/**
 * Makes a player that draws from a policy over information states, such as one that `solveGame`
 * found.
 *
 * @example
 * tabularPlayer({ name: 'uniform', policy: uniformGamePolicy }).name // 'uniform'
 */
export const tabularPlayer = ({ name, policy }: { readonly name: string; readonly policy: GamePolicy }): Player => ({
  name,
  move: (scene, { key }) => TE.right({ action: scene.legalActions[drawIndex(policy(decisionOf(scene)), key)]! }),
  probabilities: (scene) => TE.right(policy(decisionOf(scene))),
})

/** A player of a mixture and its weight. */
export interface MixturePart {
  readonly player: Player
  /** Above 0. Weights are divided by their sum. */
  readonly weight: number
}

/**
 * Makes a player that plays as one of several, drawn by their weights once for each game or for
 * each move. Default: for each game.
 *
 * Errors   throws RangeError for an empty mixture and for weights that are not above 0.
 *
 * @example
 * mixturePlayer([{ player: randomPlayer(), weight: 1 }]).name // 'mixture of random'
 */
export const mixturePlayer = (
  parts: readonly MixturePart[],
  options: { readonly name?: string; readonly draw?: 'game' | 'move' } = {},
): Player => {
  const { draw = 'game', name = `mixture of ${parts.map(({ player }) => player.name).join(', ')}` } = options
  if (parts.length === 0) throw new RangeError('mixturePlayer: parts must not be empty')
  const wrong = parts.find(({ weight }) => !(weight > 0 && Number.isFinite(weight)))
  if (wrong !== undefined)
    throw new RangeError(`mixturePlayer: the weight of ${wrong.player.name} must be above 0, got ${wrong.weight}`)
  const total = parts.reduce((sum, { weight }) => sum + weight, 0)
  const shares = parts.map(({ weight }) => weight / total)
  return {
    name,
    move: (scene, context) => {
      const drawn = drawIndex(shares, child(draw === 'game' ? context.gameKey : context.key, 'mixture'))
      return parts[drawn]!.player.move(scene, context)
    },
    ...(draw === 'move' &&
      parts.every(({ player }) => player.probabilities !== undefined) && {
        probabilities: (scene, context) => async () => {
          const all = await TE.sequenceArray(parts.map(({ player }) => player.probabilities!(scene, context)))()
          if (all._tag === 'Left') return all
          const mixed = scene.legalActions.map((_, i) =>
            all.right.reduce((sum, probabilities, part) => sum + shares[part]! * probabilities[i]!, 0),
          )
          return { _tag: 'Right', right: mixed }
        },
      }),
  }
}

/**
 * Makes a player whose actions are read from replies that `ask` returns, such as a person at a
 * terminal. `ask` returns `null` when there are no more replies.
 *
 * Errors   the player fails with `cancelled` after `null`.
 *
 * @example
 * humanPlayer({ ask: async () => '[x(1,1)]' }).name // 'human'
 */
export const humanPlayer = ({
  ask,
  name = 'human',
}: {
  readonly ask: (text: string, signal: AbortSignal) => Promise<string | null>
  readonly name?: string
}): Player => ({
  name,
  move:
    (scene, { signal }) =>
    async () => {
      const problem = scene.attempts.at(-1)?.reason
      const reply = await ask(problem === undefined ? scene.prompt() : `Not possible: ${problem}.`, signal)
      if (reply === null) return { _tag: 'Left', left: playerFailure('cancelled', 'the input ended') }
      return { _tag: 'Right', right: readMove(scene, reply) }
    },
})

/** Reads a reply as a move. A reply without a legal action is an illegal move, with the reason. */
export const readMove = (scene: Scene, reply: string): PlayerMove => {
  const read = scene.read(reply)
  return read._tag === 'Right'
    ? { action: read.right, text: reply }
    : { action: 'illegal', text: reply, problem: read.left.reason }
}
