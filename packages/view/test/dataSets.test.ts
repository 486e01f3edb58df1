/** Data sets of rollouts: messages for fine-tuning and pairs of preferences. */
import { describe, expect, it } from 'vitest'
import type { TrajectoryRecord } from '../../../src/run/metrics/records.js'
import { trajectoryRecord } from '../../../test/kit/records.js'
import { dataSetOf } from '../src/dataSets.js'
import { heldRollouts } from '../src/rolloutLog.js'

const rollout = (id: string, groupId: string, reward: number, changes: Partial<TrajectoryRecord> = {}) =>
  trajectoryRecord(1, { trajectoryId: id, groupId, reward, query: `task ${groupId}`, tokens: [id, '!'], ...changes })

const RECORDS = [
  ...[rollout('a', 'g', 0.5), rollout('b', 'g', 1), rollout('c', 'g', 0), rollout('d', 'g', 1)],
  ...[rollout('e', 'even', 1), rollout('f', 'even', 1)],
  ...[rollout('h', 'g', 9, { step: 2 }), rollout('i', 'alone', 1)],
]

const linesOf = async (format: 'sft' | 'preferences', records = RECORDS): Promise<readonly unknown[]> => {
  const log = heldRollouts(records)
  const text = await dataSetOf(log, await log.rollouts(), format)
  return text
    .split('\n')
    .slice(0, -1)
    .map((line) => JSON.parse(line) as unknown)
}

describe('dataSetOf', () => {
  it('pairs the best and the worst completion of each group of a step, without groups of equal rewards', async () => {
    const pair = { prompt: 'task g', rejected: 'c!' }
    expect(await linesOf('preferences')).toEqual([{ ...pair, chosen: 'd!' }])
  })

  it('returns nothing for no rollouts', async () => {
    expect(await linesOf('preferences', [])).toEqual([])
    expect(await linesOf('sft', [])).toEqual([])
  })

  it('has the task, the turns and the replies for fine-tuning', async () => {
    const replies = [{ role: 'tool', text: '4' }]
    const turns = [rollout('a', 'g', 0, { replies }), rollout('a', 'g', 1, { turn: 1, tokens: ['t', 'wo'] })]
    const messages = [
      { role: 'user', content: 'task g' },
      { role: 'assistant', content: 'a!' },
      { role: 'tool', content: '4' },
      { role: 'assistant', content: 'two' },
    ]
    expect(await linesOf('sft', turns)).toEqual([{ messages, reward: 1 }])
  })
})
