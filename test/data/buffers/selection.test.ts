/** Selection of group members and of the next tasks. */
import { readFileSync } from 'node:fs'
import { keyFromSeed } from '@tandem-rl/base'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { curriculum, drawTasks, observe, taskWeight } from '../../../src/data/buffers/curriculum.js'
import {
  type RewardedMember,
  type TopKOutcome,
  TopKRewardSelector,
  type TopKRewardSelectorOptions,
} from '../../../src/data/buffers/topKRewardSelector.js'

interface TopKCase {
  readonly rewards: readonly number[]
  readonly k: number
  readonly kept: readonly number[]
}

const { topK } = JSON.parse(readFileSync('test/golden/buffers.json', 'utf8')) as {
  readonly topK: readonly TopKCase[]
} // written by the generator beside it

/** All outcomes of members that come one after the other. */
const pushAll = (options: TopKRewardSelectorOptions, members: readonly RewardedMember<number>[]) => {
  const selector = TopKRewardSelector(options)
  return members.reduce(
    ({ outcomes, queue }, member) => {
      const [outcome, next] = selector.push(queue, member)
      return { outcomes: [...outcomes, outcome], queue: next }
    },
    { outcomes: [] as readonly TopKOutcome<number>[], queue: selector.initial<number>() },
  )
}

const membersOf = (rewards: readonly number[], groupId = 'g'): readonly RewardedMember<number>[] =>
  rewards.map((reward, value) => ({ groupId, reward, value }))

describe('TopKRewardSelector', () => {
  it.each(topK)('keeps of $rewards what TorchRL keeps, best first: $kept', ({ rewards, k, kept }) => {
    const last = pushAll({ groupSize: rewards.length, topK: k }, membersOf(rewards)).outcomes.at(-1)!
    expect(last._tag === 'Selected' ? last.members.map(({ value }) => value) : []).toEqual(kept)
  })

  it('forgets a group when it is complete: the next trajectory begins another', () => {
    const { outcomes, queue } = pushAll({ groupSize: 2, topK: 1 }, membersOf([0, 1, 5]))
    expect(outcomes.map(({ _tag }) => _tag)).toEqual(['Waiting', 'Selected', 'Waiting'])
    expect(
      queue
        .get('g')!
        .map(({ reward }) => reward)
        .toArray(),
    ).toEqual([5])
  })

  it('drops a group with a reward that is no number', () => {
    expect(pushAll({ groupSize: 2, topK: 1 }, membersOf([Number.NaN, 1])).outcomes.at(-1)).toMatchObject({
      _tag: 'Dropped',
      reason: 'not-finite',
    })
  })

  it('law: every trajectory is in the queue or in the group that it completed; at most k are kept, best first', () => {
    const member = fc.record({
      groupId: fc.constantFrom('a', 'b', 'c'),
      reward: fc.integer({ min: -3, max: 3 }),
      value: fc.nat(),
    })
    fc.assert(
      fc.property(
        fc.array(member, { maxLength: 30 }),
        fc.integer({ min: 1, max: 5 }),
        fc.nat(4),
        (members, groupSize, k) => {
          const topKSize = 1 + (k % groupSize)
          const { outcomes, queue } = pushAll({ groupSize, topK: topKSize }, members)
          const ended = outcomes.filter(({ _tag }) => _tag !== 'Waiting')
          expect(ended.length * groupSize + queue.valueSeq().reduce((sum, each) => sum + each.size, 0)).toBe(
            members.length,
          )
          for (const outcome of outcomes) {
            if (outcome._tag !== 'Selected') continue
            const rewards = outcome.members.map(({ reward }) => reward)
            expect(rewards.length).toBeLessThanOrEqual(topKSize)
            expect(rewards).toEqual([...rewards].sort((a, b) => b - a))
          }
        },
      ),
    )
  })

  it('refuses numbers that cannot be, all at once', () => {
    expect(() => TopKRewardSelector({ groupSize: 0, topK: 0 })).toThrow(
      new RangeError(
        'TopKRewardSelector: groupSize must be a natural number, got 0; topK must be a natural number from 1 to groupSize, got 0',
      ),
    )
    expect(() => TopKRewardSelector({ groupSize: 2, topK: 3 })).toThrow('got 3')
  })
})

describe('a curriculum', () => {
  const results = fc.array(fc.double({ min: 0, max: 1, noNaN: true }), { minLength: 1, maxLength: 12 })
  const after = (successes: readonly number[], rate = 0.3) =>
    successes.reduce((state, success) => observe(state, 'a', success), curriculum({ rate }))

  it('law: the success of a task is the mean of its results with weights (1 - rate)^age', () => {
    fc.assert(
      fc.property(results, fc.double({ min: 0.01, max: 1, noNaN: true }), (successes, rate) => {
        const weights = successes.map((_, i) => (1 - rate) ** (successes.length - 1 - i))
        const total = weights.reduce((sum, w) => sum + w, 0)
        const mean = successes.reduce((sum, success, i) => sum + success * weights[i]!, 0) / total
        expect(after(successes, rate).tasks.get('a')!.success).toBeCloseTo(mean, 9)
      }),
    )
  })

  it('wants tasks of middling success most, and those never tried as much', () => {
    const weights = [0, 0.1, 0.5, 0.9, 1].map((success) => taskWeight(observe(curriculum(), 'a', success), 'a'))
    expect(weights).toEqual([0.05, expect.closeTo(0.36, 12), 1, expect.closeTo(0.36, 12), 0.05])
    expect(taskWeight(curriculum(), 'new')).toBe(1)
  })

  it('law: draws are different tasks of the list, as many as asked for, and a solved task is drawn less', () => {
    const names = ['a', 'b', 'c', 'd', 'e']
    fc.assert(
      fc.property(fc.nat({ max: 5 }), fc.nat(), (count, seed) => {
        const drawn = drawTasks(curriculum(), names, { count, key: keyFromSeed(seed) })
        expect(new Set(drawn).size).toBe(count)
        expect(drawn.every((name) => names.includes(name))).toBe(true)
      }),
    )
    const solved = observe(curriculum({ floor: 0.25 }), 'a', 1)
    const first = Array.from(
      { length: 4000 },
      (_, seed) => drawTasks(solved, ['a', 'b', 'c'], { count: 1, key: keyFromSeed(seed) })[0],
    )
    const share = first.filter((name) => name === 'a').length / first.length
    expect(Math.abs(share - 0.25 / 2.25)).toBeLessThan(0.02) // four standard deviations, on fixed seeds
  })

  it('draws a task of weight 0 only when no others are left', () => {
    const never = observe(curriculum({ floor: 0 }), 'a', 0)
    for (let seed = 0; seed < 50; seed++)
      expect(drawTasks(never, ['a', 'b', 'c'], { count: 3, key: keyFromSeed(seed) }).at(-1)).toBe('a')
  })

  it('refuses what cannot be', () => {
    expect(() => curriculum({ rate: 0, floor: 2 })).toThrow(
      new RangeError('curriculum: rate must be above 0 and at most 1, got 0; floor must be from 0 to 1, got 2'),
    )
    expect(() => observe(curriculum(), 'a', Number.NaN)).toThrow('success must be from 0 to 1, got NaN')
    expect(() => drawTasks(curriculum(), ['a'], { count: 2, key: keyFromSeed(0) })).toThrow('up to 1, got 2')
  })
})
