import { readFileSync } from 'node:fs'
import { keyFromSeed } from '@tandem-rl/base'
import { anyTransformSample, checkLaws, envLaws, erased, transformLaws } from '@tandem-rl/testing'
import { type History, lastMessage, message, textOf, toolResult } from '@tandem-rl/text'
import * as tf from '@tensorflow/tfjs-core'
import fc from 'fast-check'
import { pipe } from 'fp-ts/lib/function.js'
import { describe, expect, it } from 'vitest'
import { dataSpec } from '../../../src/data/spec.js'
import { data } from '../../../src/data/tensorDict/leaf.js'
import { get, TensorDict } from '../../../src/data/tensorDict/tensorDict.js'
import type { Outcome } from '../../../src/envs/base/env.js'
import { ChatEnv } from '../../../src/envs/chatEnv.js'
import {
  AddThinkingPrompt,
  type AddThinkingPromptOptions,
  rewardAtMost,
} from '../../../src/envs/transforms/addThinkingPrompt.js'
import { append, transform } from '../../../src/envs/transforms/transform.js'
import { answered, asking, freeing, itemsAt, numbersAt, replies } from '../../kit/conversation.js'
import { useEngine } from '../../kit/engine.js'

useEngine()

const key = keyFromSeed(8)
const WRONG = '<think>a</think><answer>5</answer>'

const always: AddThinkingPromptOptions['cond'] = (next) =>
  get(next, 'reward')
    .dataSync()
    .map(() => 1)

/** Ends every episode with reward 2, in one of the two ways. */
const ending = (truncated: boolean) =>
  transform<null, unknown, Outcome>({
    name: 'ending',
    initial: null,
    adds: {},
    step: (next) => async () => {
      const shape = [...next.batchShape]
      const [yes, no] = [() => tf.ones(shape, 'bool'), () => tf.zeros(shape, 'bool')]
      const ends = { terminated: truncated ? no() : yes(), truncated: truncated ? yes() : no(), done: yes() }
      return { _tag: 'Right', right: [TensorDict({ reward: tf.fill(shape, 2), ...ends }, shape), null] }
    },
  })

const chat = (options: Partial<AddThinkingPromptOptions>, end: 'terminated' | 'truncated' = 'terminated') =>
  pipe(
    ChatEnv({ batchSize: 1 }),
    append(ending(end === 'truncated')),
    append(AddThinkingPrompt({ cond: always, prompt: 'Wait.', ...options })),
  )

const historyOf = (state: TensorDict, i = 0): History => itemsAt(state, 'history', 'prompt')[i] as History // by its schema
const textsOf = (state: TensorDict): readonly string[] => historyOf(state).messages.map(textOf).toArray()

/** The state after replies, one for each step. */
const played = async (
  env: ReturnType<typeof chat>,
  keep: <T>(value: T) => T,
  ...texts: readonly string[]
): Promise<TensorDict> => {
  let state = keep(await answered(env.reset(asking('2 + 2?'), key)))
  for (const text of texts) state = keep(await answered(env.step(state, replies(text))))
  return state
}

const endOf = (state: TensorDict): readonly number[] =>
  ['reward', 'terminated', 'truncated', 'done'].flatMap((name) => numbersAt(state, name))

describe('AddThinkingPrompt', () => {
  describe('as a transform', () => {
    const samples = anyTransformSample({
      observation: { history: { prompt: dataSpec<History>('History') } },
      action: {},
    })
    const transforms = fc
      .record({
        editLastTurn: fc.constantFrom('close', 'continue', 'no'),
        undoDone: fc.constantFrom('terminated', 'all', 'none'),
        zeroReward: fc.constantFrom('zero', 'keep'),
      })
      .map((options) =>
        erased(AddThinkingPrompt({ cond: rewardAtMost(0), prompt: ['Wait.', 'No.', 'Hm.'], ...options })),
      )
    checkLaws(it, transformLaws(transforms, samples))
  })

  it('edits the answers that TorchRL edits, as it does', () =>
    freeing(async (keep) => {
      const { thinking } = JSON.parse(readFileSync('test/golden/transforms.json', 'utf8')) as {
        readonly thinking: readonly { readonly before: string; readonly after: string }[]
      }
      expect(thinking.length).toBe(4)
      for (const { before, after: edited } of thinking)
        expect(textsOf(await played(chat({}), keep, before))).toEqual(['2 + 2?', edited])
    }))

  it.each([
    ['close', ['2 + 2?', '<think>a</think>Wait.'], true],
    ['continue', ['2 + 2?', '<think>a</think>Wait.'], false],
    ['no', ['2 + 2?', WRONG, 'Wait.'], true],
  ] as const)("with editLastTurn '%s' the conversation is what it should be", (editLastTurn, texts, isComplete) =>
    freeing(async (keep) => {
      const state = await played(chat({ editLastTurn }), keep, WRONG)
      expect(textsOf(state)).toEqual(texts)
      expect(lastMessage(historyOf(state))?.isComplete).toBe(isComplete)
      expect(itemsAt(state, 'history', 'kept')).toEqual([editLastTurn === 'no' ? null : '<think>a</think>'.length])
    }),
  )

  it('a turn that is left open has all that the policy goes on with, however often', () =>
    freeing(async (keep) => {
      const state = await played(chat({ editLastTurn: 'continue' }), keep, WRONG, ' So 6. <answer>6</answer>', 'Four')
      expect(textsOf(state)).toEqual(['2 + 2?', '<think>a</think>Wait. So 6. Wait.Four\n\nWait.'])
      expect(itemsAt(state, 'history', 'kept')).toEqual(['Four'.length])
    }))

  it('an open turn is joined with its end where no prompt is wanted any more', () =>
    freeing(async (keep) => {
      const cond: AddThinkingPromptOptions['cond'] = (next) =>
        itemsAt(next, 'history', 'prompt').map((history) => !textOf(lastMessage(history as History)!).includes('4')) // by its schema
      const state = await played(chat({ editLastTurn: 'continue', cond }), keep, WRONG, '<answer>4</answer>')
      expect(textsOf(state)).toEqual(['2 + 2?', '<think>a</think>Wait.<answer>4</answer>'])
      expect(itemsAt(state, 'history', 'kept')).toEqual([null])
      expect(endOf(state)).toEqual([2, 1, 0, 1])
    }))

  it.each([
    ['terminated', {}, [0, 0, 0, 0], 2],
    ['terminated', { zeroReward: 'keep' }, [2, 0, 0, 0], 2],
    ['terminated', { editLastTurn: 'no', role: 'user' }, [2, 0, 0, 0], 3],
    ['terminated', { undoDone: 'none' }, [2, 1, 0, 1], 2],
    ['truncated', {}, [2, 0, 1, 1], 2],
    ['truncated', { undoDone: 'all' }, [0, 0, 0, 0], 2],
    ['truncated', { undoDone: 'none', editLastTurn: 'no' }, [2, 0, 1, 1], 2],
  ] as const)(
    'an episode that is %s, with %j, ends as [reward, terminated, truncated, done] %j',
    (end, options, expected, size) =>
      freeing(async (keep) => {
        const state = await played(chat(options, end), keep, WRONG)
        expect(endOf(state)).toEqual(expected)
        expect(historyOf(state).messages.size).toBe(size)
        const isAsked = textsOf(state).some((text) => text.endsWith('Wait.'))
        expect(isAsked).toBe(expected[3] === 0)
      }),
  )

  it('an episode that was done before is not reopened, whatever the condition says now', () =>
    freeing(async (keep) => {
      const ended = await played(chat({ cond: rewardAtMost(0) }), keep, WRONG)
      const state = keep(await answered(chat({ undoDone: 'all' }).step(ended as never, replies(WRONG)))) // of the same chat
      expect(endOf(state).slice(1)).toEqual([1, 0, 1])
      expect(textsOf(state).at(-1)).toBe(WRONG)
    }))

  it('adds nothing unless the condition holds', () =>
    freeing(async (keep) => {
      const state = await played(chat({ cond: rewardAtMost(1.9) }), keep, WRONG)
      expect(textsOf(state)).toEqual(['2 + 2?', WRONG])
      expect(endOf(state)).toEqual([2, 1, 0, 1])
    }))

  it('leaves a reply alone that calls a tool, and one that was answered', () =>
    freeing(async (keep) => {
      const call = { id: 'c', name: 'add', arguments: {} }
      const [calling, plain] = [message('assistant', '', { toolCalls: [call] }), message('assistant', WRONG)]
      const previous = await played(chat({}), keep)
      for (const said of [[calling], [plain, toolResult(call, '4')]]) {
        const before = historyOf(previous)
        const history = { ...before, messages: before.messages.concat(said) }
        const next = keep(
          TensorDict(
            {
              history: { prompt: data([history]) },
              ...Object.fromEntries(['terminated', 'truncated', 'done'].map((name) => [name, tf.ones([1], 'bool')])),
              reward: tf.ones([1]),
            },
            [1],
          ),
        )
        const thinking = AddThinkingPrompt({ cond: always, prompt: 'Wait.', undoDone: 'all' })
        const [added] = await answered(thinking.step(next, { previous, action: TensorDict({}, [1]) }, key))
        expect(historyOf(keep(added)).messages.size).toBe(history.messages.size)
        expect(endOf(added)).toEqual([1, 1, 1, 1])
      }
    }))

  it('draws one of several prompts by the key and by what was said, each now and then', () =>
    freeing(async (keep) => {
      const prompt = ['One.', 'Two.', 'Three.']
      const env = chat({ prompt, editLastTurn: 'no', role: 'user' })
      const drawn = async (seed: number, text: string): Promise<string> => {
        const state = keep(await answered(env.reset(asking('?'), keyFromSeed(seed))))
        return textsOf(keep(await answered(env.step(state, replies(text))))).at(-1)!
      }
      const bySeed = await Promise.all(Array.from({ length: 24 }, (_, seed) => drawn(seed, 'so')))
      const byText = await Promise.all(Array.from({ length: 24 }, (_, i) => drawn(1, `so ${i}`)))
      expect([...new Set(bySeed)].sort()).toEqual([...prompt].sort())
      expect([...new Set(byText)].sort()).toEqual([...prompt].sort())
      expect(await drawn(3, 'so')).toBe(bySeed[3])
    }))

  it('refuses options that contradict each other, and a condition that does not answer for each', async () => {
    expect(() => AddThinkingPrompt({ cond: always, prompt: [], role: 'user' })).toThrow(
      /prompt must be a text, or a list of texts; editLastTurn 'close' edits what the assistant said/,
    )
    expect(() => AddThinkingPrompt({ cond: always, prompt: '' })).toThrow(RangeError)
    await freeing(async (keep) => {
      const previous = await played(chat({}), keep)
      const next = keep(await answered(chat({ cond: rewardAtMost(0) }).step(previous as never, replies(WRONG)))) // of the same chat
      const step = AddThinkingPrompt({ cond: () => [1, 0], prompt: 'Wait.' }).step
      const context = { previous, action: TensorDict({}, [1]) }
      expect(() => step(next, context, key)).toThrow('cond must answer once for each of 1 elements, got 2')
    })
  })

  describe('around a chat', () => {
    const options = fc.constantFrom('close' as const, 'continue' as const, 'no' as const)
    const act = () => replies(WRONG)
    const sample = options.map((editLastTurn) => ({
      env: chat({ editLastTurn }),
      request: () => asking('?'),
      act,
      steps: 3,
    }))
    checkLaws(it, envLaws(sample, 3))
  })
})
