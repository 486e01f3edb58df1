/** Batches collected from an environment, alternating with training or overlapped with it. */
import { type Json, type Key, keyFromSeed, orThrow } from '@tandem-rl/base'
import type { Owned } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as E from 'fp-ts/lib/Either.js'
import { pipe } from 'fp-ts/lib/function.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { z } from 'zod'
import { dynamicSampling, type SamplingCounts, type SamplingRule } from '../../collectors/dynamicSampling.js'
import { type Collected, type CollectorFailure, LLMCollector } from '../../collectors/llmCollector.js'
import type { CollectorPosition } from '../../collectors/rollouts/lockstep.js'
import type { CollectedBatch } from '../../collectors/rollouts/turnRows.js'
import type { GroupEntry } from '../../data/batch.js'
import type { Policy, TokenAction, TokenPrompt } from '../../data/policy.js'
import type { TensorDict } from '../../data/tensorDict/tensorDict.js'
import type { Env } from '../../envs/base/env.js'
import { openAhead } from './ahead.js'
import type { AheadOptions, BatchSource, KLWeight, OpenSource, SourceStart } from './source.js'

/** The context from which the environment of a batch is made. */
export interface EnvContext {
  /** Number of groups (different tasks) in the batch. */
  readonly groups: number
  /** Index of the first task. */
  readonly start: number
  /** KL coefficient in the reward. */
  readonly klCoefficient: number
}

/** An environment, or a function that makes one for each batch. */
export type EnvOf<O> = Env<O, TokenAction> | ((context: EnvContext) => Env<O, TokenAction>)

/** The options of collecting. */
export interface CollectOptions extends Omit<SamplingRule, 'groups' | 'rounds'> {
  /** Random key of sampling. Default: the key of seed 0. */
  readonly key?: Key
  /** Groups per batch. Required if `env` is a function, for resampling, and for `ahead`. */
  readonly groups?: number
  /** Most sampling rounds per batch, until every group has a signal. Default 1: no resampling. */
  readonly rounds?: number
  /** Returns one score per row. A group has a signal if its scores differ. Default: the reward. */
  readonly signal?: (batch: TensorDict) => ArrayLike<number>
  /** An episode longer than this many turns fails. Default 64. */
  readonly maxTurns?: number
  readonly kl?: KLWeight
  /** Samples while the learner trains. Default: sampling and training alternate. */
  readonly ahead?: AheadOptions
}

interface Collecting<O extends TokenPrompt> {
  readonly env: EnvOf<O>
  readonly policy: Policy<TokenPrompt, TokenAction>
  readonly collect?: CollectOptions
  readonly advantage?: { readonly groupSize?: number }
}

const envAt = <O>(env: EnvOf<O>, context: EnvContext): Env<O, TokenAction> =>
  typeof env === 'function' ? env(context) : env

/** Returns the initial KL coefficient, or 0 without one. */
const firstWeight = ({ kl }: CollectOptions): number => kl?.coefficient ?? 0

/** Returns a message for each option that does not fit the environment. */
export const checkCollect = <O extends TokenPrompt>({
  env,
  collect = {},
  advantage: { groupSize } = {},
}: Collecting<O>): readonly (string | false)[] => {
  const { groups, rounds = 1, kl, ahead } = collect
  if (typeof env === 'function' && groups === undefined)
    return ['the environment is a function: give collect.groups, the number of groups in a batch']
  const { batchSize, name } = envAt(env, { groups: groups ?? 1, start: 0, klCoefficient: firstWeight(collect) })
  const size = groupSize ?? 1
  return [
    groupSize !== undefined &&
      batchSize % size !== 0 &&
      `the advantage compares groups of ${size}, and ${name} has ${batchSize} elements: set its repeats to ${size}`,
    groupSize !== undefined &&
      groups !== undefined &&
      batchSize !== groups * size &&
      `${groups} groups of ${size} are ${groups * size} trajectories, and ${name} has ${batchSize} elements`,
    rounds > 1 && groups === undefined && 'sampling again needs collect.groups',
    typeof env !== 'function' &&
      kl !== undefined &&
      'an adaptive KL coefficient needs an environment for each batch: ({ klCoefficient }) => environment',
    typeof env !== 'function' &&
      ahead !== undefined &&
      'sampling ahead needs an environment for each group: ({ groups, start }) => environment',
    ahead !== undefined &&
      !(Number.isInteger(ahead.maxLag) && ahead.maxLag >= 1) &&
      `ahead.maxLag must be at least 1, got ${ahead.maxLag}`,
  ]
}

const positionSchema = z.strictObject({
  batch: z.number().int().nonnegative(),
  remembered: z.record(z.string(), z.unknown()),
})

/** Parses a stored position. Throws FailureError if another kind of source wrote it. */
export const positionOf = (position: Json | null): CollectorPosition | undefined => {
  if (position === null) return undefined
  const parsed = positionSchema.safeParse(position)
  const reason = `the checkpoint's position is not that of a collector: ${parsed.error && z.prettifyError(parsed.error)}`
  return orThrow(parsed.success ? E.right(parsed.data) : E.left({ _tag: 'PositionFailure', reason }))
}

const asJson = (position: CollectorPosition): Json => position as unknown as Json // plain JSON, by its contract

/** Collects batches synchronously, and resamples groups by the rule. */
const inTurns = <O extends TokenPrompt>(
  { env, policy, collect = {} }: Collecting<O>,
  start: SourceStart,
): OpenSource => {
  const { key = keyFromSeed(0), groups, rounds = 1, signal, keepReturnBounds, maxTurns } = collect
  const from = positionOf(start.position)
  const collectorAt = (klCoefficient: number): LLMCollector<CollectedBatch<O>> =>
    LLMCollector({
      env: envAt(env, { groups: groups ?? 1, start: 0, klCoefficient }),
      policy,
      key,
      ...(from && { start: from }),
      ...(maxTurns !== undefined && { maxTurns }),
    })
  const rule = {
    groups: groups ?? 1,
    rounds: groups === undefined ? 1 : rounds,
    ...(keepReturnBounds && { keepReturnBounds }),
    ...(signal && { signal: (batch: unknown) => signal(batch as TensorDict) }), // read by names
  }
  const sampled = (
    at: CollectorPosition,
    klCoefficient: number,
  ): TE.TaskEither<CollectorFailure, Collected<unknown> & { readonly sampling: SamplingCounts | null }> => {
    const collector = collectorAt(klCoefficient)
    return groups === undefined
      ? pipe(
          collector.collect(at),
          TE.map((each) => ({ ...(each as unknown as Collected<unknown>), sampling: null })), // read by names
        )
      : dynamicSampling(collector as unknown as LLMCollector<CollectedBatch<GroupEntry, unknown>>, rule)(at) // there are groups
  }
  const begin = collectorAt(firstWeight(collect)).start
  return {
    position: asJson(begin),
    collect: ({ position, klCoefficient }) =>
      pipe(
        sampled(positionOf(position) ?? begin, klCoefficient),
        TE.map(({ batch, position: next, sampling }) => ({
          batch: batch as unknown as Owned<TensorDict>, // read by names from here on
          position: asJson(next),
          sampling,
          overlap: null,
        })),
      ),
    trained: start.push,
    close: async () => undefined,
  }
}

/** Returns the batch source of a run that collects from an environment. */
export const collectingSource = <O extends TokenPrompt>(parts: Collecting<O>): BatchSource => {
  const { env, collect = {} } = parts
  const { groups = 1, rounds = 1, maxTurns, ahead, kl } = collect
  const sample = envAt(env, { groups, start: 0, klCoefficient: firstWeight(collect) })
  return {
    description: {
      env: sample.name,
      batchSize: sample.batchSize,
      groups: collect.groups ?? null,
      rounds,
      maxTurns: maxTurns ?? null,
      ahead: ahead === undefined ? null : { maxLag: ahead.maxLag, stale: ahead.stale ?? 'wait' },
      klCoefficient: kl?.coefficient ?? null,
    },
    ...(sample.source && { tasks: sample.source }),
    kl: kl ?? null,
    ...(sample.inputs && { inputs: sample.inputs }),
    open: async (start) =>
      ahead === undefined
        ? inTurns(parts, start)
        : openAhead(
            {
              env: (task, klCoefficient) => envAt(env, { groups: 1, start: task, klCoefficient }),
              policy: parts.policy,
              groups,
              ahead,
              klCoefficient: firstWeight(collect),
              key: collect.key ?? keyFromSeed(0),
              rounds,
              signal: collect.signal,
            },
            start,
          ),
    close: async () => undefined,
  }
}
