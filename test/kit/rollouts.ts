/** Rollouts of a scripted policy in scripted environments, one environment for each task. */
import { keyFromSeed, uniform, uniformInteger } from '@tandem-rl/base'
import { fakeClock, type ScriptedPolicy, type ScriptedState, scriptedEnv, scriptedPolicy } from '@tandem-rl/testing'
import * as E from 'fp-ts/lib/Either.js'
import { type ConcurrentLLMCollector, LLMCollector } from '../../src/collectors/llmCollector.js'
import type { FailedTask } from '../../src/collectors/rollouts/group.js'
import type {
  RolloutPosition,
  RolloutsEnd,
  RolloutsStopped,
  Trajectory,
} from '../../src/collectors/rollouts/rolloutBatch.js'
import type { RolloutRun } from '../../src/collectors/rollouts/rolloutRun.js'
import type { ConcurrentOptions, RolloutSource, TurnBatches } from '../../src/collectors/rollouts/settings.js'
import type { CollectedBatch } from '../../src/collectors/rollouts/turnRows.js'
import type { TokenAction, TokenPrompt } from '../../src/data/policy.js'
import { toNested } from '../../src/data/tensorDict/inspect.js'
import { get } from '../../src/data/tensorDict/tensorDict.js'
import type { Env } from '../../src/envs/base/env.js'

/** The turns of each member of a group. */
export type GroupTurns = readonly number[]

/**
 * Makes the environment of each task: turn `t` has reward `t`, and the prompt is the task's number
 * plus 1.
 */
export const groupEnvs =
  (groups: readonly GroupTurns[]) =>
  (task: number): Env<ScriptedState, TokenAction> => {
    return scriptedEnv(
      groups[task % groups.length]!.map((turns) => ({
        rewards: Array.from({ length: turns }, (_, turn) => turn),
        prompt: [task + 1],
        groupId: `${task}`,
      })),
    )
  }

/** Samples one to four ids, by its key alone. */
export const keyedPolicy = (): ScriptedPolicy<TokenPrompt, TokenAction> =>
  scriptedPolicy({
    answers: (_, key) => {
      const ids = Array.from({ length: 1 + uniformInteger(key, 4) }, (_each, t) => 5 + t)
      return { ids, logProbs: ids.map((_id, t) => -uniform(key, t)) }
    },
  })

/** All options of a collector in one record. */
type RunOptions = Partial<RolloutSource<ScriptedState, TokenAction> & ConcurrentOptions & TurnBatches>

export const collectorOf = (
  groups: readonly GroupTurns[],
  options: RunOptions = {},
): ConcurrentLLMCollector<ScriptedState, TokenAction, CollectedBatch<ScriptedState>> => {
  const { env, policy, key, maxTurns, clock = fakeClock(), timers, ...rest } = options // a stopped clock gives equal times
  const { dialogTurnsPerBatch, yieldOnlyLastSteps, yieldCompletedTrajectories, ...concurrent } = rest
  return LLMCollector({
    env: env ?? groupEnvs(groups),
    policy: policy ?? keyedPolicy(),
    key: key ?? keyFromSeed(1),
    ...(maxTurns !== undefined && { maxTurns }),
    batches: {
      ...(dialogTurnsPerBatch !== undefined && { dialogTurnsPerBatch }),
      ...(yieldOnlyLastSteps !== undefined && { yieldOnlyLastSteps }),
      ...(yieldCompletedTrajectories !== undefined && { yieldCompletedTrajectories }),
    },
    concurrent: { tasks: groups.length, maxInFlight: 8, ...concurrent },
    time: { clock, ...(timers && { timers }) },
  })
}

/** One batch on the host. */
export interface TakenBatch {
  readonly tasks: readonly number[]
  readonly groupIds: readonly string[]
  readonly trajectories: readonly Trajectory[]
  readonly turns: number
  readonly cut: readonly number[]
  readonly failed: readonly FailedTask[]
  readonly position: RolloutPosition
  readonly rows: Readonly<Record<string, unknown>>
}

/** Returns the group id without the prefix of the reset. */
export const givenId = (groupId: string): string => groupId.slice(groupId.indexOf(':') + 1)

/** Numbers ids by their order of first appearance. */
export const numbered = (ids: unknown): readonly number[] => {
  const all = ids as readonly string[] // a data leaf of ids
  const known = [...new Set(all)]
  return all.map((id) => known.indexOf(id))
}

/** All batches of a run, and its end. They are freed. */
export const takeAll = async (
  run: RolloutRun<ScriptedState>,
  onBatch: (batches: number) => Promise<unknown> = () => Promise.resolve(),
): Promise<{ readonly batches: readonly TakenBatch[]; readonly end: RolloutsEnd | RolloutsStopped }> => {
  const batches: TakenBatch[] = []
  while (true) {
    const taken = await run.next()
    if (E.isLeft(taken)) return { batches, end: taken.left }
    if (taken.right._tag === 'End') return { batches, end: taken.right }
    const { batch: owned, _tag: _, ...told } = taken.right
    using batch = owned
    const rows = toNested(batch.value) as Readonly<Record<string, unknown>> // a TensorDict is a record
    const groupIds = get(batch.value, 'groupId').items.toArray()
    batches.push({ ...told, groupIds, rows })
    await onBatch(batches.length)
  }
}
