/** Runs with workers train on every task once, even if the trainer is stopped and resumed. */
import { readFileSync } from 'node:fs'
import { keyFromSeed, orThrow } from '@tandem-rl/base'
import { own, ownedCount, scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import { describe, expect, it } from 'vitest'
import { inProcessUpdater } from '../../../src/collectors/weightSync.js'
import { wordProblems } from '../../../src/data/datasets/wordProblems/wordProblems.js'
import { GSM8KEnv } from '../../../src/envs/gsm8kEnv.js'
import { makeParams } from '../../../src/modules/pretrained/pretrained.js'
import { TransformersWrapper } from '../../../src/modules/transformersWrapper.js'
import { trainOptionsOf } from '../../../src/run/define/choices.js'
import { defineRun } from '../../../src/run/define/defineRun.js'
import { grpoParts } from '../../../src/run/define/grpoParts.js'
import { runFolder } from '../../../src/run/store/store.js'
import { train } from '../../../src/run/train/train.js'
import { useEngine } from '../../../test/kit/engine.js'
import { answeringModel, parseJsonLines, smallSettings, useTemporaryFolder } from '../../../test/kit/runs.js'
import { queuedRun } from '../src/queuedRun.js'
import { memoryQueueLog, type QueueLog } from '../src/queues/queueLog.js'
import { openRolloutQueue } from '../src/queues/rolloutQueue.js'
import { ledger } from '../src/queues/takeGroups.js'
import { runRolloutWorker } from '../src/workers/rolloutWorker.js'

useEngine({ threads: 1 })
const path = useTemporaryFolder()

/** An engine with its own policy, whose weights are pushed as to a server. */
const engineOf = async () => {
  const { config, arrays } = await answeringModel()
  const params = own(scope(() => makeParams(arrays)))
  const policy = TransformersWrapper({ config, params: params.value, sampling: { maxNewTokens: 8 } })
  return {
    policy,
    updater: inProcessUpdater(policy),
    release: () => {
      policy.release()
      params.release()
    },
  }
}

type Engine = Awaited<ReturnType<typeof engineOf>>

const settings = smallSettings('answering', { steps: 4, checkpointEvery: 2, alarms: 'off' })

const parts = async ({ policy, updater }: Engine) => ({
  model: await answeringModel(),
  env: (tasks: { readonly prompts: number; readonly repeats: number; readonly start: number }) =>
    GSM8KEnv({ source: wordProblems(keyFromSeed(1), { split: 'rl' }), ...tasks }),
  sampler: { policy: { name: policy.name, act: policy.act }, updater, close: async () => {} }, // the engine outlives the run
})

/** Runs a worker on the engine until it is stopped. */
const startWorker = async (log: QueueLog, engine: Engine) => {
  const run = await defineRun(grpoParts(settings, await parts(engine)), { memory: 'ignore' })
  const { env, key } = run.groups!
  const stop = new AbortController()
  const queue = orThrow(await openRolloutQueue(log, { name: 'worker' })())
  const working = runRolloutWorker({
    ...{ queue, policy: engine.policy, key, signal: stop.signal, limits: { slots: 2 } },
    env: (_, ticket) => env(ticket),
  })()
  return async () => {
    stop.abort()
    orThrow(await working)
    await run.close()
  }
}

const notices: string[] = []

/** Runs a session of the trainer, stopped after a step. */
const session = async (log: QueueLog, engine: Engine, stopAt?: number): Promise<readonly number[]> => {
  const options = { log, maxLag: 4, onNotice: (message: string) => notices.push(message) }
  const run = queuedRun(await defineRun(grpoParts(settings, await parts(engine)), { memory: 'ignore' }), options)
  const abort = new AbortController()
  const steps: number[] = []
  const training = { ...trainOptionsOf(settings), store: runFolder(path('run')), signal: abort.signal }
  for await (const event of train(run, training)) {
    if (event.type !== 'step') continue
    steps.push(event.step)
    if (event.step === stopAt) abort.abort()
  }
  return steps
}

describe('a run from a queue', () => {
  it('learns from every task once, stopped and resumed, and the queue forgets what checkpoints hold', async () => {
    const before = ownedCount()
    const log = memoryQueueLog()
    const steps: number[] = []
    for (const stopAt of [2, undefined]) {
      const engine = await engineOf() // servers begin with the first weights each time
      const training = session(log, engine, stopAt)
      const isMade = async () => (await openRolloutQueue(log, { name: 'look' })())._tag
      await expect.poll(isMade).toBe('Right') // by the trainer
      const stop = await startWorker(log, engine)
      steps.push(...(await training))
      await stop()
      engine.release()
    }
    expect(steps).toEqual([1, 2, 3, 4])
    const shown = parseJsonLines(readFileSync(path('run/trajectories.jsonl'), 'utf8'))
    const queries = shown.map(({ step, query }) => `${String(step)} ${String(query)}`)
    expect(new Set(shown.map(({ query }) => query)).size).toBe(8) // two tasks a step, none twice
    expect(new Set(queries).size).toBe(8)
    for (const { step, overlap } of parseJsonLines(readFileSync(path('run/metrics.jsonl'), 'utf8'))) {
      if (overlap === undefined) continue // an evaluation
      const lags = shown
        .filter((each) => each.step === step)
        .map((each) => Math.abs(Number(step) - 1 - Number(each.policyVersion)))
      expect(overlap).toMatchObject({ maxLag: Math.max(...lags), stale: 0, failed: 0, samplingSeconds: null })
    }
    expect(notices.filter((text) => text.includes('equal settings and seeds do not give equal runs'))).toHaveLength(2)
    const look = orThrow(await openRolloutQueue(log, { name: 'look' })())
    expect(ledger(orThrow(await look.look())).trained).toBe(8)
    await look.close()
    await expect.poll(ownedCount).toBe(before) // rollouts that were called off end with the answer of their policy
  })

  it('is refused for weights that stay in the process of the trainer', async () => {
    const engine = await engineOf()
    const { sampler: _, ...own } = await parts(engine)
    const run = await defineRun(grpoParts(settings, own), { memory: 'ignore' })
    expect(() => queuedRun(run, { log: memoryQueueLog() })).toThrow('the weights stay in this process')
    await run.close()
    engine.release()
  })
})
