import { keyFromSeed } from '@tandem-rl/base'
import { checkLaws, envLaws, erased, transformLaws } from '@tandem-rl/testing'
import { message } from '@tandem-rl/text'
import * as tf from '@tensorflow/tfjs-core'
import fc from 'fast-check'
import { pipe } from 'fp-ts/lib/function.js'
import { describe, expect, it } from 'vitest'
import { dataSpec } from '../../../src/data/spec.js'
import { toNested } from '../../../src/data/tensorDict/inspect.js'
import { data, ragged } from '../../../src/data/tensorDict/leaf.js'
import { TensorDict } from '../../../src/data/tensorDict/tensorDict.js'
import { DatasetChatEnv } from '../../../src/envs/datasetChatEnv.js'
import { gsm8kReward } from '../../../src/envs/rewards/gsm8k.js'
import { GSM8KRewardParser, type GSM8KRewardParserOptions } from '../../../src/envs/transforms/answerParsers.js'
import type { InputMode } from '../../../src/envs/transforms/responses.js'
import { TemplateTransform } from '../../../src/envs/transforms/templateTransform.js'
import { Tokenizer } from '../../../src/envs/transforms/tokenizer.js'
import { append } from '../../../src/envs/transforms/transform.js'
import {
  answered,
  END_OF_TURN,
  empty,
  freeing,
  numbersAt,
  refused,
  taskOf,
  tasks,
  template,
  tokenizer,
} from '../../kit/conversation.js'
import { useEngine } from '../../kit/engine.js'

useEngine()

const key = keyFromSeed(5)
const MODES: readonly InputMode[] = [{ _tag: 'history' }, { _tag: 'text' }, { _tag: 'tokens', tokenizer }]
const PARTS = ['reward', 'rewardAnswer', 'rewardThink', 'rewardRight', 'success', 'terminated', 'done'] as const

/** Pieces of completions: tags in any order, numbers, special tokens. */
const piece = fc.constantFrom(
  '<think>',
  '</think>',
  '<answer>',
  '</answer>',
  '<answer>2</answer>',
  '<think>1 + 1</think>',
  '2',
  '$2.00',
  '3',
  ' ',
  '\n',
  'x',
  '<|endoftext|>',
  '<|im_start|>',
  'é',
)
const pieces = fc.array(piece, { maxLength: 4 }).map((parts) => parts.join(''))
const completion = fc
  .tuple(
    pieces,
    fc.oneof(
      pieces,
      pieces.map((inner) => `<answer>${inner}</answer>`),
    ),
    fc.constantFrom('', END_OF_TURN),
  )
  .map((parts) => parts.join(''))
const completions = fc.array(completion, { minLength: 1, maxLength: 4 })

const answersOf = (size: number): TensorDict =>
  TensorDict(
    Object.fromEntries(['answer', 'query', 'taskId'].map((name) => [name, data(new Array(size).fill('#### 2'))])),
    [size],
  )

/** An action with all three views of the completions. */
const views = (texts: readonly string[]): TensorDict =>
  TensorDict(
    {
      history: { response: data(texts.map((text) => message('assistant', text))) },
      text: { response: data(texts) },
      tokens: {
        response: ragged(
          'int32',
          texts.map((text) => tokenizer.encode(text)),
        ),
      },
    },
    [texts.length],
  )

/** The entries that one step adds to a state with answers. */
const scored = async (options: GSM8KRewardParserOptions, next: TensorDict, texts: readonly string[]) => {
  const context = { previous: next, action: views(texts) }
  const parser = GSM8KRewardParser(options)
  const [added] = await answered(parser.step(next as never, context, parser.initial)) // has the columns
  return added
}

/** A whole environment in which the policy speaks tokens. */
const spoken = (inputMode: InputMode) =>
  pipe(
    DatasetChatEnv({ source: tasks(10), prompts: 1, repeats: 2, start: 1 }),
    append(GSM8KRewardParser({ inputMode })),
    append(TemplateTransform({ template, endOfTurn: END_OF_TURN })),
    append(Tokenizer({ tokenizer })),
  )

const sampled = (...texts: readonly string[]) =>
  TensorDict(
    {
      tokens: {
        response: ragged(
          'int32',
          texts.map((text) => tokenizer.encode(text)),
        ),
      },
    },
    [texts.length],
  )

describe('GSM8KRewardParser', () => {
  const parsers = fc
    .tuple(fc.constantFrom(...MODES), fc.constantFrom('terminate' as const, 'continue' as const))
    .map(([inputMode, onAnswer]) => erased(GSM8KRewardParser({ inputMode, onAnswer })))
  const samples = completions.map((texts) => ({
    inner: {
      observation: { answer: dataSpec('string'), query: dataSpec('string'), taskId: dataSpec('string') },
      action: {},
    },
    state: () => answersOf(texts.length),
    action: () => views(texts),
    next: () => answersOf(texts.length),
  }))
  describe('as a transform', () => checkLaws(it, transformLaws(parsers, samples)))

  it.each(MODES)('in $_tag mode every part is that of gsm8kReward, row by row', async (inputMode) => {
    const law = fc.asyncProperty(completions, (texts) =>
      freeing(async (keep) => {
        const td = keep(await scored({ inputMode }, answersOf(texts.length), texts))
        const expected = texts.map((text) => gsm8kReward(text, '#### 2'))
        const column = (f: (score: (typeof expected)[number]) => number): readonly number[] =>
          Array.from(Float32Array.from(expected.map(f)))
        expect(numbersAt(td, 'reward')).toEqual(column((s) => s.reward))
        expect(numbersAt(td, 'rewardAnswer')).toEqual(column((s) => s.answer))
        expect(numbersAt(td, 'rewardThink')).toEqual(column((s) => s.think))
        expect(numbersAt(td, 'rewardRight')).toEqual(column((s) => s.right))
        expect(numbersAt(td, 'success')).toEqual(column((s) => s.right))
        expect(numbersAt(td, 'done')).toEqual(column((s) => s.answer))
      }),
    )
    await fc.assert(law)
  })

  it('gives one environment the same rewards in all modes, whatever was sampled', async () => {
    const law = fc.asyncProperty(completion, completion, (first, second) =>
      freeing(async (keep) => {
        const results: unknown[] = []
        for (const inputMode of MODES) {
          const env = spoken(inputMode)
          const state = keep(await answered(env.reset(empty(2), key)))
          const next = keep(await answered(env.step(state, sampled(first, second))))
          results.push(PARTS.map((name) => numbersAt(next, name)))
        }
        expect(results[1]).toEqual(results[0])
        expect(results[2]).toEqual(results[0])
      }),
    )
    await fc.assert(law, { numRuns: 50 })
  })

  it('does not look at the prompt: an answer block in the question earns nothing', () =>
    freeing(async (keep) => {
      for (const inputMode of MODES) {
        const env = spoken(inputMode)
        const state = keep(await answered(env.reset(empty(2), key)))
        const asked = TensorDict({ ...Object.fromEntries(state.entries), query: data(['<answer>2</answer>', '']) }, [2])
        const next = keep(await answered(env.step(asked as typeof state, sampled('no', 'no')))) // only its question is another
        expect(numbersAt(next, 'reward')).toEqual([0, 0])
      }
    }))

  it('adds to the reward that is there, and neither pays nor reopens what has ended', () =>
    freeing(async (keep) => {
      const flags = tf.tensor1d([1, 0], 'bool')
      const outcome = { reward: tf.tensor1d([10, 20]), terminated: flags, done: flags }
      const next = keep(TensorDict({ ...Object.fromEntries(answersOf(2).entries), ...outcome }, [2]))
      const td = keep(await scored({}, next, ['<answer>2</answer>', '<answer>2</answer>']))
      expect(numbersAt(td, 'reward')).toEqual([10, 21])
      expect(numbersAt(td, 'terminated')).toEqual([1, 1])
      expect(numbersAt(td, 'done')).toEqual([1, 1])
    }))

  it('onAnswer continue scores without ending the episode', () =>
    freeing(async (keep) => {
      const td = keep(await scored({ onAnswer: 'continue' }, answersOf(2), ['<answer>2</answer>', 'x']))
      expect(numbersAt(td, 'success')).toEqual([1, 0])
      expect(numbersAt(td, 'terminated')).toEqual([0, 0])
      expect(numbersAt(td, 'done')).toEqual([0, 0])
    }))

  it('passes the rewards of its options on', () =>
    freeing(async (keep) => {
      const options = { correctReward: 4, formatReward: 2 }
      const td = keep(await scored(options, answersOf(3), ['<answer>2</answer>', '<answer>3</answer>', '2']))
      expect(numbersAt(td, 'reward')).toEqual([4, 2, 0])
    }))

  it('has scored nothing before the first step', () =>
    freeing(async (keep) => {
      const parser = GSM8KRewardParser()
      const [added] = await answered(parser.reset(answersOf(2) as never, parser.initial, key)) // has the columns
      keep(added)
      expect(toNested(added)).toEqual({
        rewardAnswer: [0, 0],
        rewardThink: [0, 0],
        rewardRight: [0, 0],
        success: [0, 0],
      })
    }))

  it.each(MODES)('refuses an action without the view of $_tag mode', async (inputMode) => {
    const withOther = { history: { tokens: 1 }, text: { tokens: 1 }, tokens: { text: 1 } }[inputMode._tag]
    const kind = 'tokens' in withOther ? ragged('int32', [[1]]) : data(['x'])
    for (const action of [empty(1), TensorDict({ [inputMode._tag]: { response: kind } }, [1])]) {
      const context = { previous: empty(1), action }
      const parser = GSM8KRewardParser({ inputMode })
      const failure = await refused(parser.step(answersOf(1) as never, context, parser.initial)) // has the columns
      expect(failure.reason).toContain(`${inputMode._tag}.response`)
    }
  })

  describe('around conversations that speak tokens', () => {
    const runs = fc.tuple(fc.constantFrom(...MODES), completion).map(([inputMode, text]) => ({
      env: spoken(inputMode),
      act: () => sampled(text, `<answer>${2 * taskOf(1).query.length}</answer>`),
      steps: 2,
    }))
    checkLaws(it, envLaws(runs))
  })
})
