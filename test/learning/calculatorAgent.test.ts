/** The recipe of agents: a tiny model that guesses learns to call a calculator, in two styles of agent. */
import { describe, expect, it } from 'vitest'
import { loadRecipe } from '../../src/cli/recipeFile.js'
import { orThrow } from '../../src/core/failure.js'
import { trainOptionsOf } from '../../src/run/choices.js'
import { parseSettings } from '../../src/run/recipe.js'
import { train } from '../../src/run/train.js'
import { useEngine } from '../kit/engine.js'

useEngine({ threads: 1 })

const STEPS = 8

interface Measured {
  readonly recipe: string
  readonly seed: number
  readonly settings?: Readonly<Record<string, unknown>>
}

/** Trains a recipe, and returns the share of held-out tasks that succeed before and after. */
const heldOutOf = async ({ recipe: name, seed, settings: given = {} }: Measured): Promise<readonly number[]> => {
  const { recipe } = await loadRecipe(name)
  const keep = { evalEvery: STEPS, alarms: 'off' }
  const settings = orThrow(parseSettings(recipe, { ...given, seed, keep, steps: STEPS }))
  const run = await recipe.build(settings, { memory: 'ignore' })
  const options = trainOptionsOf(settings as Parameters<typeof trainOptionsOf>[0]) // the recipe has steps and keep
  const heldOut: number[] = []
  for await (const event of train(run, options)) {
    if (event.type === 'evaluation') heldOut.push(event.scores.accuracy!)
  }
  return heldOut
}

const AGENTS = [
  { title: 'CodeAgent with a calculator', recipe: 'calculatorAgent', settings: { agent: 'code' } },
  { title: 'ReactAgent with a calculator', recipe: 'calculatorAgent', settings: { agent: 'react' } },
]
const ALL = AGENTS.flatMap((agent) => [1, 2, 3].map((seed) => ({ ...agent, seed })))

describe('GRPO on agents', () => {
  it.each(process.env.LEARNING === 'short' ? ALL.slice(0, 1) : ALL)(
    '$title, seed $seed: success on held-out tasks rises by 0.2 or more',
    async (measured) => {
      const [before, after] = await heldOutOf(measured)
      expect(after).toBeGreaterThanOrEqual(before! + 0.2)
    },
  )
})
