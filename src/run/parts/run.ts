/** The parts of a training run, and the checks that they fit together. */
import {
  checkOptions,
  type Failure,
  type FileContents,
  type Json,
  type Key,
  keyFromSeed,
  refuse,
} from '@tandem-rl/base'
import type { TaskEither } from 'fp-ts/lib/TaskEither.js'
import type { CollectedBatch } from '../../collectors/rollouts/turnRows.js'
import { inProcessUpdater, type WeightUpdater } from '../../collectors/weightSync.js'
import { type Inputs, joinInputs, textInputs, type WithInputs } from '../../data/inputs.js'
import type { Policy, TokenAction, TokenPrompt } from '../../data/policy.js'
import type { DeepMerge } from '../../data/tensorDict/merge.js'
import type { Merge, SchemaOf, TensorDict } from '../../data/tensorDict/tensorDict.js'
import type { NamedTensors, WeightReceiver } from '../../data/weights.js'
import type { Env } from '../../envs/base/env.js'
import type { Learner } from '../../learners/learner.js'
import { advantageFingerprint } from '../../learners/steps/fingerprint.js'
import type { Pretrained } from '../../modules/pretrained/pretrained.js'
import type { Advantage } from '../../objectives/advantages/advantage.js'
import type { Evaluator } from '../metrics/evaluation.js'
import type { UpdateMetrics } from '../metrics/records.js'
import { DATA_RUN_PARTS, ENVIRONMENT_RUN_PARTS } from '../optionKinds.js'
import { type CollectOptions, checkCollect, collectingSource, type EnvOf } from './collecting.js'
import type { RatedEntries, Rater } from './rater.js'
import { checkedEvaluators } from './sharedTasks.js'
import type { BatchSource } from './source.js'

/** The custom records and exports of a run. */
export interface RecordOptions {
  /** Custom metrics by name. They are logged, plotted in the report and sent to trackers. */
  readonly metrics?: (batch: TensorDict) => Readonly<Record<string, number>>
  /** Folders of files exported at the end, for the last and the best weights. Default: none. */
  readonly exports?: () => Readonly<Record<string, Readonly<Record<string, FileContents>>>>
  /** Decodes a token for trajectory records. Default: the texts of the batch, if present. */
  readonly decode?: (id: number) => string
  /**
   * The architecture and the text side of the trained model, with which `tandem view` runs
   * checkpoints. Default: it cannot.
   */
  readonly model?: Pick<Pretrained, 'config' | 'text'>
}

/** The entries of a collected batch. */
type EntriesOf<O> = CollectedBatch<O> extends TensorDict<infer S> ? S : never

/** The entries of a rater that adds nothing. */
export type NoEntries = Readonly<Record<never, never>>

/** The entries of a batch together with those that a rater adds. */
export type WithEntries<B, Rated> = DeepMerge<B, SchemaOf<Rated>>

/** The entries of the batches of a run that trains in an environment. */
export type RunEntries<O, Added, Rated> = Merge<WithEntries<EntriesOf<O>, Rated>, Added>

/** The parts of a run that trains in an environment, without its learner. */
export interface EnvironmentParts<O, Added, Rated extends RatedEntries = NoEntries> {
  /**
   * An environment, or a function that makes one for each batch. Asynchronous sampling and an
   * adaptive KL coefficient require the function.
   */
  readonly env: EnvOf<O>
  readonly policy: Policy<TokenPrompt, TokenAction>
  /**
   * Adds model outputs to a batch before the advantage, such as `valueRater(learner)`. Default:
   * none.
   */
  readonly rate?: Rater<EntriesOf<O>, Rated>
  /** The advantage estimator. Default: none, for losses that need only the rater's entries. */
  readonly advantage?: Advantage<never, Added>
  /**
   * Sends new weights to the policy. Default: an in-process update, if the policy accepts weights.
   */
  readonly updater?: WeightUpdater<NamedTensors>
  /** The evaluators. The first one selects the best checkpoint. Default: none. */
  readonly evaluate?: readonly Evaluator[]
  readonly collect?: CollectOptions
  readonly record?: RecordOptions
}

/** The parts of a run whose batches are collected from an environment. */
export interface RunParts<O extends TokenPrompt, Added, M extends UpdateMetrics, Rated extends RatedEntries = NoEntries>
  extends EnvironmentParts<O, Added, Rated> {
  /** Its batches have the environment's entries and those that rater and advantage add. */
  readonly learner: Learner<RunEntries<O, NoInfer<Added>, NoInfer<Rated>>, M>
}

/** The parts of a run of a batch source, without its learner. */
export interface DataParts<B, Rated extends RatedEntries = NoEntries> {
  readonly data: BatchSource<B>
  /** Adds model outputs to a batch, such as `pairRater(reference)`. Default: none. */
  readonly rate?: Rater<B, Rated>
  /** Sends new weights to an evaluated policy. Default: none. */
  readonly updater?: WeightUpdater<NamedTensors>
  readonly evaluate?: readonly Evaluator[]
  readonly record?: RecordOptions
}

/** The parts of a run whose batches come from elsewhere: a data set, captured sessions, a queue. */
export interface DataRunParts<B, M extends UpdateMetrics, Rated extends RatedEntries = NoEntries>
  extends DataParts<B, Rated> {
  readonly learner: Learner<WithEntries<B, NoInfer<Rated>>, M>
}

/** The type of environments of one group. */
type GroupEnv = Env<TokenPrompt, TokenAction>

/** The groups of a run, for workers that play them in other processes. */
export interface RunGroups {
  /** Makes the environment of a task, which is one group. */
  readonly env: (task: number) => GroupEnv
  /** Number of trajectories per group. */
  readonly size: number
  /** Number of groups per batch. */
  readonly count: number
  /** Random key of sampling, the same in all workers. */
  readonly key: Key
  /** Digests of what the environments read, which must be the same in all workers. */
  readonly inputs: () => Inputs
  /** `kept` if new weights stay in this process, `pushed` if the run has its own updater. */
  readonly weights: 'kept' | 'pushed'
}

/** A run with checked parts. `train` runs it once. */
export interface AnyRun {
  readonly _tag: 'Run'
  readonly source: BatchSource
  readonly rate?: (batch: TensorDict) => TaskEither<Failure, RatedEntries>
  readonly advantage: (batch: TensorDict) => TensorDict
  readonly learner: Learner<never, UpdateMetrics>
  readonly push: (version: number) => TaskEither<Failure, number>
  /** Updates the evaluated policies, if they are not the sampling policy. */
  readonly refresh?: (version: number) => TaskEither<Failure, number>
  readonly evaluate: readonly Evaluator[]
  readonly record: RecordOptions
  /**
   * Returns the seconds of all calls of the reference model so far. Absent if the run calls none
   * when it collects.
   */
  readonly referenceSeconds?: () => number
  /** `null` if the environment is not a function of its tasks. */
  readonly groups: RunGroups | null
  /**
   * Called once before the run samples or pushes weights. Workers, which only use its parts, skip
   * it.
   */
  readonly begin?: () => Promise<void>
  /** Digests of what source, evaluators and model read, stored and compared likewise. */
  readonly inputs: () => Inputs
  /** A JSON description of all parts. It is stored in the run folder and compared on resume. */
  readonly description: Readonly<Record<string, Json>>
  /** Frees policy, learner and source. */
  readonly close: () => Promise<void>
}

/** A policy that holds resources has one of these methods. */
type Closable = { readonly release?: () => void; readonly close?: () => Promise<unknown> }

const closed = async (part: object): Promise<void> => {
  const { release, close } = part as Closable // both optional
  if (close !== undefined) await close()
  else release?.()
}

const isReceiver = (part: object): part is WeightReceiver<NamedTensors> =>
  'load' in part && typeof part.load === 'function' && 'version' in part && typeof part.version === 'function'

const updaterOf = (policy: object, given: WeightUpdater<NamedTensors> | undefined): WeightUpdater<NamedTensors> => {
  if (given !== undefined) return given
  if (isReceiver(policy)) return inProcessUpdater(policy)
  const name = 'name' in policy ? String(policy.name) : 'the policy'
  throw new RangeError(`defineRun: ${name} does not accept weights: give an updater, such as vLLMUpdater`)
}

/** Returns the inputs of the parts of a run. */
const inputsOf =
  (source: WithInputs, evaluate: readonly Evaluator[], { model }: RecordOptions) =>
  (): Inputs =>
    joinInputs([source, ...evaluate].map((part) => part.inputs?.() ?? {}).concat(textInputs(model?.text ?? {})))

/** Returns a message for each problem of evaluators and learner. */
const checkParts = (
  { learner }: { readonly learner: Pick<Learner<never, unknown>, 'version'> },
  evaluators: readonly Evaluator[],
): readonly (string | false)[] => {
  const names = evaluators.map(({ name }) => name)
  return [
    new Set(names).size < names.length && `evaluator names must be unique, got ${names.join(', ')}`,
    learner.version() > 0 && `the learner has done ${learner.version()} updates: a run needs a new learner`,
  ]
}

type AnyRater = Rater<never, RatedEntries>

/** Returns the rating part of a run, and its description. */
const ratingOf = (rater: AnyRater | undefined) =>
  rater === undefined
    ? { rating: {}, described: {} }
    : {
        rating: { rate: (batch: TensorDict) => rater.rate(batch as TensorDict<never>) }, // by the types of the parts
        described: { rate: rater.description },
      }

/** Builds a run of a batch source. */
export const dataRun = <B, M extends UpdateMetrics>(parts: DataRunParts<B, M>): AnyRun => {
  checkOptions('defineRun', parts, DATA_RUN_PARTS)
  const { data, rate, learner, updater, record = {} } = parts
  const { evaluators: evaluate, problems } = checkedEvaluators(data.tasks, parts.evaluate ?? [])
  refuse('defineRun', [...checkParts(parts, evaluate), ...problems])
  const { rating, described } = ratingOf(rate as AnyRater | undefined)
  return {
    ...rating,
    _tag: 'Run',
    source: data,
    advantage: (batch) => batch,
    learner: learner as unknown as Learner<never, UpdateMetrics>, // batches of the source are the learner's, by the types of the parts
    push: (version) =>
      updater === undefined
        ? async () => ({ _tag: 'Right', right: version })
        : updater.push(learner.weights(), version),
    evaluate,
    record,
    groups: null,
    inputs: inputsOf(data, evaluate, record),
    description: { data: data.description, ...described, learner: learner.description },
    close: async () => {
      await data.close()
      await rate?.close?.()
      await learner.close()
    },
  }
}

const groupsOf = <O extends TokenPrompt, Added, M extends UpdateMetrics>({
  env,
  advantage,
  collect: { groups, key = keyFromSeed(0), kl } = {},
  updater,
}: RunParts<O, Added, M>): RunGroups | null => {
  if (typeof env !== 'function' || advantage?.groupSize === undefined || groups === undefined) return null
  const envOf = (task: number) => env({ groups: 1, start: task, klCoefficient: kl?.coefficient ?? 0 })
  return {
    env: (task) => envOf(task) as unknown as GroupEnv, // it has more
    inputs: () => envOf(0).inputs?.() ?? {},
    size: advantage.groupSize,
    count: groups,
    key,
    weights: updater === undefined ? 'kept' : 'pushed',
  }
}

/** Builds a run of an environment. */
export const environmentRun = <O extends TokenPrompt, Added, M extends UpdateMetrics>(
  parts: RunParts<O, Added, M>,
): AnyRun => {
  checkOptions('defineRun', parts, ENVIRONMENT_RUN_PARTS)
  const { policy, rate, advantage, learner, record = {} } = parts
  refuse('defineRun', [...checkParts(parts, parts.evaluate ?? []), ...checkCollect(parts)])
  const { rating, described } = ratingOf(rate as AnyRater | undefined)
  const updater = updaterOf(policy, parts.updater)
  const source = collectingSource(parts)
  const { evaluators: evaluate, problems } = checkedEvaluators(source.tasks, parts.evaluate ?? [])
  refuse('defineRun', problems)
  return {
    ...rating,
    _tag: 'Run',
    source,
    advantage: (advantage ?? ((batch: TensorDict) => batch)) as unknown as AnyRun['advantage'], // batches are those of the environment, by the types of the parts
    learner: learner as unknown as Learner<never, UpdateMetrics>, // likewise
    push: (version) => updater.push(learner.weights(), version),
    evaluate,
    record,
    groups: groupsOf(parts),
    inputs: inputsOf(source, evaluate, record),
    description: {
      source: source.description,
      policy: policy.name,
      ...described,
      advantage: advantage === undefined ? null : describedAdvantage(advantage),
      learner: learner.description,
    },
    close: async () => {
      await source.close()
      await rate?.close?.()
      await closed(policy)
      await learner.close()
    },
  }
}

/** Returns the description of an advantage, with the fingerprint of its formula. */
export const describedAdvantage = (advantage: Advantage<never, unknown>): Json => ({
  ...(typeof advantage.description === 'object' && advantage.description),
  fingerprint: advantageFingerprint(advantage),
})

/** Returns the run with an additional `close`, such as releasing a reference model. */
export const closing = (run: AnyRun, close: () => Promise<void> | void): AnyRun => ({
  ...run,
  close: async () => {
    await run.close()
    await close()
  },
})
