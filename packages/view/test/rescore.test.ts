/** Rewards, advantages and groups under other weights. */
import { describe, expect, it } from 'vitest'
import { rescore } from '../src/rescore.js'
import { heldRollouts } from '../src/rolloutLog.js'

/** One group of four: the reward is the right answer plus a tenth of the format. */
const rollouts = await heldRollouts(
  [
    [1, 1],
    [1, 0],
    [0, 1],
    [0, 0],
  ].map(([right, format], i) => ({
    ...{ step: 1, trajectoryId: `t${i}`, turn: 0, groupId: 'g', query: 'q', answer: null },
    ...{ tokens: ['a'], logProbs: [-1], reward: right! + 0.1 * format!, parts: { right: right!, format: format! } },
    ...{ advantage: 0, stopReason: 'stop', policyVersion: 0 },
  })),
).rollouts()

const NAMES = ['right', 'format']
const all = rollouts.map(({ row }) => row.id)

describe('rescore', () => {
  it('finds the recorded weights, and repeats the recorded rewards with them', () => {
    const { weights, recorded, rescored, signChanges } = rescore(rollouts, NAMES, { weights: {} })
    expect(weights.right).toBeCloseTo(1, 6)
    expect(weights.format).toBeCloseTo(0.1, 6)
    expect(rescored).toEqual(recorded)
    expect(signChanges).toBe(0)
  })

  it('scores with other weights: rewards, advantages of the group, and their signs', () => {
    const answer = rescore(rollouts, NAMES, { weights: { right: 0, format: 1 }, rollouts: all })
    expect(answer.rollouts.map(({ reward }) => Number(reward.toFixed(6)))).toEqual([1, 0, 1, 0])
    expect(answer.rollouts.map(({ advantage }) => Number(advantage.toFixed(4)))).toEqual([1, -1, 1, -1])
    expect(answer.signChanges).toBe(0.5)
    expect(answer.rescored[0]).toBeCloseTo(0.5, 6)
  })

  it('counts groups that lose their signal', () => {
    const { withoutSignal } = rescore(rollouts, NAMES, { weights: { right: 0, format: 0 } })
    expect(withoutSignal).toEqual({ recorded: [0], rescored: [1] })
  })
})
