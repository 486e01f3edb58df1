import { keyFromSeed } from '@tandem-rl/base'
import fc from 'fast-check'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { describe, expect, it } from 'vitest'
import { dynamicSampling, type SampledGroup, samplingDecision } from '../../src/collectors/dynamicSampling.js'
import { type CollectorFailure, LLMCollector } from '../../src/collectors/llmCollector.js'
import { type CollectedBatch, trajectoryReturns } from '../../src/collectors/rollouts/turnRows.js'
import type { TokenAction } from '../../src/data/policy.js'
import { get } from '../../src/data/tensorDict/tensorDict.js'
import { MCAdvantage } from '../../src/objectives/advantages/mcAdvantage.js'
import { useEngine } from '../kit/engine.js'
import { leftOf, rightOf } from '../kit/results.js'
import { givenId } from '../kit/rollouts.js'
import { smallPolicy, type TurnState, turnEnv } from '../kit/small.js'

useEngine()

const SAME = [1, 1]
const MIXED = [0, 1]

/** Rounds of groups with names of their own. */
const named = (rounds: readonly (readonly (readonly number[])[])[]): readonly (readonly SampledGroup[])[] =>
  rounds.map((groups, round) => groups.map((returns, i) => ({ groupId: `${round}.${i}`, returns })))

const sampled = fc
  .array(
    fc.array(fc.array(fc.integer({ min: 0, max: 1 }), { minLength: 2, maxLength: 3 }), { minLength: 3, maxLength: 3 }),
    {
      minLength: 1,
      maxLength: 4,
    },
  )
  .map(named)

const isMixed = ({ returns }: SampledGroup): boolean => new Set(returns).size > 1

describe('samplingDecision', () => {
  it('takes a batch of groups in the order of sampling, the first with a signal and no others while there are enough', () => {
    fc.assert(
      fc.property(sampled, fc.integer({ min: 1, max: 4 }), (rounds, limit) => {
        const all = rounds.flat()
        const good = all.filter(isMixed)
        const decision = samplingDecision(rounds, { groups: 3, rounds: limit })
        if (good.length < 3 && rounds.length < limit) {
          expect(decision).toEqual({ _tag: 'SampleAgain', missing: 3 - good.length })
          return
        }
        if (decision._tag !== 'Take') throw new Error('there is enough')
        const ids = all.map(({ groupId }) => groupId)
        expect(decision.groups).toHaveLength(3)
        expect(decision.groups).toEqual(ids.filter((id) => decision.groups.includes(id)))
        for (const { groupId } of good.slice(0, 3)) expect(decision.groups).toContain(groupId)
        expect(decision.withoutSignal).toBe(all.length - good.length)
        expect(decision.unused).toBe(Math.max(0, good.length - 3))
      }),
    )
  })

  it.each([
    ['a return that is not finite', [0, Number.NaN]],
    ['one member', [1]],
    ['equal returns', [0.5, 0.5]],
    ['a mean at a bound', [-1, 1]],
    ['a mean beyond a bound', [2, 3]],
  ])('counts a group with %s as one without a signal', (_, returns) => {
    const rule = { groups: 1, rounds: 2, keepReturnBounds: [0, 2] } as const
    expect(samplingDecision(named([[returns]]), rule)).toEqual({ _tag: 'SampleAgain', missing: 1 })
    expect(samplingDecision(named([[returns], [MIXED]]), rule)).toEqual({
      ...{ _tag: 'Take', groups: ['1.0'], withoutSignal: 1, unused: 0 },
    })
  })

  it('fills a batch after the last round with the first groups without a signal', () => {
    const rounds = named([
      [SAME, SAME],
      [SAME, MIXED],
    ])
    expect(samplingDecision(rounds, { groups: 2, rounds: 2 })).toEqual({
      ...{ _tag: 'Take', groups: ['0.0', '1.1'], withoutSignal: 3, unused: 0 },
    })
  })

  it.each([
    [{ groups: 0, rounds: 1 }, 'groups must be at least 1, got 0'],
    [{ groups: 1, rounds: 0.5 }, 'rounds must be at least 1, got 0.5'],
    [
      { groups: 0, rounds: 0, keepReturnBounds: [1, 1] as const },
      'got 0; rounds must be at least 1, got 0; keepReturn',
    ],
  ])('%j is refused with all reasons', (rule, reason) => {
    expect(() => samplingDecision([], rule)).toThrow(reason)
    expect(() =>
      dynamicSampling<TurnState, TokenAction>({ collect: () => TE.left({} as CollectorFailure) }, rule),
    ).toThrow(RangeError)
  })
})

/** Conversations of one to three turns; the reward is what was written. */
const collectorOf = () =>
  LLMCollector({
    env: turnEnv([1, 2, 3, 1], { prompts: 2, repeats: 2 }),
    policy: smallPolicy(),
    key: keyFromSeed(4),
  })

/** Groups whose drawing is even have a signal: members earn different amounts. */
const evenDrawings = (batch: CollectedBatch<TurnState>): readonly number[] => {
  const seen = new Map<string, number>()
  const places = trajectoryReturns(batch).map(({ rows }) => rows[0]!)
  return get(batch, 'groupId')
    .items.toArray()
    .map((id, row) => {
      if (!places.includes(row)) return 0
      const member = seen.get(id) ?? 0
      seen.set(id, member + 1)
      return Number.parseInt(givenId(id), 10) % 2 === 0 ? member : 0
    })
}

const groupsOf = (batch: CollectedBatch<TurnState>): readonly string[] => [...new Set(get(batch, 'groupId').items)]

describe('dynamicSampling', () => {
  it('joins groups with a signal from several rounds; every trajectory and its turns are as they were', async () => {
    const collector = collectorOf()
    const collect = dynamicSampling(collector, { groups: 2, rounds: 5, signal: evenDrawings })
    const { batch, position, sampling } = await rightOf(collect(collector.start))
    using owned = batch
    const td = owned.value
    expect(groupsOf(td).map(givenId)).toEqual(['0:t0', '2:t2'])
    expect(position.batch).toBe(2)
    const first = await rightOf(collector.collect(collector.start))
    using one = first.batch
    const second = await rightOf(collector.collect(first.position))
    using two = second.batch
    expect(position).toEqual(second.position)
    const returns = [one.value, two.value].flatMap((each) =>
      trajectoryReturns(each).map(({ rows, ...rest }) => ({
        ...{ return: rest.return, turns: rows.length, group: get(each, 'groupId').items.get(rows[0]!)! },
      })),
    )
    expect(
      trajectoryReturns(td).map(({ rows, ...rest }) => ({
        ...{ return: rest.return, turns: rows.length, group: get(td, 'groupId').items.get(rows[0]!)! },
      })),
    ).toEqual(returns.filter(({ group }) => /^[02]:/.test(givenId(group))))
    expect(sampling).toMatchObject({ rounds: 2, groups: 4, withoutSignal: 2, unused: 0 })
    const total = returns.reduce((sum, each) => sum + each.return, 0)
    expect(sampling.reward).toBeCloseTo(total / returns.length, 6)
    expect(new Set(get(MCAdvantage({ groupSize: 2 })(td), 'groupId').items).size).toBe(2)
  })

  it('gives out the batch of the collector where nothing is sampled again', async () => {
    const collector = collectorOf()
    const plain = await rightOf(collector.collect(collector.start))
    using expected = plain.batch
    const once = dynamicSampling(collector, { groups: 2, rounds: 1, signal: () => Array<number>(99).fill(0) })
    const { batch, position, sampling } = await rightOf(once(collector.start))
    using owned = batch
    expect(position).toEqual(plain.position)
    expect(trajectoryReturns(owned.value)).toEqual(trajectoryReturns(expected.value))
    expect(sampling).toMatchObject({ rounds: 1, groups: 2, withoutSignal: 2 })
  })

  it('gives equal batches at equal positions', async () => {
    const collector = collectorOf()
    const collect = dynamicSampling(collector, { groups: 2, rounds: 3, signal: evenDrawings })
    const read = async () => {
      const { batch, sampling } = await rightOf(collect({ ...collector.start, batch: 3 }))
      using owned = batch
      return [trajectoryReturns(owned.value), groupsOf(owned.value), sampling]
    }
    expect(await read()).toEqual(await read())
  })

  it('ends with the failure of a later round, and leaves nothing behind', async () => {
    const collector = collectorOf()
    const failure: CollectorFailure = { _tag: 'EndlessEpisode', maxTurns: 1, reason: 'no end' }
    const breaking: Pick<typeof collector, 'collect'> = {
      collect: (position) => (position.batch === 0 ? collector.collect(position) : TE.left(failure)),
    }
    const collect = dynamicSampling(breaking, { groups: 2, rounds: 3, signal: evenDrawings })
    expect(await leftOf(collect(collector.start))).toBe(failure)
  })
})
