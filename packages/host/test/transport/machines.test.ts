/** Laws of the pure parts: retries and their budget, circuits, rates. */
import { keyFromSeed } from '@tandem-rl/base'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { admit, type Circuit, CLOSED_CIRCUIT, circuitState, failCircuit, succeed } from '../../src/transport/circuit.js'
import { NO_RATE, takeRate } from '../../src/transport/rate.js'
import {
  budgetRequest,
  budgetRetry,
  pauseMs,
  planRetry,
  retryAfterMs,
  startBudget,
  type Trouble,
} from '../../src/transport/retry.js'

const OPTIONS = { attempts: 4, baseMs: 100, capMs: 3000, share: 0.2, floor: 10 }
const KEY = keyFromSeed(3)

const trouble: fc.Arbitrary<Trouble> = fc.record(
  {
    kind: fc.constantFrom('unreachable', 'reset', 'timeout', 'cancelled', 'status', 'malformed', 'too-large', 'closed'),
    reason: fc.constant('so'),
    acted: fc.constantFrom('no', 'perhaps'),
    status: fc.constantFrom(400, 404, 408, 425, 429, 500, 501, 502, 503, 504),
    waitMs: fc.nat(5000),
    wire: fc.constantFrom('nothing', 'stale'),
  },
  { requiredKeys: ['kind', 'reason', 'acted'] },
)
const found = fc.record({
  repeat: fc.constantFrom('safe' as const, 'fresh' as const, 'never' as const),
  trouble,
  attempt: fc.integer({ min: 1, max: 6 }),
  atOnce: fc.nat(1),
  leftMs: fc.integer({ min: -10, max: 10_000 }),
})

describe('the plan after a trouble', () => {
  it('never sends again what may not be repeated and may have been seen', () => {
    fc.assert(
      fc.property(found, (each) => {
        fc.pre(each.repeat === 'never' && each.trouble.wire !== 'nothing')
        expect(planRetry(each, OPTIONS, KEY)._tag).toBe('Enough')
      }),
    )
  })

  it('ends: after so many attempts, before the deadline, and at once only once', () => {
    fc.assert(
      fc.property(found, (each) => {
        const plan = planRetry(each, OPTIONS, KEY)
        if (plan._tag === 'Enough') return
        if (plan.atOnce === 1) {
          expect([each.atOnce, plan.afterMs]).toEqual([0, 0])
          return
        }
        expect(each.attempt).toBeLessThan(OPTIONS.attempts)
        expect(plan.afterMs).toBeLessThan(each.leftMs)
        expect(plan.afterMs).toBeGreaterThanOrEqual(each.trouble.waitMs ?? 0)
      }),
    )
  })

  it('tries again after statuses that pass, and after no others', () => {
    const plans = [400, 401, 404, 408, 409, 425, 429, 500, 501, 502, 503, 504].filter(
      (status) =>
        planRetry(
          {
            repeat: 'fresh',
            trouble: { kind: 'status', reason: '', acted: 'no', status },
            attempt: 1,
            atOnce: 0,
            leftMs: 1e9,
          },
          OPTIONS,
          KEY,
        )._tag === 'Again',
    )
    expect(plans).toEqual([408, 425, 429, 500, 502, 503, 504])
  })

  it('pauses between nothing and a bound that doubles up to a cap, anywhere in it', () => {
    fc.assert(
      fc.property(fc.maxSafeNat(), fc.integer({ min: 1, max: 40 }), (seed, attempt) => {
        const ms = pauseMs(attempt, OPTIONS, keyFromSeed(seed))
        expect(ms).toBeGreaterThanOrEqual(0)
        expect(ms).toBeLessThan(Math.min(3000, 100 * 2 ** (attempt - 1)))
      }),
    )
    const pauses = Array.from({ length: 500 }, (_, i) => pauseMs(1, OPTIONS, keyFromSeed(i)))
    expect(Math.min(...pauses)).toBeLessThan(5)
    expect(Math.max(...pauses)).toBeGreaterThan(95)
  })

  it.each([
    ['3', 3000],
    [' 0.5 ', 500],
    ['Wed, 21 Oct 2026 07:28:00 GMT', 5000],
    ['Wed, 21 Oct 2026 07:27:00 GMT', 0],
    ['soon', undefined],
    ['-3', undefined],
    ['2026', 2_026_000],
    [undefined, undefined],
  ])('reads Retry-After %j', (header, ms) => {
    expect(retryAfterMs(header, Date.parse('2026-10-21T07:27:55Z'))).toBe(ms)
  })
})

describe('the budget of retries', () => {
  it('allows at most a share of the requests, a floor, and a floor for each minute', () => {
    const steps = fc.array(fc.tuple(fc.constantFrom('request', 'retry'), fc.nat(20_000)), { maxLength: 200 })
    fc.assert(
      fc.property(steps, (each) => {
        let nowMs = 0
        let budget = startBudget(OPTIONS, nowMs)
        let [requests, retries] = [0, 0]
        for (const [what, ms] of each) {
          nowMs += ms
          if (what === 'request') {
            budget = budgetRequest(budget, OPTIONS, nowMs)
            requests++
            continue
          }
          const next = budgetRetry(budget, OPTIONS, nowMs)
          if (next !== undefined) retries++
          budget = next ?? budget
        }
        expect(retries).toBeLessThanOrEqual(0.2 * requests + 10 + (10 * nowMs) / 60_000 + 1e-6)
      }),
    )
  })
})

describe('a circuit', () => {
  const circuitOptions = { failures: 3, coolMs: 1000 }
  const steps = fc.array(fc.tuple(fc.constantFrom('ask', 'well', 'bad'), fc.nat(800)), { maxLength: 60 })

  it('lets all through while fewer than so many failures follow each other, and none while it is open', () => {
    fc.assert(
      fc.property(steps, (each) => {
        let circuit: Circuit = CLOSED_CIRCUIT
        let [nowMs, inARow, openedMs] = [0, 0, -Infinity]
        for (const [what, ms] of each) {
          nowMs += ms
          if (what === 'well') {
            circuit = succeed()
            inARow = 0
          } else if (what === 'bad') {
            circuit = failCircuit(circuit, circuitOptions, nowMs)
            inARow++
            if (inARow >= 3) openedMs = nowMs
          } else {
            const next = admit(circuit, circuitOptions, nowMs)
            if (inARow < 3) expect(next).toBe(circuit)
            else {
              expect(next === undefined).toBe(nowMs < openedMs + 1000)
              // A trial is followed by another pause.
              if (next !== undefined) openedMs = nowMs
            }
            circuit = next ?? circuit
          }
          const state = inARow < 3 ? 'closed' : nowMs < openedMs + 1000 ? 'open' : 'half-open'
          expect(circuitState(circuit, nowMs)).toBe(state)
        }
      }),
    )
  })
})

describe('a rate', () => {
  const asks = fc.array(fc.tuple(fc.nat(3000), fc.nat(60)), { minLength: 1, maxLength: 80 })

  it('is never exceeded in any minute, and makes nobody wait in vain', () => {
    fc.assert(
      fc.property(
        asks,
        fc.integer({ min: 1, max: 10 }),
        fc.integer({ min: 60, max: 200 }),
        (each, most, mostTokens) => {
          const options = { requestsPerMinute: most, tokensPerMinute: mostTokens }
          const sent: { readonly ms: number; readonly tokens: number }[] = []
          let rate = NO_RATE
          let nowMs = 0
          for (const [ms, tokens] of each) {
            nowMs += ms
            let taken = takeRate(rate, options, { tokens, nowMs })
            if (taken._tag === 'Wait') {
              expect(taken.ms).toBeGreaterThan(0)
              expect(taken.ms).toBeLessThanOrEqual(61_000)
              nowMs += taken.ms
              taken = takeRate(rate, options, { tokens, nowMs })
            }
            if (taken._tag === 'Wait') throw new Error('it had to wait once more')
            rate = taken.rate
            expect(rate.length).toBeLessThanOrEqual(61)
            sent.push({ ms: nowMs, tokens })
            const minute = sent.filter((one) => one.ms > nowMs - 60_000)
            expect(minute.length).toBeLessThanOrEqual(most)
            expect(minute.reduce((sum, one) => sum + one.tokens, 0)).toBeLessThanOrEqual(mostTokens)
          }
        },
      ),
    )
  })

  it('makes what is larger than a minute allows wait for ever', () => {
    expect(takeRate(NO_RATE, { tokensPerMinute: 10 }, { tokens: 11, nowMs: 0 })).toEqual({ _tag: 'Wait', ms: Infinity })
  })

  it('waits no longer than needed: a moment before, it would not have fitted', () => {
    const options = { requestsPerMinute: 2 }
    const first = takeRate(NO_RATE, options, { tokens: 0, nowMs: 500 })
    const second = takeRate(first._tag === 'Taken' ? first.rate : [], options, { tokens: 0, nowMs: 30_000 })
    const rate = second._tag === 'Taken' ? second.rate : []
    expect(takeRate(rate, options, { tokens: 0, nowMs: 40_000 })).toEqual({ _tag: 'Wait', ms: 21_000 })
    expect(takeRate(rate, options, { tokens: 0, nowMs: 60_999 })._tag).toBe('Wait')
    expect(takeRate(rate, options, { tokens: 0, nowMs: 61_000 })._tag).toBe('Taken')
  })
})
