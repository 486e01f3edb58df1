/** Asynchronous sampling: groups are played while the learner trains, within a staleness limit. */
import { cell, type Json, type Key, orThrow } from '@tandem-rl/base'
import type { WeightFailure } from '@tandem-rl/text'
import { own } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as E from 'fp-ts/lib/Either.js'
import { z } from 'zod'
import type { SamplingCounts } from '../../collectors/dynamicSampling.js'
import { rolloutGroups } from '../../collectors/overlap/rolloutGroups.js'
import { type SamplerAhead, sampleAhead, type TakenStep } from '../../collectors/overlap/samplerAhead.js'
import type { CompleteGroup, RolloutPosition } from '../../collectors/rollouts/rolloutBatch.js'
import { type CollectedBatch, trajectoryReturns } from '../../collectors/rollouts/turnRows.js'
import type { Policy, TokenAction, TokenPrompt } from '../../data/policy.js'
import { data, type Ragged, rowLengths } from '../../data/tensorDict/leaf.js'
import { assign } from '../../data/tensorDict/merge.js'
import { get, type TensorDict } from '../../data/tensorDict/tensorDict.js'
import type { Env } from '../../envs/base/env.js'
import { tokenLags } from '../../learners/staleRows.js'
import type { OverlapRecord } from '../metrics/records.js'
import type { AheadOptions, OpenSource, SourceBatch, SourceStart } from './source.js'

/** The parts and settings of asynchronous sampling. */
export interface AheadParts<O> {
  /** The environment of a task, which is one group. */
  readonly env: (task: number, klCoefficient: number) => Env<O, TokenAction>
  readonly policy: Policy<TokenPrompt, TokenAction>
  readonly key: Key
  readonly groups: number
  readonly rounds: number
  readonly klCoefficient: number
  readonly ahead: AheadOptions
  /** Returns one score per row. A group has a signal if its scores differ. Default: the reward. */
  readonly signal: ((batch: TensorDict) => ArrayLike<number>) | undefined
}

const positionSchema = z.strictObject({
  rollouts: z.strictObject({
    next: z.number().int().nonnegative(),
    open: z.array(z.number().int().nonnegative()),
  }),
})

/** Parses a stored position. Throws FailureError if another kind of source wrote it. */
const positionOf = (position: Json | null): RolloutPosition => {
  if (position === null) return { next: 0, open: [] }
  const parsed = positionSchema.safeParse(position)
  const reason = `the checkpoint's position is not one of sampling ahead: ${parsed.error && z.prettifyError(parsed.error)}`
  return orThrow(parsed.success ? E.right(parsed.data.rollouts) : E.left({ _tag: 'PositionFailure', reason }))
}

const asJson = (rollouts: RolloutPosition): Json => ({ rollouts: rollouts as unknown as Json }) // plain JSON, by its contract

/** Totals of a sampled group. */
interface Tally {
  readonly reward: number
  readonly trajectories: number
  readonly tokens: number
  readonly signal: 'yes' | 'no'
}

const sum = (numbers: readonly number[]): number => numbers.reduce((a, b) => a + b, 0)

const tallyOf = <O>({ members }: CompleteGroup<O>, signal: AheadParts<O>['signal']): Tally => {
  const batches = members.map(({ rows }) => rows.value)
  const returnsBy = (batch: CollectedBatch<O>, each?: ArrayLike<number>): readonly number[] =>
    trajectoryReturns(
      batch as unknown as Parameters<typeof trajectoryReturns>[0], // every collected batch has these entries
      each,
    ).map((trajectory) => trajectory.return)
  const scores = batches.flatMap((batch) => returnsBy(batch, signal?.(batch as unknown as TensorDict))) // read by names
  const responses = (batch: CollectedBatch<O>): Ragged =>
    get(
      batch as unknown as TensorDict<{ readonly tokens: TensorDict<{ readonly response: Ragged }> }>, // of a token policy
      'tokens',
      'response',
    )
  return {
    reward: sum(batches.flatMap((batch) => returnsBy(batch))),
    trajectories: members.length,
    tokens: sum(batches.flatMap((batch) => rowLengths(responses(batch)))),
    signal: scores.every((score) => score === scores[0]) ? 'no' : 'yes',
  }
}

const countsOf = (tallies: readonly Tally[]): SamplingCounts => ({
  rounds: 1,
  groups: tallies.length,
  unused: 0,
  withoutSignal: tallies.filter(({ signal }) => signal === 'no').length,
  reward: sum(tallies.map(({ reward }) => reward)) / Math.max(1, sum(tallies.map(({ trajectories }) => trajectories))),
  tokens: sum(tallies.map(({ tokens }) => tokens)),
})

const recordOf = <O>(batch: CollectedBatch<O>, { version, dropped, seconds }: TakenStep<unknown>): OverlapRecord => {
  const rows = Array.from({ length: batch.batchShape[0]! }, (_, row) => row)
  const lags = tokenLags(batch, rows, version).flat()
  return {
    meanLag: sum(lags) / Math.max(1, lags.length),
    maxLag: lags.reduce((a, b) => Math.max(a, b), 0),
    ...dropped,
    samplingSeconds: seconds.sampling,
    bothSeconds: seconds.both,
  }
}

/**
 * Opens a source that plays groups while the learner trains. When new weights arrive, running
 * completions continue with them, and each token is stamped with its weight version.
 *
 * Errors   throws FailureError if the position comes from another kind of source. `collect` returns
 *          `Left` if a group fails or the policy rejects the weights.
 * Effects  plays rollouts from the first `collect` until `close`.
 */
export const openAhead = <O extends TokenPrompt>(parts: AheadParts<O>, start: SourceStart): OpenSource => {
  const { groups, rounds, ahead: given } = parts
  const position = positionOf(start.position)
  const coefficient = cell(parts.klCoefficient)
  /** Totals of complete groups, by task. */
  const tallies = new Map<number, Tally>()
  /** Totals of the groups discarded since the previous step. */
  let left: readonly Tally[] = []
  const source = rolloutGroups<O>({
    env: (task) => parts.env(task, coefficient.get()),
    policy: parts.policy,
    key: parts.key,
    signal: (group) => {
      const tally = tallyOf(group, parts.signal)
      tallies.set(group.task, tally)
      return tally.signal
    },
  })
  const discard: typeof source.discard = (group) => {
    left = [...left, tallies.get(group.task)!]
    tallies.delete(group.task)
    source.discard(group)
  }
  const { maxLag, stale = 'wait' } = given
  const rules = { groups, maxLag, stale, lastVersion: start.lastStep, maxFailureShare: 0 }
  const push = (version: number) =>
    start.push(version) as ReturnType<typeof start.push> & (() => Promise<E.Either<WeightFailure, number>>) // updaters fail with WeightFailure
  let ahead: SamplerAhead<CompleteGroup<O>> | undefined
  const begun = (): SamplerAhead<CompleteGroup<O>> => {
    ahead ??= sampleAhead(
      { play: source.play, discard },
      { ...rules, refills: (rounds - 1) * groups },
      { version: start.step, position, push },
    )
    return ahead
  }

  const batchOf = (taken: TakenStep<CompleteGroup<O>>): SourceBatch => {
    const { batch: joined, tasks } = source.join(taken.groups.map(({ group }) => group))
    const [size = 1] = joined.value.batchShape
    const waited = { generationMs: data(Array.from({ length: size }, () => (taken.seconds.waiting * 1000) / size)) }
    const sampling = countsOf([...tasks.map((task) => tallies.get(task)!), ...left])
    for (const task of tasks) tallies.delete(task)
    left = []
    const overlap = recordOf(joined.value, taken)
    const batch = own(assign(joined.value as unknown as TensorDict, waited)) // read by names from here on
    joined.release()
    return { batch, position: asJson(taken.position), sampling, overlap }
  }

  return {
    position: asJson(position),
    collect:
      ({ klCoefficient }) =>
      async () => {
        coefficient.set(klCoefficient)
        const taken = await begun().take()
        if (E.isLeft(taken)) return taken
        if (taken.right._tag === 'Step') return E.right(batchOf(taken.right))
        return E.left({ _tag: 'OverlapStopped', reason: 'there are no more tasks' })
      },
    trained: (version) => async () => {
      begun().trained()
      return E.right(version)
    },
    close: async () => {
      await ahead?.close()
    },
  }
}
