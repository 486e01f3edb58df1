/** The parts of a run on word problems, wired together. */
import { pipe } from 'fp-ts/lib/function.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import type { List } from 'immutable'
import { correctedRows, rescoredRows } from '../collectors/correction.js'
import { dynamicSampling, type SampledBatch } from '../collectors/dynamicSampling.js'
import { type GroupedRows, groupRows, trainingRows } from '../collectors/groups.js'
import type { AnyStateOptimizer } from '../collectors/learners/optimizerState.js'
import { type CollectorFailure, LLMCollector } from '../collectors/llmCollector.js'
import { miniBatches } from '../collectors/miniBatches.js'
import { correctStaleRows, type StaleTokens, tokenLags } from '../collectors/overlap/staleRows.js'
import { parallelGenerator } from '../collectors/parallel/parallelGenerator.js'
import { inThisThread, type ParallelStep, parallelStep } from '../collectors/parallel/parallelStep.js'
import type { Replicas } from '../collectors/parallel/replicas.js'
import type { CollectorPosition } from '../collectors/rollouts/lockstep.js'
import type { CollectedBatch } from '../collectors/rollouts/turnRows.js'
import type { StepMetrics } from '../collectors/stepMetrics.js'
import { type TrainingRows, withNoise, withoutRows } from '../collectors/stepRows.js'
import type { LossStepOptions } from '../collectors/steps/lossStep.js'
import { policyCase, trainStep } from '../collectors/trainStep.js'
import { child, keyFromSeed } from '../core/key.js'
import type { LogProbModel, PolicyFailure, StopReason, TokenAction, TokenPrompt } from '../data/policy.js'
import { shuffled, type TaskSource } from '../data/task.js'
import { ragged, raggedRows } from '../data/tensorDict/leaf.js'
import type { DeepMerge } from '../data/tensorDict/merge.js'
import { get } from '../data/tensorDict/tensorDict.js'
import type { NamedTensors } from '../data/weights.js'
import type { Env } from '../envs/env.js'
import { GSM8KEnv, type GSM8KState } from '../envs/gsm8kEnv.js'
import type { OverlongOptions } from '../envs/rewards/overlong.js'
import { type KLEntries, KLRewardTransform } from '../envs/transforms/klRewardTransform.js'
import { OverlongPenalty } from '../envs/transforms/overlongPenalty.js'
import { PolicyVersion, type VersionEntry } from '../envs/transforms/policyVersion.js'
import { TemplateTransform, type TextEntries } from '../envs/transforms/templateTransform.js'
import { Tokenizer } from '../envs/transforms/tokenizer.js'
import { append } from '../envs/transforms/transform.js'
import type { ModelText, Pretrained } from '../modules/pretrained.js'
import { makeGenerator } from '../modules/transformer/generate.js'
import { type TransformersPolicy, TransformersWrapper } from '../modules/transformersWrapper.js'
import { groupGatherer } from '../objectives/advantages/groupGatherer.js'
import { ALGORITHMS } from '../objectives/algorithms.js'
import type { CorrectionMetrics, RolloutCorrectionOptions } from '../objectives/rolloutCorrection.js'
import { correctionOf, lossOf, overlongOf, rewardFormOf, samplingRoundsOf } from './choices.js'
import { optimizerOf } from './optimizerChoice.js'
import type { RunSettings } from './settings.js'

/** What the states of word problems have once text and tokens are added. */
export type WordProblemState = DeepMerge<DeepMerge<GSM8KState, TextEntries>, TokenPrompt>

/** Word problems as token ids: the environment of `tandem train` and `tandem eval`. */
export const wordProblemEnv = (
  source: TaskSource,
  text: ModelText,
  batch: { readonly prompts: number; readonly repeats?: number /** The row to begin with. */; readonly start?: number },
): Env<WordProblemState, TokenAction> =>
  pipe(
    GSM8KEnv({ source, ...batch }),
    append(TemplateTransform({ template: text.template, endOfTurn: text.endOfTurn })),
    append(Tokenizer({ tokenizer: text.tokenizer })),
  )

/** The state with what training adds to it. */
export type TrainingState = DeepMerge<DeepMerge<WordProblemState, KLEntries>, VersionEntry>

/** Rows to learn from, and how far their sampler was from the trainer; null where that was not corrected. */
interface CorrectedRows {
  readonly rows: TrainingRows
  readonly correction: CorrectionMetrics | null
}

export interface Pipeline {
  readonly policy: TransformersPolicy
  readonly start: CollectorPosition
  /**
   * Collects the batch at a position, with groups without a signal sampled again as the settings say. `klCoefficient` weighs the divergence, where
   * it is in the reward.
   */
  readonly collect: (
    position: CollectorPosition,
    klCoefficient: number,
  ) => TE.TaskEither<CollectorFailure, SampledBatch<TrainingState>>
  /** A task of the run, counted from 0, as an environment of one group. */
  readonly groupEnv: (task: number, klCoefficient: number) => Env<TrainingState, TokenAction>
  /** Advantages of the groups of a batch. */
  readonly group: (batch: CollectedBatch<TrainingState>) => GroupedRows
  /** What is learned from a batch, and what was corrected in it. */
  readonly rows: (
    batch: CollectedBatch<TrainingState>,
    grouped: GroupedRows,
  ) => TE.TaskEither<PolicyFailure, CorrectedRows>
  /** The mini-batches of step `step`, in the order of its updates. */
  readonly miniBatches: (
    rows: TrainingRows,
    grouped: Pick<GroupedRows, 'groupIds'>,
    step: number,
  ) => readonly TrainingRows[]
  readonly optimizer: AnyStateOptimizer
  readonly step: ParallelStep<object, TrainingRows, StepMetrics>
  readonly release: () => void
}

/** The run's stream of random numbers for each purpose. */
export const runKeys = (seed: number) => {
  const root = keyFromSeed(seed)
  return {
    tasks: child(root, 'tasks'),
    rollouts: child(root, 'rollouts'),
    evaluation: child(root, 'evaluation'),
    adapter: child(root, 'adapter'),
    noise: child(root, 'noise'),
    order: child(root, 'order'),
  } as const
}

/** What a run is wired from, besides its settings and its model. */
export interface PipelineParts {
  readonly params: NamedTensors
  /** Those among `params` that training leaves alone. Default: none. */
  readonly frozen?: NamedTensors
  readonly reference: LogProbModel
  readonly tasks: TaskSource
  /** Default: the beginning. */
  readonly start?: CollectorPosition
  /** What samples and computes gradients beside this thread. Default: nothing. */
  readonly replicas?: Replicas
}

/** Word problems with a soft end. What it costs is in the reward; the entry that says so has no reader here. */
const shaped = (problems: Env<WordProblemState, TokenAction>, overlong: OverlongOptions) =>
  pipe(problems, append(OverlongPenalty(overlong))) as unknown as typeof problems // one entry more

/** 0 for no answer, 1 for an answer, 2 for the right one: completions that are equal here earn the same before length and divergence cost something. */
export const outcomes = (batch: CollectedBatch<TrainingState>): readonly number[] => {
  const [right, answered] = [
    get(batch, 'next', 'rewardRight').dataSync(),
    get(batch, 'next', 'rewardAnswer').dataSync(),
  ]
  return Array.from(right, (x, i) => x + answered[i]!)
}

/** Which of the rows end where the token limit is. */
const cutOff = (batch: CollectedBatch<TrainingState>, { rows }: GroupedRows): readonly boolean[] => {
  const stops: List<StopReason> = get(batch, 'stopReason').items
  return rows.map((row) => stops.get(row) === 'length')
}

/** Rows with the policy's own log-probabilities, computed as they are for the gradient. */
const rescored = (policy: LogProbModel, rows: TrainingRows): TE.TaskEither<PolicyFailure, TrainingRows> =>
  pipe(
    policy.score(ragged('int32', rows.prompts), ragged('int32', rows.completions), rows.temperature),
    TE.map((scores) => rescoredRows(rows, raggedRows(scores))),
  )

const corrected = (rows: TrainingRows, options: RolloutCorrectionOptions | null): CorrectedRows => {
  if (options === null) return { rows, correction: null }
  const { rows: changed, metrics } = correctedRows(rows, options)
  return { rows: changed, correction: metrics }
}

/** Rows whose tokens of older weights are weighed by what the policy thinks of them now. */
const staleCorrected = (
  policy: LogProbModel,
  rows: TrainingRows,
  lags: StaleTokens['lags'],
): TE.TaskEither<PolicyFailure, CorrectedRows> =>
  pipe(
    rescored(policy, rows),
    TE.map(({ oldLogProbs }) => correctStaleRows(rows, { own: oldLogProbs, lags })),
    TE.map(({ rows: changed, metrics }) => ({ rows: changed, correction: metrics })),
  )

/**
 * Wires a run: environment, policy, collector, advantages, training step.
 *
 * Effects  the policy keeps `params`; `release` frees them, the compiled graphs and the reference's.
 */
export const makePipeline = (
  settings: RunSettings,
  model: Pick<Pretrained, 'config' | 'text'>,
  { params, frozen, reference, tasks, start, replicas }: PipelineParts,
): Pipeline => {
  const { config, text } = model
  const keys = runKeys(settings.seed)
  const policy = TransformersWrapper({
    config,
    params,
    sampling: { temperature: settings.temperature, maxNewTokens: settings.maxNewTokens },
    ...(replicas && { generator: parallelGenerator(makeGenerator(config), replicas) }),
  })
  const overlong = overlongOf(settings)
  const correction = correctionOf(settings)
  const source = shuffled(tasks, keys.tasks)
  const problems = wordProblemEnv(source, text, { prompts: settings.prompts, repeats: settings.group })
  /** The weight of the divergence is a setting of the environment: a batch with another weight is one of another environment. */
  const rewarded = (given: typeof problems, klCoefficient: number): Env<TrainingState, TokenAction> => {
    const coefficient = settings.klIn === 'reward' ? klCoefficient : 0 // 0 measures it alone
    return pipe(
      overlong === null ? given : shaped(given, overlong),
      append(KLRewardTransform({ reference, coefficient, form: rewardFormOf(settings) })),
      append(PolicyVersion()),
    )
  }
  const collectorAt = (klCoefficient: number): LLMCollector<CollectedBatch<TrainingState>> =>
    LLMCollector({ env: rewarded(problems, klCoefficient), policy, key: keys.rollouts, ...(start && { start }) })
  const loss = lossOf(settings)
  const estimator = groupGatherer({ groupSize: settings.group })
  const optimizer = optimizerOf(settings, config)
  const learning: LossStepOptions<object> = {
    config,
    optimizer,
    maxGradNorm: settings.maxGradNorm,
    microBatchTokens: settings.microBatch,
    recompute: settings.recompute,
    ...(frozen && { frozen }),
  }
  const step =
    replicas === undefined
      ? inThisThread(trainStep({ ...learning, loss }))
      : parallelStep(policyCase(config, loss), learning, replicas)
  /** Each pass has random numbers of its own. */
  const noisy = (rows: TrainingRows, number: number, epoch: number): TrainingRows => {
    if (loss.needs.noise === 'no') return rows
    const key = child(keys.noise, number)
    return withNoise(rows, epoch === 0 ? key : child(key, `epoch ${epoch}`))
  }
  return {
    policy,
    start: collectorAt(settings.klCoefficient).start,
    collect: (position, klCoefficient) =>
      dynamicSampling(collectorAt(klCoefficient), {
        groups: settings.prompts,
        rounds: samplingRoundsOf(settings),
        signal: outcomes,
      })(position),
    groupEnv: (task, klCoefficient) =>
      rewarded(wordProblemEnv(source, text, { prompts: 1, repeats: settings.group, start: task }), klCoefficient),
    group: (batch) => groupRows(batch, estimator, ALGORITHMS[settings.algorithm].advantage),
    rows: (batch, grouped) => {
      const all = trainingRows(batch, grouped)
      const rows = settings.truncated === 'learn' ? all : withoutRows(all, cutOff(batch, grouped))
      if (rows.completions.length === 0) return TE.right({ rows, correction: null })
      if (settings.stale === 'correct' && correction === null) {
        const lags = tokenLags(batch, grouped.rows, policy.version())
        return lags.flat().some((lag) => lag > 0)
          ? staleCorrected(policy, rows, lags)
          : TE.right({ rows, correction: null })
      }
      if (settings.oldLogProbs === 'sampled') return TE.right({ rows, correction: null })
      return pipe(
        rescored(policy, rows),
        TE.map((own) => corrected(own, correction)),
      )
    },
    miniBatches: (rows, { groupIds }, number) =>
      Array.from({ length: settings.epochs }, (_, epoch) =>
        miniBatches(noisy(rows, number, epoch), groupIds, {
          count: settings.miniBatches,
          key: child(child(keys.order, number), epoch),
        }),
      ).flat(),
    optimizer,
    step,
    release: () => {
      policy.release()
      step.release()
    },
  }
}
