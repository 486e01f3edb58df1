/** Turns that are given out as they happen. */
import { failNth, withFaults } from '@tandem-rl/testing'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { useEngine } from '../../kit/engine.js'
import { collectorOf, groupEnvs, keyedPolicy, numbered, type TakenBatch, takeAll } from '../../kit/rollouts.js'

useEngine()

const NO = { _tag: 'PolicyFailure', policy: 'test', reason: 'no' } as const

/**
 * The turns of each rollout in the order in which they came, `task member` -> places in the
 * conversation.
 */
const turnsOf = (batches: readonly TakenBatch[]): Readonly<Record<string, readonly number[]>> => {
  const turns: Record<string, number[]> = {}
  for (const { rows, trajectories } of batches) {
    const [trajectory, turn] = [numbered(rows.trajectoryId), rows.turn as readonly number[]] // a data leaf of numbers
    for (const [row, number] of trajectory.entries()) {
      const { task, member } = trajectories[number]!
      turns[`${task} ${member}`] = [...(turns[`${task} ${member}`] ?? []), turn[row]!]
    }
  }
  return turns
}

/** All turns of all members. */
const allTurns = (groups: readonly (readonly number[])[]): Readonly<Record<string, readonly number[]>> =>
  Object.fromEntries(
    groups.flatMap((members, task) =>
      members.map((turns, member) => [`${task} ${member}`, Array.from({ length: turns }, (_, turn) => turn)]),
    ),
  )

const groupsOfTurns = fc.array(fc.array(fc.integer({ min: 1, max: 4 }), { minLength: 1, maxLength: 3 }), {
  minLength: 1,
  maxLength: 6,
})

const asTheyHappen = { yieldCompletedTrajectories: false } as const

describe('turns that are given out as they happen', () => {
  it('come so many at a time, of conversations that go on', async () => {
    const { batches, end } = await takeAll(
      collectorOf([[3, 1], [2]], { ...asTheyHappen, dialogTurnsPerBatch: 2, maxInFlight: 3 }).begin(),
    )
    expect(batches.map(({ turns }) => turns)).toEqual([2, 2, 2])
    expect(batches[0]!.rows.next).toMatchObject({ done: [0, 1] })
    expect(batches[0]!.trajectories).toEqual([
      { task: 0, member: 0 },
      { task: 0, member: 1 },
    ])
    expect(batches.flatMap(({ tasks }) => tasks).sort()).toEqual([0, 1])
    expect(end).toMatchObject({ why: 'complete', cancelled: [] })
  })

  it('law: under any interleaving each is given out once, in order, or belongs to a task that failed or was cancelled', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.scheduler(),
        groupsOfTurns,
        fc.record({
          maxInFlight: fc.integer({ min: 3, max: 8 }),
          dialogTurnsPerBatch: fc.integer({ min: 1, max: 6 }),
          ahead: fc.integer({ min: 0, max: 3 }),
          onFailure: fc.constantFrom('skip' as const, { retry: 2, pauseMs: 0 }),
        }),
        fc.array(fc.integer({ min: 0, max: 9 }), { minLength: 8, maxLength: 8 }),
        fc.option(fc.nat(20)),
        async (s, groups, options, luck, cancelAfter) => {
          const pause = (what: string) => s.schedule(Promise.resolve(), what)
          let calls = 0
          const policy = withFaults(keyedPolicy(), () =>
            luck[calls++ % luck.length] === 0
              ? { _tag: 'Fail', failure: NO }
              : { _tag: 'Wait', until: () => pause('act') },
          )
          const controller = new AbortController()
          const run = collectorOf(groups, { ...asTheyHappen, ...options, policy, maxFailureShare: 1 }).begin({
            signal: controller.signal,
          })
          const cancel = async () => {
            for (let i = 0; i < cancelAfter!; i++) await pause('before the cancellation')
            controller.abort()
          }
          const [{ batches, end }] = await s.waitFor(
            Promise.all([takeAll(run, () => pause('training')), cancelAfter === null ? null : cancel()]),
          )
          const given = turnsOf(batches)
          const expected = allTurns(groups)
          const whole = batches.flatMap(({ tasks }) => tasks)
          const failed = [...batches, end].flatMap((each) => each.failed.map(({ task }) => task))
          expect([...whole, ...failed, ...end.cancelled].sort((a, b) => a - b)).toEqual(
            Array.from({ length: end.position.next }, (_, task) => task),
          )
          for (const [rollout, turns] of Object.entries(given)) {
            expect(turns).toEqual(expected[rollout]!.slice(0, turns.length)) // in order, each once
          }
          for (const task of whole) {
            for (const member of groups[task]!.keys())
              expect(given[`${task} ${member}`]).toEqual(expected[`${task} ${member}`])
          }
          for (const { turns } of batches) expect(turns).toBeLessThanOrEqual(options.dialogTurnsPerBatch)
          for (const { rows, turns } of batches) expect((rows.turn as readonly number[]).length).toBe(turns)
        },
      ),
      { numRuns: 60 },
    )
  })

  it('law: a run that resumes from any position draws the rest, without repeats', async () => {
    await fc.assert(
      fc.asyncProperty(
        groupsOfTurns,
        fc.integer({ min: 1, max: 5 }),
        fc.integer({ min: 1, max: 4 }),
        async (groups, size, stopAfter) => {
          const options = { ...asTheyHappen, dialogTurnsPerBatch: size, maxInFlight: 4 }
          const controller = new AbortController()
          const first: TakenBatch[] = []
          const run = collectorOf(groups, options).begin({ signal: controller.signal })
          const { batches } = await takeAll(run, async (n) => n === stopAfter && controller.abort())
          first.push(...batches)
          const last = batches.at(-1)!
          const position = JSON.parse(JSON.stringify(last.position)) as typeof last.position // written here
          const rest = await takeAll(collectorOf(groups, options).begin({ position }))
          expect(turnsOf([...first, ...rest.batches])).toEqual(allTurns(groups))
          expect([...first, ...rest.batches].flatMap(({ tasks }) => tasks).sort()).toEqual([...groups.keys()])
        },
      ),
      { numRuns: 30 },
    )
  })

  it('end a trajectory anew where a run that goes on plays it shorter than it was', async () => {
    const options = { ...asTheyHappen, dialogTurnsPerBatch: 2, maxInFlight: 2 }
    const run = collectorOf([[4]], options).begin()
    const { batches } = await takeAll(run, () => run.close())
    expect(batches[0]!.position).toEqual({ next: 1, open: [0], given: { 0: [2] } })
    const again = collectorOf([[4]], { ...options, env: groupEnvs([[1]]) })
    const rest = await takeAll(again.begin({ position: batches[0]!.position }))
    expect(rest.batches).toMatchObject([{ tasks: [0], rows: { turn: [0], next: { done: [1] } } }])
  })

  it('of a conversation that is cut off say so with the last one', async () => {
    const { batches } = await takeAll(collectorOf([[3]], { ...asTheyHappen, tokenBudget: 1 }).begin())
    expect(batches).toMatchObject([{ turns: 1, cut: [0], tasks: [0] }])
  })

  it('of a task that failed are dropped if they still wait', async () => {
    const policy = withFaults(keyedPolicy(), failNth('act', 1, NO))
    const { batches, end } = await takeAll(
      collectorOf([[2], [1]], { ...asTheyHappen, policy, dialogTurnsPerBatch: 9, maxInFlight: 1 }).begin(),
    )
    expect(turnsOf(batches)).toEqual({ '1 0': [0] })
    expect([...batches, end].flatMap(({ failed }) => failed)).toMatchObject([{ task: 0, cause: NO }])
  })
})
