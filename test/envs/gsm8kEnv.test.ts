import { keyFromSeed } from '@tandem-rl/base'
import { anyKey, checkLaws, envLaws } from '@tandem-rl/testing'
import { type History, textOf } from '@tandem-rl/text'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { wordProblems } from '../../src/data/datasets/wordProblems/wordProblems.js'
import { nextRequest } from '../../src/envs/base/env.js'
import { GSM8K_SYSTEM_PROMPT, GSM8KEnv } from '../../src/envs/gsm8kEnv.js'
import { gsm8kReward } from '../../src/envs/rewards/gsm8k.js'
import { answered, empty, freeing, itemsAt, numbersAt, replies, tasks } from '../kit/conversation.js'
import { useEngine } from '../kit/engine.js'

useEngine()

const key = keyFromSeed(9)
const completion = fc.oneof(
  fc.constantFrom('<answer>2</answer>', '<think>x</think><answer>4</answer>', '<think>x</think>', '', '2'),
  fc.integer({ min: 0, max: 8 }).map((n) => `<answer>${n}</answer>`),
)
const four = fc.array(completion, { minLength: 4, maxLength: 4 })
const env = (start = 1) => GSM8KEnv({ source: tasks(9), prompts: 2, repeats: 2, start })

describe('GSM8KEnv', () => {
  checkLaws(it, envLaws(four.map((texts) => ({ env: env(), act: () => replies(...texts), steps: 1 }))))

  it('rewards each completion by itself, for its own task', async () => {
    const law = fc.asyncProperty(four, fc.nat(8), (texts, start) =>
      freeing(async (keep) => {
        const state = keep(await answered(env(start).reset(empty(4), key)))
        const next = keep(await answered(env(start).step(state, replies(...texts))))
        const answers = itemsAt(state, 'answer') as readonly string[] // by the schema of TaskEntries
        const expected = texts.map((text, i) => gsm8kReward(text, answers[i]!).reward)
        expect(numbersAt(next, 'reward')).toEqual(Array.from(Float32Array.from(expected)))
      }),
    )
    await fc.assert(law, { numRuns: 50 })
  })

  it('a permuted batch of one task has permuted rewards', async () => {
    const single = GSM8KEnv({ source: tasks(3), prompts: 1, repeats: 4, start: 1 })
    const order = fc.shuffledSubarray([0, 1, 2, 3], { minLength: 4, maxLength: 4 })
    const law = fc.asyncProperty(four, order, (texts, places) =>
      freeing(async (keep) => {
        const state = keep(await answered(single.reset(empty(4), key)))
        const plain = keep(await answered(single.step(state, replies(...texts))))
        const permuted = keep(await answered(single.step(state, replies(...places.map((i) => texts[i]!)))))
        expect(numbersAt(permuted, 'reward')).toEqual(places.map((i) => numbersAt(plain, 'reward')[i]))
      }),
    )
    await fc.assert(law, { numRuns: 30 })
  })

  it('is over after one step: terminated where there is an answer, truncated everywhere', () =>
    freeing(async (keep) => {
      const state = keep(await answered(env().reset(empty(4), key)))
      expect(numbersAt(state, 'stepCount')).toEqual([0, 0, 0, 0])
      const next = keep(await answered(env().step(state, replies('<answer>2</answer>', '<answer>9</answer>', 'x', ''))))
      expect(numbersAt(next, 'terminated')).toEqual([1, 1, 0, 0])
      expect(numbersAt(next, 'truncated')).toEqual([1, 1, 1, 1])
      expect(numbersAt(next, 'done')).toEqual([1, 1, 1, 1])
      expect(numbersAt(next, 'success')).toEqual([1, 0, 0, 0])
    }))

  it('a next request draws the next tasks, with nothing scored', () =>
    freeing(async (keep) => {
      const state = keep(await answered(env(0).reset(empty(4), key)))
      const next = keep(await answered(env(0).step(state, replies('', '', '', ''))))
      const again = keep(await answered(env(0).reset(nextRequest(next), key)))
      expect(itemsAt(again, 'taskId')).toEqual(['t2', 't2', 't3', 't3'])
      expect(numbersAt(again, 'stepCount')).toEqual([0, 0, 0, 0])
      expect(numbersAt(again, 'success')).toEqual([0, 0, 0, 0])
      expect(again.entries.has('reward')).toBe(false)
    }))

  it('takes the rewards and the system prompt of its options', () =>
    freeing(async (keep) => {
      const options = { source: tasks(1), prompts: 1, systemPrompt: GSM8K_SYSTEM_PROMPT, reward: { correctReward: 8 } }
      const state = keep(await answered(GSM8KEnv(options).reset(empty(1), key)))
      const [system] = (itemsAt(state, 'history', 'prompt') as readonly History[])[0]!.messages // by the schema of ChatState
      expect(textOf(system!)).toBe(GSM8K_SYSTEM_PROMPT)
      const next = keep(await answered(GSM8KEnv(options).step(state, replies('<answer>0</answer>'))))
      expect(numbersAt(next, 'reward')).toEqual([8])
    }))

  it('its system prompt, repeated by the policy, earns nothing', () => {
    expect(gsm8kReward(GSM8K_SYSTEM_PROMPT, '#### 1')).toEqual({ reward: 0, answer: 0, think: 0, right: 0 })
    expect(gsm8kReward(`${GSM8K_SYSTEM_PROMPT}<answer>1</answer>`, '#### 1').right).toBe(1)
  })

  it('gives full marks for the answers of its own word problems', async () => {
    const law = fc.asyncProperty(anyKey, fc.nat(1000), (seed, start) =>
      freeing(async (keep) => {
        const problems = GSM8KEnv({ source: wordProblems(seed, { split: 'train' }), prompts: 3, start })
        const state = keep(await answered(problems.reset(empty(3), key)))
        const finals = (itemsAt(state, 'answer') as readonly string[]).map((answer) => answer.split('#### ')[1]!) // strings by TaskEntries
        const gold = finals.map((final) => `<think>${final}</think><answer>${final}</answer>`)
        const next = keep(await answered(problems.step(state, replies(...gold))))
        expect(numbersAt(next, 'reward')).toEqual([1, 1, 1])
      }),
    )
    await fc.assert(law, { numRuns: 20 })
  })
})
