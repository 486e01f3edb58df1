import fc from 'fast-check'
import { pipe } from 'fp-ts/lib/function.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { describe, expect, it } from 'vitest'
import { keyFromSeed } from '../../../src/core/key.js'
import { message, textOf } from '../../../src/data/history.js'
import { dataSpec } from '../../../src/data/spec.js'
import { type RowTask, taskList } from '../../../src/data/task.js'
import { data, ragged } from '../../../src/data/tensorDict/leaf.js'
import { TensorDict } from '../../../src/data/tensorDict/tensorDict.js'
import { DatasetChatEnv } from '../../../src/envs/datasetChatEnv.js'
import { gsm8kAnswerReward } from '../../../src/envs/rewards/gsm8k.js'
import { replyOf } from '../../../src/envs/rewards/reply.js'
import type { Reward, RewardService, Scored } from '../../../src/envs/rewards/reward.js'
import { GSM8KRewardParser } from '../../../src/envs/transforms/gsm8kRewardParser.js'
import type { InputMode } from '../../../src/envs/transforms/responses.js'
import { rewardKey } from '../../../src/envs/transforms/rewardEntries.js'
import { RewardTransform } from '../../../src/envs/transforms/rewardTransform.js'
import { append } from '../../../src/envs/transforms/transform.js'
import { envLaws } from '../../../src/testing/envLaws.js'
import { checkLaws } from '../../../src/testing/law.js'
import { erased, transformLaws } from '../../../src/testing/transformLaws.js'
import {
  answered,
  END_OF_TURN,
  empty,
  freeing,
  itemsAt,
  numbersAt,
  refused,
  replies,
  tasks,
  tokenizer,
} from '../../kit/conversation.js'
import { useEngine } from '../../kit/engine.js'

useEngine()

const key = keyFromSeed(3)

/** Is the reply the answer of the task? */
const exact: Reward = {
  name: 'exact',
  partNames: ['text.length'],
  range: [0, 1],
  score: (given) => {
    const right = replyOf(given) === given.task.answer
    return { reward: right ? 1 : 0, success: right, parts: { 'text.length': replyOf(given).length } }
  },
}

const asService = (score: Reward['score']): RewardService => ({ ...exact, score: (given) => TE.of(score(given)) })

const chats = () => DatasetChatEnv({ source: tasks(9), prompts: 1, repeats: 2, start: 1 })

describe('RewardTransform', () => {
  const texts = fc.array(fc.constantFrom('<answer>2</answer>', '<answer>3</answer>', '#### 2', ''), {
    minLength: 1,
    maxLength: 3,
  })
  const columns = (size: number): TensorDict => {
    const all = (text: string) => data(new Array<string>(size).fill(text))
    return TensorDict({ query: all('How many?'), answer: all('#### 2'), taskId: all('a') }, [size])
  }
  describe('as a transform', () => {
    const subjects = fc
      .constantFrom<Reward | RewardService>(gsm8kAnswerReward(), exact, asService(exact.score))
      .map((reward) => erased(RewardTransform(reward)))
    const samples = texts.map((said) => ({
      inner: {
        observation: { query: dataSpec('string'), answer: dataSpec('string'), taskId: dataSpec('string') },
        action: {},
      },
      state: () => columns(said.length),
      action: () => replies(...said) as TensorDict,
      next: () => columns(said.length),
    }))
    checkLaws(it, transformLaws(subjects, samples))
  })

  it('with the reward of GSM8K adds what GSM8KRewardParser adds', async () => {
    const law = fc.asyncProperty(texts, (said) =>
      freeing(async (keep) => {
        const context = { previous: columns(said.length), action: replies(...said) as TensorDict }
        const parser = GSM8KRewardParser()
        const ours = RewardTransform(gsm8kAnswerReward())
        const [expected] = keep(await answered(parser.step(columns(said.length) as never, context, null))) // has `answer`
        const [added] = keep(await answered(ours.step(columns(said.length) as never, context, ours.initial))) // has the columns
        for (const name of ['reward', 'rewardAnswer', 'rewardThink', 'rewardRight', 'success', 'terminated', 'done'])
          expect(numbersAt(added, name)).toEqual(numbersAt(expected, name))
      }),
    )
    await fc.assert(law)
  })

  it('shows the reward the conversation with the answer at its end, in every mode', () =>
    freeing(async (keep) => {
      const seen: string[] = []
      const spy: Reward = {
        ...exact,
        score: (given) => {
          seen.push(given.history.messages.map((each) => `${each.role}: ${textOf(each)}`).join('|'))
          return exact.score(given)
        },
      }
      const modes: readonly InputMode[] = [{ _tag: 'history' }, { _tag: 'text' }, { _tag: 'tokens', tokenizer }]
      for (const inputMode of modes) {
        const env = pipe(chats(), append(RewardTransform(spy, { inputMode, endOfTurn: END_OF_TURN })))
        const state = keep(await answered(env.reset(empty(2), key)))
        const written = ['two', 'Twice 1.\n#### 2'].map(
          (text) => text + (inputMode._tag === 'history' ? '' : END_OF_TURN),
        )
        const action = TensorDict(
          {
            history: { response: data(written.map((text) => message('assistant', text))) },
            text: { response: data(written) },
            tokens: {
              response: ragged(
                'int32',
                written.map((text) => tokenizer.encode(text)),
              ),
            },
          },
          [2],
        )
        const next = keep(await answered(env.step(state, action)))
        expect(numbersAt(next, 'reward')).toEqual([0, 1])
        expect(numbersAt(next, 'rewardTextLength')).toEqual([3, 15])
        expect(numbersAt(next, 'done')).toEqual([1, 1]) // every message is an answer: there is no part that says otherwise
      }
      expect(new Set(seen).size).toBe(2)
      expect(seen[0]).toBe('user: What is 1 + 1?|assistant: two')
    }))

  it('shows a reward the row of its task, where the environment keeps it', () =>
    freeing(async (keep) => {
      const rows = taskList<RowTask<{ readonly level: number }>>('rows', [
        { id: 'a', query: 'One?', answer: '1', row: { level: 3 } },
        { id: 'b', query: 'Two?', answer: '2', row: { level: 5 } },
      ])
      const leveled: Reward<RowTask<{ readonly level: number }>> = {
        ...exact,
        range: [0, 9],
        score: ({ task }) => ({ reward: task.row.level, success: true, parts: { 'text.length': 0 } }),
      }
      const env = pipe(
        DatasetChatEnv({ source: rows, prompts: 2, keep: 'task' }),
        append(RewardTransform(leveled, { task: 'whole', onAnswer: 'continue' })),
      )
      const state = keep(await answered(env.reset(empty(2), key)))
      expect(itemsAt(state, 'task')).toEqual([expect.objectContaining({ row: { level: 3 } }), expect.anything()])
      const next = keep(await answered(env.step(state, replies('x', 'y'))))
      expect(numbersAt(next, 'reward')).toEqual([3, 5])
      expect(numbersAt(next, 'done')).toEqual([0, 0])
      const narrow = DatasetChatEnv({ source: rows, prompts: 2 })
      // @ts-expect-error the state has no task: the compiler sees it, and so do the specs
      expect(() => pipe(narrow, append(RewardTransform(leveled, { task: 'whole' })))).toThrow(/task: missing/)
    }))

  it('adds to the reward that is there, and leaves a state without a reward before the first step', () =>
    freeing(async (keep) => {
      const twice = pipe(chats(), append(RewardTransform(exact)), append(RewardTransform({ ...exact, partNames: [] })))
      const state = keep(await answered(twice.reset(empty(2), key)))
      expect([numbersAt(state, 'rewardTextLength'), numbersAt(state, 'success')]).toEqual([
        [0, 0],
        [0, 0],
      ])
      const next = keep(await answered(twice.step(state, replies('Twice 1.\n#### 2', ''))))
      expect(numbersAt(next, 'reward')).toEqual([2, 0])
    }))

  it('gives each element and each turn of a service a key of its own, the same when it is played again', () =>
    freeing(async (keep) => {
      const keys: string[] = []
      const noticing: RewardService = {
        ...exact,
        score: (given, context) => {
          keys.push(`${context.key.high}.${context.key.low}`)
          return TE.of(exact.score(given))
        },
      }
      const env = pipe(chats(), append(RewardTransform(noticing, { onAnswer: 'continue' })))
      for (let round = 0; round < 2; round++) {
        const state = keep(await answered(env.reset(empty(2), key)))
        const next = keep(await answered(env.step(state, replies('a', 'b'))))
        keep(await answered(env.step(next, replies('a', 'b'))))
      }
      expect(new Set(keys).size).toBe(4)
      expect(keys.slice(4)).toEqual(keys.slice(0, 4))
    }))

  it('fails the step where a service fails, and tells the others that nobody waits', () =>
    freeing(async (keep) => {
      const signals: AbortSignal[] = []
      const dead: RewardService = {
        ...exact,
        score: ({ history }, { signal }) => {
          signals.push(signal)
          const failure = { _tag: 'RewardFailure', rewardName: 'exact', reason: 'the judge is gone' } as const
          return replyOf({ history }) === 'a'
            ? TE.left(failure)
            : TE.of<never, Scored>(exact.score({ history, task: tasks(1).at(0) as never })) // never read
        },
      }
      const env = pipe(chats(), append(RewardTransform(dead)))
      const state = keep(await answered(env.reset(empty(2), key)))
      const failure = await refused(env.step(state, replies('a', 'b')))
      expect(failure.reason).toContain('the judge is gone')
      expect(signals.map(({ aborted }) => aborted)).toEqual([true, true])
    }))

  it('refuses parts that would share an entry, and an action without the view', async () => {
    expect(() => RewardTransform({ ...exact, partNames: ['a.b', 'a b', 'c', 'c'] })).toThrow(
      "RewardTransform(exact): the part 'a b' is not the only one under 'rewardAB'; the part 'c' is not the only one under 'rewardC'",
    )
    const transform = RewardTransform(exact)
    const context = { previous: columns(1), action: TensorDict({ text: { response: data(['x']) } }, [1]) }
    const failure = await refused(transform.step(columns(1) as never, context, transform.initial)) // has the columns
    expect(failure.reason).toContain('history.response')
  })

  describe('around conversations', () => {
    const env = () => pipe(chats(), append(RewardTransform(gsm8kAnswerReward())))
    checkLaws(
      it,
      envLaws(
        fc
          .constantFrom('<answer>2</answer>', '')
          .map((text) => ({ env: env(), act: () => replies(text, 'x'), steps: 2 })),
        5,
      ),
    )
  })
})

describe('rewardKey', () => {
  it.each([
    ['answer', 'rewardAnswer'],
    ['math.answer', 'rewardMathAnswer'],
    ['keywords:existence', 'rewardKeywordsExistence'],
    ['inst_level_strict', 'rewardInstLevelStrict'],
    ['', 'reward'],
  ])('%j is under %s', (part, entry) => {
    expect(rewardKey(part)).toBe(entry)
  })
})
