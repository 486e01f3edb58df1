/** The perfectible subset: what the start model solves now and then, training solves nearly always, with every algorithm that should. */

import { writeFileSync } from 'node:fs'
import { beforeAll, describe, expect, it } from 'vitest'
import { loadRecipe } from '../../src/cli/recipeFile.js'
import * as T from '../../src/index.js'
import { useEngine } from '../kit/engine.js'
import { useTemporaryFolder } from '../kit/runs.js'

useEngine({ threads: 2 })
const at = useTemporaryFolder()

const ASKED = 48
const SAMPLES = 40

/** Problems that the shipped model solves in 20 to 80 % of its samples. */
let perfectible: readonly T.Task[] = []
let model: T.Pretrained

beforeAll(async () => {
  model = await T.orThrow(T.loadPretrained(T.EMBEDDED_MODEL))
  const source = T.wordProblems(T.keyFromSeed(5), { split: 'rl' })
  const params = T.own(T.scope(() => T.makeParams(model.arrays)))
  const policy = T.TransformersWrapper({ config: model.config, params: params.value, sampling: { maxNewTokens: 64 } })
  const { run } = T.evaluator({
    ...{ policy, tasks: ASKED, tries: SAMPLES, batch: 12 },
    env: ({ groups, start }) =>
      T.tokenEnv(T.GSM8KEnv({ source, prompts: groups, repeats: SAMPLES, start }), model.text),
  })
  const solved = new Map<string, number>()
  for await (const { results } of run(T.keyFromSeed(6)))
    for (const { taskId, score } of results) solved.set(taskId, (solved.get(taskId) ?? 0) + score)
  policy.release()
  params.release()
  perfectible = Array.from({ length: ASKED }, (_, i) => T.orThrow(source.at(i))).filter(({ id }) => {
    const share = (solved.get(id) ?? 0) / SAMPLES
    return share >= 0.2 && share <= 0.8
  })
})

/** The recipe of an algorithm, and the settings that name it. */
const RECIPES = {
  ...{ grpo: 'wordProblems', rloo: 'wordProblems', dapo: 'wordProblems', cispo: 'wordProblems', ppo: 'ppo' },
} as const

/** PPO reached 0.938 after 100 steps, and DAPO 0.869 after 40, when this was written; the others are above 0.95 after 40. */
const STEPS = { grpo: 40, rloo: 40, cispo: 40, ppo: 200, dapo: 200 } as const

describe('the perfectible subset of word problems', () => {
  it.each(['grpo', 'rloo', 'ppo', 'dapo', 'cispo'] as const)(
    '%s solves more than 95 %% of its samples in the end',
    async (algorithm) => {
      expect(perfectible.length).toBeGreaterThanOrEqual(4)
      const rows = perfectible.map(({ query, answer }) => `${JSON.stringify({ question: query, answer })}\n`)
      writeFileSync(at('rows.jsonl'), rows.join(''))
      const { recipe } = await loadRecipe(RECIPES[algorithm])
      const settings = recipe.settings.parse({
        ...{
          steps: STEPS[algorithm],
          dataset: at('rows.jsonl'),
          evalDataset: at('rows.jsonl'),
          tasks: { prompts: 8, group: 8 },
        },
        ...(algorithm !== 'ppo' && { loss: { algorithm } }),
      })
      const run = await recipe.build(settings, {})
      const shares: number[] = []
      for await (const event of T.train(run, {
        steps: STEPS[algorithm],
        every: { evaluate: 200 },
        alarms: { mode: 'off' },
      }))
        if (event.type === 'step') shares.push(event.parts.success ?? 0)
      const last = shares.slice(-5).reduce((a, b) => a + b, 0) / 5
      console.log(`${algorithm}: ${perfectible.length} problems, ${shares[0]?.toFixed(2)} -> ${last.toFixed(3)}`)
      expect(last).toBeGreaterThan(0.95)
    },
  )
})
