/**
 * Conservation over a shared queue, under any interleaving of workers and trainers that die, and of
 * answers that are lost.
 */
import { orThrow, type Timers } from '@tandem-rl/base'
import { fakeClock, type ScriptedState } from '@tandem-rl/testing'
import fc from 'fast-check'
import * as E from 'fp-ts/lib/Either.js'
import type { TaskEither } from 'fp-ts/lib/TaskEither.js'
import { beforeAll, expect, it } from 'vitest'
import { useEngine } from '../../../../test/kit/engine.js'
import { collectorOf } from '../../../../test/kit/rollouts.js'
import { memoryQueueLog, type QueueFailure, type QueueLog, queueFailure } from '../../src/queues/queueLog.js'
import { openRolloutQueue, type RolloutQueue } from '../../src/queues/rolloutQueue.js'
import { ledger, taskOutcome } from '../../src/queues/takeGroups.js'
import {
  collectFromQueue,
  parseQueuePosition,
  QUEUE_START,
  type QueuePosition,
} from '../../src/workers/queueCollector.js'
import { encodeRollout } from '../../src/workers/rolloutBytes.js'

useEngine()

const TASKS = 5
const SETTINGS = { groupSize: 2, capacity: 3, leaseMs: 200, maxAttempts: 4, maxLag: 3 }

let bytes: Uint8Array

beforeAll(async () => {
  const played = orThrow(
    await collectorOf([[1]])
      .begin()
      .next(),
  )
  if (played._tag === 'End') throw new Error('expected a batch')
  using rows = played.batch
  bytes = encodeRollout({ rows, turns: 1, isCut: false })
})

/**
 * Draws the outcome of the next operation, from 0 to 99. After `count` operations all succeed, so
 * that every run ends.
 */
const luckOf = (rolls: readonly number[], count: number): (() => number) => {
  let used = 0
  return () => (used < count ? rolls[used++ % rolls.length]! : 99)
}

/**
 * A log whose calls take time, which the scheduler decides; some are not heard, and of some the
 * answer is lost.
 */
const shakyLog = (log: QueueLog, s: fc.Scheduler, roll: () => number): QueueLog => {
  const broke = queueFailure('unreachable', 'the connection broke')
  const shaky =
    <T>(work: TaskEither<QueueFailure, T>): TaskEither<QueueFailure, T> =>
    async () => {
      const luck = roll()
      await s.schedule(Promise.resolve(), 'on its way')
      if (luck < 8) return broke
      const result = await work()
      await s.schedule(Promise.resolve(), 'on its way back')
      return luck < 16 ? broke : result
    }
  return {
    ...log,
    read: (after) => shaky(log.read(after)),
    append: (text, rollout) => shaky(log.append(text, rollout)),
    compact: (snapshot, base) => shaky(log.compact(snapshot, base)),
    rollouts: (names) => shaky(log.rollouts(names)),
    rolloutNames: shaky(log.rolloutNames),
    forget: (names) => shaky(log.forget(names)),
    close: () => Promise.resolve(),
  }
}

/** The files of the trainer. */
interface Checkpoint {
  /** The groups that the weights have learned from, in order. */
  readonly weights: readonly number[]
  readonly position: QueuePosition
}

interface World {
  readonly s: fc.Scheduler
  /** Of the trainer's steps, and of the worker's. */
  readonly trainerLuck: () => number
  readonly workerLuck: () => number
  /** Opens the queue as a new process does. */
  readonly open: () => Promise<E.Either<unknown, RolloutQueue>>
  readonly wait: () => Promise<void>
  disk: Checkpoint
  isOver: boolean
}

/** One life of a trainer. It ends by a crash, by a failure, or because everything has ended. */
const trainerLife = async (world: World): Promise<void> => {
  const { s, trainerLuck, open } = world
  const queue = await open()
  if (E.isLeft(queue)) return
  const position = orThrow(parseQueuePosition(JSON.parse(JSON.stringify(world.disk.position))))
  const tasks = (ticket: number) => (ticket < TASKS ? { ticket } : undefined)
  const found = await collectFromQueue<ScriptedState>({ queue: queue.right, tasks, groups: 1, position })()
  if (E.isLeft(found)) {
    expect(found.left.kind).toBe('unreachable')
    return
  }
  const collector = found.right
  let { weights } = world.disk
  const crashes = async (): Promise<boolean> => {
    await s.schedule(Promise.resolve(), 'trainer')
    return trainerLuck() < 25
  }
  try {
    while (!(await crashes())) {
      const taken = await collector.next(weights.length)()
      if (E.isLeft(taken)) return
      if (taken.right._tag === 'End') {
        world.isOver = true
        return
      }
      taken.right.batch.release()
      if (await crashes()) return
      weights = [...weights, ...taken.right.tickets]
      collector.end(taken.right.tickets.map((ticket) => ({ ticket, how: { _tag: 'Trained', step: weights.length } })))
      if (await crashes()) return
      world.disk = { weights, position: collector.position() }
      if (await crashes()) return
      if (E.isLeft(await collector.stored(world.disk.position)())) return
    }
  } finally {
    collector.release()
  }
}

/** One life of a worker. */
const workerLife = async (world: World): Promise<void> => {
  const { s, workerLuck, open, wait } = world
  const found = await open()
  if (E.isLeft(found)) return
  const queue = found.right
  while (!world.isOver) {
    const lease = await queue.lease()
    if (E.isLeft(lease)) {
      await wait()
      continue
    }
    await s.schedule(Promise.resolve(), 'samples')
    const luck = workerLuck()
    if (luck < 10) return // it dies
    const policyVersion = world.disk.weights.length
    if (luck < 14) await queue.fail(lease.right, 'no')()
    else if (luck < 18) await queue.giveBack(lease.right)()
    else await queue.deliver({ ...lease.right, bytes, policyVersion })()
  }
}

it('law: every task drawn is trained once or dropped for a reason, and the weights have learned from those that are trained, whoever dies and whatever is lost', async () => {
  await fc.assert(
    fc.asyncProperty(
      fc.scheduler(),
      fc.array(fc.nat({ max: 99 }), { minLength: 60, maxLength: 60 }),
      async (s, rolls) => {
        const clock = fakeClock()
        const log = memoryQueueLog({ clock })
        const roll = luckOf(rolls, 250)
        const [trainerLuck, workerLuck] = [luckOf(rolls.toReversed(), 40), luckOf(rolls.slice(7), 20)]
        const wait = async (): Promise<void> => {
          await s.schedule(Promise.resolve(), 'waits')
          clock.advance(3)
        }
        const timers: Timers = {
          after: (_, ring) => {
            s.schedule(Promise.resolve(), 'pause').then(ring)
            return () => {}
          },
        }
        const changed: QueueLog['changed'] = () => async () => {
          await wait()
          return E.right('changed')
        }
        const open = () =>
          openRolloutQueue(
            { ...shakyLog(log, s, roll), changed },
            { settings: SETTINGS, snapshotEvery: 5, patienceMs: 60, timers },
          )()
        const world: World = {
          s,
          trainerLuck,
          workerLuck,
          open,
          wait,
          disk: { weights: [], position: QUEUE_START },
          isOver: false,
        }
        const lives = async (life: () => Promise<void>): Promise<void> => {
          while (!world.isOver) await life()
        }
        await s.waitFor(
          Promise.all([
            lives(() => trainerLife(world)),
            lives(() => workerLife(world)),
            lives(() => workerLife(world)),
          ]),
        )
        const last = orThrow(await openRolloutQueue(log)())
        const queue = orThrow(await last.look())
        const { drawn, dropped, ...rest } = ledger(queue)
        const lost = Object.values(dropped).reduce((sum, n) => sum + n, 0)
        expect(drawn).toBe(TASKS)
        expect(rest).toEqual({ queued: 0, leased: 0, ready: 0, training: 0, trained: TASKS - lost })
        const trained = [0, 1, 2, 3, 4].filter((ticket) => taskOutcome(queue, ticket)._tag === 'Trained')
        expect([...world.disk.weights].sort()).toEqual(trained)
        expect(world.disk.position.trained).toBe(trained.length)
      },
    ),
    { numRuns: 10 },
  )
})
