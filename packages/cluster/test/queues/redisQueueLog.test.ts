/** A queue on a real Redis, whose connections break, whose memory is full, and which dies. */
import { orThrow } from '@tandem-rl/base'
import { liveTimers } from '@tandem-rl/base/host'
import * as E from 'fp-ts/lib/Either.js'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { manualTime } from '../../../../test/kit/manualTime.js'
import { type Door, doorTo, noRedis, type RedisServer, redisServer } from '../../../../test/kit/redisServer.js'
import { rolloutQueueSuite } from '../../../../test/kit/rolloutQueueSuite.js'
import { redisConnection } from '../../src/queues/redisConnection.js'
import { redisQueueLog } from '../../src/queues/redisQueueLog.js'
import { openRolloutQueue, type RolloutQueue, type RolloutQueueOptions } from '../../src/queues/rolloutQueue.js'
import { ledger } from '../../src/queues/takeGroups.js'

let server: RedisServer
let names = 0

const SETTINGS = { groupSize: 2, capacity: 4 }

const open = async (
  name: string,
  { url = server.url, ...options }: RolloutQueueOptions & { url?: string } = {},
): Promise<RolloutQueue> => orThrow(await openRolloutQueue(redisQueueLog({ url, name }), options)())

const freshName = (): string => `queue-${names++}`

const bytes = (...list: number[]): Uint8Array => Uint8Array.from(list)

/** Draws, plays and takes one group. */
const playGroup = async (trainer: RolloutQueue, worker: RolloutQueue, ticket: number): Promise<void> => {
  orThrow(await trainer.add(ticket, { ticket })())
  for (let place = 0; place < SETTINGS.groupSize; place++) {
    const lease = orThrow(await worker.lease())
    orThrow(await worker.deliver({ ...lease, bytes: bytes(ticket, place), policyVersion: 0 })())
  }
  expect(orThrow(await trainer.take(1)())).toMatchObject([{ ticket, task: { ticket } }])
}

describe.skipIf(noRedis !== undefined)(`a shared queue in Redis${noRedis === undefined ? '' : ` (${noRedis})`}`, () => {
  beforeAll(async () => {
    server = await redisServer()
  })
  afterAll(() => server.close())

  rolloutQueueSuite({
    name: 'a Redis stream',
    runs: 12,
    fresh: () => {
      const name = freshName()
      return () => redisQueueLog({ url: server.url, name })
    },
  })

  describe('behind a door', () => {
    let door: Door
    beforeAll(async () => {
      door = await doorTo(server)
    })
    afterAll(() => door.close())

    it('each call happens once, whatever answer is lost on its way', async () => {
      const name = freshName()
      const trainer = await open(name, { url: door.url, settings: SETTINGS })
      const worker = await open(name, { url: door.url })
      const calls: (() => Promise<E.Either<unknown, unknown>>)[] = [
        trainer.begin([], 0),
        trainer.add(0, 'a'),
        trainer.add(1, 'b'),
        ...[0, 1, 2, 3].map(() => async () => {
          const lease = orThrow(await worker.lease())
          door.loseAnswer()
          return worker.deliver({ ...lease, bytes: bytes(lease.ticket, lease.place), policyVersion: 1 })()
        }),
        async () => {
          const taken = orThrow(await trainer.take(2)())
          expect(taken.map(({ rollouts }) => rollouts.map((each) => [...each.bytes]))).toEqual([
            [bytes(0, 0), bytes(0, 1)].map((each) => [...each]),
            [bytes(1, 0), bytes(1, 1)].map((each) => [...each]),
          ])
          return E.right(undefined)
        },
        trainer.settle([
          { ticket: 0, how: { _tag: 'Trained', step: 1 } },
          { ticket: 1, how: { _tag: 'Trained', step: 1 } },
        ]),
      ]
      for (const call of calls) {
        door.loseAnswer() // of what it reads first
        door.loseAnswer() // and of what it reads or writes again
        orThrow((await call()) as E.Either<never, unknown>) // a failure ends the test
        door.cut()
      }
      const queue = orThrow(await trainer.look())
      expect(ledger(queue)).toMatchObject({ drawn: 2, trained: 2, queued: 0, leased: 0 })
      expect(queue.nextLease).toBe(4)
      await trainer.close()
      await worker.close()
    })

    it('a server that is silent is left after its time, and what was asked happens once', async () => {
      const name = freshName()
      const time = manualTime()
      const log = redisQueueLog({ url: door.url, name, answerMs: 30_000, timers: time })
      const trainer = orThrow(await openRolloutQueue(log, { settings: SETTINGS })())
      orThrow(await trainer.begin([], 0)())
      const before = door.connections()
      door.hush()
      const adding = trainer.add(0, 'a')()
      await expect.poll(() => time.waits()).toEqual([30_000])
      time.pass(30_000)
      orThrow(await adding)
      expect(door.connections()).toBeGreaterThan(before)
      expect(orThrow(await trainer.look()).nextTicket).toBe(1)
      await trainer.close()
    })
  })

  it('a server that is not there is a failure when patience is used up', async () => {
    const found = await openRolloutQueue(redisQueueLog({ url: 'unix:/nowhere/redis.sock', name: 'n' }), {
      settings: SETTINGS,
      patienceMs: 50,
    })()
    expect(found).toMatchObject({ _tag: 'Left', left: { _tag: 'QueueFailure', kind: 'unreachable' } })
  })

  it('an address that cannot be used is refused without its password', () => {
    expect(() => redisQueueLog({ url: 'http://me:secret@host/', name: 'n' })).toThrow(
      'redis: expected redis://HOST[:PORT], rediss:// or unix:/PATH, got http://host/',
    )
  })

  it('without the package, the failure names it', async () => {
    const log = redisQueueLog({ url: server.url, name: 'n', load: () => Promise.reject(new Error('not found')) })
    const found = await openRolloutQueue(log)()
    expect(found).toMatchObject({ _tag: 'Left', left: { kind: 'package', cause: { package: '@redis/client' } } })
    expect(E.isLeft(found) && found.left.reason).toContain('npm install @redis/client')
  })

  it('a lease runs out by the clock of the server, and its rollout is given to another worker', async () => {
    const name = freshName()
    const trainer = await open(name, { settings: { groupSize: 1, capacity: 1, leaseMs: 1, maxAttempts: 100 } })
    const [one, other] = [await open(name), await open(name)]
    orThrow(await trainer.begin([], 0)())
    orThrow(await trainer.add(0, 'a')())
    const first = orThrow(await one.lease())
    await expect.poll(async () => E.isRight(await other.lease()), { interval: 5 }).toBe(true)
    const late = await one.deliver({ ...first, bytes: bytes(1), policyVersion: 0 })()
    expect(late).toMatchObject({ _tag: 'Left', left: { _tag: 'QueueRefusal', kind: 'superseded' } })
    for (const each of [trainer, one, other]) await each.close()
  })

  it('what was answered is there after the server was killed, and its clients go on', async () => {
    const own = await redisServer()
    const name = freshName()
    const trainer = await open(name, { url: own.url, settings: SETTINGS })
    const worker = await open(name, { url: own.url })
    orThrow(await trainer.begin([], 0)())
    await playGroup(trainer, worker, 0)
    await own.kill()
    const settling = trainer.settle([{ ticket: 0, how: { _tag: 'Trained', step: 1 } }])()
    await own.start()
    orThrow(await settling)
    await playGroup(trainer, worker, 1)
    expect(ledger(orThrow(await worker.look()))).toMatchObject({ drawn: 2, trained: 1, training: 1 })
    await trainer.close()
    await worker.close()
    await own.close()
  })

  it('a server that has lost its data, or a queue that was deleted, is a failure for everybody who was there', async () => {
    const name = freshName()
    const trainer = await open(name, { settings: SETTINGS })
    const worker = await open(name)
    orThrow(await trainer.begin([], 0)())
    orThrow(await trainer.add(0, 'a')())
    orThrow(await worker.lease())
    const admin = redisConnection({ url: server.url, answerMs: 30_000, timers: liveTimers })
    orThrow(await admin.send([['DEL', `tandem:{${name}}:log`]])())
    const again = await open(name, { settings: SETTINGS })
    for (const call of [trainer.add(1, 'b'), worker.lease]) {
      expect(await call()).toMatchObject({ _tag: 'Left', left: { _tag: 'QueueFailure', kind: 'lost' } })
    }
    const checkpoint = await again.begin([{ ticket: 0, how: { _tag: 'Trained', step: 1 } }], 1)()
    expect(checkpoint).toMatchObject({ _tag: 'Left', left: { _tag: 'QueueRefusal', kind: 'unknown' } })
    admin.close()
    for (const each of [trainer, worker, again]) await each.close()
  })

  it('a server without room refuses what is new, keeps what there is, and takes the end of a group nevertheless', async () => {
    const own = await redisServer('--maxmemory-policy', 'noeviction')
    const admin = redisConnection({ url: own.url, answerMs: 30_000, timers: liveTimers })
    const name = freshName()
    const trainer = await open(name, { url: own.url, settings: SETTINGS })
    const worker = await open(name, { url: own.url })
    orThrow(await trainer.begin([], 0)())
    orThrow(await trainer.add(0, 'a')())
    for (let place = 0; place < 2; place++) {
      const lease = orThrow(await worker.lease())
      orThrow(await worker.deliver({ ...lease, bytes: new Uint8Array(4_000_000), policyVersion: 0 })())
    }
    expect(orThrow(await trainer.take(1)())).toHaveLength(1)
    const [info] = orThrow(await admin.send([['INFO', 'memory']])())
    const used = Number(/used_memory:(\d+)/.exec(Buffer.from(info as Uint8Array).toString())![1])
    orThrow(await admin.send([['CONFIG', 'SET', 'maxmemory', String(used - 1_000_000)]])())
    const full = await trainer.add(1, 'b')()
    expect(full).toMatchObject({ _tag: 'Left', left: { _tag: 'QueueFailure', kind: 'memory' } })
    orThrow(await trainer.settle([{ ticket: 0, how: { _tag: 'Trained', step: 1 } }])())
    orThrow(await trainer.add(1, 'b')())
    expect(ledger(orThrow(await worker.look()))).toMatchObject({ drawn: 2, trained: 1, queued: 1 })
    admin.close()
    await trainer.close()
    await worker.close()
    await own.close()
  })
})
