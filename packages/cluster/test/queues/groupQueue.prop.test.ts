/** A group queue against a model: lists of what was given, delivered and settled. */
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
  renewLease,
} from '../../src/queues/groupQueue.js'
import { groupQueueFromJson, groupQueueToJson } from '../../src/queues/queueJson.js'
import type { GroupQueueSettings, GroupQueueState } from '../../src/queues/queueState.js'
import {
  dropTask,
  evictStale,
  forgetSettled,
  ledger,
  returnTaken,
  settleGroup,
  takeGroups,
  taskOutcome,
} from '../../src/queues/takeGroups.js'

type Queue = GroupQueueState<string, string>

/** The queue under test; it changes with each command. */
interface Real {
  queue: Queue
}

/** The expected state, updated at each command. */
interface Model {
  now: number
  version: number
  drawn: number
  /** Every lease that was ever given. */
  readonly leases: RolloutLease<string>[]
  /** When each lease runs out that still holds. */
  readonly live: Map<number, number>
  /** Rollouts that were accepted, by `ticket/place`. */
  readonly accepted: Map<string, string>
  /** Tickets in the hands of the trainer. */
  readonly taken: Set<number>
  /** The ends of tasks, each written once. */
  readonly ended: Map<number, string>
}

const isString = (value: unknown): value is string => typeof value === 'string'

const settingsOf = fc.record({
  groupSize: fc.integer({ min: 1, max: 3 }),
  capacity: fc.integer({ min: 1, max: 5 }),
  leaseMs: fc.integer({ min: 1, max: 20 }),
  maxAttempts: fc.integer({ min: 1, max: 3 }),
  maxLag: fc.integer({ min: 0, max: 3 }),
  order: fc.constantFrom('completion' as const, 'task' as const),
}) satisfies fc.Arbitrary<GroupQueueSettings>

/** Checks the invariants after every command. */
const check = (model: Model, { queue }: Real): void => {
  const counted = ledger(queue)
  const { drawn, queued, leased, ready, training, trained, dropped } = counted
  const lost = Object.values(dropped).reduce((sum, n) => sum + n, 0)
  expect(drawn).toBe(model.drawn)
  expect(queued + leased + ready + training + trained + lost).toBe(drawn)
  expect(queue.pending.size).toBeLessThanOrEqual(queue.settings.capacity)
  expect(training).toBe(model.taken.size)
  for (let ticket = 0; ticket < drawn; ticket++) {
    const fate = taskOutcome(queue, ticket)
    if (fate._tag === 'Trained' || fate._tag === 'Dropped') {
      const ended = model.ended.get(ticket) ?? fate._tag
      model.ended.set(ticket, ended)
      expect(ended).toBe(fate._tag)
    } else expect(fate._tag === 'Forgotten').toBe(model.ended.has(ticket))
  }
  expect([...model.ended.values()].filter((tag) => tag === 'Trained')).toHaveLength(trained)
  expect(model.ended.size).toBe(trained + lost)
}

type Step = (model: Model, real: Real) => void

const command = (name: string, step: Step): fc.Command<Model, Real> => ({
  check: () => true,
  run: (model, real) => {
    step(model, real)
    check(model, real)
  },
  toString: () => name,
})

const isLive = (model: Model, { lease, ticket }: RolloutLease<string>): boolean =>
  model.live.has(lease) && !model.ended.has(ticket)

/** One of a list by a number; nothing if it is empty. */
const pick = <X>(list: readonly X[], at: number): X | undefined => list[at % Math.max(1, list.length)]

const add: Step = (model, real) => {
  const isFull = real.queue.pending.size >= real.queue.settings.capacity
  const added = addTask(real.queue, `task ${model.drawn}`)
  if (E.isLeft(added)) {
    expect([isFull, added.left.kind]).toEqual([true, 'full'])
    return
  }
  expect([isFull, added.right[0]]).toEqual([false, model.drawn])
  model.drawn++
  real.queue = added.right[1]
}

const lease: Step = (model, real) => {
  const given = leaseRollout(real.queue, { worker: `worker ${model.leases.length % 3}`, now: model.now })
  if (E.isLeft(given)) {
    expect([given.left.kind, real.queue.openings.size]).toEqual(['empty', 0])
    return
  }
  const [one, queue] = given.right
  expect(one.task).toBe(`task ${one.ticket}`)
  expect(model.leases.map((each) => each.lease)).not.toContain(one.lease)
  expect(model.accepted.has(`${one.ticket}/${one.place}`)).toBe(false)
  expect(one.expires).toBe(model.now + real.queue.settings.leaseMs)
  model.leases.push(one)
  model.live.set(one.lease, one.expires)
  real.queue = queue
}

const deliver =
  (at: number, lag: number): Step =>
  (model, real) => {
    const one = pick(model.leases, at)
    if (one === undefined) return
    const spot = `${one.ticket}/${one.place}`
    const rollout = `rollout of lease ${one.lease}`
    const next = deliverRollout(real.queue, { ...one, rollout, policyVersion: Math.max(0, model.version - lag) })
    expect(E.isRight(next)).toBe(isLive(model, one))
    if (E.isLeft(next)) return
    model.live.delete(one.lease)
    expect(model.accepted.has(spot)).toBe(false)
    model.accepted.set(spot, rollout)
    real.queue = next.right
  }

const fail =
  (at: number): Step =>
  (model, real) => {
    const one = pick(model.leases, at)
    if (one === undefined) return
    const next = failRollout(real.queue, { ...one, reason: 'the engine said no' })
    expect(E.isRight(next)).toBe(isLive(model, one))
    model.live.delete(one.lease)
    if (E.isRight(next)) real.queue = next.right
  }

const renew =
  (at: number): Step =>
  (model, real) => {
    const one = pick(model.leases, at)
    if (one === undefined) return
    const next = renewLease(real.queue, { ...one, now: model.now })
    expect(E.isRight(next)).toBe(isLive(model, one))
    if (E.isLeft(next)) return
    model.live.set(one.lease, model.now + real.queue.settings.leaseMs)
    real.queue = next.right
  }

const wait =
  (ms: number): Step =>
  (model, real) => {
    model.now += ms
    for (const [lease, expires] of model.live) if (expires <= model.now) model.live.delete(lease)
    real.queue = expireLeases(real.queue, model.now)
    for (const { places } of real.queue.pending.values()) {
      for (const place of places) expect(place._tag !== 'Leased' || place.expires > model.now).toBe(true)
    }
  }

const update: Step = (model, real) => {
  model.version++
  real.queue = evictStale(real.queue, model.version)
  for (const { places, stage } of real.queue.pending.values()) {
    for (const place of stage === 'training' ? [] : places) {
      expect(place._tag !== 'Filled' || model.version - place.policyVersion <= real.queue.settings.maxLag).toBe(true)
    }
  }
}

const take =
  (count: number): Step =>
  (model, real) => {
    const { groupSize, order } = real.queue.settings
    const [groups, queue] = takeGroups(real.queue, count)
    expect(groups.length).toBeLessThanOrEqual(count)
    for (const { ticket, task, rollouts } of groups) {
      expect(model.taken.has(ticket) || model.ended.has(ticket)).toBe(false)
      expect(task).toBe(`task ${ticket}`)
      expect(rollouts.map(({ rollout }) => rollout)).toEqual(
        Array.from({ length: groupSize }, (_, place) => model.accepted.get(`${ticket}/${place}`)),
      )
      model.taken.add(ticket)
    }
    if (order === 'task') {
      const behind = groups.at(-1)?.ticket ?? 0
      for (let ticket = 0; ticket < behind; ticket++) {
        expect(model.ended.has(ticket) || model.taken.has(ticket)).toBe(true)
      }
    }
    real.queue = queue
  }

const settleOne =
  (ticket: number, tag: 'Trained' | 'Dropped'): Step =>
  (model, real) => {
    const how =
      tag === 'Trained'
        ? ({ _tag: tag, step: model.version } as const)
        : ({ _tag: tag, cause: 'filtered', reason: 'all rewards are equal' } as const)
    const next = settleGroup(real.queue, ticket, how)
    expect(E.isRight(next)).toBe(model.taken.has(ticket))
    if (E.isLeft(next)) return
    model.taken.delete(ticket)
    model.ended.set(ticket, tag)
    real.queue = next.right
  }

const cancel =
  (ticket: number): Step =>
  (model, real) => {
    const next = dropTask(real.queue, ticket, { cause: 'cancelled', reason: 'the run ends' })
    expect(E.isRight(next)).toBe(ticket < model.drawn && !model.ended.has(ticket) && !model.taken.has(ticket))
    if (E.isRight(next)) real.queue = next.right
  }

const restart: Step = (model, real) => {
  const json: unknown = JSON.parse(JSON.stringify(orThrow(groupQueueToJson(real.queue))))
  const read: Queue = orThrow(groupQueueFromJson(json, { task: isString, rollout: isString }))
  expect(orThrow(groupQueueToJson(read))).toEqual(json)
  expect(read.openings.toArray()).toEqual(real.queue.openings.toArray())
  real.queue = returnTaken(read)
  model.taken.clear()
}

const forget: Step = (_, real) => {
  real.queue = forgetSettled(real.queue)
}

const at = fc.nat({ max: 40 })
const ticket = fc.nat({ max: 12 })

const commands = [
  fc.constant(command('add', add)),
  fc.constant(command('lease', lease)),
  fc.constant(command('lease', lease)),
  fc.tuple(at, fc.nat({ max: 2 })).map(([i, lag]) => command(`deliver(${i}, ${lag})`, deliver(i, lag))),
  fc.tuple(at, fc.nat({ max: 2 })).map(([i, lag]) => command(`deliver(${i}, ${lag})`, deliver(i, lag))),
  at.map((i) => command(`fail(${i})`, fail(i))),
  at.map((i) => command(`renew(${i})`, renew(i))),
  fc.integer({ min: 1, max: 12 }).map((ms) => command(`wait(${ms})`, wait(ms))),
  fc.constant(command('update', update)),
  fc.integer({ min: 0, max: 3 }).map((n) => command(`take(${n})`, take(n))),
  ticket.map((n) => command(`train(${n})`, settleOne(n, 'Trained'))),
  ticket.map((n) => command(`filter(${n})`, settleOne(n, 'Dropped'))),
  ticket.map((n) => command(`cancel(${n})`, cancel(n))),
  fc.constant(command('restart', restart)),
  fc.constant(command('forget', forget)),
]

const started = (settings: GroupQueueSettings): { model: Model; real: Real } => ({
  model: {
    now: 0,
    version: 0,
    drawn: 0,
    leases: [],
    live: new Map(),
    accepted: new Map(),
    taken: new Set(),
    ended: new Map(),
  },
  real: { queue: groupQueue(settings) },
})

describe('a group queue', () => {
  it('law: every task drawn is in one place, ends once, and its group comes out whole with what was accepted', () => {
    fc.assert(
      fc.property(settingsOf, fc.commands(commands, { maxCommands: 50, size: 'max' }), (settings, sequence) => {
        fc.modelRun(() => started(settings), sequence)
      }),
      { numRuns: 60 },
    )
  })

  it('law: no operation changes the queue that it is given', () => {
    fc.assert(
      fc.property(settingsOf, fc.commands(commands, { maxCommands: 20 }), (settings, sequence) => {
        const { model, real } = started(settings)
        fc.modelRun(() => ({ model, real }), sequence)
        const before = real.queue
        const text = JSON.stringify(orThrow(groupQueueToJson(before)))
        for (const step of [
          add,
          lease,
          wait(50),
          update,
          take(3),
          settleOne(0, 'Trained'),
          cancel(1),
          restart,
          forget,
        ]) {
          step(model, real)
          check(model, real)
        }
        expect(JSON.stringify(orThrow(groupQueueToJson(before)))).toBe(text)
      }),
      { numRuns: 15 },
    )
  })
})
