/**
 * Reverse text from a model made in the recipe: reward from under 0.1 to above 0.8 on three seeds.
 */
import { orThrow } from '@tandem-rl/base'
import { describe, expect, it } from 'vitest'
import { loadRecipe } from '../../src/cli/recipeFile.js'
import { trainOptionsOf } from '../../src/run/define/choices.js'
import { parseSettings } from '../../src/run/parts/recipe.js'
import { train } from '../../src/run/train/train.js'
import { useEngine } from '../kit/engine.js'

useEngine({ threads: 1 })

describe('reverseText', () => {
  it.each([1, 2, 3])('seed %i: learns by reward what its model rarely does', async (seed) => {
    const { recipe } = await loadRecipe('reverseText')
    const settings = orThrow(parseSettings(recipe, { seed, keep: { evalEvery: 100 } }))
    const run = await recipe.build(settings, { memory: 'ignore' })
    const rewards: number[] = []
    const options = trainOptionsOf(settings as Parameters<typeof trainOptionsOf>[0]) // the recipe has steps and keep
    for await (const event of train(run, options)) if (event.type === 'step') rewards.push(event.reward ?? Number.NaN)
    const mean = (all: readonly number[]): number => all.reduce((a, b) => a + b, 0) / all.length
    expect(mean(rewards.slice(0, 3))).toBeLessThan(0.1)
    expect(mean(rewards.slice(-10))).toBeGreaterThan(0.8)
  })
})
