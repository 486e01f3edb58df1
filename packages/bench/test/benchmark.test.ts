/** Benchmarks with a clock that the parts advance by hand: every figure is exact. */
import { formatKey, keyFromSeed, type Usage } from '@tandem-rl/base'
import {
  type FakeClock,
  failNth,
  fakeClock,
  policyFailure,
  requireLeft,
  scriptedEnv,
  scriptedPolicy,
  withFaults,
  withoutLeaks,
} from '@tandem-rl/testing'
import { History, message } from '@tandem-rl/text'
import * as E from 'fp-ts/lib/Either.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { describe, expect, it } from 'vitest'
import { LLMCollector } from '../../../src/collectors/llmCollector.js'
import type { Policy, TokenAction, TokenPrompt } from '../../../src/data/policy.js'
import { type Env, envFailure } from '../../../src/envs/base/env.js'
import type { Answered } from '../../../src/envs/rewards/reward.js'
import { reward as rewardFrom } from '../../../src/envs/rewards/rewardFunction.js'
import { StepCounter } from '../../../src/envs/transforms/stepCounter.js'
import { append, identity, transform } from '../../../src/envs/transforms/transform.js'
import { useEngine } from '../../../test/kit/engine.js'
import { leftOf, rightOf } from '../../../test/kit/results.js'
import { type Benchmark, benchmark, compareSubjects } from '../src/benchmark.js'
import type { RoundContext, Subject } from '../src/subject.js'
import { collectorSubject, envSubject, rewardSubject, transformSubject } from '../src/subjects.js'

useEngine()

/** Resources that grow by one unit with each reading. */
const countingUsage = (): Usage => {
  let [cpu, resident, heap] = [0, 0, 0]
  return { cpuMs: () => (cpu += 500), residentBytes: () => (resident += 1), heapBytes: () => (heap += 1) }
}

const slowPolicy = (clock: FakeClock, ms: number): Policy<TokenPrompt, TokenAction> => {
  const policy = scriptedPolicy({ answers: () => [5, 6] })
  return {
    ...policy,
    act: (state, key) => async () => {
      clock.advance(ms)
      return policy.act(state, key)()
    },
  }
}

const slowEnv = <O, A>(clock: FakeClock, env: Env<O, A>, ms: number): Env<O, A> => ({
  ...env,
  reset: (request, key) => async () => {
    clock.advance(ms)
    return env.reset(request, key)()
  },
  step: (state, action) => async () => {
    clock.advance(ms)
    return env.step(state, action)()
  },
})

const twoTurns = scriptedEnv([{ rewards: [0, 1] }, { rewards: [0, 1] }])

/** A subject whose rounds take the given milliseconds, in turns. */
const timed = (clock: FakeClock, name: string, ms: readonly number[], unit = 'units'): Subject => {
  let round = 0
  return {
    ...{ name, unit, counts: 'all' },
    run: () => async () => {
      clock.advance(ms[round++ % ms.length]!)
      return E.right(10)
    },
  }
}

const quick = { rounds: 2, warmUp: 0 } as const

describe('benchmark', () => {
  it('measures rounds after the warm-up, and summarizes them by medians and quartiles', async () => {
    const clock = fakeClock()
    const subject = timed(clock, 'steady', [999, 100, 200, 400])
    const names: string[] = []
    const onRound = (name: string): void => void names.push(name)
    const result = await rightOf(benchmark({ subject, rounds: 3, warmUp: 1, clock, usage: countingUsage(), onRound }))
    expect(names).toEqual(['steady', 'steady', 'steady'])
    expect(result.rounds.map(({ seconds }) => seconds)).toEqual([0.1, 0.2, 0.4])
    expect(result.unitsPerSecond).toEqual({ median: 50, low: 37.5, high: 75 })
    expect(result.rounds.map(({ cpuSeconds }) => cpuSeconds)).toEqual([0.5, 0.5, 0.5])
    expect(result.rounds.map(({ residentBytes }) => residentBytes)).toEqual([2, 3, 4])
    expect(result.overheadMs.median).toBe(20)
    expect(result.host).toMatchObject({ node: process.version, cores: expect.any(Number) })
    expect(JSON.parse(JSON.stringify(result))).toEqual(result)
  })

  it('gives each round a key of its own, and the same keys for the same key', async () => {
    const keys = async (seed: number): Promise<readonly string[]> => {
      const seen: string[] = []
      const clock = fakeClock()
      const run = (round: RoundContext) => async () => {
        seen.push(formatKey(round.key))
        clock.advance(1)
        return E.right(1)
      }
      await rightOf(benchmark({ subject: { name: 'a', unit: 'b', counts: 'all', run }, clock, key: keyFromSeed(seed) }))
      return seen
    }
    const first = await keys(1)
    expect(new Set(first).size).toBe(12)
    expect(await keys(1)).toEqual(first)
    expect(await keys(2)).not.toEqual(first)
  })

  it('returns the failure of the subject', async () => {
    const run = () => TE.left(policyFailure('overloaded'))
    const failed = await leftOf(benchmark({ subject: { name: 'a', unit: 'b', counts: 'all', run } }))
    expect(failed).toMatchObject({ _tag: 'PolicyFailure', reason: 'overloaded' })
  })

  it('rejects wrong options, and rounds without work or time', async () => {
    const clock = fakeClock()
    const subject = timed(clock, 'a', [1])
    expect(() => benchmark({ subject, rounds: 1 })).toThrow('rounds must be an integer of at least 2, got 1')
    expect(() => benchmark({ subject, warmUp: -1 })).toThrow('warmUp must be an integer of at least 0, got -1')
    // @ts-expect-error a misspelled option
    expect(() => benchmark({ subject, round: 3 })).toThrow("unknown option 'round': did you mean 'rounds'?")
    const idle = { ...subject, run: () => TE.right(0) }
    await expect(benchmark({ subject: idle, clock })()).rejects.toThrow("a round of 'a' did no units")
    const instant = { ...subject, run: () => TE.right(1) }
    await expect(benchmark({ subject: instant, clock })()).rejects.toThrow('took no measurable time')
  })
})

describe('compareSubjects', () => {
  it('alternates in the order A B B A, and reports the ratio with its interval', async () => {
    const clock = fakeClock()
    const order: string[] = []
    const onRound = (name: string): void => void order.push(name)
    const [a, b] = [timed(clock, 'a', [100, 120]), timed(clock, 'b', [50, 60])]
    const result = await rightOf(compareSubjects({ baseline: a, candidate: b, rounds: 4, warmUp: 0, clock, onRound }))
    expect(order).toEqual(['a', 'b', 'b', 'a', 'a', 'b', 'b', 'a'])
    expect(result.ratio.estimate).toBeCloseTo(2, 12)
    expect([result.ratio.low, result.ratio.high].map((x) => Number(x.toFixed(9)))).toEqual([2, 2])
    expect(result.verdict).toBe('faster')
    expect([result.baseline.name, result.candidate.name]).toEqual(['a', 'b'])
  })

  it('finds no difference between a subject and itself', async () => {
    const clock = fakeClock()
    const a = timed(clock, 'a', [100])
    const result = await rightOf(compareSubjects({ baseline: a, candidate: a, clock }))
    expect([result.ratio.estimate, result.verdict]).toEqual([1, 'same'])
  })

  it('rejects subjects with different units', () => {
    const clock = fakeClock()
    const [a, b] = [timed(clock, 'a', [1]), timed(clock, 'b', [1], 'rows')]
    expect(() => compareSubjects({ baseline: a, candidate: b })).toThrow('the units differ: units (all) and rows (all)')
  })
})

describe('collectorSubject', () => {
  const lockstep = (clock: FakeClock) => (round: RoundContext) => {
    const [env, policy] = [slowEnv(clock, twoTurns, 10), slowPolicy(clock, 30)]
    return LLMCollector({ env: round.timeEnv(env), policy: round.timePolicy(policy), key: round.key, time: { clock } })
  }

  const first = ({ rounds }: Benchmark) => rounds[0]!

  it('counts trajectories, and divides the time among policy, environment and overhead', async () => {
    const clock = fakeClock()
    const subject = collectorSubject({ name: 'lockstep', collector: lockstep(clock), rollouts: 3 })
    const result = await rightOf(benchmark({ subject, ...quick, clock }))
    // Two batches of two rollouts: each is a reset and two turns, in which a call of the policy has
    // both rows.
    expect(first(result)).toMatchObject({
      units: 4,
      seconds: 0.18,
      policySeconds: 0.12,
      envSeconds: 0.06,
      restSeconds: 0,
    })
    expect(first(result).inFlight).toEqual({ mean: (2 * 120) / 180, most: 2 })
  })

  it('counts time outside of policy and environment as overhead', async () => {
    const clock = fakeClock()
    const collector = (round: RoundContext) => {
      const postproc = <B>(batch: B): B => {
        clock.advance(40)
        return batch
      }
      const env = round.timeEnv(slowEnv(clock, twoTurns, 10))
      const policy = round.timePolicy(slowPolicy(clock, 30))
      return LLMCollector({ env, policy, key: round.key, batches: { postproc } })
    }
    const subject = collectorSubject({ name: 'slow', collector, rollouts: 2 })
    const result = await rightOf(benchmark({ subject, ...quick, clock }))
    expect(result.overheadMs).toEqual({ median: 20, low: 20, high: 20 })
  })

  it('sees many rollouts in flight, and ends with the collector', async () => {
    const collector = (round: RoundContext) =>
      LLMCollector({
        env: () => round.timeEnv(scriptedEnv([{ rewards: [1] }])),
        policy: round.timePolicy(scriptedPolicy({ answers: () => [5] })),
        key: round.key,
        concurrent: { tasks: 6, maxInFlight: 3 },
      })
    const subject = collectorSubject({ name: 'concurrent', collector, rollouts: 100 })
    const result = await rightOf(benchmark({ subject, ...quick }))
    expect(first(result).units).toBe(6)
    expect(first(result).inFlight.most).toBe(3)
  })

  it('returns the failure of the collector', async () => {
    const collector = (round: RoundContext) =>
      LLMCollector({ env: twoTurns, policy: scriptedPolicy({ answers: [] }), key: round.key })
    const subject = collectorSubject({ name: 'a', collector, rollouts: 1 })
    expect(await leftOf(benchmark({ subject }))).toMatchObject({ _tag: 'PolicyFailure' })
    expect(() => collectorSubject({ name: 'a', collector, rollouts: 0.5 })).toThrow('at least 1, got 0.5')
  })
})

describe('envSubject', () => {
  it('counts steps of unfinished elements, and only the time in the environment', async () => {
    const clock = fakeClock()
    const env = slowEnv(clock, scriptedEnv([{ rewards: [0, 1] }, { rewards: [1] }]), 10)
    const subject = envSubject({ env, policy: slowPolicy(clock, 30), steps: 5 })
    const result = await rightOf(benchmark({ subject, ...quick, clock }))
    // An episode has 3 steps: two elements, then one. The second one is played to its end in one
    // more step of two elements.
    expect(result.rounds[0]).toMatchObject({ units: 5, envSeconds: 0.05, seconds: 0.05, policySeconds: 0.09 })
  })
})

describe('transformSubject', () => {
  it('counts the time of the transform alone', async () => {
    const clock = fakeClock()
    const slow = transform<null, unknown, unknown>({
      ...{ name: 'slow', initial: null, adds: {} },
      step: (next, context, state) => {
        clock.advance(7)
        return identity.step(next, context, state)
      },
    })
    const [env, policy] = [slowEnv(clock, twoTurns, 10), slowPolicy(clock, 30)]
    const subject = transformSubject({ name: 'slow', transform: append(slow), env, policy, rows: 4 })
    const result = await rightOf(benchmark({ subject, ...quick, clock }))
    expect(result.rounds[0]).toMatchObject({ units: 4, seconds: 0.014, envSeconds: 0.03, policySeconds: 0.06 })
  })

  it('takes the states of the transform to the policy', async () => {
    const policy = scriptedPolicy({ answers: () => [5] })
    const counter = append(StepCounter({ maxSteps: 5 }))
    const subject = transformSubject({ name: 'counter', transform: counter, env: twoTurns, policy, rows: 8 })
    expect((await rightOf(benchmark({ subject, ...quick }))).rounds[0]!.units).toBe(8)
  })

  it('leaves no tensors, whether a round succeeds or fails', async () => {
    const play = (env: typeof twoTurns) => {
      const policy = scriptedPolicy({ answers: () => [5] })
      const counter = append(StepCounter({ maxSteps: 5 }))
      return benchmark({
        subject: transformSubject({ name: 'a', transform: counter, env, policy, rows: 8 }),
        ...quick,
      })()
    }
    await withoutLeaks(() => play(twoTurns))
    for (const method of ['reset', 'step'] as const)
      await withoutLeaks(async () =>
        requireLeft(await play(withFaults(twoTurns, failNth(method, 1, envFailure('a', 'broken'))))),
      )
  })
})

describe('rewardSubject', () => {
  const answers: readonly Answered[] = ['1', '2'].map((id) => ({
    task: { id, query: '?', answer: '2' },
    history: History([message('assistant', '2')]),
  }))

  it('counts answers over all passes', async () => {
    const clock = fakeClock()
    const reward = rewardFrom(() => {
      clock.advance(5)
      return 1
    })
    const result = await rightOf(benchmark({ subject: rewardSubject({ reward, answers, passes: 3 }), ...quick, clock }))
    expect(result.rounds[0]).toMatchObject({ units: 6, seconds: 0.03 })
  })

  it('returns the failure of a service, and rejects an empty list', async () => {
    const reward = rewardFrom(() => {
      throw new Error('offline')
    })
    const failed = await leftOf(benchmark({ subject: rewardSubject({ reward, answers }) }))
    expect(failed).toMatchObject({ _tag: 'RewardFailure' })
    expect(() => rewardSubject({ reward, answers: [] })).toThrow('must have at least one answer')
  })
})
