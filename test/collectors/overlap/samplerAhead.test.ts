/** Groups that are sampled ahead, whatever is over first, fails or is called off. */
import { orThrow } from '@tandem-rl/base'
import fc from 'fast-check'
import * as E from 'fp-ts/lib/Either.js'
import { describe, expect, it } from 'vitest'
import type { GroupSource, PlayedTask } from '../../../src/collectors/overlap/sampledGroups.js'
import { type SamplerAheadOptions, sampleAhead } from '../../../src/collectors/overlap/samplerAhead.js'
import { rightOf } from '../../kit/results.js'

const NO = { _tag: 'Refused', reason: 'no' } as const

/**
 * A source whose groups are their tasks, and what became of them. `end` says when and how a task is
 * over.
 */
const sourceOf = (end: (task: number) => Promise<PlayedTask<number>>) => {
  const begun: number[] = []
  const discarded: number[] = []
  let most = 0
  let active = 0
  const source: GroupSource<number> = {
    play: (task) => {
      begun.push(task)
      most = Math.max(most, ++active)
      let cancel = (): void => {}
      const cancelled = new Promise<PlayedTask<number>>((resolve) => {
        cancel = () => resolve({ _tag: 'Cancelled' })
      })
      return { outcome: Promise.race([end(task), cancelled]).finally(() => active--), cancel: () => cancel() }
    },
    discard: (task) => {
      discarded.push(task)
    },
  }
  return { source, begun, discarded, most: () => most, active: () => active }
}

const played = (task: number, oldest: number, signal: 'yes' | 'no' = 'yes'): PlayedTask<number> => ({
  ...{ _tag: 'Played', group: task, oldest, signal },
})

const never = (): Promise<never> => new Promise(() => {})
const pushed: SamplerAheadOptions['push'] = (version) => async () => E.right(version)

describe('sampleAhead', () => {
  it('law: every task begun is learned from once, dropped with a cause, or open; never above the lag or the bound', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.scheduler(),
        fc.record({
          groups: fc.integer({ min: 1, max: 3 }),
          maxLag: fc.integer({ min: 0, max: 2 }),
          stale: fc.constantFrom('wait' as const, 'drop' as const, 'correct' as const),
          lastVersion: fc.integer({ min: 1, max: 5 }),
          refills: fc.integer({ min: 0, max: 2 }),
          maxFailureShare: fc.constantFrom(0, 0.3, 1),
        }),
        fc.array(fc.integer({ min: 0, max: 9 }), { minLength: 5, maxLength: 5 }),
        fc.option(fc.nat(25)),
        async (s, rules, luck, abortAfter) => {
          const pause = (what: string) => s.schedule(Promise.resolve(), what)
          let serving = 0
          const { source, begun, discarded, most, active } = sourceOf(async (task) => {
            const oldest = serving
            await pause(`rollout of ${task}`)
            const chance = luck[task % luck.length]!
            if (chance === 0) return { _tag: 'Failed', failure: NO }
            return played(task, oldest, chance === 1 ? 'no' : 'yes')
          })
          const control = new AbortController()
          const ahead = sampleAhead(source, rules, {
            signal: control.signal,
            push: (version) => async () => {
              await pause(`push of ${version}`)
              serving = version
              return E.right(version)
            },
          })
          const learned: { readonly task: number; readonly lag: number }[] = []
          const dropped = { stale: 0, failed: 0, filtered: 0 }
          const train = async (): Promise<string> => {
            for (;;) {
              const taken = await ahead.take()
              if (E.isLeft(taken)) return taken.left._tag
              if (taken.right._tag === 'End') return taken.right.why
              for (const { task, lag, group } of taken.right.groups) {
                expect(group).toBe(task)
                learned.push({ task, lag })
              }
              for (const why of ['stale', 'failed', 'filtered'] as const) dropped[why] += taken.right.dropped[why]
              expect(taken.right.failures.length).toBe(taken.right.dropped.failed)
              await pause('a step')
              ahead.trained()
            }
          }
          const abort = async () => {
            for (let i = 0; i < abortAfter!; i++) await pause('before the abort')
            control.abort()
          }
          const [why] = await s.waitFor(Promise.all([train(), abortAfter === null ? null : abort()]))
          const end = await s.waitFor(ahead.close())

          const { open, next } = end.position
          expect(begun).toEqual(Array.from({ length: next }, (_, task) => task))
          const tasks = learned.map(({ task }) => task)
          expect(new Set([...tasks, ...open]).size).toBe(tasks.length + open.length)
          const lost = Object.values(end.counts.dropped).reduce((sum, n) => sum + n, 0)
          expect(tasks.length + open.length + lost).toBe(next)
          expect(end.counts.trained).toBe(tasks.length)
          if (rules.stale !== 'correct') for (const { lag } of learned) expect(lag).toBeLessThanOrEqual(rules.maxLag)
          expect(most()).toBeLessThanOrEqual((rules.maxLag + 1) * rules.groups)
          expect(active()).toBe(0)
          expect(discarded.filter((task) => tasks.includes(task))).toEqual([])
          if (why === 'complete') expect([end.version, open]).toEqual([rules.lastVersion, []])
          if (why !== 'complete' && why !== 'stopped') expect(why).toBe('OverlapStopped')
        },
      ),
      { numRuns: 150 },
    )
  }, 300_000)

  it('takes the next step while the weights of the one before are on their way, and pushes only the newest', async () => {
    const pushes: number[] = []
    let arrive = (): void => {}
    const push: SamplerAheadOptions['push'] = (version) => () => {
      pushes.push(version)
      return new Promise((resolve) => {
        arrive = () => resolve(E.right(version))
      })
    }
    const { source } = sourceOf(async (task) => played(task, 0))
    const ahead = sampleAhead(source, { groups: 1, maxLag: 2, lastVersion: 3 }, { push })
    for (let step = 0; step < 3; step++) {
      expect(await rightOf(ahead.take)).toMatchObject({ version: step, groups: [{ task: step, lag: step }] })
      ahead.trained()
    }
    expect(pushes).toEqual([1])
    arrive()
    const ended = ahead.take()
    while (pushes.length < 2) await new Promise((go) => setImmediate(go))
    arrive()
    expect(orThrow(await ended)).toMatchObject({ _tag: 'End', why: 'complete', version: 3 })
    expect(pushes).toEqual([1, 3])
    await ahead.close()
  })

  it('tells how long it waited, sampled, and sampled while somebody learned', async () => {
    let now = 0
    const finish = new Map<number, (end: PlayedTask<number>) => void>()
    const { source } = sourceOf((task) => new Promise((resolve) => finish.set(task, resolve)))
    const clock = { now: () => now, breathe: () => Promise.resolve() }
    const ahead = sampleAhead(source, { groups: 1, maxLag: 1, lastVersion: 2 }, { push: pushed, clock })
    const first = ahead.take()
    now = 3000
    finish.get(0)!(played(0, 0))
    expect(orThrow(await first)).toMatchObject({ seconds: { waiting: 3, sampling: 3, both: 0 } })
    now = 5000
    ahead.trained()
    const second = ahead.take()
    now = 6000
    finish.get(1)!(played(1, 0))
    expect(orThrow(await second)).toMatchObject({ seconds: { waiting: 1, sampling: 3, both: 2 } })
    await ahead.close()
  })

  it('stops when a push fails, or when too much does, with the reason', async () => {
    const lost = { _tag: 'WeightFailure', receiver: 'test', reason: 'gone' } as const
    const { source } = sourceOf(async (task) => played(task, 0))
    const ahead = sampleAhead(source, { groups: 1, maxLag: 0 }, { push: () => async () => E.left(lost) })
    await ahead.take()
    ahead.trained()
    expect(await ahead.take()).toMatchObject({ left: { reason: 'the weights could not be pushed', cause: lost } })
    await ahead.close()

    const failing = sampleAhead(
      sourceOf(async () => ({ _tag: 'Failed', failure: NO })).source,
      { groups: 1 },
      { push: pushed },
    )
    const stopped = await failing.take()
    expect(stopped).toMatchObject({
      left: { reason: '6 groups failed, more than the allowed share of 0.5', cause: NO },
    })
    expect(await failing.take()).toEqual(stopped)
    await failing.close()
  })

  it('rejects with what the source throws, and calls the rest off', async () => {
    const { source, active } = sourceOf(never)
    const throwing: typeof source = {
      ...source,
      play: (task) => {
        if (task === 1) throw new RangeError('no such environment')
        return source.play(task)
      },
    }
    const ahead = sampleAhead(throwing, { groups: 2 }, { push: pushed })
    await expect(ahead.take()).rejects.toThrow('no such environment')
    expect((await ahead.close()).position).toMatchObject({ open: [0, 1, 2, 3] })
    expect(active()).toBe(0)
  })

  it('draws nothing where its signal was aborted before', async () => {
    const { source, begun } = sourceOf(never)
    const ahead = sampleAhead(source, { groups: 2 }, { push: pushed, signal: AbortSignal.abort() })
    expect(orThrow(await ahead.take())).toMatchObject({ why: 'stopped', position: { next: 0, open: [] } })
    expect(begun).toEqual([])
    await ahead.close()
  })

  it('throws for missing steps and steps that are taken twice', async () => {
    const { source } = sourceOf(async (task) => played(task, 0))
    const ahead = sampleAhead(source, { groups: 1 }, { push: pushed })
    expect(() => ahead.trained()).toThrow('without a taken step')
    await ahead.take()
    await expect(ahead.take()).rejects.toThrow('before the previous step ended')
    await ahead.close()
  })
})
