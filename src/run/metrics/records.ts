/** The records of a run: steps, evaluations, trajectories, and the final summary. */
import type { EngineReport } from '@tandem-rl/tfjs-onnxruntime'
import type { SamplingCounts } from '../../collectors/dynamicSampling.js'
import { bestEvaluation, rankingScore, type ScoredEvaluation } from '../../data/runLayout.js'
import type { CorrectionMetrics } from '../../objectives/rolloutCorrection.js'
import type { BatchMetrics } from './batchMetrics.js'
import type { EvaluationResult, Measure, Scores } from './evaluation.js'

/** Wall-clock seconds of the phases of a step. */
export interface PhaseSeconds {
  /** Generating completions. */
  readonly generation: number
  /** The rest of collecting: environment and rewards. */
  readonly environment: number
  /**
   * Scoring by the reference model of the KL term. Absent without one, for overlapped sampling,
   * whose workers or threads it is part of, and in older logs, where it is part of `environment`.
   */
  readonly reference?: number
  readonly training: number
  readonly weightSync: number
}

/** Memory use at the end of a step. */
export interface MemoryRecord {
  /** Resident memory of the process. */
  readonly residentBytes: number
  /** Number of live compiled graphs, and the approximate bytes they hold between runs. */
  readonly graphs: number
  readonly graphBytes: number
}

/** Statistics of sampling that does not alternate with training, in one step. */
export interface OverlapRecord {
  /** Staleness of the trained tokens in updates: mean and maximum. */
  readonly meanLag: number
  readonly maxLag: number
  /** Groups dropped since the previous step: stale, failed, or without a signal. */
  readonly stale: number
  readonly failed: number
  readonly filtered: number
  /**
   * Seconds since the previous step spent sampling, and of these, while the run was training.
   * `null` if workers sample.
   */
  readonly samplingSeconds: number | null
  readonly bothSeconds: number | null
}

/**
 * Metrics of an update. Policy losses report all of them. Other losses report `loss`, `gradNorm`
 * and metrics of their own.
 *
 * Units    means over tokens; log-probability gaps, KL divergences and entropy in nats.
 */
export interface UpdateMetrics {
  readonly loss: number
  readonly gradNorm: number
  /** Number of trained tokens. */
  readonly tokens?: number
  /** Number of places that were computed, and the trained tokens as a share of them. */
  readonly computedPlaces?: number | null
  readonly learnedFraction?: number | null
  readonly ess?: number
  readonly entropy?: number
  readonly klToRef?: number | null
  readonly klApprox?: number
  readonly clipFraction?: number
  readonly maxLogProbGap?: number
}

/** One line of metrics.jsonl: a step. */
export interface StepRecord extends BatchMetrics {
  readonly type: 'step'
  /** Counted from 1. */
  readonly step: number
  /** Counts of everything sampled for the step, including dropped groups. `null` for data sets. */
  readonly sampling: SamplingCounts | null
  /** Metrics of the off-policy correction, or `null` if none is applied. */
  readonly correction: CorrectionMetrics | null
  readonly groupsUsed: number
  readonly groupsDropped: number
  /**
   * Mean KL divergence of a completion from the reference in nats, which `kl.target` controls.
   * `null` without a reference.
   */
  readonly completionKL: number | null
  /** KL coefficient of this step. */
  readonly klCoefficient: number
  readonly learningRate: number
  /** Metrics over all optimizer steps. */
  readonly update: UpdateMetrics
  /** Metrics of each optimizer step, in order. */
  readonly updates: readonly UpdateMetrics[]
  /** Custom metrics of the run. */
  readonly metrics: Readonly<Record<string, number>>
  /** `null` if sampling and training alternate. */
  readonly overlap: OverlapRecord | null
  readonly memory: MemoryRecord
  readonly seconds: PhaseSeconds
}

/** One line of metrics.jsonl: an evaluation. */
export interface EvaluationRecord extends ScoredEvaluation {
  readonly measure: Measure
  readonly scores: Scores
  /** The first results of the evaluation. Absent in older logs, and if there are no completions. */
  readonly samples?: readonly EvaluationSample[]
  readonly seconds: number
}

/** One result of an evaluation. */
type EvaluationSample = Pick<EvaluationResult, 'query' | 'completion' | 'score'>

/** A tool call that the policy wrote. */
interface ToolCallRecord {
  readonly name: string
  /** JSON text. */
  readonly arguments: string
}

/** A message that the environment appended after a turn, such as a tool's result. */
interface ReplyRecord {
  readonly role: string
  readonly text: string
  /** `true` for the result of a tool call that failed. */
  readonly isError?: boolean
}

/** The prompt of a turn. It starts with `shared` ids of the previous turn and its completion. */
export interface PromptRecord {
  readonly shared: number
  /** The ids after those. */
  readonly ids: readonly number[]
}

/** One line of trajectories.jsonl: a turn of a trajectory. */
export interface TrajectoryRecord {
  /**
   * Version of the line's format. Absent in older logs, which have none of the numbers of the
   * trainer, no tool calls and no replies.
   */
  readonly format?: 2
  readonly step: number
  readonly trajectoryId: string
  readonly turn: number
  readonly groupId: string | null
  readonly query: string
  /** The reference answer of the task, or `null`. */
  readonly answer: string | null
  /** Text of each sampled token, including special tokens. One text if the policy has no tokens. */
  readonly tokens: readonly string[]
  /** Ids of the sampled tokens. Absent without tokens, and in older logs. */
  readonly ids?: readonly number[]
  /** Absent without tokens, and in older logs. */
  readonly prompt?: PromptRecord
  /** Log-probabilities in nats, or `null` if the policy reports none. */
  readonly logProbs: readonly number[] | null
  /**
   * Log-probabilities under the trainer before the update, in nats. `equal` if each differs from
   * `logProbs` by less than 0.00005. Absent for rows that were not trained.
   */
  readonly trainerLogProbs?: readonly number[] | 'equal'
  /** Entropy of the trainer's distribution before the update, in nats. */
  readonly entropies?: readonly number[]
  /**
   * Ratios of the trained to the old probability at the last optimizer step. Absent if all are 1
   * to four decimals.
   */
  readonly ratios?: readonly number[]
  /** Indices of tokens whose gradient was clipped to 0. Absent without any. */
  readonly clipped?: readonly number[]
  /** Tool calls of the turn's message. Calls in plain text, such as code, are not among them. */
  readonly toolCalls?: readonly ToolCallRecord[]
  /** Number of calls of the turn, in every form, and of failed ones. Absent without calls. */
  readonly toolUse?: { readonly calls: number; readonly errors: number }
  /** Messages that the environment appended after the turn. */
  readonly replies?: readonly ReplyRecord[]
  /** Reward of the turn. */
  readonly reward: number
  /** Parts of the reward by name, such as `success`, if the environment reports any. */
  readonly parts?: Readonly<Record<string, number>>
  /**
   * Per token, or one number if all are equal. `null` if the group was dropped or has no
   * advantages.
   */
  readonly advantage: number | readonly number[] | null
  readonly stopReason: string | null
  readonly policyVersion: number | null
}

/** The scores of an evaluator over the run. */
export interface EvaluationSummary {
  readonly name: string
  readonly score: string
  readonly measure: Measure
  readonly tasks: number
  readonly before: Scores
  readonly after: Scores
  /** Worst score in the second half of the run. */
  readonly worstLate: number
}

/** The contents of summary.json. */
export interface RunSummary {
  readonly status: 'finished' | 'interrupted'
  /** Steps done, each with one or several updates. */
  readonly steps: number
  /** Empty for runs without rewards. */
  readonly rewardCurve: readonly number[]
  readonly lossCurve: readonly number[]
  /** Summaries by evaluator, in their order. */
  readonly evaluated: readonly EvaluationSummary[]
  /** All evaluations in order. */
  readonly evaluations: readonly EvaluationRecord[]
  /** The best step by `bestEvaluation`. `null` if there was no evaluation after training. */
  readonly best: { readonly step: number; readonly name: string; readonly value: number } | null
  /** Wall-clock seconds over all sessions of the run. */
  readonly secondsTotal: number
  readonly seconds: PhaseSeconds & { readonly evaluation: number; readonly checkpoint: number }
  /** Tokens sampled per second of generation, and tokens trained per second of training. */
  readonly tokensPerSecond: { readonly generation: number; readonly training: number }
  readonly maxLogProbGap: number
  readonly policyVersion: number
  readonly engine: EngineReport
}

/** Formats a score. Success rates are formatted as percentages. */
export const scoreText = (measure: Measure, value: number): string =>
  measure === 'success' ? `${(100 * value).toFixed(1)} %` : String(Number(value.toPrecision(4)))

const sum = (numbers: readonly number[]): number => numbers.reduce((a, b) => a + b, 0)

const rate = (amount: number, seconds: number): number => (seconds > 0 ? amount / seconds : 0)

/** The data of a summary that the records do not contain. */
export interface SummaryContext {
  readonly status: RunSummary['status']
  readonly secondsTotal: number
  readonly checkpointSeconds: number
  readonly policyVersion: number
  readonly engine: EngineReport
}

const curveOf = (evaluations: readonly EvaluationRecord[]): EvaluationSummary => {
  const [first, last] = [evaluations[0]!, evaluations.at(-1)!]
  const late = evaluations.filter(({ step }) => step * 2 >= last.step)
  return {
    name: last.name,
    score: last.score,
    measure: last.measure,
    tasks: last.tasks,
    before: first.scores,
    after: last.scores,
    worstLate: last.measure === 'loss' ? Math.max(...late.map(rankingScore)) : Math.min(...late.map(rankingScore)),
  }
}

/** Groups evaluations by evaluator, in order of first appearance. */
const byName = (evaluations: readonly EvaluationRecord[]): readonly (readonly EvaluationRecord[])[] =>
  [...new Set(evaluations.map(({ name }) => name))].map((name) => evaluations.filter((each) => each.name === name))

/** Summarizes a run from its records. */
export const summarizeRun = (
  steps: readonly StepRecord[],
  evaluations: readonly EvaluationRecord[],
  context: SummaryContext,
): RunSummary => {
  const phase = (name: keyof PhaseSeconds): number => sum(steps.map((record) => record.seconds[name] ?? 0))
  const hasReference = steps.some(({ seconds }) => seconds.reference !== undefined)
  const sampled = sum(
    steps.map(
      ({ sampling, completionTokens = 0, trajectories }) => sampling?.tokens ?? completionTokens * trajectories,
    ),
  )
  /**
   * With asynchronous sampling, `seconds.generation` is only the time spent waiting for samples.
   */
  const samplingSeconds = sum(steps.map(({ overlap, seconds }) => overlap?.samplingSeconds ?? seconds.generation))
  const best = bestEvaluation(evaluations)
  return {
    status: context.status,
    steps: steps.length,
    rewardCurve: steps.flatMap(({ reward }) => reward ?? []),
    lossCurve: steps.map(({ update }) => update.loss),
    evaluated: byName(evaluations).map(curveOf),
    evaluations,
    best: best === undefined ? null : { step: best.step, name: best.name, value: rankingScore(best) },
    secondsTotal: context.secondsTotal,
    seconds: {
      generation: phase('generation'),
      environment: phase('environment'),
      ...(hasReference && { reference: phase('reference') }),
      training: phase('training'),
      weightSync: phase('weightSync'),
      evaluation: sum(evaluations.map((record) => record.seconds)),
      checkpoint: context.checkpointSeconds,
    },
    tokensPerSecond: {
      generation: rate(sampled, samplingSeconds),
      training: rate(sum(steps.map(({ update }) => update.tokens ?? 0)), phase('training')),
    },
    maxLogProbGap: steps.reduce((gap, { update }) => Math.max(gap, update.maxLogProbGap ?? 0), 0),
    policyVersion: context.policyVersion,
    engine: context.engine,
  }
}
