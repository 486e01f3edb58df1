/** Laws of concurrent collection under every order of ends, failures, hangs and cancellations. */
import type { Timers } from '@tandem-rl/base'
import { type Fault, withFaults } from '@tandem-rl/testing'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { Policy, TokenAction, TokenPrompt } from '../../../src/data/policy.js'
import { envFailure } from '../../../src/envs/base/env.js'
import { useEngine } from '../../kit/engine.js'
import { collectorOf, givenId, groupEnvs, keyedPolicy, takeAll } from '../../kit/rollouts.js'

useEngine()

const groupsOfTurns = fc.array(fc.array(fc.integer({ min: 1, max: 3 }), { minLength: 1, maxLength: 3 }), {
  minLength: 1,
  maxLength: 6,
})

/** A policy that counts the calls that are neither over nor called off. */
const counted = (policy: Policy<TokenPrompt, TokenAction>) => {
  let most = 0
  const active = new Set<symbol>()
  const act: typeof policy.act = (state, key, options) => async () => {
    const call = Symbol('call')
    active.add(call)
    most = Math.max(most, active.size)
    options?.signal?.addEventListener('abort', () => active.delete(call), { once: true })
    try {
      return await policy.act(state, key, options)()
    } finally {
      active.delete(call)
    }
  }
  return { policy: { ...policy, act }, most: () => most }
}

describe('rollouts under any interleaving', () => {
  it('law: every task drawn is given out whole, fails with a cause or is cancelled, once, and never too many are in flight or drawn ahead', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.scheduler(),
        groupsOfTurns,
        fc.record({
          maxInFlight: fc.integer({ min: 3, max: 8 }),
          dialogTurnsPerBatch: fc.integer({ min: 1, max: 6 }),
          order: fc.constantFrom('completion' as const, 'drawn' as const),
          onFailure: fc.constantFrom('failFast' as const, 'skip' as const, { retry: 1 }, { retry: 3 }),
          maxFailureShare: fc.constantFrom(0, 0.3, 1),
          ahead: fc.integer({ min: 0, max: 4 }),
        }),
        fc.array(fc.integer({ min: 0, max: 19 }), { minLength: 8, maxLength: 8 }),
        fc.option(fc.nat(30)),
        async (s, groups, options, luck, cancelAfter) => {
          const pause = (what: string) => s.schedule(Promise.resolve(), what)
          const timers: Timers = {
            after: (_ms, ring) => {
              let isOn = true
              pause('an alarm').then(() => isOn && ring())
              return () => {
                isOn = false
              }
            },
          }
          let calls = 0
          const disturb = <F>(operation: string, failure: F): Fault<F> => {
            const chance = luck[calls++ % luck.length]!
            if (chance === 0) return { _tag: 'Fail', failure }
            if (chance === 1) return { _tag: 'Wait', until: () => new Promise(() => {}) } // hangs
            if (chance === 2)
              return { _tag: 'Wait', until: () => pause(operation).then(() => Promise.reject(new Error('oh'))) }
            return { _tag: 'Wait', until: () => pause(operation) }
          }
          const policyFails = { _tag: 'PolicyFailure', policy: 'test', reason: 'no' } as const
          const envFails = envFailure('test', 'no')
          const { policy, most } = counted(
            withFaults(keyedPolicy(), ({ operation }) => disturb(operation, policyFails)),
          )
          let isTraining = false
          let drawnAhead = 0
          const env = (task: number) => {
            if (isTraining) drawnAhead++
            return withFaults(groupEnvs(groups)(task), ({ operation }) => disturb(operation, envFails))
          }
          const train = async () => {
            isTraining = true
            drawnAhead = 0
            await pause('training')
            await pause('training')
            expect(drawnAhead).toBeLessThanOrEqual(options.ahead)
            isTraining = false
          }
          const controller = new AbortController()
          const run = collectorOf(groups, { ...options, env, policy, timers, deadlineMs: 5 }).begin({
            signal: controller.signal,
          })
          const cancel = async () => {
            for (let i = 0; i < cancelAfter!; i++) await pause('before the cancellation')
            controller.abort()
          }
          const [{ batches, end }] = await s.waitFor(
            Promise.all([takeAll(run, train), cancelAfter === null ? null : cancel()]),
          )

          const delivered = batches.flatMap(({ tasks }) => tasks)
          const failed = [...batches, end].flatMap((each) => each.failed)
          const drawn = Array.from({ length: end.position.next }, (_, task) => task)
          const all = [...delivered, ...failed.map(({ task }) => task), ...end.cancelled]
          expect(all.sort((a, b) => a - b)).toEqual(drawn)
          expect(end.position.open).toEqual(end.cancelled)
          if (end._tag === 'End' && end.why === 'complete') expect(drawn.length).toBe(groups.length)
          if (end._tag === 'End' && end.why === 'complete') expect(end.cancelled).toEqual([])
          for (const { tasks, turns, groupIds } of batches) {
            const expected = tasks.flatMap((task) => groups[task]!.flatMap((n) => Array<string>(n).fill(`${task}`)))
            expect(groupIds.map(givenId)).toEqual(expected)
            expect(turns).toBe(expected.length)
          }
          for (const { cause } of failed)
            expect(cause.reason).toMatch(/^(?:no|Error: oh \(at .*\.ts:\d+:\d+\)|a rollout did not end within 5 ms)$/)
          expect(most()).toBeLessThanOrEqual(options.maxInFlight)
          expect(run.inFlight()).toBe(0)
        },
      ),
      { numRuns: 60 },
    )
  }, 60_000)
})

describe('trajectories', () => {
  it('law: with equal keys are equal, however many are in flight and whatever is over first', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.scheduler(),
        groupsOfTurns,
        fc.integer({ min: 3, max: 8 }),
        fc.nat(6),
        async (s, groups, maxInFlight, failing) => {
          const byTask = async (collector: ReturnType<typeof collectorOf>) => {
            const { batches } = await takeAll(collector.begin())
            return batches.toSorted((a, b) => a.tasks[0]! - b.tasks[0]!).map(({ rows }) => rows)
          }
          const oneByOne = await byTask(collectorOf(groups, { maxInFlight: 3 }))
          const policyFails = { _tag: 'PolicyFailure', policy: 'test', reason: 'no' } as const
          const policy = withFaults(keyedPolicy(), ({ number }) =>
            number === failing
              ? { _tag: 'Fail', failure: policyFails }
              : { _tag: 'Wait', until: () => s.schedule(Promise.resolve(), 'act') },
          )
          const many = collectorOf(groups, { maxInFlight, policy, onFailure: { retry: 1, pauseMs: 0 } })
          expect(await s.waitFor(byTask(many))).toEqual(oneByOne)
        },
      ),
      { numRuns: 10 },
    )
  })
})
