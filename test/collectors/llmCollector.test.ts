import { type Clock, child, FailureError, formatKey, keyFromSeed } from '@tandem-rl/base'
import { failNth, fakeClock, scriptedPolicy, withFaults } from '@tandem-rl/testing'
import { liveTensors, own, ownedCount, scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { LLMCollector, type LLMCollectorOptions } from '../../src/collectors/llmCollector.js'
import type { CollectorPosition } from '../../src/collectors/rollouts/lockstep.js'
import { type CollectedBatch, trajectoryReturns } from '../../src/collectors/rollouts/turnRows.js'
import { toNested } from '../../src/data/tensorDict/inspect.js'
import { concat } from '../../src/data/tensorDict/joining.js'
import { raggedRows } from '../../src/data/tensorDict/leaf.js'
import { get } from '../../src/data/tensorDict/tensorDict.js'
import { envFailure } from '../../src/envs/base/env.js'
import { useEngine, valuesOf } from '../kit/engine.js'
import { leftOf, rightOf } from '../kit/results.js'
import { smallPolicy, type TurnState, turnEnv } from '../kit/small.js'

useEngine()

const collectorOf = (
  turns: readonly number[],
  options: Partial<LLMCollectorOptions<TurnState>> & { readonly repeats?: number; readonly clock?: Clock } = {},
): LLMCollector<CollectedBatch<TurnState>> => {
  const { repeats = 1, env, policy, clock = fakeClock(), ...rest } = options
  return LLMCollector({
    env: env ?? turnEnv(turns, { prompts: turns.length, repeats }),
    policy: policy ?? smallPolicy(),
    time: { clock }, // stopped, so that measured times are equal too
    key: rest.key ?? keyFromSeed(1),
    ...(rest.maxTurns !== undefined && { maxTurns: rest.maxTurns }),
    ...(rest.start !== undefined && { start: rest.start }),
  })
}

/** Returns an id of the environment with the prefix that `collectorOf` adds in a batch. */
const idOf = (id: string | number, batch = 0): string =>
  `${formatKey(child(child(keyFromSeed(1), batch), 'reset'))}:${id}`

/** Everything in the batch at a position, on the host, and the position after it. */
const collectPlain = async (
  collector: LLMCollector<CollectedBatch<TurnState>>,
  at: CollectorPosition = collector.start,
) => {
  const { batch, position } = await rightOf(collector.collect(at))
  using owned = batch
  return { batch: toNested(owned.value), position }
}

const rows = async (turns: readonly number[], options: Parameters<typeof collectorOf>[1] = {}) => {
  const collector = collectorOf(turns, options)
  const collected = await rightOf(collector.collect(collector.start))
  using batch = collected.batch
  const td = batch.value
  return {
    prompts: raggedRows(get(td, 'tokens', 'prompt')),
    responses: raggedRows(get(td, 'tokens', 'response')),
    full: raggedRows(get(td, 'tokens', 'full')),
    responseLogProbs: raggedRows(get(td, 'logProbs', 'response')),
    logProbs: raggedRows(get(td, 'logProbs', 'full')),
    attention: raggedRows(get(td, 'masks', 'attention')),
    assistant: raggedRows(get(td, 'masks', 'assistant')),
    trajectory: get(td, 'trajectoryId').items.toArray(),
    turn: get(td, 'turn').items.toArray(),
    groups: get(td, 'groupId').items.toArray(),
    status: get(td, 'status').items.toArray(),
    done: valuesOf(get(td, 'next', 'done')),
    rewards: valuesOf(get(td, 'next', 'reward')),
    returns: trajectoryReturns(td),
  }
}

const episodes = fc.array(fc.integer({ min: 1, max: 4 }), { minLength: 1, maxLength: 4 })
const runs = { numRuns: 12 }

describe('a collected batch', () => {
  it.each([[[1, 1, 1]], [[3, 1, 2]]])(
    'for episodes of %j turns has what was sampled, aligned with its tokens',
    async (turns) => {
      const batch = await rows(turns)
      for (const [i, full] of batch.full.entries()) {
        const [prompt, response] = [batch.prompts[i]!, batch.responses[i]!]
        expect(full).toEqual([...prompt, ...response])
        expect(batch.logProbs[i]).toEqual([...prompt.map(() => Number.NaN), ...batch.responseLogProbs[i]!])
        expect(batch.attention[i]).toEqual(full.map(() => 1))
        expect(batch.assistant[i]).toEqual([...prompt.map(() => 0), ...response.map(() => 1)])
        expect(batch.status[i]).toBe('ok')
      }
    },
  )

  it('has one row for each turn of each episode, by episode and turn, done at the last turn alone', async () => {
    await fc.assert(
      fc.asyncProperty(episodes, async (turns) => {
        const batch = await rows(turns)
        const expected = turns.flatMap((count, i) =>
          Array.from({ length: count }, (_, t) => [idOf(i), t, t === count - 1]),
        )
        expect(batch.trajectory.map((i, row) => [i, batch.turn[row], batch.done[row] === 1])).toEqual(expected)
      }),
      runs,
    )
  })

  it('goes on in each turn from all tokens of the turn before, as they were sampled', async () => {
    await fc.assert(
      fc.asyncProperty(episodes, async (turns) => {
        const { full, prompts, turn } = await rows(turns)
        for (const [row, t] of turn.entries()) {
          if (t === 0) continue
          const before = full[row - 1]!
          expect(prompts[row]!.length).toBeGreaterThan(before.length)
          expect(prompts[row]!.slice(0, before.length)).toEqual(before)
        }
      }),
      runs,
    )
  })

  it('asks the policy in each turn for the episodes that are not done, and for no others', async () => {
    await fc.assert(
      fc.asyncProperty(episodes, async (turns) => {
        const policy = smallPolicy()
        const { prompts, turn } = await rows(turns, { policy })
        const calls = policy.calls().map(({ state }) => raggedRows(get(state, 'tokens', 'prompt')))
        expect(calls.map((asked) => asked.length)).toEqual(
          Array.from({ length: Math.max(...turns) }, (_, t) => turns.filter((count) => count > t).length),
        )
        for (const [t, asked] of calls.entries()) expect(asked).toEqual(prompts.filter((_, row) => turn[row] === t))
      }),
      runs,
    )
  })

  it('adds up the rewards of an episode over its turns', async () => {
    await fc.assert(
      fc.asyncProperty(episodes, async (turns) => {
        const { returns, rewards, responses } = await rows(turns)
        expect(rewards).toEqual(responses.map((row) => row.length - 1)) // a letter each, and the end of the turn
        let from = 0
        for (const [i, count] of turns.entries()) {
          const own = Array.from({ length: count }, (_, t) => from + t)
          const sum = own.reduce((total, row) => total + rewards[row]!, 0)
          expect(returns[i]).toEqual({ trajectoryId: idOf(i), rows: own, return: sum })
          from += count
        }
      }),
      runs,
    )
  })

  it('keeps the members of a group side by side under one id', async () => {
    const { groups, trajectory } = await rows([1, 2], { repeats: 3 })
    expect(trajectory).toEqual([0, 1, 2, 3, 3, 4, 4, 5, 5].map((element) => idOf(element)))
    expect(groups).toEqual([...Array(3).fill(idOf('0:t0')), ...Array(6).fill(idOf('1:t1'))])
  })
})

describe('identity', () => {
  it('two batches that are joined keep their episodes and groups apart', async () => {
    const collector = collectorOf([2, 1], { repeats: 2 })
    const first = await rightOf(collector.collect(collector.start))
    using one = first.batch
    const again = collectorOf([2, 1], { repeats: 2, key: keyFromSeed(2) }) // another seed, the same problems
    const second = await rightOf(again.collect(again.start))
    using two = second.batch
    const third = await rightOf(collector.collect(first.position))
    using three = third.batch
    const batches = [one.value, two.value, three.value]
    using joined = own(scope(() => concat(batches)))
    expect(trajectoryReturns(joined.value).map((trajectory) => trajectory.return)).toEqual(
      batches.flatMap((batch) => trajectoryReturns(batch).map((trajectory) => trajectory.return)),
    )
    expect(new Set(get(joined.value, 'groupId').items).size).toBe(6)
    expect(get(joined.value, 'next', 'groupId').items.toArray()).toEqual(get(joined.value, 'groupId').items.toArray())
  })

  it('batches whose policies took different times are joined, and the time is the sum of both', async () => {
    const clock = fakeClock()
    const policy = smallPolicy()
    const act: typeof policy.act = (state, key) => async () => {
      clock.advance(6)
      return policy.act(state, key)()
    }
    const collector = collectorOf([3, 1], { clock, policy: { ...policy, act } })
    const { batch, position } = await rightOf(collector.collect(collector.start))
    using one = batch
    using two = (await rightOf(collectorOf([1, 1], { start: position }).collect(position))).batch
    expect(get(one.value, 'generationMs').items.toArray()).toEqual([3, 6, 6, 3])
    using joined = own(scope(() => concat([one.value, two.value])))
    expect(get(joined.value, 'generationMs').items.reduce((a, b) => a + b, 0)).toBe(18)
  })
})

describe('positions', () => {
  it('that are equal give equal batches, whatever was collected before', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(fc.constant(1), { minLength: 1, maxLength: 3 }), fc.nat(3), async (turns, before) => {
        const collector = collectorOf(turns)
        const first = await collectPlain(collector)
        for (let i = 0; i < before; i++) await collectPlain(collector, first.position)
        expect(await collectPlain(collector)).toEqual(first)
        expect(await collectPlain(collectorOf(turns))).toEqual(first)
      }),
      runs,
    )
  })

  it.each([[[1, 1]], [[2, 1]]])(
    'go through JSON, and resuming there equals going on (episodes of %j turns)',
    async (turns) => {
      const going = collectorOf(turns)
      let position = going.start
      for (let n = 0; n < 3; n++) {
        const stored: unknown = JSON.parse(JSON.stringify(position))
        const resumed = collectorOf(turns, { start: stored as CollectorPosition }) // written one line above
        const next = await collectPlain(going, position)
        expect(await collectPlain(resumed)).toEqual(next)
        expect(next.position.batch).toBe(n + 1)
        position = next.position
      }
    },
  )

  it('of different batches have different tasks and draw differently', async () => {
    const env = turnEnv([1, 1, 1, 1], { prompts: 2 })
    const collector = LLMCollector({ env, policy: smallPolicy(), key: keyFromSeed(1) })
    const first = await collectPlain(collector)
    const second = await collectPlain(collector, first.position)
    expect([first.batch.groupId, second.batch.groupId]).toEqual([
      [idOf('0:t0'), idOf('1:t1')],
      [idOf('2:t2', 1), idOf('3:t3', 1)],
    ])
    const again = await collectPlain(collector, { ...first.position, batch: 5 })
    expect(again.batch.groupId).toEqual([idOf('2:t2', 5), idOf('3:t3', 5)])
    expect(again.batch.logProbs).not.toEqual(second.batch.logProbs)
  })

  it('with another key give other samples', async () => {
    const [a, b] = [collectorOf([1, 1]), collectorOf([1, 1], { key: keyFromSeed(2) })]
    expect((await collectPlain(a)).batch.logProbs).not.toEqual((await collectPlain(b)).batch.logProbs)
  })
})

describe('iterating', () => {
  it('gives the batches that collecting one after the other gives, and frees each of them', async () => {
    const collector = collectorOf([1, 1])
    const before = [liveTensors().count, ownedCount()]
    let position = collector.start
    let count = 0
    for await (const batch of collector) {
      const expected = await collectPlain(collector, position)
      expect(toNested(batch)).toEqual(expected.batch)
      position = expected.position
      if (++count === 3) break
    }
    expect([liveTensors().count, ownedCount()]).toEqual(before)
  })

  it('throws the failure of a batch', async () => {
    const iterator = collectorOf([2], { maxTurns: 1 })[Symbol.asyncIterator]()
    await expect(iterator.next()).rejects.toThrow(FailureError)
  })
})

describe('what goes wrong', () => {
  const env = turnEnv([3, 2], { prompts: 2 })
  const policy = smallPolicy()

  const expectNothingKept = async <T>(f: () => Promise<T>): Promise<T> => {
    const before = [liveTensors().count, ownedCount()]
    const result = await f()
    expect([liveTensors().count, ownedCount()], 'alive after the failure').toEqual(before)
    return result
  }

  const failureOf = (changes: Partial<LLMCollectorOptions<TurnState>>) =>
    expectNothingKept(() => {
      const collector = collectorOf([3, 2], { env, ...changes })
      return leftOf(collector.collect(collector.start))
    })

  it.each([1, 2])(
    'an episode that does not end within %d turns is a failure, and frees everything',
    async (maxTurns) => {
      const reason = `an episode did not end within ${maxTurns} turns`
      expect(await failureOf({ maxTurns })).toEqual({ _tag: 'EndlessEpisode', maxTurns, reason })
    },
  )

  it('an episode that ends in its last turn is none', async () => {
    expect((await rows([3, 2], { maxTurns: 3 })).turn).toEqual([0, 1, 2, 0, 1])
  })

  it('a reset that fails is passed on, and frees everything', async () => {
    const failure = envFailure('test', 'no reset')
    expect(await failureOf({ env: withFaults(env, failNth('reset', 0, failure)) })).toBe(failure)
  })

  it.each([0, 1, 2])('step %d that fails is passed on, and frees everything', async (number) => {
    const failure = envFailure('test', 'no step')
    expect(await failureOf({ env: withFaults(env, failNth('step', number, failure)) })).toBe(failure)
  })

  it.each([0, 1, 2])('a policy that fails in turn %d is passed on, and frees everything', async (number) => {
    const failure = { _tag: 'PolicyFailure', policy: 'test', reason: 'no answer' } as const
    expect(await failureOf({ policy: withFaults(policy, failNth('act', number, failure)) })).toBe(failure)
  })

  it('a policy that throws frees everything too', async () => {
    const broken = scriptedPolicy({ answers: [], faults: () => ({ _tag: 'Throw', error: new Error('oh') }) })
    const collector = collectorOf([3, 2], { env, policy: broken })
    await expectNothingKept(() => expect(collector.collect(collector.start)()).rejects.toThrow('oh'))
  })
})
