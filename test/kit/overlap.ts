/** A tiny decoder that is trained on conversations of one or two turns, task by task. */
import { keyFromSeed, orThrow } from '@tandem-rl/base'
import { type Owned, own, scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import { LLMCollector } from '../../src/collectors/llmCollector.js'
import type { GivenRules } from '../../src/collectors/overlap/overlapState.js'
import { rolloutGroups } from '../../src/collectors/overlap/rolloutGroups.js'
import { sampleAhead } from '../../src/collectors/overlap/samplerAhead.js'
import type { CollectedBatch } from '../../src/collectors/rollouts/turnRows.js'
import type { WeightUpdater } from '../../src/collectors/weightSync.js'
import type { Policy, TokenAction, TokenPrompt } from '../../src/data/policy.js'
import type { NamedTensors } from '../../src/data/weights.js'
import { localLearner } from '../../src/learners/localLearner.js'
import { EMBEDDED_MODEL } from '../../src/live/embeddedModel.js'
import { hostArrays, loadPretrained } from '../../src/modules/pretrained/pretrained.js'
import { initialParams } from '../../src/modules/transformer/params.js'
import { MCAdvantage } from '../../src/objectives/advantages/mcAdvantage.js'
import { GRPOLoss } from '../../src/objectives/grpoLoss.js'
import type { StepMetrics } from '../../src/objectives/policyMetrics.js'
import { adamW } from '../../src/objectives/updates/adamW.js'
import { rightOf } from './results.js'
import { byteConfig, type TurnState, turnEnv } from './small.js'

export const overlapConfig = byteConfig({ maxPositions: 256 })
const key = keyFromSeed(3)
const GROUP = 2

/** A policy with its updater, of the first parameters. */
export interface Sampler {
  readonly policy: Policy<TokenPrompt, TokenAction>
  readonly updater: WeightUpdater<NamedTensors>
  readonly close: () => Promise<void> | void
}

/** Parameters to begin with. */
export const firstParams = (): Owned<NamedTensors> =>
  own(scope(() => initialParams(overlapConfig, keyFromSeed(1), 0.5)))

/** Task `t`: two conversations of `1 + t % 2` turns about row `t`. */
const envOf = (task: number) =>
  turnEnv(
    Array.from({ length: 64 }, (_, i) => 1 + (i % 2)),
    { prompts: 1, repeats: GROUP, start: task },
  )

/** All numbers of parameters, by name. */
const numbersOf = (params: NamedTensors): Readonly<Record<string, readonly number[]>> =>
  Object.fromEntries(Object.entries(params).map(([name, tensor]) => [name, Array.from(tensor.dataSync())]))

/** The result of a training run. */
export interface Trained {
  readonly params: Readonly<Record<string, readonly number[]>>
  readonly metrics: readonly StepMetrics[]
  /** By step: the tasks, and their lags. */
  readonly tasks: readonly (readonly number[])[]
  readonly lags: readonly (readonly number[])[]
}

const advantage = MCAdvantage({ groupSize: GROUP })

/** Makes a learner with the initial parameters. */
const learnerOf = async () => {
  const { text } = await rightOf(loadPretrained(EMBEDDED_MODEL)) // with another vocabulary; it is only saved
  using first = firstParams()
  const model = { config: overlapConfig, text, arrays: hostArrays(first.value) }
  return localLearner({
    ...{ model, key, loss: GRPOLoss(), optimizer: adamW({ learningRate: 1e-2 }) },
    offPolicy: { stale: 'correct' },
  })
}

type TestLearner = Awaited<ReturnType<typeof learnerOf>>

const learn = async (learner: TestLearner, batch: CollectedBatch<TurnState>): Promise<StepMetrics> => {
  using rated = own(scope(() => advantage(batch)))
  return (await rightOf(learner.update(rated.value))).metrics
}

/** Closes the learner and returns its weights. */
const ended = async (learner: TestLearner, rest: Omit<Trained, 'params'>): Promise<Trained> => {
  const params = numbersOf(learner.weights())
  await learner.close()
  return { params, ...rest }
}

/** Samples, learns and updates in turns, with the collector of rollouts. */
export const inTurns = async ({ policy, updater }: Sampler, steps: number, groups: number): Promise<Trained> => {
  const learner = await learnerOf()
  const metrics: StepMetrics[] = []
  const tasks: (readonly number[])[] = []
  for (let done = 0; done < steps; done++) {
    const collector = LLMCollector({
      ...{ env: envOf, policy, key, batches: { dialogTurnsPerBatch: 1000 } },
      concurrent: { order: 'drawn', tasks: (done + 1) * groups, maxInFlight: groups * GROUP },
    })
    const run = collector.begin({ position: { next: done * groups, open: [] } })
    const taken = orThrow(await run.next())
    if (taken._tag === 'End') throw new Error('there are enough tasks')
    using batch = taken.batch
    tasks.push(taken.tasks)
    metrics.push(await learn(learner, batch.value))
    orThrow(await updater.push(learner.weights(), done + 1)())
    await run.close()
  }
  return ended(learner, { metrics, tasks, lags: tasks.map((each) => each.map(() => 0)) })
}

/** Runs the same steps with asynchronous sampling. */
export const overlapped = async ({ policy, updater }: Sampler, rules: GivenRules): Promise<Trained> => {
  const learner = await learnerOf()
  const source = rolloutGroups({ env: envOf, policy, key })
  const ahead = sampleAhead(source, rules, {
    push: (version) => async () => {
      using held = own(learner.weights())
      return await updater.push(held.value, version)()
    },
  })
  const metrics: StepMetrics[] = []
  const tasks: (readonly number[])[] = []
  const lags: (readonly number[])[] = []
  for (let taken = await rightOf(ahead.take); taken._tag === 'Step'; taken = await rightOf(ahead.take)) {
    using batch = source.join(taken.groups.map(({ group }) => group)).batch
    metrics.push(await learn(learner, batch.value))
    ahead.trained()
    tasks.push(taken.groups.map(({ task }) => task))
    lags.push(taken.groups.map(({ lag }) => lag))
  }
  await ahead.close()
  return ended(learner, { metrics, tasks, lags })
}
