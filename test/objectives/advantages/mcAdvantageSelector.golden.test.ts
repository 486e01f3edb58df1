import { readFileSync } from 'node:fs'
import { type RatedTurn, ratedBatch } from '@tandem-rl/testing'
import { scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { exclude } from '../../../src/data/tensorDict/edit.js'
import { raggedRows } from '../../../src/data/tensorDict/leaf.js'
import { get } from '../../../src/data/tensorDict/tensorDict.js'
import { MCAdvantage, type MCAdvantageOptions } from '../../../src/objectives/advantages/mcAdvantage.js'
import {
  MCAdvantageSelector,
  type MCAdvantageSelectorOptions,
} from '../../../src/objectives/advantages/mcAdvantageSelector.js'
import { expectClose } from '../../kit/close.js'
import { useEngine } from '../../kit/engine.js'

useEngine()

interface Selection {
  readonly returns: readonly number[]
  readonly size: number
  readonly strategy: NonNullable<MCAdvantageSelectorOptions['strategy']>
  readonly bounds: readonly [number, number] | null
  readonly limit: number
  readonly selected: readonly number[] | null
}

const golden = JSON.parse(readFileSync('test/golden/torchrlSelection.json', 'utf8')) as {
  readonly selections: readonly Selection[]
  readonly turns: readonly (readonly number[])[]
  readonly advantages: Readonly<Record<'sum' | 'max' | 'mean', readonly number[]>>
} // by its generator

/** Turns of one group with these rewards, one list for each trajectory. */
const turnsOf = (rewards: readonly (readonly number[])[]): readonly RatedTurn[] =>
  rewards.flatMap((own, i) =>
    own.map((reward, turn) => ({
      ...{ trajectoryId: `k:${i}`, turn, groupId: 'k:g', reward, mask: [1, 1], numbers: [0, 0] },
    })),
  )

const advantagesOf = (options: MCAdvantageOptions, rewards: readonly (readonly number[])[]) =>
  scope(() => {
    const batch = ratedBatch(turnsOf(rewards))
    const result = MCAdvantage(options)(batch)
    return { ids: get(result, 'trajectoryId').items.toArray(), rows: raggedRows(get(result, 'advantage')) }
  })

describe('MCAdvantageSelector', () => {
  it('selects what that of TorchRL selects', () => {
    for (const { returns, size, strategy, bounds, limit, selected } of golden.selections) {
      const rule = { groupSize: size, ...(bounds !== null && { keepReturnBounds: bounds }) }
      const found = MCAdvantageSelector({ strategy, maxCombinations: limit }).select(returns, rule)
      expect([returns, strategy, bounds, found ?? null]).toEqual([returns, strategy, bounds, selected])
    }
  })

  it('selects distinct trajectories with a mean within the bounds, if there are any', () => {
    const law = fc.property(
      fc.array(fc.integer({ min: -3, max: 3 }), { minLength: 2, maxLength: 8 }),
      fc.integer({ min: 1, max: 4 }),
      fc.constantFrom<NonNullable<MCAdvantageSelectorOptions['strategy']>>('first', 'uniform', 'balanced'),
      fc.constantFrom(1, 100_000),
      (returns, size, strategy, maxCombinations) => {
        fc.pre(size <= returns.length)
        const select = (of: MCAdvantageSelectorOptions) =>
          MCAdvantageSelector(of).select(returns, { groupSize: size, keepReturnBounds: [-1, 1] })
        const found = select({ strategy, maxCombinations })
        if (found === undefined) return
        expect(new Set(found).size).toBe(size)
        const mean = found.reduce((sum, i) => sum + returns[i]!, 0) / size
        expect(mean > -1 && mean < 1).toBe(true)
        expect(select({})).toBeDefined()
      },
    )
    fc.assert(law)
  })

  it('refuses options and calls that select nothing', () => {
    expect(() => MCAdvantageSelector({ maxCombinations: 0 })).toThrow('maxCombinations must be at least 1, got 0')
    expect(() => MCAdvantageSelector().select([1], { groupSize: 2 })).toThrow('needs at least 2 returns, got 1')
  })
})

describe('MCAdvantage with other returns and candidates', () => {
  it.each(['sum', 'max', 'mean'] as const)('compares trajectories by the %s of the rewards of their turns', (kind) => {
    const { rows } = advantagesOf({ groupSize: 3, trajectoryReturn: kind }, golden.turns)
    const expected = golden.advantages[kind].flatMap((advantage) => [advantage, advantage])
    expectClose(rows.flat(), expected, { absolute: 1e-6 })
  })

  it('learns from selected trajectories only, and drops a group without a selection', () => {
    const options = { groupSize: 2, candidateGroupSize: 4, keepReturnBounds: [0.1, 0.9], normalize: 'mean' } as const
    expect(advantagesOf(options, [[0], [0], [0], [1]])).toEqual({
      ids: ['k:0', 'k:3'],
      rows: [
        [-0.5, -0.5],
        [0.5, 0.5],
      ],
    })
    expect(advantagesOf(options, [[0], [0], [0], [0]]).ids).toEqual([])
    expect(advantagesOf(options, [[0], [1], [0], [1]]).ids).toEqual(['k:0', 'k:1']) // the first two suffice
    const late = {
      ...options,
      candidateSelectionMinSize: 4,
      candidateSelector: MCAdvantageSelector({ strategy: 'uniform' }),
    }
    expect(advantagesOf(late, [[0], [1], [0], [1]]).ids).toEqual(['k:0', 'k:3'])
    const advantage = MCAdvantage(late)
    expect([advantage.groupSize, advantage.description]).toMatchObject([
      4,
      { candidateSelector: 'uniform', groupSize: 2 },
    ])
    expect(() => advantagesOf(options, [[0], [1]])).toThrow('has 2 trajectories in the batch, not 4')
  })

  it.each([
    [{ candidateGroupSize: 1 }, 'candidateGroupSize must be a whole number of at least groupSize, got 1 and 2'],
    [{ candidateSelectionMinSize: 3 }, 'candidateSelectionMinSize must be from groupSize to candidateGroupSize, got 3'],
    [{ trajectoryReturn: 'min' }, "trajectoryReturn must be 'sum' or 'max' or 'mean'"],
  ])('refuses %j', (options, reason) => {
    expect(() => MCAdvantage({ groupSize: 2, ...(options as object) })).toThrow(reason)
  })

  it('needs no tokens: in a batch of conversations, a turn has one advantage', () => {
    scope(() => {
      const whole = ratedBatch(turnsOf([[1, 1], [0]]))
      const conversations = exclude(whole, 'tokens', 'masks', 'logProbs', 'oldLogProbs', 'values')
      const result = MCAdvantage({ groupSize: 2, normalize: 'mean' })(conversations)
      expect(raggedRows(get(result, 'advantage'))).toEqual([[1], [1], [-1]])
    })
  })
})
