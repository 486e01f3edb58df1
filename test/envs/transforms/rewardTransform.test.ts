import { keyFromSeed } from '@tandem-rl/base'
import { checkLaws, envLaws, erased, transformLaws } from '@tandem-rl/testing'
import { message, type Task, textOf } from '@tandem-rl/text'
import { discard } from '@tandem-rl/tfjs-onnxruntime/scope'
import { calculator, SimpleToolTransform, ToolRegistry } from '@tandem-rl/tools'
import fc from 'fast-check'
import { pipe } from 'fp-ts/lib/function.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { describe, expect, it } from 'vitest'
import { dataSpec } from '../../../src/data/spec.js'
import { type RowTask, taskList } from '../../../src/data/task.js'
import { data, ragged } from '../../../src/data/tensorDict/leaf.js'
import { get, TensorDict } from '../../../src/data/tensorDict/tensorDict.js'
import { DatasetChatEnv } from '../../../src/envs/datasetChatEnv.js'
import { gsm8kAnswerReward } from '../../../src/envs/rewards/gsm8k.js'
import { replyOf } from '../../../src/envs/rewards/reply.js'
import type { Reward, RewardService, Scored } from '../../../src/envs/rewards/reward.js'
import { type RewardScene, reward } from '../../../src/envs/rewards/rewardFunction.js'
import { GSM8KRewardParser } from '../../../src/envs/transforms/answerParsers.js'
import type { InputMode } from '../../../src/envs/transforms/responses.js'
import { rewardKey } from '../../../src/envs/transforms/rewardEntries.js'
import { rewardTransform } from '../../../src/envs/transforms/rewardTransform.js'
import { StepCounter } from '../../../src/envs/transforms/stepCounter.js'
import { append } from '../../../src/envs/transforms/transform.js'
import {
  answered,
  END_OF_TURN,
  empty,
  followUp,
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

describe('rewardTransform', () => {
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
      .chain((reward) =>
        fc.constantFrom('end' as const, 'turn' as const).map((when) => erased(rewardTransform({ reward, when }))),
      )
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
        const ours = rewardTransform({ reward: gsm8kAnswerReward(), when: 'turn' })
        const [expected] = keep(await answered(parser.step(columns(said.length) as never, context, parser.initial))) // has the columns
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
        const env = pipe(chats(), append(rewardTransform({ reward: spy, inputMode, endOfTurn: END_OF_TURN })))
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
        append(rewardTransform({ reward: leveled, when: 'turn', onAnswer: 'continue' })),
      )
      const state = keep(await answered(env.reset(empty(2), key)))
      expect(itemsAt(state, 'task')).toEqual([expect.objectContaining({ row: { level: 3 } }), expect.anything()])
      const next = keep(await answered(env.step(state, replies('x', 'y'))))
      expect(numbersAt(next, 'reward')).toEqual([3, 5])
      expect(numbersAt(next, 'done')).toEqual([0, 0])
      const narrow = DatasetChatEnv({ source: rows, prompts: 2 })
      // @ts-expect-error the state has no task
      pipe(narrow, append(rewardTransform({ reward: leveled })))
    }))

  it('adds to the reward that is there, and leaves a state without a reward before the first step', () =>
    freeing(async (keep) => {
      const twice = pipe(
        chats(),
        append(rewardTransform({ reward: exact, when: 'turn', onAnswer: 'continue' })),
        append(rewardTransform({ reward: { ...exact, partNames: [] } })),
      )
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
      const env = pipe(chats(), append(rewardTransform({ reward: noticing, when: 'turn', onAnswer: 'continue' })))
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
      const env = pipe(chats(), append(rewardTransform({ reward: dead })))
      const state = keep(await answered(env.reset(empty(2), key)))
      const failure = await refused(env.step(state, replies('a', 'b')))
      expect(failure.reason).toContain('the judge is gone')
      expect(signals.map(({ aborted }) => aborted)).toEqual([true, true])
    }))

  it('refuses parts that would share an entry, and an action without the view', async () => {
    expect(() => rewardTransform({ reward: { ...exact, partNames: ['a.b', 'a b', 'c', 'c'] } })).toThrow(
      "rewardTransform(exact): the part 'a b' is not the only one under 'rewardAB'; the part 'c' is not the only one under 'rewardC'",
    )
    const transform = rewardTransform({ reward: exact })
    const context = { previous: columns(1), action: TensorDict({ text: { response: data(['x']) } }, [1]) }
    const failure = await refused(transform.step(columns(1) as never, context, transform.initial)) // has the columns
    expect(failure.reason).toContain('history.response')
  })

  describe('when the episode ends', () => {
    /** Right answers of a function that counts its calls. */
    const counted = () => {
      const asked: string[] = []
      const reward = ({ prediction, answer }: RewardScene): number => {
        asked.push(prediction)
        return answer.endsWith(prediction) ? 1 : 0
      }
      return { asked, reward }
    }

    it('pays a conversation with a tool once, for its last message, and is not ended by its first call', () =>
      freeing(async (keep) => {
        const { asked, reward } = counted()
        const registry = ToolRegistry([calculator()])
        const env = pipe(
          chats(),
          append(SimpleToolTransform({ registry, format: 'hermes' })),
          append(rewardTransform({ reward })),
        )
        const call = '<tool_call>{"name": "calculator", "arguments": {"expression": "1 + 1"}}</tool_call>'
        const state = keep(await answered(env.reset(empty(2), key)))
        const called = keep(await answered(env.step(state, replies(call, '3'))))
        expect([numbersAt(called, 'reward'), numbersAt(called, 'done')]).toEqual([
          [0, 0],
          [0, 1],
        ])
        const last = keep(await answered(env.step(called, replies('2', '2'))))
        expect([numbersAt(last, 'reward'), numbersAt(last, 'success'), numbersAt(last, 'done')]).toEqual([
          [1, 0],
          [1, 0],
          [1, 1],
        ])
        expect(asked).toEqual(['3', '2'])
      }))

    it('asks once at the limit of a conversation that goes on, and leaves the end to the limit', () =>
      freeing(async (keep) => {
        const { asked, reward } = counted()
        const env = pipe(
          chats(),
          append(followUp('And then?')),
          append(StepCounter({ maxSteps: 3 })),
          append(rewardTransform({ reward })),
        )
        let state: TensorDict = keep(await answered(env.reset(empty(2), key)))
        for (const text of ['a', 'b', '2', 'd'])
          state = keep(await answered(env.step(state as never, replies(text, text)))) // a state of the environment
        expect(asked).toEqual(['2', '2'])
        expect([numbersAt(state, 'terminated'), numbersAt(state, 'truncated'), numbersAt(state, 'success')]).toEqual([
          [0, 0],
          [1, 1],
          [1, 1],
        ])
      }))

    it('pays every turn with when: turn, and ends nothing with onAnswer: continue', () =>
      freeing(async (keep) => {
        const { asked, reward } = counted()
        const env = pipe(chats(), append(rewardTransform({ reward, when: 'turn', onAnswer: 'continue' })))
        let state: TensorDict = keep(await answered(env.reset(empty(2), key)))
        for (let turn = 0; turn < 2; turn++) state = keep(await answered(env.step(state as never, replies('2', 'x')))) // of the environment
        expect([asked.length, numbersAt(state, 'reward'), numbersAt(state, 'done')]).toEqual([4, [1, 0], [0, 0]])
      }))
  })

  describe('with a plain function', () => {
    it('has one typed entry for each part, and their weighted sum as the reward', () =>
      freeing(async (keep) => {
        const env = pipe(
          chats(),
          append(
            rewardTransform({
              reward: async ({ prediction, answer, trajectory }) => {
                const right = answer.endsWith(prediction) ? 1 : 0
                return { reward: right + 0.25 * trajectory.length, right, 'turn.count': trajectory.length }
              },
              parts: ['right', 'turn.count'],
            }),
          ),
        )
        const next = keep(await answered(env.step(keep(await answered(env.reset(empty(2), key))), replies('2', '7'))))
        expect(Array.from(get(next, 'reward').dataSync())).toEqual([1.5, 0.5])
        expect(Array.from(get(next, 'rewardRight').dataSync())).toEqual([1, 0])
        expect(Array.from(get(next, 'rewardTurnCount').dataSync())).toEqual([2, 2])
        expect(Array.from(get(next, 'success').dataSync())).toEqual([1, 0])
        // @ts-expect-error there is no such part
        expect(() => get(next, 'rewardWrong')).toThrow(/rewardWrong/)
      }))

    it('reads the fields of its task where the environment keeps it', () =>
      freeing(async (keep) => {
        const source = taskList('levels', [{ id: 'a', query: 'One?', answer: '1', level: 3 }])
        const env = pipe(
          DatasetChatEnv({ source, prompts: 1, keep: 'task' }),
          append(rewardTransform({ reward: ({ level }: RewardScene<Task & { readonly level: number }>) => level })),
        )
        const next = keep(await answered(env.step(keep(await answered(env.reset(empty(1), key))), replies('x'))))
        expect(Array.from(get(next, 'reward').dataSync())).toEqual([3])
      }))

    it.each<[string, () => never, RegExp]>([
      [
        'throws',
        () => {
          throw new TypeError('no number')
        },
        /task t1: it threw TypeError: no number/,
      ],
      ['returns no number', () => 'one' as never, /it returned a value of type string: expected a finite number/],
      ['returns NaN', () => Number.NaN as never, /it returned NaN/],
      ['rejects', () => Promise.reject(new Error('gone')) as never, /it threw Error: gone/],
    ])('fails the step where the function %s', async (_, reward, reason) => {
      const env = pipe(chats(), append(rewardTransform({ reward })))
      const state = await answered(env.reset(empty(2), key))
      expect((await refused(env.step(state, replies('a', 'b')))).reason).toMatch(reason)
      discard(state)
    })

    it('fails the step where parts are missing or unknown, with the names', async () => {
      const reward = () => ({ reward: 1, rigt: 1 }) as never
      const env = pipe(chats(), append(rewardTransform({ reward, parts: ['right'] })))
      const state = await answered(env.reset(empty(2), key))
      expect((await refused(env.step(state, replies('a', 'b')))).reason).toMatch(
        /the part 'right' must be a finite number, got undefined; unknown part 'rigt': did you mean 'right'/,
      )
      discard(state)
    })

    it('refuses parts for a reward that has its own, and unknown options', () => {
      expect(() => rewardTransform({ reward: exact, parts: ['a'] } as never)).toThrow(
        /parts, solvedAt and optional are for functions/,
      )
      expect(() => rewardTransform({ rewards: exact } as never)).toThrow(
        "unknown option 'rewards': did you mean 'reward'?",
      )
    })
  })

  describe('of a reward with extras', () => {
    const extras = reward((() => ({ reward: 1, brevity: 2 })) as never, { extras: 'parts' }) // names of extras have no type
    const env = () => pipe(chats(), append(rewardTransform({ reward: extras })))
    checkLaws(it, envLaws(fc.constant({ env: env(), act: () => replies('2', 'x'), steps: 2 }), 5))
  })

  describe('around conversations', () => {
    const env = () => pipe(chats(), append(rewardTransform({ reward: gsm8kAnswerReward() })))
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
