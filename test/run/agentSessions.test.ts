/**
 * Batches of the user's agent: failed attempts are played again, their groups are left out, and
 * rewards never fail to 0.
 */
import { keyFromSeed } from '@tandem-rl/base'
import type { OpenAgent, Task } from '@tandem-rl/text'
import * as tf from '@tensorflow/tfjs-core'
import * as E from 'fp-ts/lib/Either.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { describe, expect, it } from 'vitest'
import { taskList } from '../../src/data/task.js'
import { filledRows } from '../../src/data/tensorDict/leaf.js'
import { find, type TensorDict } from '../../src/data/tensorDict/tensorDict.js'
import { reward } from '../../src/envs/rewards/rewardFunction.js'
import { type AgentReward, scoreAttempt } from '../../src/run/parts/agentReward.js'
import { type AgentSessions, collectSessions, type FailedAttempt } from '../../src/run/parts/agentSessions.js'
import { callOf, sessionOf } from '../kit/capturedCalls.js'
import { useEngine } from '../kit/engine.js'

useEngine({ threads: 1 })

const tasks = taskList('two', [
  { id: 'a', query: 'a?', answer: 'x' },
  { id: 'b', query: 'b?', answer: 'y' },
])

type Plays = (task: Task, tries: number) => { readonly failed?: string; readonly result?: unknown }

/** An agent whose attempts are decided by their task and the number of tries. */
const agentOf = (plays: Plays): OpenAgent & { readonly dropped: string[] } => {
  const dropped: string[] = []
  return {
    dropped,
    play: async ({ id, group, task }) => {
      const { failed, result } = plays(task, Number(id.split('.')[1] ?? 0))
      const calls = [callOf(0, [1, 2], [[3, 4]], { session: id })]
      const end =
        failed === undefined ? { status: 'ok' as const, reason: null } : { status: 'failed' as const, reason: failed }
      return { session: { ...sessionOf(calls), id, group, reward: null, end }, result }
    },
    drop: async (ids) => void dropped.push(...ids),
    lateCalls: () => 0,
    close: async () => {},
  }
}

const collected = async (plays: Plays, given: AgentReward | undefined = undefined, coefficient = 0) => {
  const failures: FailedAttempt[] = []
  const agent = agentOf(plays)
  const sessions: AgentSessions<Task> = {
    ...{ agent, reward: given, tries: 2, onFailure: (failure) => void failures.push(failure) },
    ...{ tasks, key: keyFromSeed(1), groups: 2, groupSize: 2, temperature: 1, maxNewTokens: 8, name: 'test' },
    kl: { reference: { name: 'flat', score: (_, rows) => TE.right(filledRows(rows, 'float32', -2)) }, form: 'k1' },
  }
  let omitted = 0
  const onBatch = ({ omittedGroups }: { readonly omittedGroups: number }): void => {
    omitted = omittedGroups
  }
  const result = await collectSessions(sessions, { coefficient, onBatch })({ batch: 0, remembered: {} })()
  return { failures, omitted, result, agent }
}

const ownedOf = ({ result }: Awaited<ReturnType<typeof collected>>) => {
  if (E.isLeft(result)) throw new Error(JSON.stringify(result.left))
  return result.right.batch
}

describe('a batch of attempts', () => {
  it('has the rewards that programs return, with their parts, and pays the divergence', async () => {
    const made = await collected(({ id }) => ({ result: { reward: id === 'a' ? 1 : 0.5, found: 1 } }), undefined, 0.5)
    using batch = ownedOf(made)
    const numbers = (name: string): readonly number[] => {
      const entry = find(batch.value as unknown as TensorDict, ['next', name]) // read by names
      return entry instanceof tf.Tensor ? [...entry.dataSync()] : []
    }
    const kl = numbers('reward').map((value, i) => (i < 2 ? 1 : 0.5) - value)
    expect(new Set(kl.map((x) => x.toFixed(5))).size).toBe(1)
    expect(kl[0]).not.toBe(0)
    expect(numbers('rewardFound')).toEqual([1, 1, 1, 1])
    expect(made.agent.dropped).toHaveLength(4)
  })

  it('plays a failed attempt again', async () => {
    const made = await collected(({ id }, tries) => (id === 'b' && tries === 0 ? { failed: 'it hung' } : { result: 1 }))
    expect(made.failures).toEqual([
      { task: 'b', reason: 'it hung' },
      { task: 'b', reason: 'it hung' },
    ])
    using batch = ownedOf(made)
    expect([made.omitted, batch.value.batchShape]).toEqual([0, [4]])
  })

  it('leaves out the group of an attempt that fails again, and continues with the others', async () => {
    const made = await collected(({ id }) => (id === 'b' ? { failed: 'it died' } : { result: 1 }))
    using batch = ownedOf(made)
    expect([made.omitted, batch.value.batchShape, made.failures.length]).toEqual([1, [2], 4])
  })

  it('fails with the first reason if no group is left', async () => {
    const { result } = await collected(() => ({ failed: 'no key' }))
    expect(result).toMatchObject({
      left: { _tag: 'EnvFailure', reason: '4 of 4 attempts failed, and no group is complete: task a: no key' },
    })
  })

  it('counts a reward that fails, or is missing, as a failed attempt', async () => {
    const throwing = await collected(
      () => ({ result: 'x' }),
      () => {
        throw new Error('no judge')
      },
    )
    expect(throwing.failures[0]!.reason).toMatch(/^the reward failed: .*no judge/)
    const missing = await collected(() => ({ result: 'x' }))
    expect(missing.failures[0]!.reason).toMatch(/the program must return its reward.*got x$/)
  })
})

describe('the reward of an attempt', () => {
  const session = sessionOf([callOf(0, [1], [[2]])])
  const scored = (given: AgentReward, result: unknown) =>
    scoreAttempt(given, { task: { id: 'a', query: '', answer: 'x' }, session, result, key: keyFromSeed(1) })

  it('reads the returned text and the fields of the row', async () => {
    const equal = ({ prediction, answer }: { readonly prediction: string; readonly answer: string }): number =>
      prediction === answer ? 1 : 0
    expect(await scored(equal, 'x')).toEqual(E.right({ total: 1, parts: { success: 1 } }))
    expect(await scored(reward<Task>(equal), 'y')).toEqual(E.right({ total: 0, parts: { success: 0 } }))
    const extra = () => ({ reward: 2, brief: 0.5 })
    expect(await scored(extra, 'y')).toEqual(E.right({ total: 2, parts: { brief: 0.5, success: 1 } }))
    expect(await scored((() => ({ reward: 1, brief: 'x' })) as never, 'y')).toMatchObject({
      left: expect.stringContaining("the part 'brief' must be a finite number"),
    })
  })
})
