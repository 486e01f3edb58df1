/** The recipes of agents: tiny models learn to call a calculator and to buy what was asked for. */
import { describe, expect, it } from 'vitest'
import { useEngine } from '../kit/engine.js'
import { measured } from '../kit/evaluations.js'

useEngine({ threads: 1 })

const AGENTS = [
  {
    title: 'CodeAgent with a calculator',
    recipe: 'calculatorAgent',
    steps: 8,
    below: 0.5,
    settings: { agent: 'code' },
  },
  {
    title: 'ReactAgent with a calculator',
    recipe: 'calculatorAgent',
    steps: 8,
    below: 0.5,
    settings: { agent: 'react' },
  },
  {
    title: 'CodeAgent by Reinforce++',
    recipe: 'calculatorAgent',
    steps: 8,
    below: 0.5,
    settings: { agent: 'code', loss: { algorithm: 'reinforce++' } },
  },
  { title: 'CodeAgent in a shop', recipe: 'shopAgent', steps: 16, below: 0.7, settings: { agent: 'code' } },
  { title: 'ReactAgent in a shop', recipe: 'shopAgent', steps: 16, below: 0.7, settings: { agent: 'react' } },
]
const ALL = AGENTS.flatMap((agent) => [1, 2, 3].map((seed) => ({ ...agent, seed })))

describe('GRPO on agents', () => {
  it.each(process.env.LEARNING === 'short' ? ALL.slice(0, 1) : ALL)(
    '$title, seed $seed: success on held-out tasks rises by 0.2 or more',
    async ({ below, ...given }) => {
      const { before, after } = await measured(given)
      console.log(`${given.title}, seed ${given.seed}: ${before.toFixed(3)} -> ${after.toFixed(3)}`)
      expect(before).toBeLessThan(below)
      expect(after).toBeGreaterThanOrEqual(before + 0.2)
    },
  )
})
