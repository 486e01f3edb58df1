/** GRPO with failing engine, reward, environment and tool, compared with a run without failures. */
import { AsyncLocalStorage } from 'node:async_hooks'
import { orThrow, type Timers } from '@tandem-rl/base'
import { type Fault, withFaults } from '@tandem-rl/testing'
import { type History, message, appendMessage as say } from '@tandem-rl/text'
import { own, scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import { pipe } from 'fp-ts/lib/function.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { describe, expect, it } from 'vitest'
import type { HistoryPrompt } from '../../src/data/policy.js'
import { dataSpec } from '../../src/data/spec.js'
import type { FailedTask } from '../../src/doors/async.js'
import { vLLMUpdater } from '../../src/doors/remote.js'
import { data, get, TensorDict } from '../../src/doors/tensordict.js'
import * as T from '../../src/index.js'
import { EMBEDDED_MODEL } from '../../src/live/embeddedModel.js'
import { modelEngine } from '../../src/modules/generation/modelEngine.js'
import { loadPretrained, makeParams, type Pretrained } from '../../src/modules/pretrained/pretrained.js'
import { localClient } from '../../src/modules/remote/localClient.js'
import { vLLMWrapper } from '../../src/modules/remote/vllm/vLLMWrapper.js'
import { evaluator } from '../../src/run/metrics/evaluation.js'
import { useEngine } from '../kit/engine.js'
import { useTemporaryFolder } from '../kit/runs.js'

useEngine()

const at = useTemporaryFolder()
const STEPS = 10
const PROMPTS = 8
const GROUP = 8
const PROBLEMS = 200

/** The faults in a hundred calls. */
const CHAOS = { engine: 20, reward: 3, hangs: 2, floods: 3 } as const

/** Timers that fire on demand, so that the deadline of an environment that hangs passes at once. */
const manualTimers = (): { readonly timers: Timers; readonly ring: () => void } => {
  const watching = new AsyncLocalStorage<() => void>()
  return {
    timers: {
      after: (ms, ring) => {
        if (ms >= 60_000) watching.enterWith(ring)
        else setImmediate(ring) // a pause between two tries
        return () => {}
      },
    },
    ring: () => watching.getStore()!(),
  }
}

/** A draw from 0 to 99 for each call, the same in every run. */
const luck = (key: T.Key) => {
  let calls = 0
  return (): number => T.uniformInteger(T.child(key, calls++), 100)
}

/**
 * A tool whose output follows the answer, now and then 100 MB of it. The conversation is over then:
 * it costs memory alone.
 */
const flooding = (isFlooded: () => boolean) =>
  T.transform<null, HistoryPrompt, HistoryPrompt>({
    name: 'flood',
    initial: null,
    adds: { history: { prompt: dataSpec<History>('History') } },
    step: (next) => {
      if (!isFlooded()) return TE.right([TensorDict({}, next.batchShape) as never, null]) // adds nothing
      const flooded = get(next, 'history', 'prompt').items.map((history) =>
        say(history, message('tool', 'a'.repeat(100_000_000))),
      )
      return TE.right([TensorDict({ history: { prompt: data(flooded) } }, next.batchShape), null])
    },
  })

interface Learned {
  readonly before: number
  readonly after: number
  readonly tasks: number
  /** The number of occurrences of each fault. */
  readonly met: Readonly<Record<string, number>>
  /** Why tasks failed for good. */
  readonly causes: readonly string[]
  /** Resident, after each step. */
  readonly medianMegabytes: number
  readonly peakMegabytes: number
}

const median = (values: readonly number[]): number => [...values].sort((a, b) => a - b)[Math.floor(values.length / 2)]!

/** Ten steps of GRPO. `chances` are those of 100 calls that go wrong. */
const learn = async (model: Pretrained, chances: typeof CHAOS | null): Promise<Learned> => {
  const { config, arrays, text } = model
  const key = T.keyFromSeed(1)
  const met: Record<string, number> = { engine: 0, reward: 0, hangs: 0, floods: 0 }
  const draws = luck(T.child(key, 'chaos'))
  /** The fault of a call, and its report. */
  const strikes = (what: keyof typeof CHAOS): boolean => {
    const isStruck = chances !== null && draws() < chances[what]
    if (isStruck) met[what]!++
    return isStruck
  }
  const { timers, ring } = manualTimers()
  const hang = (): Promise<never> => {
    ring()
    return new Promise(() => {})
  }
  const engine = scope(() => modelEngine({ config, params: makeParams(arrays) }))
  const client = localClient(engine, 'here')
  const sampling = { maxTokens: 64, stopTokens: [text.tokenizer.idOf(text.endOfTurn)!] }
  const sampler = vLLMWrapper({ clients: [client], sampling })
  const failure: T.PolicyFailure = {
    _tag: 'PolicyFailure',
    policy: 'here',
    kind: 'infrastructure',
    reason: 'the engine failed',
  }
  const policy = withFaults({ name: sampler.name, act: sampler.act }, () =>
    strikes('engine') ? { _tag: 'Fail', failure } : undefined,
  )
  const source = T.shuffled(T.wordProblems(T.child(key, 'tasks'), { split: 'rl' }), T.child(key, 'order'))
  const spoiled = ({ operation }: { readonly operation: string }): Fault<T.EnvFailure> | undefined => {
    if (operation !== 'step') return undefined
    if (strikes('reward')) return { _tag: 'Throw', error: new Error('the reward threw') }
    if (!strikes('hangs')) return undefined
    return { _tag: 'Wait', until: hang }
  }
  const env = (task: number) =>
    withFaults(
      pipe(
        T.GSM8KEnv({ source, prompts: 1, repeats: GROUP, start: task }),
        T.append(flooding(() => strikes('floods'))),
        T.append(T.observationLimit({ characters: 2000 })),
        T.append(T.TemplateTransform({ template: text.template, endOfTurn: text.endOfTurn })),
        T.append(T.Tokenizer({ tokenizer: text.tokenizer })),
      ),
      spoiled,
    )
  const evaluate = async (): Promise<number> => {
    const greedy = sampler.withSampling({ ...sampling, temperature: 0 })
    const held = T.wordProblems(T.child(key, 'tasks'), { split: 'heldOut' })
    const measured = evaluator({
      ...{ policy: greedy, tasks: PROBLEMS },
      env: ({ groups, start }) => T.tokenEnv(T.GSM8KEnv({ source: held, prompts: groups, start }), text),
    })
    const results: T.EvaluationResult[] = []
    for await (const part of measured.run(key)) results.push(...part.results)
    return measured.scoresOf(results).accuracy ?? 0
  }
  const before = await evaluate()
  const updater = vLLMUpdater({
    clients: [client],
    how: 'full',
    model: { config, checkpoints: { folder: at('.'), text } },
  })
  const learner = T.localLearner({
    ...{ model, key, loss: T.GRPOLoss({ clipEpsilon: [0.2, 0.2] }) },
    optimizer: T.adamW({ learningRate: 5e-5, weightDecay: 0 }),
  })
  const advantage = T.MCAdvantage({ groupSize: GROUP })
  const run = T.LLMCollector({
    ...{
      env,
      policy,
      key: T.child(key, 'rollouts'),
      time: { timers },
      batches: { dialogTurnsPerBatch: PROMPTS * GROUP },
    },
    concurrent: { maxInFlight: PROMPTS * GROUP, deadlineMs: 60_000, onFailure: { retry: 2, pauseMs: 0 } },
  }).begin()
  const failed: FailedTask[] = []
  const delivered: number[] = []
  const rss: number[] = []
  for (let step = 0; step < STEPS; step++) {
    const taken = orThrow(await run.next())
    if (taken._tag !== 'Batch') throw new Error('tasks have no end')
    using batch = taken.batch
    failed.push(...taken.failed)
    delivered.push(...taken.tasks)
    // Whole groups of what was really rated: nothing stands for what failed.
    expect(
      get(batch.value, 'groupId')
        .items.countBy((id) => id)
        .valueSeq()
        .toSet()
        .toArray(),
    ).toEqual([GROUP])
    expect(get(batch.value, 'status').items.toSet().toArray()).toEqual(['ok'])
    expect(taken.tasks.filter((task) => failed.some((each) => each.task === task))).toEqual([])
    using rated = own(scope(() => advantage(batch.value)))
    orThrow(await learner.update(rated.value)())
    orThrow(await updater.push(learner.weights(), step + 1)())
    rss.push(process.memoryUsage.rss() / 2 ** 20)
  }
  const end = await run.close()
  const drawn = [...delivered, ...[...failed, ...end.failed].map(({ task }) => task), ...end.cancelled]
  expect(drawn.sort((a, b) => a - b)).toEqual(Array.from({ length: end.position.next }, (_, task) => task))
  const after = await evaluate()
  await learner.close()
  updater.release()
  await client.close()
  const causes = failed.map(({ cause }) => cause.reason)
  return {
    before,
    after,
    tasks: end.position.next,
    met,
    causes,
    medianMegabytes: median(rss),
    peakMegabytes: Math.max(...rss),
  }
}

describe('GRPO while things go wrong', () => {
  it('learns what the run without trouble learns, and nothing that failed counts', async () => {
    const model = orThrow(await loadPretrained(EMBEDDED_MODEL)())
    const clean = await learn(model, null)
    const chaotic = await learn(model, CHAOS)
    console.log(JSON.stringify({ clean, chaotic }))
    expect(clean.before).toBeLessThan(0.2)
    expect(clean.after).toBeGreaterThan(0.8)
    expect(chaotic.after).toBeGreaterThan(clean.after - 0.1)
    expect(Math.min(...Object.values(chaotic.met))).toBeGreaterThan(5)
    expect(chaotic.causes.length).toBeGreaterThan(0)
    for (const cause of chaotic.causes)
      expect(cause).toMatch(/the engine failed|the reward threw|not finished within 60000 ms/)
    expect(chaotic.peakMegabytes - clean.peakMegabytes).toBeLessThan(700) // the floods are more than that together
  })
})
