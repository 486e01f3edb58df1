import * as tf from '@tensorflow/tfjs'
import fc from 'fast-check'
import { isRight } from 'fp-ts/lib/Either.js'
import { describe, expect, it } from 'vitest'
import { groupRows, trainingRows } from '../../src/collectors/groups.js'
import { LLMCollector } from '../../src/collectors/llmCollector.js'
import { type CollectedBatch, trajectoryReturns } from '../../src/collectors/rollouts/turnRows.js'
import { keyFromSeed } from '../../src/core/key.js'
import { data, ragged, raggedRow, rowLengths } from '../../src/data/tensorDict/leaf.js'
import { assign } from '../../src/data/tensorDict/merge.js'
import { get, TensorDict } from '../../src/data/tensorDict/tensorDict.js'
import { own, scope } from '../../src/engine/scope.js'
import { groupAdvantage } from '../../src/objectives/advantages/groupAdvantage.js'
import { groupGatherer } from '../../src/objectives/advantages/groupGatherer.js'
import { grpoAdvantage, opoAdvantage } from '../../src/objectives/advantages/outcome.js'
import type { RewardedRows } from '../../src/objectives/advantages/rows.js'
import type { Algorithm } from '../../src/objectives/algorithms.js'
import { useEngine } from '../kit/engine.js'
import { rightOf } from '../kit/results.js'
import { scriptedPolicy, type TurnState, turnEnv } from '../kit/small.js'

useEngine()

/** One turn of one trajectory. */
interface Row {
  readonly trajectory: number
  readonly groupId: string
  readonly reward: number
}

/** A batch with these rows, as far as grouping looks at it. Its tensors belong to the enclosing scope. */
const batchOf = (rows: readonly Row[]): CollectedBatch<TurnState> =>
  TensorDict(
    {
      trajectoryId: data(rows.map((row) => `t${row.trajectory}`)),
      groupId: data(rows.map((row) => row.groupId)),
      next: {
        reward: tf.tensor1d(
          rows.map((row) => row.reward),
          'float32',
        ),
      },
    },
    [rows.length],
  ) as unknown as CollectedBatch<TurnState> // only these entries are read

const grouped = (rows: readonly Row[], options: Parameters<typeof groupGatherer>[0]) =>
  scope(() => groupRows(batchOf(rows), groupGatherer(options)))

const reward = fc.integer({ min: -4, max: 4 })

/** Groups of equal size, trajectory by trajectory, each of one to three turns. */
const groups = fc
  .record({ size: fc.integer({ min: 1, max: 4 }), count: fc.integer({ min: 1, max: 4 }) })
  .chain(({ size, count }) =>
    fc.record({
      size: fc.constant(size),
      turns: fc.array(fc.array(reward, { minLength: 1, maxLength: 3 }), {
        minLength: size * count,
        maxLength: size * count,
      }),
    }),
  )

const rowsOf = (turns: readonly (readonly number[])[], groupOf: (trajectory: number) => number): Row[] =>
  turns.flatMap((rewards, trajectory) =>
    rewards.map((each) => ({ trajectory, groupId: `g${groupOf(trajectory)}`, reward: each })),
  )

const sum = (xs: readonly number[]): number => xs.reduce((a, b) => a + b, 0)

describe('groupRows', () => {
  it('gives all turns of a trajectory its advantage in its group, whether groups are side by side or interleaved', () => {
    fc.assert(
      fc.property(groups, fc.boolean(), ({ size, turns }, interleaved) => {
        const count = turns.length / size
        const groupOf = (i: number): number => (interleaved ? i % count : Math.floor(i / size))
        const rows = rowsOf(turns, groupOf)
        const result = grouped(rows, { groupSize: size })
        expect([result.groups, result.dropped]).toEqual([count, []])
        expect([...result.rows].sort((a, b) => a - b)).toEqual([...rows.keys()])
        for (const [place, row] of result.rows.entries()) {
          const { trajectory } = rows[row]!
          const members = [...turns.keys()].filter((i) => groupOf(i) === groupOf(trajectory))
          const expected = groupAdvantage(members.map((i) => sum(turns[i]!)))
          expect(isRight(expected) && expected.right[members.indexOf(trajectory)]).toBe(result.advantages[place])
          expect(result.groupIds[place]).toBe(rows[row]!.groupId)
        }
      }),
    )
  })

  it('lists rows group by group, so that neighbors share a prompt', () => {
    const rows = rowsOf([[1], [2], [3], [4]], (i) => i % 2)
    expect(grouped(rows, { groupSize: 2 }).rows).toEqual([0, 2, 1, 3])
  })

  it('leaves out a group that is dropped, and says why', () => {
    const rows = rowsOf([[1], [1], [0], [1], [Number.NaN], [1]], (i) => Math.floor(i / 2))
    const result = grouped(rows, { groupSize: 2, keepReturnBounds: [0, 1] })
    expect(result).toMatchObject({
      rows: [2, 3],
      groups: 1,
      dropped: [
        { groupId: 'g0', reason: 'out-of-bounds' },
        { groupId: 'g2', reason: 'not-finite' },
      ],
    })
  })

  it('has no rows when all groups are dropped', () => {
    const result = grouped(
      rowsOf([[1], [1]], () => 0),
      { groupSize: 2, keepReturnBounds: [0, 1] },
    )
    expect([result.rows, result.advantages, result.groups]).toEqual([[], [], 0])
  })

  it('refuses a batch with a group that is still waiting, naming it', () => {
    const rows = rowsOf([[1], [1], [0]], (i) => Math.floor(i / 2))
    expect(() => grouped(rows, { groupSize: 2 })).toThrow("group 'g1' has only 1 members")
  })
})

/** The rows of trajectories with their lengths in learned tokens, behind prompts of one token. */
const withTokens = (rows: readonly Row[], lengths: readonly number[]): CollectedBatch<TurnState> =>
  assign(batchOf(rows) as TensorDict, {
    masks: {
      assistant: ragged(
        'int32',
        lengths.map((n) => [0, ...Array<number>(n).fill(1)]),
      ),
    },
  }) as unknown as CollectedBatch<TurnState> // only these entries are read

describe('groupRows by a rule', () => {
  const turns = [[1, 2], [0], [5], [2]]
  const rows = rowsOf(turns, (i) => Math.floor(i / 2))
  const by = (rule: Algorithm['advantage'], lengths: readonly number[]) =>
    scope(() => groupRows(withTokens(rows, lengths), groupGatherer({ groupSize: 2 }), rule))

  it('gives the rule each trajectory once, with its return and the learned tokens of all its turns', () => {
    const seen: RewardedRows[] = []
    const rule: Algorithm['advantage'] = (given) => {
      seen.push(given)
      return opoAdvantage(given)
    }
    const { advantages, rows: order } = by(rule, [1, 2, 1, 0, 2])
    expect(order).toEqual([0, 1, 2, 3, 4])
    expect(seen).toEqual([
      {
        groups: ['g0', 'g0', 'g1', 'g1'],
        rewards: [[0, 0, 3], [0], [5], [0, 2]],
        mask: [[1, 1, 1], [1], [1], [1, 1]],
      },
    ])
    expect(advantages).toEqual([0.75, 0.75, -2.25, 2, -1])
  })

  it('by the rule of GRPO changes nothing', () => {
    const plain = scope(() => groupRows(batchOf(rows), groupGatherer({ groupSize: 2 })))
    expect(by((given) => grpoAdvantage(given), [1, 2, 1, 3, 2])).toEqual(plain)
  })
})

const collect = async (turns: readonly number[], repeats: number) => {
  const env = turnEnv(turns, { prompts: turns.length, repeats })
  const collector = LLMCollector({ env, policy: scriptedPolicy(), key: keyFromSeed(1) })
  return (await rightOf(collector.collect(collector.start))).batch
}

describe('trainingRows', () => {
  it.each([[[1, 1]], [[2, 1]]])(
    'has the tokens, log-probabilities and advantages of the rows (%j turns)',
    async (turns) => {
      using batch = await collect(turns, 3)
      const td = batch.value
      const chosen = groupRows(td, groupGatherer({ groupSize: 3 }))
      const rows = trainingRows(td, chosen)
      expect(chosen.rows).toHaveLength(3 * sum(turns))
      expect(trajectoryReturns(td)).toHaveLength(6)
      for (const [place, row] of chosen.rows.entries()) {
        expect(rows.prompts[place]).toEqual(raggedRow(get(td, 'tokens', 'prompt'), row))
        expect(rows.completions[place]).toEqual(raggedRow(get(td, 'tokens', 'response'), row))
        expect(rows.oldLogProbs[place]).toEqual(raggedRow(get(td, 'logProbs', 'response'), row))
      }
      expect([rows.advantages, rows.temperature, rows.refLogProbs]).toEqual([chosen.advantages, 1, undefined])
    },
  )

  it('has the log-probabilities of the reference for the same rows where a transform has added them', async () => {
    using batch = await collect([1, 1], 2)
    const lengths = rowLengths(get(batch.value, 'tokens', 'response'))
    const reference = ragged(
      'float32',
      lengths.map((length, i) => new Float32Array(length).fill(-i)),
    )
    const added = { next: { refLogProbs: { response: reference } } }
    using more = own(assign(batch.value, added) as unknown as CollectedBatch<TurnState>) // one entry more
    const rows = trainingRows(more.value, { rows: [3, 1], advantages: [1, -1] })
    expect(rows.refLogProbs).toEqual([raggedRow(reference, 3), raggedRow(reference, 1)])
    expect(rows.completions.map((row) => row.length)).toEqual([lengths[3], lengths[1]])
  })

  it('compares log-probabilities of greedy rows at temperature 1, where they were recorded', async () => {
    using batch = await collect([1, 1], 1)
    const greedy = { temperature: 0, topK: null, topP: null, maxNewTokens: 6 }
    const changed = assign(batch.value, { sampling: data([greedy, greedy]) })
    const rows = trainingRows(changed as unknown as CollectedBatch<TurnState>, {
      rows: [0],
      advantages: [0],
    })
    expect(rows.temperature).toBe(1)
  })
})
