/** Advantages by functions of arrays and of batches. */
import { advantageLaws, checkLaws, type RatedTurn, ratedBatch } from '@tandem-rl/testing'
import { scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { anyRatedTurns } from '../../../packages/testing/src/advantageLaws.js'
import { raggedRows } from '../../../src/data/tensorDict/leaf.js'
import { get } from '../../../src/data/tensorDict/tensorDict.js'
import {
  asAdvantage,
  type BatchAdvantage,
  defineAdvantage,
} from '../../../src/objectives/advantages/defineAdvantage.js'
import { MCAdvantage } from '../../../src/objectives/advantages/mcAdvantage.js'
import { useEngine } from '../../kit/engine.js'

useEngine()

/** The return less the mean of its group. */
const centered = defineAdvantage({
  name: 'centered',
  compute: (rewards, groups) =>
    rewards.map((reward, i) => {
      const group = rewards.filter((_, j) => groups[j] === groups[i])
      return group.every((other) => other === reward) ? 0 : reward - group.reduce((a, b) => a + b, 0) / group.length
    }),
})

const rowsOf = (advantage: BatchAdvantage, turns: readonly RatedTurn[]) =>
  scope(() => raggedRows(get(advantage(ratedBatch(turns) as never), 'advantage'))) // it has further entries

describe('defineAdvantage', () => {
  checkLaws(it, advantageLaws({ advantage: centered, over: 'group', groupSize: 2 }, { numRuns: 5 }))

  it('law: gives every trained token the value of its trajectory, as MCAdvantage does', () => {
    fc.assert(
      fc.property(anyRatedTurns(3), (trajectories) => {
        const turns = trajectories.flat()
        const [ours, theirs] = [centered, MCAdvantage({ groupSize: 3, normalize: 'mean' })].map((each) =>
          rowsOf(each, turns).map((row) => Array.from(row)),
        )
        for (const [i, row] of ours!.entries())
          for (const [t, value] of row.entries()) expect(value).toBeCloseTo(theirs![i]![t]!, 4)
      }),
      { numRuns: 30 },
    )
  })

  it.each([
    ['too few values', (): readonly number[] => [], /compute must return \d+ advantages, got 0/],
    [
      'a value that is not finite',
      (rewards: readonly number[]) => rewards.map(() => Number.NaN),
      /must be finite, got NaN/,
    ],
  ])('refuses %s', (_, compute, message) => {
    const turns = fc.sample(anyRatedTurns(2), { numRuns: 20, seed: 1 }).map((trajectories) => trajectories.flat())
    const trained = turns.find((each) => each.some(({ mask }) => mask.includes(1)))!
    expect(() => rowsOf(defineAdvantage({ name: 'wrong', compute }), trained)).toThrow(message)
  })
})

describe('asAdvantage', () => {
  it('names a function of batches, and leaves an advantage as it is', () => {
    const halved: BatchAdvantage = (batch) => centered(batch)
    const advantage = asAdvantage(halved)
    const { name, over, description } = advantage
    expect({ name, over, description }).toEqual({ name: 'halved', over: 'batch', description: { advantage: 'halved' } })
    const [turns] = fc.sample(anyRatedTurns(2), { numRuns: 1, seed: 1 })
    expect(rowsOf(advantage, turns!.flat())).toEqual(rowsOf(centered, turns!.flat()))
    expect(asAdvantage(centered)).toBe(centered)
  })
})
