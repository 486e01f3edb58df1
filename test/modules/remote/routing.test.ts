import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  type Replica,
  type RouteRequest,
  type Routing,
  route,
  startRouting,
} from '../../../src/modules/remote/routing.js'

const replica: fc.Arbitrary<Replica> = fc.record({
  load: fc.nat(50),
  takes: fc.constantFrom('yes' as const, 'yes' as const, 'no' as const),
})
const replicas = fc.array(replica, { minLength: 1, maxLength: 6 })
const prompt = fc.array(fc.nat(3), { maxLength: 200 })
const request: fc.Arbitrary<RouteRequest> = fc.record(
  { conversation: fc.constantFrom('a', 'b', 'c'), prompt },
  { requiredKeys: [] },
)
const history = fc.array(fc.tuple(replicas, request), { maxLength: 10 })

const routed = (steps: readonly (readonly [readonly Replica[], RouteRequest])[]): Routing =>
  steps.reduce((routing, [each, asked]) => route(routing, each, asked)?.routing ?? routing, startRouting())

const idle = (count: number): readonly Replica[] => Array.from({ length: count }, () => ({ load: 0, takes: 'yes' }))

describe('the choice of a replica', () => {
  it('is one that takes requests; none only if none takes any', () => {
    fc.assert(
      fc.property(history, replicas, request, (steps, now, asked) => {
        const chosen = route(routed(steps), now, asked)
        const open = now.flatMap(({ takes }, i) => (takes === 'yes' ? [i] : []))
        expect(chosen === undefined).toBe(open.length === 0)
        if (chosen !== undefined) expect(open).toContain(chosen.replica)
      }),
    )
  })

  it('is the same for the same state, and leaves the state alone', () => {
    fc.assert(
      fc.property(history, replicas, request, (steps, now, asked) => {
        const routing = routed(steps)
        expect(route(routing, now, asked)).toEqual(route(routing, now, asked))
      }),
    )
  })

  it('stays with a conversation, whatever the loads, while its replica takes requests', () => {
    fc.assert(
      fc.property(
        fc.array(fc.array(fc.nat(99), { minLength: 3, maxLength: 3 }), { minLength: 2 }),
        prompt,
        (loads, ids) => {
          const at = (values: readonly number[]): readonly Replica[] => values.map((load) => ({ load, takes: 'yes' }))
          const first = route(startRouting(), at(loads[0]!), { conversation: 'x' })!
          let routing = first.routing
          for (const values of loads.slice(1)) {
            const next = route(routing, at(values), { conversation: 'x', prompt: ids })!
            expect(next).toMatchObject({ replica: first.replica, because: 'conversation' })
            routing = next.routing
          }
        },
      ),
    )
  })

  it('moves a conversation for good when its replica takes nothing', () => {
    const first = route(startRouting(), idle(2), { conversation: 'x' })!
    const gone = idle(2).map((each, i) => (i === first.replica ? { ...each, takes: 'no' as const } : each))
    const moved = route(first.routing, gone, { conversation: 'x' })!
    expect(moved.replica).toBe(1 - first.replica)
    expect(route(moved.routing, idle(2), { conversation: 'x' })).toMatchObject({ replica: moved.replica })
  })

  it('follows the longest beginning of a prompt that is remembered', () => {
    fc.assert(
      fc.property(fc.array(fc.nat(9), { minLength: 64, maxLength: 100 }), fc.array(fc.nat(9)), (ids, more) => {
        const away = (i: number): readonly Replica[] =>
          idle(3).map((each, j) => (j === i ? each : { ...each, takes: 'no' }))
        const short = route(startRouting(), away(1), { prompt: ids.slice(0, 32) })!
        const long = route(short.routing, away(2), { prompt: [...ids.slice(0, 32), ...ids.slice(32, 64)] })!
        expect(route(long.routing, idle(3), { prompt: [...ids.slice(0, 64), ...more] })).toMatchObject({
          replica: 2,
          because: 'prefix',
        })
        const other = [...ids.slice(0, 63), ids[63]! + 10]
        expect(route(short.routing, idle(3), { prompt: other })).toMatchObject({ replica: 1, because: 'prefix' })
      }),
    )
  })

  it('takes the least loaded one otherwise, and the first of several', () => {
    fc.assert(
      fc.property(replicas, fc.array(fc.nat(3), { maxLength: 31 }), (now, short) => {
        const chosen = route(startRouting(), now, { prompt: short })
        const loads = now.map(({ load, takes }) => (takes === 'yes' ? load : Infinity))
        if (chosen !== undefined) expect(chosen.replica).toBe(loads.indexOf(Math.min(...loads)))
      }),
    )
  })

  it('gives no replica much more than its share for the sake of a common beginning', () => {
    fc.assert(
      fc.property(fc.integer({ min: 2, max: 5 }), fc.integer({ min: 20, max: 200 }), (count, requests) => {
        const loads = Array.from({ length: count }, () => 0)
        const ids = Array.from({ length: 64 }, (_, i) => i)
        let routing = startRouting()
        for (let i = 0; i < requests; i++) {
          const now = loads.map((load): Replica => ({ load, takes: 'yes' }))
          const chosen = route(routing, now, { prompt: [...ids, i] })!
          routing = chosen.routing
          loads[chosen.replica]!++
        }
        expect(Math.max(...loads)).toBeLessThanOrEqual((1.25 * requests) / count + 5)
      }),
    )
  })
})
