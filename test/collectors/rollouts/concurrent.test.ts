import { FailureError } from '@tandem-rl/base'
import { failNth, withFaults } from '@tandem-rl/testing'
import { isLeft } from 'fp-ts/lib/Either.js'
import { describe, expect, it } from 'vitest'
import { find, get } from '../../../src/data/tensorDict/tensorDict.js'
import { useEngine } from '../../kit/engine.js'
import { manualTime } from '../../kit/manualTime.js'
import { collectorOf, givenId, groupEnvs, keyedPolicy, numbered, takeAll } from '../../kit/rollouts.js'

useEngine()

const NO = { _tag: 'PolicyFailure', policy: 'test', reason: 'no' } as const

describe('batches of concurrent rollouts', () => {
  it('are whole groups with as many turns as are asked for, and the rest at the end', async () => {
    const { batches, end } = await takeAll(
      collectorOf(
        [
          [1, 2],
          [2, 2],
          [1, 1],
        ],
        { dialogTurnsPerBatch: 6, order: 'drawn' },
      ).begin(),
    )
    expect(batches.map(({ tasks, turns }) => [tasks, turns])).toEqual([
      [[0, 1], 7],
      [[2], 2],
    ])
    expect(numbered(batches[0]!.rows.trajectoryId)).toEqual([0, 1, 1, 2, 2, 3, 3])
    expect(batches[0]!.rows.turn).toEqual([0, 0, 1, 0, 1, 0, 1])
    expect(batches[0]!.rows.status).toEqual(Array(7).fill('ok'))
    expect(end).toMatchObject({ why: 'complete', failed: [], cancelled: [], position: { next: 3, open: [] } })
  })

  it('have only the last step of each trajectory if that is wanted, and count all', async () => {
    const { batches } = await takeAll(collectorOf([[3, 1]], { yieldOnlyLastSteps: true }).begin())
    expect(batches[0]).toMatchObject({ turns: 4, rows: { turn: [2, 0] } })
    expect(numbered(batches[0]!.rows.trajectoryId)).toEqual([0, 1])
  })

  it('are iterated over, and leaving early frees what was not taken', async () => {
    const ids: string[] = []
    for await (const batch of collectorOf([[1], [2], [1]], { order: 'drawn' })) {
      ids.push(get(batch, 'groupId').items.first()!)
      expect(find(batch, ['policyVersion'])).toBeDefined()
      if (ids.length === 2) break
    }
    expect(ids.map(givenId)).toEqual(['0', '1'])
  })

  it('are drawn only while somebody waits for one', async () => {
    const policy = keyedPolicy()
    const run = collectorOf(
      Array.from({ length: 9 }, () => [1]),
      { policy, maxInFlight: 2 },
    ).begin()
    expect(policy.calls().length).toBe(0)
    const taken = await run.next()
    if (!isLeft(taken) && taken.right._tag === 'Batch') taken.right.batch.release()
    for (let turn = 0; turn < 20; turn++) await new Promise((go) => setImmediate(go))
    expect(policy.calls().length).toBeLessThanOrEqual(4)
    expect(run.inFlight()).toBe(0)
    expect(await run.close()).toMatchObject({ _tag: 'End', why: 'cancelled' })
  })
})

describe('ahead', () => {
  const ONES = Array.from({ length: 9 }, () => [1])
  const idle = async () => {
    for (let turn = 0; turn < 20; turn++) await new Promise((go) => setImmediate(go))
  }

  it('goes on drawing while nobody waits, until so many groups are there', async () => {
    const policy = keyedPolicy()
    const run = collectorOf(ONES, { policy, maxInFlight: 1, ahead: 3 }).begin()
    await idle()
    expect(policy.calls().length).toBe(0) // there was no request
    for (const played of [1 + 3, 2 + 3]) {
      const taken = await run.next()
      if (!isLeft(taken) && taken.right._tag === 'Batch') taken.right.batch.release()
      await idle()
      expect(policy.calls().length).toBe(played)
    }
    const before = policy.calls().length
    const { batches } = await takeAll(run)
    expect(batches.length).toBe(7)
    expect(batches[0]!.position.open.length).toBeGreaterThanOrEqual(2) // they were there, and a checkpoint knows of them
    expect(before).toBe(5)
  })

  it('is told by next what the environment of a task threw while nobody waited', async () => {
    const env = (task: number) => {
      if (task === 2) throw new RangeError('no such task')
      return groupEnvs(ONES)(task)
    }
    const run = collectorOf(ONES, { env, maxInFlight: 1, ahead: 3 }).begin()
    const taken = await run.next()
    if (!isLeft(taken) && taken.right._tag === 'Batch') taken.right.batch.release()
    await idle()
    await expect(run.next()).rejects.toThrow('no such task')
    await run.close()
  })
})

describe('limits of concurrent rollouts', () => {
  it('cut off a conversation whose tokens are used up, and say so', async () => {
    const { batches } = await takeAll(collectorOf([[3, 1]], { tokenBudget: 1 }).begin())
    expect(batches[0]!.cut).toEqual([0])
    expect(batches[0]!.rows).toMatchObject({
      turn: [0, 0],
      next: { truncated: [1, 0], terminated: [0, 1], done: [1, 1] },
    })
  })

  it('record an environment that hangs as late, with its cause, and give out the others', async () => {
    const time = manualTime()
    const env = (task: number) => {
      const made = groupEnvs([[1], [1]])(task)
      return task === 0 ? withFaults(made, () => ({ _tag: 'Wait', until: () => new Promise(() => {}) })) : made
    }
    const run = collectorOf([[1], [1]], { env, timers: time, deadlineMs: 1000 }).begin()
    const all = takeAll(run, async () => time.pass(1000))
    const { batches, end } = await all
    expect(batches.map(({ tasks }) => tasks)).toEqual([[1]])
    expect(end.failed).toMatchObject([{ task: 0, attempts: 1, cause: { _tag: 'LateRollout', deadlineMs: 1000 } }])
  })

  it('are refused all at once if they make no sense', () => {
    expect(() => collectorOf([[1]], { maxInFlight: 0, deadlineMs: -1, onFailure: { retry: 0.5 } })).toThrow(
      /maxInFlight must be .*; deadlineMs must be above 0, got -1; retries must be/,
    )
  })

  it('are refused with one another where turns are given out as they happen', () => {
    const options = { yieldCompletedTrajectories: false, yieldOnlyLastSteps: true, order: 'drawn', ahead: -1 } as const
    expect(() => collectorOf([[1]], options)).toThrow(
      /ahead must be .*; yieldOnlyLastSteps: true cannot be combined .*; order: 'drawn' cannot be combined/,
    )
  })

  it('refuse a group that is larger than what may be in flight', async () => {
    await expect(
      collectorOf([[1, 1, 1]], { maxInFlight: 2 })
        .begin()
        .next(),
    ).rejects.toThrow('has 3 members, more than maxInFlight 2')
  })
})

describe('failures', () => {
  const failing = (options: Parameters<typeof collectorOf>[1]) =>
    collectorOf([[1], [1], [1]], {
      policy: withFaults(keyedPolicy(), failNth('act', 0, NO)),
      maxInFlight: 1,
      ...options,
    })

  it('leave the group out, with its cause', async () => {
    const { batches, end } = await takeAll(failing({ onFailure: 'skip' }).begin())
    expect(batches.flatMap(({ tasks }) => tasks)).toEqual([1, 2])
    expect([...batches, end].flatMap(({ failed }) => failed)).toEqual([{ task: 0, member: 0, attempts: 1, cause: NO }])
  })

  it('are tried again', async () => {
    const { batches } = await takeAll(failing({ onFailure: { retry: 1, pauseMs: 0 } }).begin())
    expect(batches.flatMap(({ tasks }) => tasks)).toEqual([0, 1, 2])
  })

  it.each([
    ['failFast', { onFailure: 'failFast' }],
    ['maxFailureShare', { maxFailureShare: 0 }],
  ] as const)('end the run by %s, as a typed failure', async (rule, options) => {
    const { end } = await takeAll(failing(options).begin())
    expect(end).toMatchObject({ _tag: 'RolloutsStopped', rule, cause: NO, failed: [{ task: 0 }] })
    await expect(failing(options)[Symbol.asyncIterator]().next()).rejects.toThrow(FailureError)
  })
})

describe('a run that is called off', () => {
  it('gives out what is complete, and goes on from its position as if nothing had been', async () => {
    const groups = [
      [1, 1],
      [2, 3],
      [1, 2],
      [3, 1],
    ]
    const options = { order: 'drawn', maxInFlight: 4 } as const
    const whole = await takeAll(collectorOf(groups, options).begin())
    const controller = new AbortController()
    const first = await takeAll(collectorOf(groups, options).begin({ signal: controller.signal }), async () =>
      controller.abort(),
    )
    expect(first.end).toMatchObject({ _tag: 'End', why: 'cancelled' })
    const position = JSON.parse(JSON.stringify(first.end.position)) as typeof first.end.position // written here
    const rest = await takeAll(collectorOf(groups, options).begin({ position }))
    const rowsOf = ({ batches }: typeof whole) => batches.map(({ tasks, rows }) => [tasks, rows])
    expect([...rowsOf(first), ...rowsOf(rest)]).toEqual(rowsOf(whole))
  })
})
