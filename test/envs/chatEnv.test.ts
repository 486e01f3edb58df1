import { keyFromSeed } from '@tandem-rl/base'
import { checkLaws, envLaws } from '@tandem-rl/testing'
import { History, type Message, message, textOf } from '@tandem-rl/text'
import * as tf from '@tensorflow/tfjs-core'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { toNested } from '../../src/data/tensorDict/inspect.js'
import { data, meta } from '../../src/data/tensorDict/leaf.js'
import { get, TensorDict } from '../../src/data/tensorDict/tensorDict.js'
import { ChatEnv } from '../../src/envs/chatEnv.js'
import { answered, asking, empty, freeing, numbersAt, refused, replies } from '../kit/conversation.js'
import { useEngine } from '../kit/engine.js'

useEngine()

const key = keyFromSeed(6)
const questions = fc.array(fc.string(), { minLength: 1, maxLength: 4 })
const spoken = ({ messages }: History): readonly (readonly [string, string])[] =>
  messages.map((m: Message) => [m.role, textOf(m)] as const).toArray()

describe('ChatEnv', () => {
  checkLaws(
    it,
    envLaws(
      fc
        .tuple(questions, fc.string(), fc.option(fc.string(), { nil: undefined }))
        .map(([asked, reply, systemPrompt]) => ({
          env: ChatEnv({ batchSize: asked.length, ...(systemPrompt !== undefined && { systemPrompt }) }),
          request: () => asking(...asked),
          act: () => replies(...asked.map(() => reply)),
          steps: 3,
        })),
    ),
  )

  it('opens every conversation with the system prompt and its query', async () => {
    const law = fc.asyncProperty(questions, async (asked) => {
      const [bare, led] = [
        ChatEnv({ batchSize: asked.length }),
        ChatEnv({ batchSize: asked.length, systemPrompt: 'Sys' }),
      ]
      const [a, b] = [
        await answered(bare.reset(asking(...asked), key)),
        await answered(led.reset(asking(...asked), key)),
      ]
      for (const [i, query] of asked.entries()) {
        expect(spoken(get(a, 'history', 'prompt').items.get(i)!)).toEqual([['user', query]])
        expect(spoken(get(b, 'history', 'prompt').items.get(i)!)).toEqual([
          ['system', 'Sys'],
          ['user', query],
        ])
      }
    })
    await fc.assert(law)
  })

  it('opens conversations with messages of their own, in every form of a query', async () => {
    const own = [message('user', 'Hi'), message('assistant', 'Yes?'), message('user', 'Bye')]
    const chat = own.map((each) => ({ role: each.role, content: textOf(each) }))
    const query = data<unknown>(['Hi', History(own), own, chat])
    const env = ChatEnv({ batchSize: 4, systemPrompt: 'Sys' })
    const state = await answered(env.reset(TensorDict({ query }, [4]), key))
    const whole = [['system', 'Sys'], ...own.map((each) => [each.role, textOf(each)])]
    expect(get(state, 'history', 'prompt').items.map(spoken).toArray()).toEqual([
      whole.slice(0, 2),
      whole,
      whole,
      whole,
    ])
    expect(get(state, 'query').items.toArray()).toEqual(['Hi', 'Hi', 'Hi', 'Hi'])
    const bare = await answered(
      ChatEnv({ batchSize: 1 }).reset(TensorDict({ query: data([History(own.slice(1, 2))]) }, [1]), key),
    )
    expect(get(bare, 'query').items.toArray()).toEqual([''])
  })

  it('names roles as configured, and an empty system prompt is a message too', async () => {
    const env = ChatEnv({ batchSize: 1, systemPrompt: '', systemRole: 'developer', userRole: 'human' })
    const state = await answered(env.reset(asking('Hi'), key))
    expect(spoken(get(state, 'history', 'prompt').items.get(0)!)).toEqual([
      ['developer', ''],
      ['human', 'Hi'],
    ])
  })

  it('appends each reply to its own conversation, as it is', () =>
    freeing(async (keep) => {
      const env = ChatEnv({ batchSize: 2 })
      const cut = message('assistant', 'I was', { isComplete: false })
      const action = TensorDict({ history: { response: data([message('assistant', 'Yes'), cut]) } }, [2])
      const state = await answered(env.reset(asking('a', 'b'), key))
      const next = keep(await answered(env.step(state, action)))
      const histories = get(next, 'history', 'prompt').items
      expect(spoken(histories.get(0)!)).toEqual([
        ['user', 'a'],
        ['assistant', 'Yes'],
      ])
      expect(histories.get(1)!.messages.last()).toBe(cut)
    }))

  it('gives no reward and ends nothing, however long it goes on', () =>
    freeing(async (keep) => {
      const env = ChatEnv({ batchSize: 2 })
      let state = await answered(env.reset(asking('a', 'b'), key))
      for (let i = 0; i < 5; i++) {
        const next = keep(await answered(env.step(state, replies('x', 'y'))))
        for (const name of ['reward', 'terminated', 'truncated', 'done']) expect(numbersAt(next, name)).toEqual([0, 0])
        state = next
      }
    }))

  it('carries other entries of the request and of the state on', () =>
    freeing(async (keep) => {
      const request = TensorDict({ query: data(['a']), answer: data(['#### 1']), run: meta('r1') }, [1])
      const state = await answered(ChatEnv({ batchSize: 1 }).reset(request, key))
      const next = keep(await answered(ChatEnv({ batchSize: 1 }).step(state, replies('x'))))
      for (const td of [state, next])
        expect(toNested(td)).toMatchObject({ query: ['a'], answer: ['#### 1'], run: 'r1' })
    }))

  it('two answers to one state are two conversations: neither sees the other', () =>
    freeing(async (keep) => {
      const env = ChatEnv({ batchSize: 1 })
      const state = await answered(env.reset(asking('a'), key))
      const [one, two] = [
        keep(await answered(env.step(state, replies('1')))),
        keep(await answered(env.step(state, replies('2')))),
      ]
      expect(spoken(get(one, 'history', 'prompt').items.get(0)!).at(-1)).toEqual(['assistant', '1'])
      expect(spoken(get(two, 'history', 'prompt').items.get(0)!)).toEqual([
        ['user', 'a'],
        ['assistant', '2'],
      ])
      expect(get(state, 'history', 'prompt').items.get(0)!.messages.size).toBe(1)
    }))

  it('a step that is not run makes nothing', async () => {
    const env = ChatEnv({ batchSize: 1 })
    const state = await answered(env.reset(asking('a'), key))
    const before = tf.memory().numTensors
    const step = env.step(state, replies('1'))
    expect(tf.memory().numTensors).toBe(before)
    expect(step).toBeTypeOf('function')
  })

  it.each([
    ['no query', () => empty(2)],
    ['too few queries', () => asking('a')],
    ['queries that are no strings', () => TensorDict({ query: data([1, 2]) }, [2])],
    ['a query without messages', () => TensorDict({ query: data(['a', []]) }, [2])],
    ['a query of what is no message', () => TensorDict({ query: data([[{ role: 'user', text: 'a' }], 'b']) }, [2])],
    ['a query of another kind', () => TensorDict({ query: meta('a') }, [2])],
    ['queries in a node', () => TensorDict({ query: { query: data(['a', 'b']) } }, [2])],
  ])('refuses a reset with %s', async (_, request) => {
    const failure = await refused(ChatEnv({ batchSize: 2 }).reset(request(), key))
    expect(failure).toMatchObject({ _tag: 'EnvFailure', env: 'ChatEnv' })
    expect(failure.reason).toContain("'query'")
  })

  it('refuses a reset with a tensor for a query, and leaves it alone', () =>
    freeing(async (keep) => {
      const request = keep(TensorDict({ query: tf.zeros([1]) }, [1]))
      expect((await refused(ChatEnv({ batchSize: 1 }).reset(request, key))).env).toBe('ChatEnv')
      expect(numbersAt(request, 'query')).toEqual([0])
    }))

  it('throws for actions of another batch size', async () => {
    const env = ChatEnv({ batchSize: 2 })
    const state = await answered(env.reset(asking('a', 'b'), key))
    for (const wrong of [replies('x'), replies('x', 'y', 'z')])
      expect(() => env.step(state, wrong)).toThrow(/batch shape/)
  })

  it.each([0, -1, 1.5, Number.NaN])('refuses the batch size %d', (batchSize) => {
    expect(() => ChatEnv({ batchSize })).toThrow(RangeError)
  })
})
