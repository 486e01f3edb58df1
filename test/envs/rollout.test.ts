import { keyFromSeed, orThrow } from '@tandem-rl/base'
import { scriptedEnv, scriptedHistoryPolicy, scriptedPolicy, scriptedTextPolicy } from '@tandem-rl/testing'
import { textOf } from '@tandem-rl/text'
import { pipe } from 'fp-ts/lib/function.js'
import { describe, expect, it } from 'vitest'
import { data } from '../../src/data/tensorDict/leaf.js'
import { get, TensorDict } from '../../src/data/tensorDict/tensorDict.js'
import { GSM8KEnv } from '../../src/envs/gsm8kEnv.js'
import { llmTextEnv } from '../../src/envs/llmEnv.js'
import { rollout } from '../../src/envs/rollout.js'
import { TemplateTransform } from '../../src/envs/transforms/templateTransform.js'
import { Tokenizer } from '../../src/envs/transforms/tokenizer.js'
import { append } from '../../src/envs/transforms/transform.js'
import { END, END_OF_TURN, freeing, tasks, template, tokenizer } from '../kit/conversation.js'
import { useEngine } from '../kit/engine.js'

useEngine()

const key = keyFromSeed(7)
const chats = (maxSteps: number) => GSM8KEnv({ source: tasks(9), prompts: 1, repeats: 2, start: 1, maxSteps })

describe('rollout', () => {
  it('plays a policy of messages and stacks its steps', () =>
    freeing(async (keep) => {
      const policy = scriptedHistoryPolicy({
        answers: (state) =>
          get(state, 'history', 'prompt').items.get(0)!.messages.size > 1 ? '<answer>2</answer>' : 'Hm.',
      })
      const steps = keep(orThrow(await rollout(chats(4), policy, { steps: 9, key })()))
      expect(steps.batchShape).toEqual([2, 2])
      expect(Array.from(get(steps, 'next', 'reward').dataSync())).toEqual([0, 1, 0, 1])
      expect(Array.from(get(steps, 'next', 'done').dataSync())).toEqual([0, 1, 0, 1])
      const said = get(steps, 'history', 'response').items.map(textOf).toArray()
      expect(said).toEqual(['Hm.', '<answer>2</answer>', 'Hm.', '<answer>2</answer>'])
    }))

  it('plays a policy of tokens', () =>
    freeing(async (keep) => {
      const env = pipe(
        chats(3),
        append(TemplateTransform({ template, endOfTurn: END_OF_TURN })),
        append(Tokenizer({ tokenizer })),
      )
      const policy = scriptedPolicy({ answers: () => ({ ids: [...tokenizer.encode('Hm.'), END] }) })
      const steps = keep(orThrow(await rollout(env, policy, { steps: 2, key })()))
      expect([steps.batchShape, get(steps, 'logProbs', 'response').offsets.length]).toEqual([[2, 2], 5])
    }))

  it('plays a policy of text, from a request', () =>
    freeing(async (keep) => {
      const request = TensorDict({ text: { prompt: data(['How are']) } }, [1])
      const env = llmTextEnv({ batchSize: 1, eosText: '!' })
      const steps = keep(
        orThrow(await rollout(env, scriptedTextPolicy({ answers: () => ' you?' }), { steps: 2, key, request })()),
      )
      expect(get(steps, 'next', 'text', 'prompt').items.toArray()).toEqual(['How are you?', 'How are you? you?'])
    }))

  it('stops when all episodes are done, and pays those that ended before nothing', () =>
    freeing(async (keep) => {
      const env = scriptedEnv([{ rewards: [1] }, { rewards: [0, 2] }])
      const policy = scriptedPolicy({ answers: () => ({ ids: [5] }) })
      const steps = keep(orThrow(await rollout(env, policy, { steps: 9, key })()))
      expect(Array.from(get(steps, 'next', 'reward').dataSync())).toEqual([1, 0, 0, 2])
    }))

  it('refuses a policy of another view, and unknown options', () => {
    // @ts-expect-error the environment shows no tokens
    rollout(chats(1), scriptedPolicy({ answers: () => ({ ids: [5] }) }), { steps: 1, key })
    const policy = scriptedHistoryPolicy({ answers: () => 'x' })
    expect(() => rollout(chats(1), policy, { step: 1, key } as never)).toThrow(
      "unknown option 'step': did you mean 'steps'?",
    )
    expect(() => rollout(chats(1), policy, { steps: 0, key })).toThrow('rollout: steps must be at least 1, got 0')
  })
})
