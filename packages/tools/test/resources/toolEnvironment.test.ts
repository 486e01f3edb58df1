/**
 * Environments of tools and rewards: one for each conversation, given back whatever becomes of it.
 */
import { keyFromSeed, orThrow, type ResourceSpec, resourceFailure } from '@tandem-rl/base'
import { scriptedHistoryPolicy } from '@tandem-rl/testing'
import { message, type Task } from '@tandem-rl/text'
import { own } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as E from 'fp-ts/lib/Either.js'
import { pipe } from 'fp-ts/lib/function.js'
import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import { LLMCollector } from '../../../../src/collectors/llmCollector.js'
import { taskList } from '../../../../src/data/task.js'
import { get } from '../../../../src/data/tensorDict/tensorDict.js'
import { DatasetChatEnv } from '../../../../src/envs/datasetChatEnv.js'
import { reward } from '../../../../src/envs/rewards/rewardFunction.js'
import { rollout } from '../../../../src/envs/rollout.js'
import { rewardTransform } from '../../../../src/envs/transforms/rewardTransform.js'
import { append } from '../../../../src/envs/transforms/transform.js'
import { useEngine } from '../../../../test/kit/engine.js'
import { manualTime, settle } from '../../../../test/kit/manualTime.js'
import { callOf } from '../../../../test/kit/tools.js'
import { type ToolEnvironmentOptions, toolEnvironment } from '../../src/resources/toolEnvironment.js'
import { SimpleToolTransform } from '../../src/tools/simpleToolTransform.js'
import { tool } from '../../src/tools/tool.js'
import { ToolRegistry } from '../../src/tools/toolRegistry.js'

useEngine()

const key = keyFromSeed(1)
const signal = new AbortController().signal

interface Counter {
  readonly id: number
  count: number
  dead: 'no' | 'yes'
}

const counters = () => {
  const alive = new Set<number>()
  let made = 0
  const spec: ResourceSpec<Counter> = {
    name: 'counter',
    start: () => async () => {
      const id = made++
      alive.add(id)
      return E.right({ id, count: 0, dead: 'no' })
    },
    end: async ({ id }) => void alive.delete(id),
    isAlive: ({ dead }) => dead === 'no',
  }
  return { spec, alive, made: () => made }
}

type Started = Task & { readonly start: number }

/** Conversations that count in an environment of their own, from the number of their row. */
const counting = (options: ToolEnvironmentOptions<Counter> = {}) => {
  const { spec, alive, made } = counters()
  const environment = toolEnvironment(spec, {
    prepare: async (counter, episode) => {
      counter.count = (episode!.task as Started).start // every call of this test has an episode, and every row this field
    },
    ...options,
  })
  const add = tool({
    ...{ name: 'add', description: 'Adds to the counter.', parameters: { by: z.number() }, initial: null, environment },
    run: async ({ by }, { environment: counter }) => {
      if (by < 0) counter.dead = 'yes'
      counter.count += by
      return { content: `${counter.count}`, state: null }
    },
  })
  const peek = tool({
    ...{ name: 'peek', description: 'Reads the counter.', parameters: {}, initial: null, environment },
    run: async (_, { environment: counter }) => ({ content: `${counter.count}`, status: 'finish', state: null }),
  })
  const score = reward<Started, never, Counter>(({ environment: counter, start }) => counter.count - start, {
    environment,
  })
  const rows = [2, 30].map((start) => ({ query: `From ${start}`, start }))
  const env = pipe(
    DatasetChatEnv({ source: taskList('rows', rows), prompts: 2, keep: 'task' }),
    append(SimpleToolTransform({ registry: ToolRegistry([add, peek]) })),
    append(rewardTransform({ reward: score })),
  )
  return { env, environment, alive, made }
}

const add = (by: number) => message('assistant', '', { toolCalls: [callOf('add', { by })] })
const peek = message('assistant', '', { toolCalls: [callOf('peek')] })

describe('toolEnvironment', () => {
  it('gives all calls of a conversation and its reward one environment, prepared with the row, and takes it back', async () => {
    const { env, environment, alive, made } = counting()
    const policy = scriptedHistoryPolicy({ answers: [add(1), add(5), add(1), peek, peek, peek] })
    const steps = own(orThrow(await rollout(env, policy, { steps: 9, key })()))
    expect([...get(steps.value, 'next', 'reward').dataSync()]).toEqual([0, 0, 2, 0, 5, 0])
    steps.release()
    await settle()
    expect([made(), alive.size, environment.pool.stats().leased]).toEqual([2, 0, 0])
  })

  it('fails a conversation whose environment dies, by name, and the next one gets another', async () => {
    const { env, alive, environment } = counting()
    const dies = await rollout(env, scriptedHistoryPolicy({ answers: [add(-1), add(1)] }), { steps: 3, key })()
    expect(dies).toMatchObject({
      left: { cause: { kind: 'infrastructure', reason: "the resource 'counter': it died" } },
    })
    await settle()
    expect([alive.size, environment.pool.stats().leased]).toEqual([0, 0])
    const again = own(
      orThrow(await rollout(env, scriptedHistoryPolicy({ answers: [peek, peek] }), { steps: 3, key })()),
    )
    expect([...get(again.value, 'next', 'reward').dataSync()]).toEqual([0, 0])
    again.release()
  })

  it('names a pool whose environments cannot be had or prepared, and none is left', async () => {
    const failing: ResourceSpec<Counter> = {
      ...counters().spec,
      start: () => async () => E.left(resourceFailure('counter', 'start', 'no image')),
    }
    const none = toolEnvironment(failing)
    const unprepared = toolEnvironment(counters().spec, { prepare: () => Promise.reject(new Error('a bad row')) })
    const episode = { chain: 'a', group: 'g', task: undefined }
    const results = [none, unprepared].map((each) => each.use(episode, signal, async () => 1))
    expect(await Promise.all(results)).toMatchObject([
      { left: { kind: 'start', reason: "the resource 'counter': no image" } },
      { left: { kind: 'start', reason: expect.stringContaining('it could not be prepared: Error: a bad row (at ') } },
    ])
    await settle()
    expect(unprepared.pool.stats()).toMatchObject({ idle: 0, leased: 0, ended: 1 })
  })

  it('ends at close what is still being prepared, and then resolves', async () => {
    const { spec, alive } = counters()
    let begun = 0
    const prepare = (): Promise<void> => {
      begun++
      return new Promise(() => {})
    }
    const environment = toolEnvironment(spec, { prepare })
    const used = environment.use({ chain: 'a', group: 'g', task: undefined }, signal, async () => 1)
    await settle()
    expect([begun, alive.size]).toEqual([1, 1])
    await environment.close()
    expect([alive.size, environment.pool.stats().leased]).toEqual([0, 0])
    expect(await used).toMatchObject({ left: { kind: 'cancelled' } })
  })

  it('shares an environment in a group, has a new one for each call, or one for the run, as its scope says', async () => {
    const ids = async (scope: 'call' | 'chain' | 'group' | 'run') => {
      const { spec, alive } = counters()
      const environment = toolEnvironment(spec, { scope })
      const episodes = ['a', 'b'].map((chain) => ({ chain, group: 'g', task: undefined }))
      const used: unknown[] = []
      for (const episode of [...episodes, ...episodes])
        used.push(orThrow(await environment.use(episode, signal, async ({ id }) => id)))
      for (const episode of episodes) environment.release(episode)
      await settle()
      used.push(alive.size)
      await environment.close()
      expect(alive.size).toBe(0)
      return used
    }
    expect(await ids('call')).toEqual([0, 1, 2, 3, 0])
    expect(await ids('chain')).toEqual([0, 1, 0, 1, 0])
    expect(await ids('group')).toEqual([0, 0, 0, 0, 0])
    expect(await ids('run')).toEqual([0, 0, 0, 0, 1])
  })

  it('ends the environment under a call that hangs, and the conversation is told so', async () => {
    const { spec, alive } = counters()
    const environment = toolEnvironment(spec, { poolSize: 1 })
    const episode = { chain: 'a', group: 'a', task: undefined }
    const controller = new AbortController()
    const hanging = environment.use(episode, controller.signal, () => new Promise<never>(() => {}))
    await settle()
    controller.abort()
    expect(await hanging).toMatchObject({ left: { kind: 'cancelled' } })
    await settle()
    expect(alive.size).toBe(0)
    expect(await environment.use(episode, signal, async () => 1)).toMatchObject({ left: { kind: 'dead' } })
    environment.release(episode)
    expect(await environment.use(episode, signal, async ({ id }) => id)).toEqual(E.right(1))
    await environment.close()
  })

  it('takes back what an abandoned conversation holds, after a time', async () => {
    const time = manualTime()
    const { spec, alive } = counters()
    const environment = toolEnvironment(spec, { holdMs: 1000, timers: time })
    await environment.use({ chain: 'a', group: 'a', task: undefined }, signal, async () => 1)
    expect(alive.size).toBe(1)
    time.pass(1000)
    await settle()
    expect(alive.size).toBe(0)
  })

  it('gives environments back where collectors play, also those of conversations that fail', async () => {
    const { env, environment, alive } = counting({ poolSize: 1 })
    const answers = () => {
      let turn = 0
      return () => (turn++ % 3 === 0 ? add(-1) : peek)
    }
    const collector = LLMCollector({
      env: () => env,
      policy: scriptedHistoryPolicy({ answers: answers() }),
      ...{ key, concurrent: { tasks: 6, maxInFlight: 4, onFailure: { retry: 1, pauseMs: 1 }, maxFailureShare: 1 } },
    })
    for await (const batch of collector) void batch
    await settle()
    expect([alive.size, environment.pool.stats().leased, environment.pool.stats().waiting]).toEqual([0, 0, 0])
  })
})
