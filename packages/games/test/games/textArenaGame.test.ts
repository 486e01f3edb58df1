/** Prompts and judgements of TextArena 0.7.4, recorded by `test/golden/generate/textArena.py`. */
import { readFileSync } from 'node:fs'
import * as E from 'fp-ts/lib/Either.js'
import { describe, expect, it } from 'vitest'
import { type GameState, replayGame } from '../../src/games/game.js'
import { GameEnv } from '../../src/games/gameEnv.js'
import { type TextArenaGame, textArenaGame } from '../../src/games/textArena.js'

interface Recorded {
  readonly id: string
  readonly chance: readonly number[]
}

interface Move {
  readonly player: number
  readonly reply: string
  readonly prompt?: string
  readonly roll?: number
}

interface Golden {
  readonly words: readonly string[]
  readonly games: readonly (Recorded & { readonly moves: readonly Move[] })[]
  readonly replies: readonly (Recorded & {
    readonly before: readonly string[]
    readonly judged: readonly {
      readonly reply: string
      readonly refusal: string | null
      readonly told: string | null
    }[]
  })[]
}

const golden = JSON.parse(readFileSync('test/golden/textArena.json', 'utf8')) as Golden // as the script writes it

const made = (id: string): TextArenaGame =>
  textArenaGame(id, id.startsWith('Wordle') ? { words: golden.words.map((word) => word.toUpperCase()) } : {})

const play = (
  { game, text }: TextArenaGame,
  state: GameState<unknown>,
  { reply, roll }: Pick<Move, 'reply' | 'roll'>,
): GameState<unknown> => {
  const read = text.read(game, state, { player: Number(game.turn(state)), reply })
  if (E.isLeft(read)) throw new Error(`${reply}: ${read.left.reason}`)
  const next = game.apply(state, read.right)
  return roll === undefined ? next : game.apply(next, roll - 1)
}

const shown = ({ game, text }: TextArenaGame, state: GameState<unknown>, feedback: string | null = null): string =>
  text.prompt({ game, state, player: Number(game.turn(state)), feedback, place: 'opening' })

describe('textArenaGame', () => {
  it.each(golden.games.map((each, i) => [`${each.id} (${i})`, each] as const))(
    'prompts of %s',
    (_name, { id, chance, moves }) => {
      const arena = made(id)
      let state = replayGame(arena.game, chance)
      for (const move of moves) {
        if (move.prompt !== undefined) expect(shown(arena, state)).toBe(move.prompt)
        state = play(arena, state, move)
      }
    },
  )

  it.each(
    golden.replies.flatMap(({ judged, ...at }) => judged.map((each) => [`${at.id}: ${each.reply}`, at, each] as const)),
  )('%s', (_name, { id, chance, before }, { reply, refusal, told }) => {
    const arena = made(id)
    const state = before.reduce((at, each) => play(arena, at, { reply: each }), replayGame(arena.game, chance))
    const { game, text } = arena
    const read = text.read(game, state, { player: Number(game.turn(state)), reply })
    if (refusal !== null) {
      if (E.isRight(read)) throw new Error(`${reply} was read as ${read.right}`)
      expect(shown(arena, state, read.left.reason)).toContain(`\n[GAME] ${refusal}`)
      return
    }
    if (E.isLeft(read)) throw new Error(read.left.reason)
    const next = game.apply(state, read.right)
    if (told === null || game.turn(next) === 'chance' || game.turn(next) === 'over') return
    expect(`${shown(arena, next)}\n`).toContain(`\n[GAME] ${told}\n`)
  })

  it('refuses a name that is not there, with the nearest one', () => {
    expect(() => textArenaGame('TicTacToe-v1')).toThrow("did you mean 'TicTacToe-v0'?")
  })

  it('is played in GameEnv', () => {
    expect(GameEnv({ ...textArenaGame('KuhnPoker-train'), prompts: 3 }).batchSize).toBe(3)
  })
})
