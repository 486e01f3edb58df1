import { keyFromSeed, orThrow } from '@tandem-rl/base'
import { checkLaws, envLaws, scriptedPolicy } from '@tandem-rl/testing'
import fc from 'fast-check'
import { pipe } from 'fp-ts/lib/function.js'
import { describe, expect, it } from 'vitest'
import { LLMCollector } from '../../src/collectors/llmCollector.js'
import { data } from '../../src/data/tensorDict/leaf.js'
import { TensorDict } from '../../src/data/tensorDict/tensorDict.js'
import { llmTextEnv, type TextResponse } from '../../src/envs/llmEnv.js'
import { GSM8KPrepareQuestion, makeGSM8KEnv } from '../../src/envs/makeGSM8KEnv.js'
import { gsm8kReward } from '../../src/envs/rewards/gsm8k.js'
import { Tokenizer } from '../../src/envs/transforms/tokenizer.js'
import { append } from '../../src/envs/transforms/transform.js'
import {
  answered,
  empty,
  freeing,
  itemsAt,
  numbersAt,
  refused,
  rowsAt,
  taskOf,
  tasks,
  tokenizer,
} from '../kit/conversation.js'
import { useEngine } from '../kit/engine.js'

useEngine()

const key = keyFromSeed(5)
const completion = fc.oneof(
  fc.constantFrom('<answer>2</answer>', '<think>x</think><answer>4</answer>', '<think>x</think>', '', '2'),
  fc.string(),
)
const two = fc.array(completion, { minLength: 2, maxLength: 2 })
const writing = (texts: readonly string[]): TensorDict<TextResponse> =>
  TensorDict({ text: { response: data(texts) } }, [texts.length])
const env = () => makeGSM8KEnv({ source: tasks(5), repeats: 2, start: 1 })

describe('makeGSM8KEnv', () => {
  checkLaws(
    it,
    envLaws(
      two.map((texts) => ({ env: env(), act: () => writing(texts), steps: 2 })),
      3,
    ),
  )

  it('asks the question as a text, and rewards what is written after it, nothing of the prompt', () =>
    freeing(async (keep) => {
      const state = keep(await answered(env().reset(empty(2), key)))
      const [prompt, same] = itemsAt(state, 'text', 'prompt') as readonly string[] // by its schema
      expect(prompt).toBe(same)
      expect(prompt!.split('\nUser: ')[1]).toBe(`${taskOf(1).query}\nAssistant: `)
      const gold = '<think>1 + 1 = 2</think><answer>2</answer>'
      const next = keep(await answered(env().step(state, writing([gold, 'Two.']))))
      expect(numbersAt(next, 'reward')).toEqual([1, 0])
      expect(numbersAt(next, 'rewardThink')).toEqual([1, 0])
      expect(numbersAt(next, 'done')).toEqual([1, 1])
      expect(gsm8kReward(prompt!, taskOf(1).answer).reward).toBeLessThan(1)
    }))

  it('is played by a policy of tokens through both collectors', async () => {
    const played = () => pipe(env(), append(Tokenizer({ tokenizer })))
    const right = tokenizer.encode('<answer>2</answer>')
    const policy = scriptedPolicy({ answers: () => [...right] })
    const collector = LLMCollector({ env: played(), policy, key })
    using batch = orThrow(await collector.collect(collector.start)()).batch
    expect(numbersAt(batch.value, 'next', 'reward')).toEqual([1, 1])
    expect(rowsAt(batch.value, 'tokens', 'response')).toEqual([[...right], [...right]])
    for await (const rows of LLMCollector({ env: played, policy, key, concurrent: { tasks: 1, maxInFlight: 2 } })) {
      expect(numbersAt(rows, 'next', 'reward')).toEqual([1, 1])
      expect(rowsAt(rows, 'tokens', 'full')).toEqual(rowsAt(batch.value, 'tokens', 'full'))
    }
  })

  it('asks in words of its own where it is told to', () =>
    freeing(async (keep) => {
      const own = makeGSM8KEnv({ source: tasks(5), prompt: (question) => `Q: ${question} A:` })
      const state = keep(await answered(own.reset(empty(1), key)))
      expect(itemsAt(state, 'text', 'prompt')).toEqual([`Q: ${taskOf(0).query} A:`])
    }))
})

describe('GSM8KPrepareQuestion', () => {
  it('refuses a request without a query', async () => {
    const failure = await refused(
      pipe(llmTextEnv({ batchSize: 1 }), append(GSM8KPrepareQuestion())).reset(empty(1), key),
    )
    expect(failure.reason).toBe("the request has no 'query' to make a prompt of")
  })
})
