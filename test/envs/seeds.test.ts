/** The first programs of TorchRL's documentation, in their meaning. */
import { keyFromSeed } from '@tandem-rl/base'
import { type History, textOf } from '@tandem-rl/text'
import { pipe } from 'fp-ts/lib/function.js'
import { describe, expect, it } from 'vitest'
import { data, ragged } from '../../src/data/tensorDict/leaf.js'
import { find, get, TensorDict } from '../../src/data/tensorDict/tensorDict.js'
import { ChatEnv } from '../../src/envs/chatEnv.js'
import { CountdownEnv } from '../../src/envs/countdownEnv.js'
import { GSM8KEnv } from '../../src/envs/gsm8kEnv.js'
import { LLMEnv, llmTextEnv } from '../../src/envs/llmEnv.js'
import { MATHEnv } from '../../src/envs/mathEnv.js'
import { AddThinkingPrompt, rewardAtMost } from '../../src/envs/transforms/addThinkingPrompt.js'
import { TemplateTransform } from '../../src/envs/transforms/templateTransform.js'
import { Tokenizer } from '../../src/envs/transforms/tokenizer.js'
import { append } from '../../src/envs/transforms/transform.js'
import {
  answered,
  asking,
  END,
  END_OF_TURN,
  empty,
  freeing,
  itemsAt,
  numbersAt,
  replies,
  rowsAt,
  sampled,
  tasks,
  template,
  tokenizer,
} from '../kit/conversation.js'
import { useEngine } from '../kit/engine.js'

useEngine()

const key = keyFromSeed(2)
const PROMPT = 'But wait, let me think about this more carefully.'

describe('GSM8KEnv({ maxSteps: 10 }) with AddThinkingPrompt', () => {
  const env = () =>
    pipe(
      GSM8KEnv({ source: tasks(9), prompts: 1, repeats: 2, start: 1, maxSteps: 10 }),
      append(
        AddThinkingPrompt({
          cond: rewardAtMost(0.1),
          prompt: PROMPT,
          role: 'user',
          editLastTurn: 'no',
          zeroReward: 'zero',
        }),
      ),
    )

  it('opens an episode with a wrong answer again, and lets a right one end', () =>
    freeing(async (keep) => {
      const state = keep(await answered(env().reset(empty(2), key)))
      const wrong = keep(await answered(env().step(state, replies('<answer>3</answer>', '<answer>2</answer>'))))
      expect([numbersAt(wrong, 'reward'), numbersAt(wrong, 'done')]).toEqual([
        [0, 1],
        [0, 1],
      ])
      expect(textOf((itemsAt(wrong, 'history', 'prompt') as readonly History[])[0]!.messages.last()!)).toBe(PROMPT)
      const right = keep(await answered(env().step(wrong, replies('<answer>2</answer>', '<answer>2</answer>'))))
      expect([numbersAt(right, 'reward'), numbersAt(right, 'done'), numbersAt(right, 'success')]).toEqual([
        [1, 0],
        [1, 1],
        [1, 1],
      ])
    }))

  it('ends after ten turns without a right answer', () =>
    freeing(async (keep) => {
      let state: TensorDict = keep(await answered(env().reset(empty(2), key)))
      for (let turn = 1; turn <= 10; turn++) {
        state = keep(await answered(env().step(state as never, replies('<answer>3</answer>', 'no answer')))) // of the environment
        expect([turn, ...numbersAt(state, 'done')]).toEqual([turn, turn === 10 ? 1 : 0, turn === 10 ? 1 : 0])
      }
      expect(numbersAt(state, 'truncated')).toEqual([1, 1])
    }))
})

describe('maxSteps and computeReward', () => {
  const source = tasks(9)
  const envs = {
    GSM8KEnv: () => GSM8KEnv({ source, prompts: 1, maxSteps: 3, computeReward: false }),
    MATHEnv: () => MATHEnv({ source, prompts: 1, maxSteps: 3, computeReward: false }),
    CountdownEnv: () => CountdownEnv({ key, prompts: 1, maxSteps: 3, computeReward: false }),
  }

  it.each(Object.entries(envs))('%s without its reward only counts: an answer ends nothing', (_, make) =>
    freeing(async (keep) => {
      const env = make()
      let state: TensorDict = keep(await answered(env.reset(empty(1), key)))
      for (const done of [0, 0, 1]) {
        state = keep(await answered(env.step(state as never, replies('<answer>2</answer>')))) // of the environment
        expect([numbersAt(state, 'reward'), numbersAt(state, 'done')]).toEqual([[0], [done]])
      }
      expect(find(state, ['rewardRight'])).toBeUndefined()
    }),
  )

  it('the parts of the reward are in the type only where it is computed', () =>
    freeing(async (keep) => {
      const [rewarded, counted] = [GSM8KEnv({ source, prompts: 1 }), envs.GSM8KEnv()]
      const first = keep(await answered(rewarded.reset(empty(1), key)))
      expect(get(first, 'rewardRight').shape).toEqual([1])
      const second = keep(await answered(counted.reset(empty(1), key)))
      // @ts-expect-error the reward is left out, and so are its parts
      expect(() => get(second, 'rewardRight')).toThrow(/rewardRight/)
    }))

  it('a conversation without an answer continues to maxSteps', () =>
    freeing(async (keep) => {
      const env = MATHEnv({ source, prompts: 1, maxSteps: 2 })
      const first = keep(await answered(env.step(keep(await answered(env.reset(empty(1), key))), replies('Hm.'))))
      expect(numbersAt(first, 'done')).toEqual([0])
      const second = keep(await answered(env.step(first, replies('Hm.'))))
      expect([numbersAt(second, 'truncated'), numbersAt(second, 'rewardAnswer')]).toEqual([[1], [0]])
    }))
})

describe('LLMEnv from strings', () => {
  it('puts the action after the text, and ends at the end token', () =>
    freeing(async (keep) => {
      const env = llmTextEnv({ batchSize: 2, eosText: '<|endoftext|>' })
      const state = keep(
        await answered(env.reset(TensorDict({ text: { prompt: data(['How are', 'Well']) } }, [2]), key)),
      )
      const action = TensorDict({ text: { response: data([' you?', ', bye.<|endoftext|>']) } }, [2])
      const next = keep(await answered(env.step(state, action)))
      expect(itemsAt(next, 'text', 'prompt')).toEqual(['How are you?', 'Well, bye.<|endoftext|>'])
      expect(numbersAt(next, 'done')).toEqual([0, 1])
    }))

  it('takes tokens around the same strings, and tokens alone', () =>
    freeing(async (keep) => {
      const env = pipe(llmTextEnv({ batchSize: 1 }), append(Tokenizer({ tokenizer })))
      const state = keep(await answered(env.reset(TensorDict({ text: { prompt: data(['How are']) } }, [1]), key)))
      const ids = Array.from(tokenizer.encode(' you?'))
      const next = keep(await answered(env.step(state, sampled(ids))))
      expect(itemsAt(next, 'text', 'prompt')).toEqual(['How are you?'])
      expect(rowsAt(next, 'tokens', 'prompt')[0]!.slice(-ids.length)).toEqual(ids)
      const plain = LLMEnv({ batchSize: 1, eosTokenId: 0 })
      const request = TensorDict({ tokens: { prompt: ragged('int32', [[5, 6]]) } }, [1])
      const after = keep(await answered(plain.step(keep(await answered(plain.reset(request, key))), sampled([7, 0]))))
      expect([rowsAt(after, 'tokens', 'prompt'), numbersAt(after, 'done')]).toEqual([[[5, 6, 7, 0]], [1]])
    }))
})

describe('ChatEnv in text and in tokens', () => {
  const chats = () =>
    pipe(
      ChatEnv({ batchSize: 1, systemPrompt: 'Be brief.' }),
      append(TemplateTransform({ template, endOfTurn: END_OF_TURN })),
    )

  it('shows the policy a rendered text, and reads its reply as a message', () =>
    freeing(async (keep) => {
      const state = keep(await answered(chats().reset(asking('Well?'), key)))
      const [prompt] = itemsAt(state, 'text', 'prompt') as readonly string[]
      expect(prompt).toBe(
        '<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nWell?<|im_end|>\n<|im_start|>assistant\n',
      )
      const said = TensorDict({ text: { response: data([`Yes.${END_OF_TURN}`]) } }, [1])
      const next = keep(await answered(chats().step(state, said)))
      const [history] = itemsAt(next, 'history', 'prompt') as readonly History[]
      expect(history!.messages.map(({ role }) => role).toArray()).toEqual(['system', 'user', 'assistant'])
      expect(textOf(history!.messages.last()!)).toBe('Yes.')
    }))

  it('shows the policy tokens, and continues from its sampled tokens', () =>
    freeing(async (keep) => {
      const env = pipe(chats(), append(Tokenizer({ tokenizer })))
      const state = keep(await answered(env.reset(asking('Well?'), key)))
      const [prompt] = rowsAt(state, 'tokens', 'prompt')
      const reply = [...tokenizer.encode('Yes.'), END]
      const next = keep(await answered(env.step(state, sampled(reply))))
      expect(rowsAt(next, 'tokens', 'prompt')[0]!.slice(0, prompt!.length + reply.length)).toEqual([
        ...prompt!,
        ...reply,
      ])
    }))
})
