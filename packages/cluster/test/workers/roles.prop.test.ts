/** Trainers, workers and servers of a queue that die, stop and start in every order. */
import fc from 'fast-check'
import { beforeAll, describe, expect, it } from 'vitest'
import { useEngine } from '../../../../test/kit/engine.js'
import { type Act, LEASE_MS, type Played, playRoles, ROLES, type Role, STEPS } from '../../../../test/kit/roles.js'

useEngine()

const SCHEDULES = 500

/** The most that a command waits for a server that does not exist. */
const ABSENT_MS = 5000

let calm: Played

beforeAll(async () => {
  calm = await playRoles([])
})

const afterMs = fc.oneof(fc.constant(0), fc.integer({ min: 1, max: 10_000 }), fc.integer({ min: 1, max: 100_000 }))

/** All processes start in any order; then each may die, stop and start. */
const schedules: fc.Arbitrary<readonly Act[]> = fc
  .tuple(
    fc.shuffledSubarray([...ROLES], { minLength: ROLES.length }),
    fc.array(fc.constantFrom(0, 0, 500, 2000, 20_000), { minLength: ROLES.length, maxLength: ROLES.length }),
    fc.array(fc.record({ afterMs, role: fc.constantFrom(...ROLES), what: fc.constantFrom('kill', 'pause', 'start') }), {
      maxLength: 12,
    }),
  )
  .map(([roles, times, later]) => [
    ...roles.map((role, i) => ({ afterMs: times[i]!, role, what: 'start' as const })),
    ...later,
  ])

const started = (...roles: readonly Role[]): readonly Act[] =>
  roles.map((role) => ({ afterMs: 0, role, what: 'start' }))

describe('a run whose processes die and come late', () => {
  it('trains on every task once without any fault', () => {
    expect(calm.trained.map(({ ticket }) => ticket)).toEqual(Array.from({ length: STEPS }, (_, ticket) => ticket))
    expect(calm.ends).toMatchObject([{ role: 'trainer', reason: null }])
    expect(calm.notices).toEqual([])
  })

  it('ends workers and trainers without a server within 5 s, and a worker without a trainer waits', async () => {
    const { ends } = await playRoles([
      ...started('trainer', 'worker'),
      { afterMs: 60_000, role: 'server', what: 'start' },
      ...started('worker'),
      { afterMs: 300_000, role: 'trainer', what: 'start' },
    ])
    expect(ends.map(({ role, reason }) => [role, reason])).toEqual([
      ...(['trainer', 'worker'] as const).map((role) => [role, 'the server does not answer']),
      ['trainer', null],
    ])
    for (const { endMs } of ends.slice(0, 2)) expect(endMs).toBeLessThanOrEqual(ABSENT_MS)
  })

  it('reports a killed worker with leases, and another one plays its rollouts after the lease', async () => {
    const { ends, notices } = await playRoles([
      ...started('server', 'trainer', 'worker'),
      { afterMs: 1000, role: 'worker', what: 'kill' },
      ...started('other worker'),
      { afterMs: 100_000, role: 'server', what: 'start' },
    ])
    expect(notices.map(({ text }) => text)).toEqual([
      expect.stringMatching(
        /^worker 'worker \d+' has 2 rollouts and has sent no heartbeat for 1\d s; after 30 s other/,
      ),
    ])
    expect(notices[0]!.atMs).toBeLessThanOrEqual(LEASE_MS / 2 + 5000)
    expect(ends[0]).toMatchObject({ role: 'trainer', reason: null })
    expect(ends[0]!.endMs).toBeLessThan(calm.finishedMs! + LEASE_MS + 5000)
  })

  it(`law: ${SCHEDULES} schedules give the same rows, in time, and only outages of the server end a process`, async () => {
    const seen = { absent: 0, outage: 0, overdue: 0, missing: 0 }
    await fc.assert(
      fc.asyncProperty(schedules, async (schedule) => {
        const { trained, finishedMs, ends, notices } = await playRoles(schedule)
        expect(trained).toEqual(calm.trained)
        expect(finishedMs).toBeLessThan(calm.finishedMs! + LEASE_MS + 10_000)
        for (const { reason, server, wasPaused, startMs, endMs } of ends) {
          if (reason === null) continue
          const outages = server.filter((state) => state !== 'runs')
          expect([reason, outages.length > 0]).toEqual([expect.stringMatching(/the server does not answer$/), true])
          if (wasPaused || server.join() !== 'killed') continue
          expect(endMs - startMs).toBeLessThanOrEqual(ABSENT_MS)
          seen.absent++
        }
        seen.outage += ends.filter(({ reason, server }) => reason !== null && server.includes('runs')).length
        seen.overdue += notices.filter(({ text }) => text.includes('no heartbeat')).length
        seen.missing += notices.filter(({ text }) => text.includes('start a worker')).length
      }),
      { numRuns: SCHEDULES },
    )
    for (const [name, count] of Object.entries(seen)) expect(count, name).toBeGreaterThan(5)
  })
})
