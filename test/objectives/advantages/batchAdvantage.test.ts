/**
 * Advantages of batches: the laws for every estimator, and equality with the functions on arrays.
 */
import { advantageLaws, checkLaws, type RatedTurn, ratedBatch } from '@tandem-rl/testing'
import { scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as tf from '@tensorflow/tfjs-core'
import fc from 'fast-check'
import * as E from 'fp-ts/lib/Either.js'
import { describe, expect, it } from 'vitest'
import { anyRatedTurns } from '../../../packages/testing/src/advantageLaws.js'
import { exclude } from '../../../src/data/tensorDict/edit.js'
import { concat } from '../../../src/data/tensorDict/joining.js'
import { ragged, raggedRows } from '../../../src/data/tensorDict/leaf.js'
import { assign } from '../../../src/data/tensorDict/merge.js'
import { take } from '../../../src/data/tensorDict/selecting.js'
import { get } from '../../../src/data/tensorDict/tensorDict.js'
import { batchAdvantage } from '../../../src/objectives/advantages/batchAdvantage.js'
import { groupAdvantage } from '../../../src/objectives/advantages/groupAdvantage.js'
import { MCAdvantage } from '../../../src/objectives/advantages/mcAdvantage.js'
import { gdpoAdvantage, opoAdvantage } from '../../../src/objectives/advantages/outcome.js'
import { gae, optimalTokenBaseline, remaxAdvantage } from '../../../src/objectives/advantages/temporal.js'
import { GAE, VTrace } from '../../../src/objectives/advantages/valueAdvantages.js'
import { ALGORITHM_NAMES, ALGORITHMS } from '../../../src/objectives/algorithms.js'
import { brokenLaws } from '../../kit/conversation.js'
import { useEngine } from '../../kit/engine.js'

useEngine()

const OVER_BATCH: readonly string[] = ['reinforce++', 'reinforce++-baseline', 'gpg']

const probabilities = batchAdvantage(
  (rows) => {
    const chosen = rows.entries.tokens('values').map((row) => Array.from(row, Math.exp))
    return optimalTokenBaseline(rows, { chosen, sumOfSquares: chosen.map((row) => row.map((p) => p * p)) })
  },
  { name: 'OptimalTokenBaseline', reads: ['values'] },
)

const remax = batchAdvantage((rows) => remaxAdvantage(rows, rows.entries.last('next.reward')), { name: 'ReMax' })

const gdpo = batchAdvantage(
  (rows) => gdpoAdvantage(rows, [{ rewards: rows.entries.rewards('next.reward'), weight: 2 }]),
  { name: 'GDPO', over: 'batch' },
)

describe('the laws of advantages', () => {
  describe.each(ALGORITHM_NAMES)('%s', (name) => {
    const over = OVER_BATCH.includes(name) ? 'batch' : 'group'
    const advantage = batchAdvantage(ALGORITHMS[name].advantage, { groupSize: 2, name, over })
    checkLaws(it, advantageLaws({ advantage, over, groupSize: 2 }, { numRuns: 5 }))
  })
  describe.each([
    MCAdvantage({ groupSize: 3 }),
    MCAdvantage({ groupSize: 3, normalize: 'leave-one-out', keepReturnBounds: [-1, 1] }),
    GAE({ gamma: 0.9, lambda: 0.5 }),
    GAE({ whitened: 'no' }),
    VTrace({ gamma: 0.9 }),
    probabilities,
    remax,
    gdpo,
  ])('%#', (advantage) => {
    const sample = { advantage: advantage as ReturnType<typeof MCAdvantage>, over: advantage.over, groupSize: 3 }
    checkLaws(it, advantageLaws(sample))
  })

  it('find an advantage whose groups are made of neighbors, as those of batches without ids', async () => {
    const byPlace = (batch: ReturnType<typeof ratedBatch>) => {
      const places = Array.from({ length: batch.batchShape[0]! }, (_, i) => i)
      const leaf = ragged(
        'float32',
        raggedRows(get(batch, 'tokens', 'response')).map((row, i) => row.map((on) => on * places[i]!)),
      )
      return assign(batch, { advantage: leaf })
    }
    const broken = await brokenLaws(advantageLaws({ advantage: byPlace, over: 'group', groupSize: 2 }))
    expect(broken.length).toBeGreaterThanOrEqual(3)
  })
})

const turn = (trajectory: number, given: Partial<RatedTurn> = {}): RatedTurn => ({
  ...{ trajectoryId: `k:${trajectory}`, turn: 0, groupId: 'k:g', reward: 0, mask: [1, 1], numbers: [0, 0] },
  ...given,
})

const rated = (advantage: ReturnType<typeof MCAdvantage>, turns: readonly RatedTurn[]) =>
  scope(() => raggedRows(get(advantage(ratedBatch(turns)), 'advantage')))

describe('MCAdvantage', () => {
  it('gives every token of a trajectory that counts the advantage of its return', () => {
    fc.assert(
      fc.property(anyRatedTurns(3), (trajectories) => {
        const rows = rated(MCAdvantage({ groupSize: 3 }), trajectories.flat())
        const returns = trajectories.map((turns) => turns.reduce((sum, { reward }) => sum + reward, 0))
        const expected = returns.flatMap((_, i) => {
          const start = i - (i % 3)
          const group = E.getOrElse((): readonly number[] => [])(groupAdvantage(returns.slice(start, start + 3)))
          return trajectories[i]!.map(({ mask }) => mask.map((on) => on * Math.fround(group[i % 3]!)))
        })
        expect(rows.map((row) => row.map((a) => a + 0))).toEqual(expected.map((row) => row.map((a) => a + 0)))
      }),
    )
  })

  it('joined batches keep the groups of each: episodes of two batches are not merged', () => {
    scope(() => {
      const of = (key: string) =>
        ratedBatch([
          turn(0, { trajectoryId: `${key}:0`, groupId: `${key}:g`, reward: 1 }),
          turn(1, { trajectoryId: `${key}:1`, groupId: `${key}:g` }),
        ])
      const joined = MCAdvantage({ groupSize: 2, normalize: 'mean' })(concat([of('a'), of('b')]))
      expect(raggedRows(get(joined, 'advantage'))).toEqual([
        [0.5, 0.5],
        [-0.5, -0.5],
        [0.5, 0.5],
        [-0.5, -0.5],
      ])
    })
  })

  it('leaves out groups outside the bounds and groups that are not finite, and names them', () => {
    const advantage = MCAdvantage({ groupSize: 2, normalize: 'mean', keepReturnBounds: [0, 1] })
    const turns = [
      ...[turn(0, { groupId: 'all', reward: 1 }), turn(1, { groupId: 'all', reward: 1 })],
      ...[turn(2, { groupId: 'some', reward: 1 }), turn(3, { groupId: 'some' })],
      ...[turn(4, { groupId: 'bad', reward: Number.NaN }), turn(5, { groupId: 'bad' })],
    ]
    expect(rated(advantage, turns)).toEqual([
      [0.5, 0.5],
      [-0.5, -0.5],
    ])
    expect(scope(() => advantage.dropped(ratedBatch(turns)))).toEqual([
      { groupId: 'all', reason: 'out-of-bounds' },
      { groupId: 'bad', reason: 'not-finite' },
    ])
  })

  it('takes dense rewards of tokens in place of those of turns', () => {
    scope(() => {
      const batch = assign(ratedBatch([turn(0, { reward: 9 }), turn(1)]), {
        next: {
          tokenRewards: ragged('float32', [
            [0.25, 0.75],
            [0, 0],
          ]),
        },
      })
      const result = MCAdvantage({ groupSize: 2, normalize: 'mean' })(batch)
      expect(raggedRows(get(result, 'advantage'))).toEqual([
        [0.5, 0.5],
        [-0.5, -0.5],
      ])
    })
  })

  it('compares the turn rewards of trajectories without trained tokens, and no rewards of their tokens', () => {
    const turns = [turn(0, { reward: 1 }), turn(1, { reward: 1 }), turn(2, { reward: 4, mask: [0, 0] })]
    const advantage = MCAdvantage({ groupSize: 3, normalize: 'mean' })
    expect(rated(advantage, turns)).toEqual(
      [
        [-1, -1],
        [-1, -1],
        [0, 0],
      ].map((row) => row.map(Math.fround)),
    )
    scope(() => {
      const tokenRewards = ragged('float32', [
        [0, 1],
        [0, 1],
        [0, 4],
      ])
      const batch = assign(ratedBatch(turns), { next: { tokenRewards } })
      expect(raggedRows(get(advantage(batch), 'advantage'))).toEqual([
        [0, 0],
        [0, 0],
        [0, 0],
      ])
      const bounded = MCAdvantage({ groupSize: 3, keepReturnBounds: [0.9, 1.1] })
      expect(bounded.dropped(batch)).toEqual([])
    })
  })

  it('names an incomplete group, a missing turn and missing entries', () => {
    const advantage = MCAdvantage({ groupSize: 2 })
    expect(() => rated(advantage, [turn(0)])).toThrow("group 'k:g' has 1 trajectories in the batch, not 2")
    expect(() => rated(advantage, [turn(0), turn(0, { turn: 2 }), turn(1)])).toThrow("'k:0' has no turn 1")
    scope(() => {
      const poor = exclude(ratedBatch([turn(0)]), 'groupId', ['next', 'reward']) as unknown as ReturnType<
        typeof ratedBatch
      >
      expect(() => advantage(poor)).toThrow("the batch has no 'groupId'")
    })
  })

  it('has a description with its inputs and outputs', () => {
    const advantage = MCAdvantage({ groupSize: 4, normalize: 'mean' })
    expect(advantage.description).toEqual({ advantage: 'MCAdvantage', groupSize: 4, normalize: 'mean' })
    expect([advantage.name, advantage.groupSize, advantage.over]).toEqual(['MCAdvantage', 4, 'group'])
    expect(Object.keys(advantage.writes)).toEqual(['advantage'])
    expect(Object.keys(GAE().writes)).toEqual(['advantage', 'returns'])
  })
})

describe('GAE', () => {
  it('is `gae` over the joined turns of each trajectory, with the reward of a turn at its last token', () => {
    const turns = [
      turn(0, { reward: 1, mask: [1, 1, 0], numbers: [0.5, 0.25, 9] }),
      turn(0, { turn: 1, reward: 2, mask: [1], numbers: [0.75] }),
    ]
    scope(() => {
      const result = GAE({ gamma: 0.5, lambda: 0.5, whitened: 'no' })(ratedBatch(turns))
      const expected = gae({ groups: ['a'], rewards: [[0, 1, 0, 2]], mask: [[1, 1, 0, 1]] }, [[0.5, 0.25, 9, 0.75]], {
        gamma: 0.5,
        lambda: 0.5,
        whitened: 'no',
      })
      if (E.isLeft(expected)) throw new Error('finite')
      const { advantages, returns } = expected.right
      expect(raggedRows(get(result, 'advantage')).flat()).toEqual(advantages[0]!.map(Math.fround))
      expect(raggedRows(get(result, 'returns')).flat()).toEqual(returns[0]!.map(Math.fround))
    })
  })
})

describe('batchAdvantage', () => {
  it('keeps the batch where nothing is dropped, and makes no tensor', () => {
    scope(() => {
      const batch = ratedBatch([turn(0, { reward: 1 }), turn(1)])
      const before = tf.memory().numTensors
      const result = batchAdvantage(opoAdvantage, { groupSize: 2 })(batch)
      expect(tf.memory().numTensors).toBe(before)
      expect(get(result, 'next', 'reward')).toBe(get(batch, 'next', 'reward'))
      expect(get(take(result, [0]), 'trajectoryId').items.get(0)).toBe('k:0')
    })
  })

  it('counts the reward of a trajectory without tokens in its group', () => {
    const turns = [turn(0, { mask: [], numbers: [], reward: 3 }), turn(1, { reward: 1 })]
    expect(rated(MCAdvantage({ groupSize: 2, normalize: 'mean' }), turns)).toEqual([[], [-1, -1]])
  })
})
