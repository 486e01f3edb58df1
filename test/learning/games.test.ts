/** The recipes of games: self-play nears an equilibrium, and a model learns not to lose. */
import { describe, expect, it } from 'vitest'
import { useEngine } from '../kit/engine.js'
import { measured } from '../kit/evaluations.js'

useEngine({ threads: 1 })

describe('games: about four minutes a seed', () => {
  it.each([1, 2, 3])('Kuhn poker, seed %d: NashConv falls from 0.9 to less than 0.15', async (seed) => {
    const { before, after } = await measured({ recipe: 'kuhnPoker', seed, steps: 250 }, 'nashConv')
    console.log(`Kuhn poker, seed ${seed}: NashConv ${before.toFixed(3)} -> ${after.toFixed(3)}`)
    expect(before).toBeGreaterThan(0.9)
    expect(after).toBeLessThan(0.15)
  })

  it.each([1, 2, 3])('tic-tac-toe, seed %d: does not lose any of 20 games to a perfect player', async (seed) => {
    const { before, after } = await measured({ recipe: 'ticTacToe', seed, steps: 60 })
    console.log(`Tic-tac-toe, seed ${seed}: ${before.toFixed(2)} -> ${after.toFixed(2)} of 20 games not lost`)
    expect(before).toBeLessThan(0.5)
    expect(after).toBe(1)
  })
})
