import { keyFromSeed, parseJsonLines } from '@tandem-rl/base'
import { checkLaws, envLaws, erased, transformLaws } from '@tandem-rl/testing'
import { type History, textOf } from '@tandem-rl/text'
import fc from 'fast-check'
import * as E from 'fp-ts/lib/Either.js'
import { describe, expect, it } from 'vitest'
import { IFEVAL } from '../../src/data/datasets/ifEval.js'
import { tasksOfRows } from '../../src/data/datasets/rows.js'
import { dataSpec } from '../../src/data/spec.js'
import { data } from '../../src/data/tensorDict/leaf.js'
import { TensorDict } from '../../src/data/tensorDict/tensorDict.js'
import { IFEVAL_SYSTEM_PROMPT, IFEvalEnv } from '../../src/envs/ifEvalEnv.js'
import { IfEvalScorer } from '../../src/envs/transforms/ifEvalScorer.js'
import { answered, empty, freeing, itemsAt, numbersAt, refused, replies } from '../kit/conversation.js'
import { useEngine } from '../kit/engine.js'
import { ifEvalTask, inBlocks, loadedDetector } from '../kit/ifEval.js'

useEngine()

const detectLanguage = await loadedDetector()
const key = keyFromSeed(3)

const ROWS = [
  { key: 1, prompt: 'Write without commas.', instruction_id_list: ['punctuation:no_comma'], kwargs: [{}] },
  {
    key: 2,
    prompt: 'Write a title and two words.',
    instruction_id_list: ['detectable_format:title', 'length_constraints:number_words'],
    kwargs: [{ num_words: null }, { num_words: 3, relation: 'less than' }],
  },
]
const loaded = parseJsonLines(ROWS.map((row) => JSON.stringify(row)).join('\n'), {
  schema: IFEVAL.schema,
  source: 'ifeval',
})
if (E.isLeft(loaded)) throw new Error(loaded.left.reason)
const tasks = tasksOfRows('ifeval', loaded.right, IFEVAL)
if (E.isLeft(tasks)) throw new Error(tasks.left.reason)
const source = tasks.right

const env = (reward: object = {}) =>
  IFEvalEnv({
    source,
    prompts: 2,
    repeats: 2,
    systemPrompt: IFEVAL_SYSTEM_PROMPT,
    reward: { detectLanguage, ...reward },
  })

describe('IFEvalEnv', () => {
  it('asks the prompts of the rows, and rewards each reply by the instructions of its own', () =>
    freeing(async (keep) => {
      const state = keep(await answered(env().reset(empty(4), key)))
      expect(itemsAt(state, 'query')).toEqual([1, 1, 2, 2].map((row) => ROWS[row - 1]!.prompt))
      // The cast is right: it is the prompt of a conversation.
      const [first] = itemsAt(state, 'history', 'prompt') as readonly History[]
      expect(first!.messages.map(textOf).toArray()).toEqual([IFEVAL_SYSTEM_PROMPT, 'Write without commas.'])
      expect(itemsAt(state, 'ifEvalScore')).toEqual([null, null, null, null])
      const said = ['No comma', 'A, b', '<<A>> word', 'Only words'].map(inBlocks)
      const next = keep(await answered(env().step(state, replies(...said))))
      const rewards = [1.15, 0.15, 1.15, 0.15 + 0.15 + 0.05]
      expect(numbersAt(next, 'reward')).toEqual(rewards.map((reward) => expect.closeTo(reward, 6)))
      expect(numbersAt(next, 'success')).toEqual([1, 0, 1, 0])
      expect(numbersAt(next, 'rewardInstLevelStrict')).toEqual([1, 0, 1, 0.5])
      expect(numbersAt(next, 'done')).toEqual([1, 1, 1, 1])
      expect(itemsAt(next, 'ifEvalScore')[3]).toEqual({
        promptLevelStrict: false,
        promptLevelLoose: false,
        instLevelStrict: [false, true],
        instLevelLoose: [false, true],
      })
    }))

  it('judges the whole reply where it is asked to, and a step without an answer is cut off, not ended', () =>
    freeing(async (keep) => {
      const whole = env({ judged: 'reply' })
      const state = keep(await answered(whole.reset(empty(4), key)))
      const next = keep(await answered(whole.step(state, replies('No comma', '', '<<A>>', 'Only words'))))
      expect(numbersAt(next, 'reward')).toEqual([1, 0, 1, 0.2].map((reward) => expect.closeTo(reward, 6)))
      expect(numbersAt(next, 'terminated')).toEqual([1, 0, 1, 1])
      expect(numbersAt(next, 'truncated')).toEqual([1, 1, 1, 1])
    }))

  describe('as an environment', () => {
    const texts = fc.constantFrom('', 'No comma', inBlocks('a, b'), inBlocks('<<T>> x'), '<answer></answer>')
    const samples = fc.tuple(texts, texts).map(([first, second]) => ({
      env: IFEvalEnv({ source, prompts: 2, reward: { detectLanguage }, maxSteps: 2 }),
      act: () => replies(first, second),
      steps: 2,
    }))
    checkLaws(it, envLaws(samples, 4))
  })
})

describe('IfEvalScorer', () => {
  const task = ifEvalTask({ id: 'punctuation:no_comma', kwargs: {} })
  const state = (size: number): TensorDict => TensorDict({ task: data(new Array(size).fill(task)) }, [size])

  describe('as a transform', () => {
    const scorers = fc
      .constantFrom('terminate' as const, 'continue' as const)
      .map((onAnswer) => erased(IfEvalScorer({ detectLanguage, onAnswer })))
    const samples = fc.array(fc.constantFrom('', 'x', inBlocks('a'), inBlocks('a, b')), { minLength: 1, maxLength: 4 })
    checkLaws(
      it,
      transformLaws(
        scorers,
        samples.map((texts) => ({
          inner: { observation: { task: dataSpec('Task') }, action: {} },
          state: () => state(texts.length),
          action: () => replies(...texts) as TensorDict,
          next: () => state(texts.length),
        })),
      ),
    )
  })

  it('continues where it is asked to', () =>
    freeing(async (keep) => {
      const context = { previous: state(1), action: replies(inBlocks('a')) }
      const [added] = await answered(
        IfEvalScorer({ detectLanguage, onAnswer: 'continue' }).step(state(1) as never, context, null), // has `task`
      )
      keep(added)
      expect(numbersAt(added, 'done')).toEqual([0])
      expect(numbersAt(added, 'success')).toEqual([1])
    }))

  it('refuses an action that says nothing', async () => {
    const failure = await refused(
      IfEvalScorer({ detectLanguage }).step(state(1) as never, { previous: state(1), action: empty(1) }, null), // has `task`
    )
    expect(failure.reason).toContain('history.response')
  })
})
