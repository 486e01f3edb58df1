/** Choices of samplers, compared with TorchRL's numbers and by laws. */
import { readFileSync } from 'node:fs'
import { keyFromSeed } from '@tandem-rl/base'
import fc from 'fast-check'
import * as E from 'fp-ts/lib/Either.js'
import { describe, expect, it } from 'vitest'
import { PrioritizedSampler } from '../../../src/data/buffers/prioritizedSampler.js'
import { type GroupStrategy, PromptGroupSampler } from '../../../src/data/buffers/promptGroupSampler.js'
import { RandomSampler, SamplerWithoutReplacement, type StoredRows } from '../../../src/data/buffers/sampler.js'
import { setWeight, slotAt, sumTree, weightsOf } from '../../../src/data/buffers/sumTree.js'
import { data, ragged } from '../../../src/data/tensorDict/leaf.js'
import { TensorDict } from '../../../src/data/tensorDict/tensorDict.js'

interface Golden {
  readonly prioritized: readonly {
    readonly alpha: number
    readonly beta: number
    readonly rounds: readonly {
      readonly wrote: number
      readonly slots: readonly number[]
      readonly priorities: readonly number[]
      readonly stored: readonly number[]
      readonly weights: readonly number[]
    }[]
  }[]
  readonly groupChoice: readonly {
    readonly rewards: readonly number[]
    readonly k: number
    readonly reward: readonly number[]
    readonly variance: readonly number[]
  }[]
}

const golden = JSON.parse(readFileSync('test/golden/buffers.json', 'utf8')) as Golden // written by the generator beside it

const upTo = (n: number): readonly number[] => Array.from({ length: n }, (_, i) => i)
const key = keyFromSeed(3)

/** Rows of groups with rewards, in the order in which they were written. */
const storedOf = (rows: readonly (readonly [group: string, reward: number])[]): StoredRows => ({
  rows: rows.map(([groupId, reward]) =>
    TensorDict({ groupId: data([groupId]), next: { reward: data([reward]) } }, [1]),
  ),
  writes: upTo(rows.length),
})

const plainRows = (count: number): StoredRows => storedOf(upTo(count).map((i) => ['g', i]))

describe('a tree of sums', () => {
  const weights = fc.array(fc.double({ min: 0, max: 8, noNaN: true }), { minLength: 1, maxLength: 90 })

  it('law: new weights give the tree of the new weights, bit for bit', () => {
    const updates = fc.array(fc.tuple(fc.nat(), fc.double({ min: 0, max: 8, noNaN: true })), { maxLength: 20 })
    fc.assert(
      fc.property(weights, updates, (start, changes) => {
        const placed = changes.map(([at, weight]) => [at % start.length, weight] as const)
        const tree = placed.reduce((next, [slot, weight]) => setWeight(next, slot, weight), sumTree(start))
        const list = placed.reduce<readonly number[]>((next, [slot, weight]) => next.with(slot, weight), start)
        expect(tree).toEqual(sumTree(list))
        expect(weightsOf(tree)).toEqual(list)
        expect(tree.min).toBe(Math.min(...list))
      }),
    )
  })

  it('law: a mass falls into the slot of a list of sums, and never into one of weight 0', () => {
    const whole = fc.array(fc.nat({ max: 5 }), { minLength: 1, maxLength: 1200 })
    fc.assert(
      fc.property(whole, fc.double({ min: 0, max: 1, noNaN: true, maxExcluded: true }), (list, share) => {
        const tree = sumTree(list)
        fc.pre(tree.sum > 0)
        const mass = share * tree.sum
        let before = 0
        const expected = list.findIndex((weight) => {
          before += weight
          return mass < before
        })
        expect(slotAt(tree, mass)).toBe(expected)
        expect(list[slotAt(tree, tree.sum)]).toBeGreaterThan(0)
      }),
    )
  })
})

describe('PrioritizedSampler', () => {
  it.each(golden.prioritized)('has the weights of TorchRL: alpha $alpha, beta $beta', ({ alpha, beta, rounds }) => {
    const sampler = PrioritizedSampler({ alpha, beta })
    let state = sampler.initial
    let written = 0
    for (const { wrote, slots, priorities, stored, weights } of rounds) {
      const at = upTo(wrote).map((i) => (written + i) % 8)
      written += wrote
      const rows = plainRows(Math.min(8, written))
      state = sampler.updatePriority(sampler.written(state, at, rows), { slots, priorities })
      for (const [slot, weight] of weightsOf(state.tree).entries()) expect(weight).toBeCloseTo(stored[slot]!, 7) // new rows: in float32, 1 + 1e-8 is 1
      const [drawn] = sampler.draw(state, rows, { count: 300, key })
      for (const [i, slot] of drawn.slots.entries()) expect(drawn.weights![i]).toBeCloseTo(weights[slot]!, 7)
    }
  })

  it('draws each row in proportion to its share', () => {
    const sampler = PrioritizedSampler({ alpha: 1, beta: 1 })
    const rows = plainRows(4)
    const state = sampler.updatePriority(sampler.written(sampler.initial, upTo(4), rows), {
      slots: upTo(4),
      priorities: [1, 2, 3, 4],
    })
    const [{ slots }] = sampler.draw(state, rows, { count: 10_000, key })
    for (const slot of upTo(4)) {
      const share = slots.filter((each) => each === slot).length / slots.length
      expect(Math.abs(share - (slot + 1) / 10)).toBeLessThan(0.02) // four standard deviations, on a fixed key
    }
  })

  it('stratified, draws once from each equal share of the whole', () => {
    const sampler = PrioritizedSampler({ alpha: 1, beta: 0, draws: 'stratified' })
    const rows = plainRows(10)
    const state = sampler.written(sampler.initial, upTo(10), rows)
    for (let seed = 0; seed < 20; seed++)
      expect(sampler.draw(state, rows, { count: 10, key: keyFromSeed(seed) })[0].slots).toEqual(upTo(10))
  })

  it('law: importance weights are at most 1, and 1 for the row that is drawn least', () => {
    const priorities = fc.array(fc.double({ min: 0.001, max: 100, noNaN: true }), { minLength: 1, maxLength: 40 })
    const exponent = fc.double({ min: 0, max: 1, noNaN: true })
    fc.assert(
      fc.property(priorities, exponent, exponent, (list, alpha, beta) => {
        const sampler = PrioritizedSampler({ alpha, beta })
        const rows = plainRows(list.length)
        const slots = upTo(list.length)
        const state = sampler.updatePriority(sampler.written(sampler.initial, slots, rows), { slots, priorities: list })
        const [drawn] = sampler.draw(state, rows, { count: 30, key })
        const least = Math.min(...list)
        for (const [i, slot] of drawn.slots.entries()) {
          expect(drawn.weights![i]!).toBeLessThanOrEqual(1)
          if (list[slot] === least) expect(drawn.weights![i]).toBe(1)
        }
      }),
    )
  })

  it('refuses settings, updates and states that cannot be, all problems at once', () => {
    expect(() => PrioritizedSampler({ alpha: -1, beta: Number.NaN, epsilon: 0 })).toThrow(
      new RangeError(
        'PrioritizedSampler: alpha must be a number from 0, got -1; beta must be a number from 0, got NaN; epsilon must be a number above 0, got 0',
      ),
    )
    const sampler = PrioritizedSampler({ alpha: 1, beta: 1 })
    const state = sampler.written(sampler.initial, [0], plainRows(1))
    expect(() => sampler.updatePriority(state, { slots: [1], priorities: [-1, 2] })).toThrow(
      new RangeError(
        'updatePriority: 1 slots but 2 priorities; slot 1 has no row, there are 1; priority -1 must be a number from 0',
      ),
    )
    expect(() =>
      PrioritizedSampler({ alpha: 1, beta: 1 }).draw(sampler.initial, plainRows(1), { count: 1, key }),
    ).toThrow('have no shares')
    for (const plain of [null, {}, { weights: [-1], maxPriority: 1 }, { weights: [1], maxPriority: Number.NaN }])
      expect(E.isLeft(sampler.fromPlain(plain, 1))).toBe(true)
  })
})

describe('uniform samplers', () => {
  it('law: RandomSampler draws slots that there are', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 20 }), fc.integer({ min: 1, max: 40 }), fc.nat(), (size, count, seed) => {
        const [{ slots }] = RandomSampler().draw(null, plainRows(size), { count, key: keyFromSeed(seed) })
        expect(slots).toHaveLength(count)
        expect(slots.every((slot) => slot >= 0 && slot < size)).toBe(true)
      }),
    )
  })

  it('law: without replacement, a pass has each row once, whatever the sizes of the samples', () => {
    const sizes = fc.array(fc.integer({ min: 1, max: 7 }), { minLength: 1, maxLength: 30 })
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 12 }), sizes, (size, counts) => {
        const sampler = SamplerWithoutReplacement()
        const rows = plainRows(size)
        const { all } = counts.reduce(
          ({ state, all: before }, count, i) => {
            const [{ slots }, next] = sampler.draw(state, rows, { count, key: keyFromSeed(i) })
            return { state: next, all: [...before, ...slots] }
          },
          { state: sampler.written(sampler.initial, upTo(size), rows), all: [] as readonly number[] },
        )
        for (let start = 0; start + size <= all.length; start += size)
          expect(new Set(all.slice(start, start + size)).size).toBe(size)
      }),
    )
  })

  it('without replacement, what is written during a pass joins it, and a rest can be left out', () => {
    const sampler = SamplerWithoutReplacement({ last: 'drop' })
    const rows = plainRows(3)
    const [{ slots: two }, state] = sampler.draw(sampler.written(sampler.initial, [0, 1, 2], rows), rows, {
      count: 2,
      key,
    })
    const again = sampler.written(state, [two[0]!], rows)
    expect(again.left).toEqual([...new Set([...upTo(3).filter((slot) => !two.includes(slot)), two[0]!])].sort())
    expect(sampler.draw(state, rows, { count: 2, key })[1].left).toHaveLength(1)
    expect(sampler.fromPlain([0, 2], 3)).toEqual(E.right({ left: [0, 2] }))
    for (const plain of [[2, 0], [3], [0.5], 'x']) expect(E.isLeft(sampler.fromPlain(plain, 3))).toBe(true)
    expect(E.isLeft(RandomSampler().fromPlain([], 1))).toBe(true)
  })
})

describe('PromptGroupSampler', () => {
  it.each(golden.groupChoice)('chooses of $rewards the $k rows that TorchRL chooses', ({ rewards, k, ...chosen }) => {
    const rows = storedOf(rewards.map((reward) => ['g', reward]))
    for (const strategy of ['reward', 'variance'] as const) {
      const sampler = PromptGroupSampler({ shape: { groups: 1 }, strategy })
      const [{ slots, repeated }] = sampler.draw(null, rows, { count: k, key })
      expect([...slots].sort((a, b) => a - b)).toEqual(chosen[strategy])
      expect(repeated).toBe(0)
    }
  })

  it('by recency takes the rows that were written last', () => {
    const rows = { ...storedOf(upTo(4).map((i) => ['g', i])), writes: [8, 9, 6, 7] }
    const sampler = PromptGroupSampler({ shape: { rows: 2 }, strategy: 'recency' })
    expect(sampler.draw(null, rows, { count: 2, key })[0].slots).toEqual([0, 1])
  })

  it('law: a sample has the asked number of groups, and of rows of each; what is repeated is counted', () => {
    const groups = fc.array(fc.tuple(fc.constantFrom('a', 'b', 'c', 'd'), fc.integer({ min: 0, max: 3 })), {
      minLength: 1,
      maxLength: 20,
    })
    const strategies = fc.constantFrom<GroupStrategy>('random', 'recency', 'reward', 'variance')
    fc.assert(
      fc.property(
        groups,
        strategies,
        fc.integer({ min: 1, max: 4 }),
        fc.integer({ min: 1, max: 4 }),
        (rows, strategy, many, each) => {
          const sampler = PromptGroupSampler({ shape: { rows: each }, strategy })
          const [{ slots, repeated }] = sampler.draw(null, storedOf(rows), { count: many * each, key })
          expect(slots).toHaveLength(many * each)
          const names = upTo(many).map((g) => slots.slice(g * each, (g + 1) * each).map((slot) => rows[slot]![0]))
          for (const group of names) expect(new Set(group).size).toBe(1)
          const known = new Set(rows.map(([name]) => name)).size
          expect(new Set(names.map(([name]) => name)).size).toBe(Math.min(many, known))
          const enough = rows.filter(([name]) => names.some(([other]) => other === name)).length
          if (many <= known && each === 1) expect(repeated).toBe(0)
          expect(repeated).toBeGreaterThanOrEqual(many * each - enough)
        },
      ),
    )
  })

  it('reads ragged rewards by their mean, and refuses what has none, or no group', () => {
    const rows = {
      rows: [[0, 0, 6], [1], [5, 0]].map((rewards) =>
        TensorDict({ group: data([7]), reward: ragged('float32', [rewards]) }, [1]),
      ),
      writes: [0, 1, 2],
    }
    const options = { shape: { groups: 1 }, strategy: 'reward', groupKey: 'group' } as const
    const [{ slots }] = PromptGroupSampler({ ...options, rewardKey: 'reward' }).draw(null, rows, { count: 1, key })
    expect(slots).toEqual([2])
    expect(() => PromptGroupSampler(options).draw(null, rows, { count: 1, key })).toThrow(
      'next,reward must be a tensor',
    )
    expect(() => PromptGroupSampler({ shape: { rows: 1 } }).draw(null, rows, { count: 1, key })).toThrow(
      'groupId must be data',
    )
    expect(() => PromptGroupSampler({ shape: { rows: 0 } })).toThrow('shape must be at least 1, got 0')
    expect(() => PromptGroupSampler({ shape: { rows: 2 } }).draw(null, rows, { count: 3, key })).toThrow(
      '3 rows cannot be cut by 2',
    )
  })
})
