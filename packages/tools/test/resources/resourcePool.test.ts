/** The pool of resources: its laws under every order of events, and its errors. */
import { type ResourceSpec, resourceFailure } from '@tandem-rl/base'
import fc from 'fast-check'
import * as E from 'fp-ts/lib/Either.js'
import { describe, expect, it } from 'vitest'
import { manualTime, settle } from '../../../../test/kit/manualTime.js'
import type { Lease } from '../../src/resources/places.js'
import { resourcePool } from '../../src/resources/resourcePool.js'

interface Thing {
  readonly id: number
  dead: 'no' | 'yes'
}

/** Resources that count those in use. `pause` decides when a start, an end or a check continues. */
const things = (
  pause: (what: string) => Promise<unknown> = async () => {},
  fails: (n: number) => boolean = () => false,
) => {
  const alive = new Set<number>()
  let made = 0
  let most = 0
  const spec: ResourceSpec<Thing> = {
    name: 'thing',
    start: () => async () => {
      const id = made++
      await pause(`start ${id}`)
      if (fails(id)) return E.left(resourceFailure('thing', 'start', 'no luck'))
      alive.add(id)
      most = Math.max(most, alive.size)
      return E.right({ id, dead: 'no' })
    },
    end: async ({ id }) => {
      await pause(`end ${id}`)
      alive.delete(id)
    },
    isAlive: async ({ id, dead }) => {
      await pause(`check ${id}`)
      return dead === 'no'
    },
  }
  return { spec, alive, most: () => most }
}

const leased = async <R>(acquired: Promise<E.Either<unknown, Lease<R>>>): Promise<Lease<R>> => {
  const got = await acquired
  if (E.isLeft(got)) throw new Error(`no lease: ${JSON.stringify(got.left)}`)
  return got.right
}

const args = undefined

describe('resourcePool', () => {
  it('law: under every order of events, leases are exclusive, the limit holds, all waits end and nothing is left', () =>
    fc.assert(
      fc.asyncProperty(
        fc.scheduler(),
        fc.integer({ min: 1, max: 3 }),
        fc.array(
          fc.record({
            tag: fc.constantFrom(undefined, 'a', 'b'),
            after: fc.constantFrom('keep', 'release', 'end', 'die'),
            abort: fc.boolean(),
          }),
          { maxLength: 8 },
        ),
        fc.array(fc.nat(12)),
        async (s, limit, users, failing) => {
          const pause = (what: string) => s.schedule(Promise.resolve(), what)
          const { spec, alive, most } = things(pause, (n) => failing.includes(n))
          const pool = resourcePool(spec, {
            limit,
            idleMs: Number.POSITIVE_INFINITY,
            startMs: Number.POSITIVE_INFINITY,
            waitMs: Number.POSITIVE_INFINITY,
          })
          /** Work that ends may begin other work. */
          const quiet = async (): Promise<void> => {
            for (let turn = 0; turn < 5 || s.count() > 0; turn++) {
              await s.waitAll()
              await new Promise((go) => setImmediate(go))
            }
          }
          const inUse = new Set<number>()
          let ended = 0
          const play = async ({ tag, after, abort }: (typeof users)[number], i: number): Promise<void> => {
            const controller = new AbortController()
            if (abort) void pause(`abort ${i}`).then(() => controller.abort())
            const got = await pool.acquire({ args, ...(tag !== undefined && { tag }), signal: controller.signal })()
            if (E.isRight(got)) {
              const { resource, keep, release, end } = got.right
              expect(inUse.has(resource.id)).toBe(false)
              inUse.add(resource.id)
              await pause(`use ${i}`)
              inUse.delete(resource.id)
              if (after === 'die') resource.dead = 'yes'
              if (after === 'release') void release()
              else if (after === 'end') void end()
              else keep(tag ?? 'b')
            } else expect(['start', 'cancelled']).toContain(got.left.kind)
            ended++
          }
          const all = Promise.all(users.map(play))
          await s.waitFor(all)
          expect(ended).toBe(users.length)
          await quiet()
          expect(most()).toBeLessThanOrEqual(limit)
          const { leased: left, waiting } = pool.stats()
          expect([left, waiting]).toEqual([0, 0])
          await s.waitFor(pool.close())
          await quiet()
          expect([...alive]).toEqual([])
        },
      ),
      { numRuns: 200 },
    ))

  it('gives back what was kept under a tag, and something new for another tag', async () => {
    const pool = resourcePool(things().spec)
    const first = await leased(pool.acquire({ args, tag: 'a' })())
    first.keep('a')
    const [again, other] = [
      await leased(pool.acquire({ args, tag: 'a' })()),
      await leased(pool.acquire({ args, tag: 'b' })()),
    ]
    expect([again.resource.id, again.tag, other.resource.id, other.tag]).toEqual([0, 'a', 1, null])
    again.keep('a')
    again.keep('b') // a lease ends once
    expect([pool.take('b'), pool.take('a')?.resource.id]).toEqual([undefined, 0])
    await pool.close()
  })

  it('counts the most resources that were leased at once since the previous reading', async () => {
    const pool = resourcePool(things().spec)
    const [a, b] = [await leased(pool.acquire({ args })()), await leased(pool.acquire({ args })())]
    await a.end()
    await b.end()
    const c = await leased(pool.acquire({ args })())
    expect([pool.stats().leased, pool.mostLeased(), pool.mostLeased()]).toEqual([1, 2, 1])
    await c.end()
    expect([pool.mostLeased(), pool.mostLeased()]).toEqual([1, 0]) // it began with one in use
    await pool.close()
  })

  it('ends the longest idle resource to make room, and serves those who wait in their order', async () => {
    const { spec, alive } = things()
    const pool = resourcePool(spec, { limit: 2 })
    const [a, b] = [await leased(pool.acquire({ args })()), await leased(pool.acquire({ args })())]
    const order: string[] = []
    const waits = ['c', 'd'].map((tag) =>
      leased(pool.acquire({ args, tag })()).then((lease) => {
        order.push(tag)
        return lease
      }),
    )
    a.keep('a')
    b.keep('b')
    await Promise.all(waits)
    expect([order, [...alive]]).toEqual([
      ['c', 'd'],
      [2, 3],
    ])
    for (const wait of waits) await (await wait).end()
    expect([...alive]).toEqual([])
  })

  it('warms up, and reuses a resource that its spec can reset', async () => {
    const { spec } = things()
    const resets: number[] = []
    const pool = resourcePool({
      ...spec,
      reset: (thing: Thing) => async () => {
        resets.push(thing.id)
        return E.right(undefined)
      },
    })
    await pool.warm(2, args)()
    expect(pool.stats()).toMatchObject({ idle: 2, started: 2 })
    const lease = await leased(pool.acquire({ args })())
    await lease.release()
    expect([resets, pool.stats().idle, pool.stats().started]).toEqual([[1], 2, 2])
    await pool.close()
    expect(pool.stats()).toMatchObject({ idle: 0, ended: 2 })
  })

  it('replaces a resource that died while it was idle', async () => {
    const pool = resourcePool(things().spec)
    const lease = await leased(pool.acquire({ args })())
    lease.resource.dead = 'yes'
    lease.keep('a')
    expect((await leased(pool.acquire({ args, tag: 'a' })())).resource.id).toBe(1)
    await pool.close()
  })

  it('names a start that fails, throws or takes too long, and the next user is served', async () => {
    const time = manualTime()
    const late = things(
      async (what) => {
        if (what === 'start 1') throw new Error('no room')
        if (what === 'start 2') await new Promise(() => {})
      },
      (n) => n === 0,
    )
    const pool = resourcePool(late.spec, { limit: 2, startMs: 1000, timers: time })
    const kinds = []
    kinds.push(await pool.acquire({ args })(), await pool.acquire({ args })())
    const slow = pool.acquire({ args })()
    await settle()
    time.pass(1000)
    kinds.push(await slow)
    expect(kinds).toMatchObject([
      { left: { kind: 'start', reason: "the resource 'thing': no luck" } },
      {
        left: { kind: 'start', reason: expect.stringMatching(/^the resource 'thing': Error: no room \(at .*:\d+\)$/) },
      },
      { left: { kind: 'start', reason: "the resource 'thing': it did not start within 1000 ms" } },
    ])
    expect((await leased(pool.acquire({ args })())).resource.id).toBe(3)
  })

  it('tells those who wait too long, are called off, or come when the pool is closed', async () => {
    const time = manualTime()
    const pool = resourcePool(things().spec, { limit: 1, waitMs: 100, timers: time })
    const only = await leased(pool.acquire({ args })())
    const controller = new AbortController()
    const [late, off] = [pool.acquire({ args })(), pool.acquire({ args, signal: controller.signal })()]
    controller.abort()
    time.pass(100)
    const now = await pool.acquire({ args, waitMs: 0 })()
    const waiting = pool.acquire({ args, waitMs: 100 })()
    await pool.close()
    await only.end()
    expect([await late, await off, now, await waiting, await pool.acquire({ args })()]).toMatchObject(
      ['busy', 'cancelled', 'busy', 'closed', 'closed'].map((kind) => ({ left: { kind } })),
    )
    expect(pool.stats()).toMatchObject({ idle: 0, leased: 0, started: 1, ended: 1 })
  })

  it('ends a resource that is idle for too long, and no more than maxIdle stay', async () => {
    const time = manualTime()
    const { spec, alive } = things()
    const pool = resourcePool(spec, { maxIdle: 1, idleMs: 100, timers: time })
    for (const lease of [await leased(pool.acquire({ args })()), await leased(pool.acquire({ args })())])
      lease.keep('x')
    await settle()
    expect([...alive]).toEqual([1])
    time.pass(100)
    await settle()
    expect([...alive]).toEqual([])
  })

  it('refuses sizes below their bounds, all at once', () => {
    expect(() => resourcePool(things().spec, { limit: 0, idleMs: 0, waitMs: -1 })).toThrow(
      'resourcePool: limit must be at least 1, got 0; waitMs must be at least 0, got -1; idleMs must be above 0, got 0',
    )
  })
})
