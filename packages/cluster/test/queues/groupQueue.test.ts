import { orThrow } from '@tandem-rl/base'
import fc from 'fast-check'
import * as E from 'fp-ts/lib/Either.js'
import { describe, expect, it } from 'vitest'
import {
  addTask,
  deliverRollout,
  expireLeases,
  failRollout,
  groupQueue,
  leaseRollout,
  type RolloutLease,
} from '../../src/queues/groupQueue.js'
import { groupQueueFromJson, groupQueueToJson } from '../../src/queues/queueJson.js'
import type { GroupQueueSettings, GroupQueueState } from '../../src/queues/queueState.js'
import {
  evictStale,
  forgetSettled,
  ledger,
  settleGroup,
  type TakenGroup,
  takeGroups,
  taskOutcome,
} from '../../src/queues/takeGroups.js'

type Queue = GroupQueueState<string, string>

const isString = (value: unknown): value is string => typeof value === 'string'
const is = { task: isString, rollout: isString }

/** A queue with some tasks: 'a', 'b' and so on. */
const withTasks = (count: number, settings: Partial<GroupQueueSettings> = {}): Queue =>
  Array.from({ length: count }, (_, i) => String.fromCharCode(97 + i)).reduce<Queue>(
    (queue, task) => orThrow(addTask(queue, task))[1],
    groupQueue({ groupSize: 2, capacity: 10, ...settings }),
  )

const leased = (queue: Queue, worker = 'w', now = 0): readonly [RolloutLease<string>, Queue] =>
  orThrow(leaseRollout(queue, { worker, now }))

/**
 * All open rollouts made by one worker, in the order in which it is given them, each of the version
 * given.
 */
const allMade = (queue: Queue, policyVersion = 0): Queue => {
  const given = leaseRollout(queue, { worker: 'w', now: 0 })
  if (E.isLeft(given)) return queue
  const [lease, next] = given.right
  const rollout = `${lease.task}${lease.place}`
  return allMade(orThrow(deliverRollout(next, { ...lease, rollout, policyVersion })), policyVersion)
}

const ticketsOf = (groups: readonly TakenGroup<string, string>[]): readonly number[] =>
  groups.map(({ ticket }) => ticket)

/** Two tasks of which the second one is complete first. */
const secondFirst = (order: 'completion' | 'task'): Queue => {
  const queue = withTasks(2, { order })
  const [a0, first] = leased(queue)
  const rest = allMade(first)
  return orThrow(deliverRollout(rest, { ...a0, rollout: 'late', policyVersion: 0 }))
}

describe('a group queue', () => {
  it('gives complete groups in order of completion, or of the tasks', () => {
    expect(ticketsOf(takeGroups(secondFirst('completion'), 2)[0])).toEqual([1, 0])
    expect(ticketsOf(takeGroups(secondFirst('task'), 2)[0])).toEqual([0, 1])
  })

  it('in the order of the tasks holds back what is complete until the ones before it are', () => {
    const [a0, first] = leased(withTasks(2, { order: 'task' }))
    const waiting = allMade(first)
    expect(ledger(waiting)).toMatchObject({ leased: 1, ready: 1 })
    expect(ticketsOf(takeGroups(waiting, 2)[0])).toEqual([])
    const dropped = orThrow(
      failRollout({ ...waiting, settings: { ...waiting.settings, maxAttempts: 1 } }, { ...a0, reason: 'no' }),
    )
    expect(ticketsOf(takeGroups(dropped, 2)[0])).toEqual([1])
  })

  it('gives the rollouts of a group by their places, whoever came first', () => {
    const [a0, one] = leased(withTasks(1))
    const [a1, two] = leased(one)
    const three = orThrow(deliverRollout(two, { ...a1, rollout: 'second', policyVersion: 4 }))
    const four = orThrow(deliverRollout(three, { ...a0, rollout: 'first', policyVersion: 5 }))
    expect(takeGroups(four, 1)[0]).toEqual([
      {
        ticket: 0,
        task: 'a',
        rollouts: [
          { rollout: 'first', policyVersion: 5 },
          { rollout: 'second', policyVersion: 4 },
        ],
      },
    ])
  })

  it('is full while it holds as many tasks as it may, also those in training', () => {
    const [, taken] = takeGroups(allMade(withTasks(1, { capacity: 1 })), 1)
    expect(addTask(taken, 'b')).toEqual(
      E.left({ _tag: 'QueueRefusal', kind: 'full', reason: 'the queue is full: it holds 1 tasks' }),
    )
    expect(E.isRight(addTask(orThrow(settleGroup(taken, 0, { _tag: 'Trained', step: 3 })), 'b'))).toBe(true)
  })

  it('gives what a dead worker had to another one, and refuses what it brings after all', () => {
    const [dead, one] = leased(withTasks(1, { leaseMs: 100 }), 'dead', 0)
    expect(taskOutcome(one, 0)).toEqual({ _tag: 'Leased', filled: 0, workers: ['dead'] })
    expect(expireLeases(one, 99)).toEqual(one)
    const open = expireLeases(one, 100)
    expect(taskOutcome(open, 0)).toEqual({ _tag: 'Queued', filled: 0 })
    const [again, two] = leased(open, 'other', 100)
    expect(again).toMatchObject({ ticket: 0, place: 0, attempt: 2, expires: 200 })
    expect(deliverRollout(two, { ...dead, rollout: 'x', policyVersion: 0 })).toMatchObject({
      left: { kind: 'superseded' },
    })
    const three = orThrow(deliverRollout(two, { ...again, rollout: 'y', policyVersion: 0 }))
    expect(deliverRollout(three, { ...again, rollout: 'y', policyVersion: 0 })).toMatchObject({
      left: { kind: 'delivered' },
    })
  })

  it('drops a task after its last attempt, with the reason', () => {
    const [first, one] = leased(withTasks(2, { maxAttempts: 2 }))
    const [second, two] = leased(orThrow(failRollout(one, { ...first, reason: 'the engine is gone' })))
    expect([second.ticket, second.place, second.attempt]).toEqual([0, 0, 2])
    const three = orThrow(failRollout(two, { ...second, reason: 'the engine is gone' }))
    expect(taskOutcome(three, 0)).toEqual({
      _tag: 'Dropped',
      cause: 'failed',
      reason: 'the engine is gone, in attempt 2',
    })
    expect(three.openings.toArray()).toEqual([2, 3])
    expect(taskOutcome(expireLeases(leased(withTasks(1, { maxAttempts: 1, leaseMs: 5 }))[1], 5), 0)).toEqual({
      _tag: 'Dropped',
      cause: 'abandoned',
      reason: "worker 'w' stopped responding, in attempt 1",
    })
  })

  it('evicts groups that are too old, but none that is in training', () => {
    const made = allMade(withTasks(2, { maxLag: 1 }), 3)
    const [, taken] = takeGroups(made, 1)
    expect(evictStale(taken, 4)).toEqual(taken)
    const later = evictStale(taken, 5)
    expect(taskOutcome(later, 0)).toEqual({ _tag: 'Training' })
    expect(taskOutcome(later, 1)).toEqual({
      _tag: 'Dropped',
      cause: 'stale',
      reason: 'a rollout of version 3 at version 5, more than 1 updates behind',
    })
    expect(ledger(later)).toMatchObject({ drawn: 2, training: 1, dropped: { stale: 1 } })
  })

  it('lets a task end once: a second time is refused, also when the first was forgotten', () => {
    const [, taken] = takeGroups(allMade(withTasks(1)), 1)
    const trained = orThrow(settleGroup(taken, 0, { _tag: 'Trained', step: 7 }))
    expect(taskOutcome(trained, 0)).toEqual({ _tag: 'Trained', step: 7 })
    const forgotten = forgetSettled(trained)
    expect(taskOutcome(forgotten, 0)).toEqual({ _tag: 'Forgotten' })
    expect(ledger(forgotten)).toEqual(ledger(trained))
    for (const queue of [trained, forgotten])
      expect(settleGroup(queue, 0, { _tag: 'Trained', step: 8 })).toMatchObject({ left: { kind: 'settled' } })
    expect(taskOutcome(trained, 1)).toEqual({ _tag: 'Unknown' })
  })

  it.each([
    { ticket: 0, place: 0, lease: 1 },
    { ticket: 9, place: 0, lease: 0 },
    { ticket: -1, place: 0, lease: 0 },
    { ticket: 0, place: 2, lease: 0 },
    { ticket: 0.5, place: 0, lease: 0 },
    { ticket: Number.NaN, place: Number.NaN, lease: Number.NaN },
  ])('refuses a lease that was never given: $ticket, $place, $lease', (name) => {
    const [, queue] = leased(withTasks(1))
    expect(deliverRollout(queue, { ...name, rollout: 'x', policyVersion: 0 })).toMatchObject({
      left: { kind: 'unknown' },
    })
    expect(failRollout(queue, { ...name, reason: 'x' })).toMatchObject({ left: { kind: 'unknown' } })
  })

  it('refuses a version and a clock that are no numbers', () => {
    const [lease, queue] = leased(withTasks(1))
    expect(deliverRollout(queue, { ...lease, rollout: 'x', policyVersion: Number.NaN })).toMatchObject({
      left: { kind: 'invalid', reason: 'policyVersion must be a natural number, got NaN' },
    })
    expect(leaseRollout(queue, { worker: 'w', now: Number.NaN })).toMatchObject({ left: { kind: 'invalid' } })
  })

  it('refuses settings that cannot be, all at once', () => {
    expect(() => groupQueue({ groupSize: 0, capacity: 1.5, leaseMs: 0 })).toThrow(
      new RangeError(
        'groupQueue: groupSize must be a natural number from 1, got 0; capacity must be a natural number from 1, got 1.5; leaseMs must be a positive number, got 0',
      ),
    )
    expect(() => takeGroups(withTasks(1), -1)).toThrow('count must be a natural number, got -1')
    expect(() => evictStale(withTasks(1), 0.5)).toThrow('version must be a natural number, got 0.5')
  })
})

describe('the JSON of a group queue', () => {
  const [, queue] = leased(withTasks(3))
  const json = orThrow(groupQueueToJson(queue)) as Readonly<Record<string, unknown>> // a record

  it.each([
    ['no record', 7, 'expected object'],
    ['another format', { ...json, format: 'x' }, 'format'],
    ['a task twice', { ...json, pending: [...(json.pending as []), (json.pending as [unknown])[0]] }, 'duplicate task'],
    ['fewer tasks than drawn', { ...json, pending: [] }, '0 held and 0 ended are not 3 drawn'],
    ['a lease of the future', { ...json, nextLease: 0 }, 'a lease is not below nextLease, 0'],
    ['tickets of the future', { ...json, nextTicket: 1 }, 'a task is not below nextTicket, 1'],
    ['ready without rollouts', { ...json, ready: [0] }, 'ready must be the tasks that are ready'],
    ['other sizes', { ...json, settings: { ...(json.settings as object), groupSize: 3 } }, 'task 0 has 2 rollouts'],
    [
      'settings that cannot be',
      { ...json, settings: { ...(json.settings as object), capacity: 0 } },
      'capacity must be',
    ],
  ])('is refused for %s', (_, changed, reason) => {
    expect(groupQueueFromJson(changed, is)).toMatchObject({
      left: { _tag: 'FormatFailure', reason: expect.stringContaining(reason) },
    })
  })

  it('is refused for invalid numbers of tasks and rollouts', () => {
    const never = (value: unknown): value is string => value === undefined
    const full = orThrow(groupQueueToJson(allMade(withTasks(1))))
    expect(groupQueueFromJson(full, { task: never, rollout: never })).toMatchObject({
      left: {
        reason: 'the task of ticket 0 is invalid; rollout 0 of task 0 is invalid; rollout 1 of task 0 is invalid',
      },
    })
  })

  it('law: whatever one field becomes, it is read or refused, never a crash', () => {
    fc.assert(
      fc.property(fc.constantFrom(...Object.keys(json)), fc.jsonValue(), (field, value) => {
        const read = groupQueueFromJson({ ...json, [field]: value }, is)
        if (E.isRight(read)) expect(ledger(read.right).drawn).toBe(read.right.nextTicket)
        else expect(read.left._tag).toBe('FormatFailure')
      }),
    )
  })

  it('holds typed arrays, and names values that it cannot hold', () => {
    const [, ids] = orThrow(addTask(groupQueue<Int32Array, never>({ groupSize: 1, capacity: 1 }), Int32Array.of(1, 2)))
    const isIds = (value: unknown): value is Int32Array => value instanceof Int32Array
    const isNever = (_value: unknown): _value is never => false
    const text = JSON.stringify(orThrow(groupQueueToJson(ids)))
    expect(
      orThrow(groupQueueFromJson(JSON.parse(text), { task: isIds, rollout: isNever })).pending.get(0)!.task,
    ).toEqual(Int32Array.of(1, 2))
    const [, lost] = orThrow(addTask(groupQueue<() => void, never>({ groupSize: 1, capacity: 1 }), () => {}))
    expect(groupQueueToJson(lost)).toMatchObject({ left: { reason: expect.stringContaining('a function') } })
  })
})

describe('workers and a trainer that share a group queue', () => {
  it('law: under any interleaving, with workers that die, every task drawn is trained once or dropped for a reason', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.scheduler(),
        fc.array(fc.integer({ min: 0, max: 9 }), { minLength: 8, maxLength: 8 }),
        async (s, luck) => {
          const TASKS = 5
          let queue: Queue = groupQueue({ groupSize: 2, capacity: 3, leaseMs: 10, maxAttempts: 3, maxLag: 2 })
          let now = 0
          let version = 0
          const trained: number[] = []
          const finished = () => ledger(queue).drawn === TASKS && queue.pending.size === 0
          const pause = (what: string) => s.schedule(Promise.resolve(), what)
          const source = async () => {
            for (let i = 0; i < TASKS; ) {
              const added = addTask(queue, `task ${i}`)
              if (E.isRight(added)) {
                queue = added.right[1]
                i++
              }
              await pause('draw')
            }
          }
          const worker = async (name: string, at: number) => {
            for (let i = at; !finished(); i++) {
              const given = leaseRollout(queue, { worker: name, now })
              if (E.isLeft(given)) {
                await pause(`${name} waits`)
                continue
              }
              const [lease, next] = given.right
              queue = next
              const sampledAt = version
              await pause(`${name} samples`)
              const chance = luck[i % luck.length]!
              if (chance < 2) continue // it forgets what it had, as one that is started again
              const told =
                chance < 3
                  ? failRollout(queue, { ...lease, reason: 'no' })
                  : deliverRollout(queue, { ...lease, rollout: lease.task, policyVersion: sampledAt })
              if (E.isRight(told)) queue = told.right
            }
          }
          const trainer = async () => {
            while (!finished()) {
              const [groups, next] = takeGroups(queue, 1)
              queue = next
              await pause('trains')
              for (const { ticket, rollouts, task } of groups) {
                expect(rollouts.map(({ rollout }) => rollout)).toEqual([task, task])
                queue = orThrow(settleGroup(queue, ticket, { _tag: 'Trained', step: version }))
                trained.push(ticket)
                version++
              }
              now += 3
              queue = evictStale(expireLeases(queue, now), version)
            }
          }
          const all = Promise.all([source(), worker('a', 0), worker('b', 3), trainer()])
          await s.waitFor(all)
          const { drawn, dropped, ...rest } = ledger(queue)
          const lost = Object.values(dropped).reduce((sum, n) => sum + n, 0)
          expect(drawn).toBe(TASKS)
          expect(rest).toEqual({ queued: 0, leased: 0, ready: 0, training: 0, trained: TASKS - lost })
          expect(new Set(trained).size).toBe(trained.length)
          expect([...trained].sort()).toEqual(
            [0, 1, 2, 3, 4].filter((ticket) => taskOutcome(queue, ticket)._tag === 'Trained'),
          )
        },
      ),
      { numRuns: 25 },
    )
  })
})
