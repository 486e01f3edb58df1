/** What a training run is made of, and how its parts are checked against each other. */
import type { TaskEither } from 'fp-ts/lib/TaskEither.js'
import type { Learner } from '../collectors/learners/learner.js'
import type { CollectedBatch } from '../collectors/rollouts/turnRows.js'
import { inProcessUpdater, type WeightUpdater } from '../collectors/weightSync.js'
import type { FileContents } from '../core/capabilities.js'
import type { Failure } from '../core/failure.js'
import { type Key, keyFromSeed } from '../core/key.js'
import { refuse } from '../core/options.js'
import type { Json } from '../data/codecs/plainValues.js'
import type { Policy, TokenAction, TokenPrompt } from '../data/policy.js'
import type { DeepMerge } from '../data/tensorDict/merge.js'
import type { Merge, SchemaOf, TensorDict } from '../data/tensorDict/tensorDict.js'
import type { NamedTensors, WeightReceiver } from '../data/weights.js'
import type { Env } from '../envs/env.js'
import type { Advantage } from '../objectives/advantages/advantage.js'
import { type CollectOptions, checkCollect, collectingSource, type EnvOf } from './collecting.js'
import type { Evaluator } from './evaluation.js'
import type { RatedEntries, Rater } from './rater.js'
import type { UpdateMetrics } from './records.js'
import type { BatchSource } from './source.js'

/** What a run logs of its batches besides what every run logs. */
export interface RecordOptions {
  /** Metrics of one's own, by name: logged, drawn in the report and given to trackers. */
  readonly metrics?: (batch: TensorDict) => Readonly<Record<string, number>>
  /** Folders that the run leaves behind at its end, of the last weights and of the best: files by name, by folder. Default: none. */
  readonly exports?: () => Readonly<Record<string, Readonly<Record<string, FileContents>>>>
  /** The text of a token, for records of trajectories. Default: the texts of the batch, where it has any. */
  readonly decode?: (id: number) => string
}

/** The entries of a collected batch. */
type EntriesOf<O> = CollectedBatch<O> extends TensorDict<infer S> ? S : never

/** The entries of a rater that adds none. */
type NoEntries = Readonly<Record<never, never>>

/** Entries of batches with those that a rater adds. */
type WithEntries<B, Rated> = DeepMerge<B, SchemaOf<Rated>>

/** Parts of a run whose batches are collected from an environment. */
export interface RunParts<
  O extends TokenPrompt,
  Added,
  M extends UpdateMetrics,
  Rated extends RatedEntries = NoEntries,
> {
  /** An environment; or one for each batch, which collecting beside learning and an adaptive KL weight need. */
  readonly env: EnvOf<O>
  readonly policy: Policy<TokenPrompt, TokenAction>
  /** Adds what a model makes of a batch before the advantage sees it, such as `valueRater(learner)`. Default: nothing. */
  readonly rate?: Rater<EntriesOf<O>, Rated>
  /** Default: none, for losses that learn from what a rater adds alone. */
  readonly advantage?: Advantage<never, Added>
  /** Its batches are those of the environment with what rater and advantage add. */
  readonly learner: Learner<Merge<WithEntries<EntriesOf<O>, NoInfer<Rated>>, NoInfer<Added>>, M>
  /** Gives the policy new weights. Default: in this process, for policies that take weights. */
  readonly updater?: WeightUpdater<NamedTensors>
  /** What the run is measured on. The first one chooses the best checkpoint. Default: nothing. */
  readonly evaluate?: readonly Evaluator[]
  readonly collect?: CollectOptions
  readonly record?: RecordOptions
}

/** Parts of a run whose batches come from elsewhere: rows of a data set, captured sessions, a queue. */
export interface DataRunParts<B, M extends UpdateMetrics, Rated extends RatedEntries = NoEntries> {
  readonly data: BatchSource<B>
  /** Adds what a model makes of a batch, such as `pairRater(reference)`. Default: nothing. */
  readonly rate?: Rater<B, Rated>
  readonly learner: Learner<WithEntries<B, NoInfer<Rated>>, M>
  /** Gives an evaluated policy new weights. Default: none. */
  readonly updater?: WeightUpdater<NamedTensors>
  readonly evaluate?: readonly Evaluator[]
  readonly record?: RecordOptions
}

/** The groups of a run one by one, for workers that play them elsewhere. */
export interface RunGroups {
  /** The environment of a task, which is one group. */
  readonly env: (task: number) => Env<TokenPrompt, TokenAction>
  /** Trajectories of a group. */
  readonly size: number
  /** Groups of a batch. */
  readonly count: number
  /** Of sampling: the same in all workers. */
  readonly key: Key
  /** Whether new weights stay in this process, or are pushed by an updater that the run was given. */
  readonly weights: 'kept' | 'pushed'
}

/** A run whose parts fit. `train` runs it, once. */
export interface AnyRun {
  readonly _tag: 'Run'
  readonly source: BatchSource
  readonly rate?: (batch: TensorDict) => TaskEither<Failure, RatedEntries>
  readonly advantage: (batch: TensorDict) => TensorDict
  readonly learner: Learner<never, UpdateMetrics>
  readonly push: (version: number) => TaskEither<Failure, number>
  /** Gives evaluated policies the weights of a version, where they are not the policy that samples. */
  readonly refresh?: (version: number) => TaskEither<Failure, number>
  readonly evaluate: readonly Evaluator[]
  readonly record: RecordOptions
  /** Null where the environment is not a function of its tasks. */
  readonly groups: RunGroups | null
  /** Called once before the run samples or pushes weights: not for those who only look at its parts, as workers do. */
  readonly begin?: () => Promise<void>
  /** JSON of all parts: a run folder stores it, and resume compares it. */
  readonly description: Readonly<Record<string, Json>>
  /** Frees policy, learner and source. */
  readonly close: () => Promise<void>
}

/** Policies that hold something have one of these. */
type Closable = { readonly release?: () => void; readonly close?: () => Promise<unknown> }

const closed = async (part: object): Promise<void> => {
  const { release, close } = part as Closable // absent where nothing is held
  if (close !== undefined) await close()
  else release?.()
}

const isReceiver = (part: object): part is WeightReceiver<NamedTensors> =>
  'load' in part && typeof part.load === 'function' && 'version' in part && typeof part.version === 'function'

const updaterOf = (policy: object, given: WeightUpdater<NamedTensors> | undefined): WeightUpdater<NamedTensors> => {
  if (given !== undefined) return given
  if (isReceiver(policy)) return inProcessUpdater(policy)
  const name = 'name' in policy ? String(policy.name) : 'the policy'
  throw new RangeError(`defineRun: ${name} takes no weights itself: give an updater, such as vLLMUpdater`)
}

/** What is wrong with evaluators and learner, in words. */
const checkParts = ({
  evaluate = [],
  learner,
}: Pick<RunParts<TokenPrompt, never, UpdateMetrics>, 'evaluate' | 'learner'>): readonly (string | false)[] => {
  const names = evaluate.map(({ name }) => name)
  return [
    new Set(names).size < names.length && `two evaluators have one name: ${names.join(', ')}`,
    learner.version() > 0 && `the learner has done ${learner.version()} updates: a run begins with a new one`,
  ]
}

type AnyRater = Rater<never, RatedEntries>

/** The part of a run that rates its batches, and its description. */
const ratingOf = (rater: AnyRater | undefined) =>
  rater === undefined
    ? { rating: {}, described: {} }
    : {
        rating: { rate: (batch: TensorDict) => rater.rate(batch as TensorDict<never>) }, // by the types of the parts
        described: { rate: rater.description },
      }

const dataRun = <B, M extends UpdateMetrics>(parts: DataRunParts<B, M>): AnyRun => {
  const { data, rate, learner, updater, evaluate = [], record = {} } = parts
  refuse('defineRun', checkParts(parts as unknown as Parameters<typeof checkParts>[0])) // only names and numbers are read
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
}: RunParts<O, Added, M>): RunGroups | null =>
  typeof env !== 'function' || advantage?.groupSize === undefined || groups === undefined
    ? null
    : {
        env: (task) =>
          env({ groups: 1, start: task, klCoefficient: kl?.coefficient ?? 0 }) as unknown as Env<
            TokenPrompt,
            TokenAction
          >, // what it has besides is carried along
        ...{ size: advantage.groupSize, count: groups, key, weights: updater === undefined ? 'kept' : 'pushed' },
      }

const environmentRun = <O extends TokenPrompt, Added, M extends UpdateMetrics>(
  parts: RunParts<O, Added, M>,
): AnyRun => {
  const { policy, rate, advantage, learner, evaluate = [], record = {} } = parts
  const plain = parts as unknown as RunParts<TokenPrompt, never, UpdateMetrics> // only names and sizes are read
  refuse('defineRun', [...checkParts(plain), ...checkCollect(plain)])
  const { rating, described } = ratingOf(rate as AnyRater | undefined)
  const updater = updaterOf(policy, parts.updater)
  const source = collectingSource(parts)
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
    description: {
      source: source.description,
      policy: policy.name,
      ...described,
      advantage: advantage?.description ?? null,
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

/**
 * Puts the parts of a run together and checks that they fit: environment, policy, advantage, learner; or a source of batches and a learner.
 *
 * The run takes its parts over: `train` closes policy and learner at the end.
 *
 * Errors   throws RangeError, with all reasons: an estimator whose group size is not the environment's, a policy that takes no weights and no
 *          updater, two evaluators of one name.
 * Source   TorchRL's GRPO recipe, whose wiring is a script.
 */
export const defineRun: {
  <O extends TokenPrompt, M extends UpdateMetrics, Added = NoEntries, Rated extends RatedEntries = NoEntries>(
    parts: RunParts<O, Added, M, Rated>,
  ): AnyRun
  <B, M extends UpdateMetrics, Rated extends RatedEntries = NoEntries>(parts: DataRunParts<B, M, Rated>): AnyRun
} = (parts: object): AnyRun =>
  'data' in parts
    ? dataRun(parts as DataRunParts<never, UpdateMetrics>) // by the overloads
    : environmentRun(parts as RunParts<TokenPrompt, never, UpdateMetrics>) // by the overloads

/** The run with something more to close at its end, such as a reference model. */
export const closing = (run: AnyRun, close: () => Promise<void> | void): AnyRun => ({
  ...run,
  close: async () => {
    await run.close()
    await close()
  },
})
