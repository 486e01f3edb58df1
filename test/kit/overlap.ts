/** A tiny decoder that is trained on conversations of one or two turns, task by task. */

import { groupRows, trainingRows } from '../../src/collectors/groups.js'
import { LLMCollector } from '../../src/collectors/llmCollector.js'
import { type OverlappedLearning, overlappedTraining } from '../../src/collectors/overlap/overlappedTraining.js'
import type { GivenRules, OverlapStart } from '../../src/collectors/overlap/overlapState.js'
import { rolloutGroups } from '../../src/collectors/overlap/rolloutGroups.js'
import type { CompleteGroup } from '../../src/collectors/rollouts/rolloutBatch.js'
import type { CollectedBatch } from '../../src/collectors/rollouts/turnRows.js'
import type { StepMetrics } from '../../src/collectors/stepMetrics.js'
import type { TrainingRows } from '../../src/collectors/stepRows.js'
import { trainStep } from '../../src/collectors/trainStep.js'
import type { WeightUpdater } from '../../src/collectors/weightSync.js'
import { orThrow } from '../../src/core/failure.js'
import { keyFromSeed } from '../../src/core/key.js'
import type { Policy, TokenAction, TokenPrompt } from '../../src/data/policy.js'
import type { NamedTensors } from '../../src/data/weights.js'
import { type Owned, own, scope } from '../../src/engine/scope.js'
import { initialParams } from '../../src/modules/transformer/params.js'
import { groupGatherer } from '../../src/objectives/advantages/groupGatherer.js'
import { type AdamWState, adamW } from '../../src/objectives/updates/adamW.js'
import { byteConfig, type TurnState, turnEnv } from './small.js'

export const overlapConfig = byteConfig({ maxPositions: 256 })
const key = keyFromSeed(3)
const GROUP = 2
const RATE = 1e-2

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

const rowsOf = (batch: CollectedBatch<TurnState>): readonly TrainingRows[] => {
  const rows = trainingRows(batch, groupRows(batch, groupGatherer({ groupSize: GROUP })))
  return rows.completions.length === 0 ? [] : [rows]
}

/** All numbers of parameters, by name. */
const numbersOf = (params: NamedTensors): Readonly<Record<string, readonly number[]>> =>
  Object.fromEntries(Object.entries(params).map(([name, tensor]) => [name, Array.from(tensor.dataSync())]))

/** What a training came to. */
export interface Trained {
  readonly params: Readonly<Record<string, readonly number[]>>
  readonly metrics: readonly StepMetrics[]
  /** By step: the tasks, and their lags. */
  readonly tasks: readonly (readonly number[])[]
  readonly lags: readonly (readonly number[])[]
}

const learner = () => trainStep({ config: overlapConfig, optimizer: adamW() })

/** Samples, learns and updates in turns, with the collector of rollouts. */
export const inTurns = async ({ policy, updater }: Sampler, steps: number, groups: number): Promise<Trained> => {
  const step = learner()
  const first = firstParams()
  let state = own(scope(() => step.init(first.value)))
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
    for (const rows of rowsOf(batch.value)) {
      const update = step.update(state.value, rows, RATE)
      state.release()
      state = update.state
      metrics.push(update.metrics)
    }
    orThrow(await updater.push(state.value.params, done + 1)())
    await run.close()
  }
  const params = numbersOf(state.value.params)
  state.release()
  first.release()
  step.release()
  return { params, metrics, tasks, lags: tasks.map((each) => each.map(() => 0)) }
}

/** The same, overlapped. `onStep` may stop it by leaving: it gets the number of steps done. */
export const overlapped = async (
  { policy, updater }: Sampler,
  rules: GivenRules,
  options: { readonly start?: OverlapStart; readonly from?: Owned<NamedTensors> } = {},
): Promise<Trained> => {
  const step = learner()
  const first = options.from ?? firstParams()
  const source = rolloutGroups({ env: envOf, policy, key })
  const learning: OverlappedLearning<CompleteGroup<TurnState>, AdamWState, TrainingRows, StepMetrics> = {
    ...{ step, updater, state: own(scope(() => step.init(first.value))), learningRate: () => RATE },
    rows:
      ({ groups }) =>
      async () => {
        const { batch: owned } = source.join(groups.map(({ group }) => group))
        using batch = owned
        return { _tag: 'Right', right: rowsOf(batch.value) }
      },
  }
  const metrics: StepMetrics[] = []
  const tasks: (readonly number[])[] = []
  const lags: (readonly number[])[] = []
  let params: Trained['params'] = {}
  for await (const done of overlappedTraining({
    source,
    rules,
    learning,
    ...(options.start && { start: options.start }),
  })) {
    metrics.push(...done.metrics)
    tasks.push(done.tasks.map(({ task }) => task))
    lags.push(done.tasks.map(({ lag }) => lag))
    params = numbersOf(done.state.params)
  }
  first.release()
  step.release()
  return { params, metrics, tasks, lags }
}
