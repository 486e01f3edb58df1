import fc from 'fast-check'
import * as E from 'fp-ts/lib/Either.js'
import { describe, expect, it } from 'vitest'
import { groupAdvantage } from '../../../src/objectives/advantages/groupAdvantage.js'
import { type GroupMember, type GroupOutcome, groupGatherer } from '../../../src/objectives/advantages/groupGatherer.js'
import { expectClose } from '../../kit/close.js'

const returns = fc.array(fc.double({ min: -10, max: 10, noNaN: true }), { minLength: 1, maxLength: 8 })

const rightOf = <T>(result: E.Either<unknown, T>): T => {
  if (E.isLeft(result)) throw new Error(JSON.stringify(result.left))
  return result.right
}

const spread = (xs: readonly number[]): number => Math.max(...xs) - Math.min(...xs)

describe('groupAdvantage', () => {
  it.each([
    [
      [1, 0, 0, 1],
      [0.8660254, -0.8660254, -0.8660254, 0.8660254],
    ],
    [
      [0.1, 0.1, 1, 0],
      [-0.4264, -0.4264, 1.4924, -0.6396],
    ],
    [
      [0, 1],
      [-Math.SQRT1_2, Math.SQRT1_2],
    ],
    [
      [1, 1],
      [0, 0],
    ],
    [[0.3], [0]],
  ])('%j gives %j, as TorchRL groupGatherer does', (rewards, expected) => {
    expectClose(rightOf(groupAdvantage(rewards)), expected, { absolute: 5e-5 })
  })

  it('is not changed by a shift of the rewards, nor by a positive scale', () => {
    fc.assert(
      fc.property(
        returns,
        fc.double({ min: -5, max: 5, noNaN: true }),
        fc.double({ min: 0.1, max: 9, noNaN: true }),
        (xs, shift, scale) => {
          fc.pre(spread(xs) > 1e-3)
          expectClose(rightOf(groupAdvantage(xs.map((x) => x * scale + shift))), rightOf(groupAdvantage(xs)), {
            absolute: 1e-6,
          })
        },
      ),
    )
  })

  it('has mean 0 and, divided by G - 1, variance 1', () => {
    fc.assert(
      fc.property(returns, (xs) => {
        fc.pre(spread(xs) > 1e-3)
        const advantages = rightOf(groupAdvantage(xs))
        expect(Math.abs(advantages.reduce((a, b) => a + b, 0))).toBeLessThan(1e-9)
        expect(advantages.reduce((sum, a) => sum + a * a, 0) / (xs.length - 1)).toBeCloseTo(1, 9)
      }),
    )
  })

  it('only subtracts the mean when asked (Dr. GRPO)', () => {
    expect(rightOf(groupAdvantage([1, 0, 0, 3], { normalize: 'mean' }))).toEqual([0, -1, -1, 2])
  })

  it('is exactly 0 for equal rewards, whatever their rounding', () => {
    fc.assert(
      fc.property(fc.double({ min: -10, max: 10, noNaN: true }), fc.integer({ min: 1, max: 9 }), (x, size) => {
        expect(rightOf(groupAdvantage(Array(size).fill(x)))).toEqual(Array(size).fill(0))
      }),
    )
  })

  it.each([[[1, Number.NaN]], [[Number.POSITIVE_INFINITY, 0]]])('refuses %j', (xs) => {
    expect(groupAdvantage(xs)).toEqual(E.left({ _tag: 'DegenerateGroup', reason: 'not-finite' }))
  })

  it('refuses an empty group', () => {
    expect(groupAdvantage([])).toEqual(E.left({ _tag: 'DegenerateGroup', reason: 'empty' }))
  })
})

const member = fc.record({
  groupId: fc.constantFrom<string>('a', 'b', 'c', '__proto__'),
  return: fc.oneof(
    { weight: 9, arbitrary: fc.double({ min: -2, max: 2, noNaN: true }) },
    { weight: 1, arbitrary: fc.constant(Number.NaN) },
  ),
  value: fc.nat(),
})

/** Pushes all members, and tells what became of each and what is left. */
const pushAll = (estimator: ReturnType<typeof groupGatherer>, members: readonly GroupMember<number>[]) => {
  let queue = estimator.initial<number>()
  const outcomes: GroupOutcome<number>[] = []
  for (const each of members) {
    const [outcome, next] = estimator.push(queue, each)
    outcomes.push(outcome)
    queue = next
  }
  return { outcomes, queue }
}

describe('groupGatherer', () => {
  it('waits, and then gives out the whole group once, in order of arrival', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 4 }), fc.array(member, { maxLength: 30 }), (groupSize, members) => {
        const { outcomes, queue } = pushAll(groupGatherer({ groupSize }), members)
        const finished = outcomes.flatMap((o) => (o._tag === 'Waiting' ? [] : [...o.members]))
        const waiting = [...queue.values()].flatMap((list) => list.toArray())
        const order = (a: GroupMember<number>, b: GroupMember<number>): number =>
          members.indexOf(a) - members.indexOf(b)
        expect([...finished, ...waiting].sort(order)).toEqual(members)
        for (const outcome of outcomes) {
          if (outcome._tag === 'Waiting') {
            expect(outcome.size).toBeLessThan(groupSize)
            continue
          }
          expect(outcome.members).toHaveLength(groupSize)
          expect(new Set(outcome.members.map((m) => m.groupId))).toEqual(new Set([outcome.groupId]))
          expect([...outcome.members].sort(order)).toEqual(outcome.members)
        }
      }),
    )
  })

  it('gives each group the advantages that it has alone: interleaved groups do not mix', () => {
    fc.assert(
      fc.property(fc.array(member, { maxLength: 30 }), (members) => {
        const { outcomes } = pushAll(groupGatherer({ groupSize: 3 }), members)
        for (const outcome of outcomes) {
          if (outcome._tag === 'Ready') {
            expect(outcome.advantages).toEqual(rightOf(groupAdvantage(outcome.members.map((m) => m.return))))
          }
          if (outcome._tag === 'Dropped') expect(outcome.members.some((m) => Number.isNaN(m.return))).toBe(true)
        }
      }),
    )
  })

  it('keeps a group only if its mean return is strictly between the bounds', () => {
    const tagOf = (...values: readonly number[]): string =>
      pushAll(
        groupGatherer({ groupSize: 2, keepReturnBounds: [0, 1] }),
        values.map((x) => ({ groupId: 'g', return: x, value: 0 })),
      ).outcomes.at(-1)!._tag
    expect(tagOf(0, 1)).toBe('Ready')
    expect(tagOf(0, 0)).toBe('Dropped')
    expect(tagOf(1, 1)).toBe('Dropped')
    expect(tagOf(Number.NaN, 1)).toBe('Dropped')
  })

  it('does not change the queue that it is given', () => {
    const estimator = groupGatherer({ groupSize: 2 })
    const [, one] = estimator.push(estimator.initial<number>(), { groupId: 'g', return: 0, value: 1 })
    estimator.push(one, { groupId: 'g', return: 1, value: 2 })
    expect(one.get('g')?.size).toBe(1)
  })

  it('refuses a group size below 1 and bounds out of order', () => {
    expect(() => groupGatherer({ groupSize: 0 })).toThrow(RangeError)
    expect(() => groupGatherer({ groupSize: 2, keepReturnBounds: [1, 1] })).toThrow(RangeError)
  })
})
