/** Rewards whose arguments are found by name. */
import { keyFromSeed, orThrow } from '@tandem-rl/base'
import { scriptedHistoryPolicy } from '@tandem-rl/testing'
import { History, message, type Task, textOf } from '@tandem-rl/text'
import { own } from '@tandem-rl/tfjs-onnxruntime/scope'
import { SimpleToolTransform, ToolRegistry } from '@tandem-rl/tools'
import * as E from 'fp-ts/lib/Either.js'
import { pipe } from 'fp-ts/lib/function.js'
import { describe, expect, it } from 'vitest'
import { type RowTask, taskList } from '../../../src/data/task.js'
import { get } from '../../../src/data/tensorDict/tensorDict.js'
import { DatasetChatEnv } from '../../../src/envs/datasetChatEnv.js'
import { type RewardScene, reward } from '../../../src/envs/rewards/rewardFunction.js'
import { exactMatch } from '../../../src/envs/rewards/textMatch.js'
import { rollout } from '../../../src/envs/rollout.js'
import { rewardTransform } from '../../../src/envs/transforms/rewardTransform.js'
import { append } from '../../../src/envs/transforms/transform.js'
import { useEngine } from '../../kit/engine.js'
import { adder, callOf, finisher } from '../../kit/tools.js'

useEngine()

const key = keyFromSeed(1)
const context = { key, signal: new AbortController().signal }
const task = { id: 'a', query: 'What is it?', answer: '42', level: 3 }
const answeredBy = <T extends Task>(of: T, reply: string) => ({
  task: of,
  history: History([message('user', of.query), message('assistant', reply)]),
})

type Leveled = Task & { readonly level: number }

describe('reward', () => {
  it('gives a function its arguments by name: the prediction, the trajectory and the fields of the row', async () => {
    const seen = reward(
      ({ prediction, trajectory, answer, level, task: row }: RewardScene<Leveled>) => {
        expect(trajectory.map(textOf)).toEqual(['What is it?', '41'])
        expect(row).toBe(task)
        return { reward: prediction === answer ? level : 0, near: Number(answer) - Number(prediction) }
      },
      { parts: ['near'], solvedAt: 3 },
    )
    expect(orThrow(await seen.score(answeredBy(task, '41'), context)())).toEqual({
      reward: 0,
      success: false,
      parts: { near: 1 },
    })
  })

  it('reads the fields of a nested row, and the field of the task first', async () => {
    const nested: RowTask<{ readonly level: number; readonly query: string }> = {
      ...{ id: 'a', query: 'outer', answer: '' },
      row: { level: 7, query: 'inner' },
    }
    const both = reward<typeof nested>(({ level, query }) => (query === 'outer' ? level : 0))
    expect(orThrow(await both.score(answeredBy(nested, ''), context)()).reward).toBe(7)
  })

  it('fails by name where the row lacks a field, with the fields that it has', async () => {
    const wanting = reward<Leveled>(({ level }) => level, { name: 'leveled' })
    const { level: _, ...without } = task
    const failed = await wanting.score(answeredBy(without as Leveled, ''), context)() // a row that is not as typed
    expect(failed).toEqual(
      E.left({
        ...{ _tag: 'RewardFailure', rewardName: 'leveled' },
        reason:
          "task a: the row has no field 'level'; it has id, query, answer (environments keep whole rows with keep: 'task')",
      }),
    )
  })

  it('gives undefined for an optional field', async () => {
    const lenient = reward<Task & { readonly level?: number }>(({ level = 5 }) => level, { optional: ['level'] })
    const { level: _, ...without } = task
    expect(orThrow(await lenient.score(answeredBy(without, ''), context)()).reward).toBe(5)
  })

  it('does not compile with a field that the row type lacks', () => {
    // @ts-expect-error rows of tasks have no level
    reward(({ level }) => level)
    // @ts-expect-error the part is not declared
    reward(() => ({ reward: 1, brief: 1 }))
    const source = taskList('rows', [{ query: 'Q' }])
    const leveled = reward<Leveled>(({ level }) => level)
    const wrong = () =>
      // @ts-expect-error the rows of this source have no level
      pipe(DatasetChatEnv({ source, prompts: 1, keep: 'task' }), append(rewardTransform({ reward: leveled })))
    expect(wrong).toBeTypeOf('function')
  })

  it.each([
    ['a number that is not finite', () => Number.NaN, 'it returned NaN: expected a finite number'],
    ['a record without reward', () => ({ right: 1 }) as never, 'reward must be a finite number, got undefined'],
    ['an exception', () => JSON.parse('{'), 'it threw SyntaxError'],
  ])('is a failure and never 0 for %s', async (_, f, reason) => {
    const failed = await reward(f).score(answeredBy(task, ''), context)()
    expect(failed).toMatchObject({ left: { reason: expect.stringContaining(reason) } })
  })

  it('reads the result of the tool call that ended the episode, and so do the rewards of this library', async () => {
    const rewards = [
      reward(({ prediction, answer, tools }) => (prediction === answer ? Number(tools.add) : 0)),
      exactMatch(),
    ]
    for (const each of rewards) {
      const env = pipe(
        DatasetChatEnv({ source: taskList('one', [task]), prompts: 1 }),
        append(SimpleToolTransform({ registry: ToolRegistry([adder, finisher]) })),
        append(rewardTransform({ reward: each })),
      )
      const turns = [callOf('add', { by: 1 }), callOf('answer', { text: '42' })]
      const answers = turns.map((call) => message('assistant', 'So.', { toolCalls: [call] }))
      const steps = own(orThrow(await rollout(env, scriptedHistoryPolicy({ answers }), { steps: 5, key })()))
      expect([...get(steps.value, 'next', 'reward').dataSync()]).toEqual([0, 1])
      steps.release()
    }
  })
})
