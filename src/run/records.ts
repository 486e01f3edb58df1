/** What a run writes down: one record for each step, evaluation and sampled trajectory, and the summary. */

import type { SamplingCounts } from '../collectors/dynamicSampling.js'
import type { StepMetrics } from '../collectors/stepMetrics.js'
import type { StopReason } from '../data/policy.js'
import type { EngineReport } from '../engine/report.js'
import type { CorrectionMetrics } from '../objectives/rolloutCorrection.js'

/** Seconds by phase. */
export interface PhaseSeconds {
  /** Where sampling goes on beside learning: only what the run waited for it. */
  readonly generation: number
  /** Rendering, rewards, reference scores. */
  readonly environment: number
  readonly training: number
  readonly weightSync: number
}

/** How sampling and learning went beside each other. */
export interface OverlapRecord {
  /** Updates between the weights that sampled a token and those that learned from it: over all tokens of the step. */
  readonly meanLag: number
  readonly maxLag: number
  /** Groups since the step before: too old, failed, without a signal. */
  readonly stale: number
  readonly failed: number
  readonly filtered: number
  /** Seconds since the step before in which something was sampled, and in which it was while the run was learning. */
  readonly samplingSeconds: number
  readonly bothSeconds: number
}

/** One line of metrics.jsonl. */
export interface StepRecord extends StepMetrics {
  readonly type: 'step'
  /** Counted from 1. */
  readonly step: number
  /** Mean over the completions of the step, in reward units. */
  readonly reward: number
  /** Shares of the completions: right answer, worked out, any answer, cut off by the token limit. */
  readonly accuracy: number
  readonly worked: number
  readonly answered: number
  readonly truncated: number
  /** Mean tokens of a completion. */
  readonly completionTokens: number
  /** All that was sampled for the step, what was not learned from included. Records of earlier versions have none: they learned from everything. */
  readonly sampling?: SamplingCounts
  /** How far the sampler was from the trainer; null where that was not corrected. Not in records of earlier versions. */
  readonly correction?: CorrectionMetrics | null
  readonly groupsUsed: number
  readonly groupsDropped: number
  /** Groups whose completions all had the same reward: nothing to learn from. */
  readonly groupsWithoutSignal: number
  /** Mean divergence of a completion from the first weights in nats, as klForm estimates it: what klTarget is a target for. Not in records of earlier versions. */
  readonly completionKL?: number
  /** Weight of the divergence in this step. Not in records of earlier versions. */
  readonly klCoefficient?: number
  readonly learningRate: number
  /** Of each optimizer step, in order; the fields of the record are those of all of them together. */
  readonly updates: readonly StepMetrics[]
  /** Of the weights that sampled the step. It counts steps, not updates: a policy gets the weights after the last update of a step. */
  readonly policyVersion: number
  /** Null where sampling and learning take turns. Not in records of earlier versions. */
  readonly overlap?: OverlapRecord | null
  readonly seconds: PhaseSeconds
}

/** One line of metrics.jsonl. */
export interface EvaluationRecord {
  readonly type: 'evaluation'
  /** Updates done before it. */
  readonly step: number
  readonly problems: number
  readonly accuracy: number
  readonly worked: number
  readonly completionTokens: number
  readonly seconds: number
}

/** One line of trajectories.jsonl. */
export interface TrajectoryRecord {
  readonly step: number
  readonly groupId: string
  readonly query: string
  readonly answer: string
  /** Text of each sampled token, special tokens included. */
  readonly tokens: readonly string[]
  /** Nats. */
  readonly logProbs: readonly number[]
  readonly reward: number
  /** Null if the group was dropped. */
  readonly advantage: number | null
  readonly stopReason: StopReason
  readonly policyVersion: number
}

/** summary.json */
export interface RunSummary {
  readonly status: 'finished' | 'interrupted'
  readonly seed: number
  /** Steps done, each with one or several updates. */
  readonly steps: number
  readonly accuracyBefore: number
  readonly accuracyAfter: number
  /** Lowest accuracy of the evaluations in the second half of the run: whether what was learned stayed. */
  readonly accuracyLowestLate: number
  readonly workedBefore: number
  readonly workedAfter: number
  readonly evalProblems: number
  readonly rewardCurve: readonly number[]
  /** Evaluations in order. */
  readonly evaluations: readonly EvaluationRecord[]
  /** The step with the best weights: see `bestEvaluation`. Null before the first evaluation of weights that were trained. Not in summaries of earlier versions. */
  readonly best?: { readonly step: number; readonly accuracy: number } | null
  /** Wall time of the run, all its sessions together. */
  readonly secondsTotal: number
  readonly seconds: PhaseSeconds & { readonly evaluation: number; readonly checkpoint: number }
  /** Sampled tokens per second of generation, and trained completion tokens per second of training. */
  readonly tokensPerSecond: { readonly generation: number; readonly training: number }
  readonly maxLogProbGap: number
  readonly policyVersion: number
  readonly parameters: number
  readonly engine: EngineReport
}

/**
 * The evaluation with the highest accuracy, the earliest of several, among those of weights that were trained and on as many problems as the
 * last one; undefined if there is none.
 *
 * @example
 * const at = (step: number, accuracy: number) => ({ type: 'evaluation', step, accuracy, problems: 8, worked: 0, completionTokens: 1, seconds: 1 }) as const
 * bestEvaluation([at(0, 0.9), at(5, 0.5), at(10, 0.5)])?.step // 5
 */
export const bestEvaluation = (evaluations: readonly EvaluationRecord[]): EvaluationRecord | undefined => {
  const problems = evaluations.at(-1)?.problems
  const comparable = evaluations.filter((each) => each.step > 0 && each.problems === problems)
  const [first, ...rest] = comparable
  return first && rest.reduce((best, each) => (each.accuracy > best.accuracy ? each : best), first)
}

const sum = (numbers: readonly number[]): number => numbers.reduce((a, b) => a + b, 0)

const rate = (amount: number, seconds: number): number => (seconds > 0 ? amount / seconds : 0)

/** Everything that the records do not contain. */
export interface SummaryContext {
  readonly status: RunSummary['status']
  readonly seed: number
  readonly completionsPerStep: number
  readonly secondsTotal: number
  readonly checkpointSeconds: number
  readonly policyVersion: number
  readonly parameters: number
  readonly engine: EngineReport
}

/** The summary of a run from its records. Errors: throws RangeError without any evaluation: a run begins with one. */
export const summarize = (
  steps: readonly StepRecord[],
  evaluations: readonly EvaluationRecord[],
  context: SummaryContext,
): RunSummary => {
  const [first] = evaluations
  const last = evaluations.at(-1)
  if (first === undefined || last === undefined) throw new RangeError('summarize: a run has at least one evaluation')
  const phase = (name: keyof PhaseSeconds): number => sum(steps.map((record) => record.seconds[name]))
  const sampled = sum(
    steps.map(({ sampling, completionTokens }) => sampling?.tokens ?? completionTokens * context.completionsPerStep),
  )
  /** Where sampling goes on beside learning it takes longer than anybody waits for it. */
  const samplingSeconds = sum(steps.map(({ overlap, seconds }) => overlap?.samplingSeconds ?? seconds.generation))
  const best = bestEvaluation(evaluations)
  const late = evaluations.filter((record) => record.step * 2 >= last.step)
  return {
    status: context.status,
    seed: context.seed,
    steps: steps.length,
    accuracyBefore: first.accuracy,
    accuracyAfter: last.accuracy,
    accuracyLowestLate: Math.min(...late.map((record) => record.accuracy)),
    workedBefore: first.worked,
    workedAfter: last.worked,
    evalProblems: last.problems,
    rewardCurve: steps.map((record) => record.reward),
    evaluations,
    best: best === undefined ? null : { step: best.step, accuracy: best.accuracy },
    secondsTotal: context.secondsTotal,
    seconds: {
      generation: phase('generation'),
      environment: phase('environment'),
      training: phase('training'),
      weightSync: phase('weightSync'),
      evaluation: sum(evaluations.map((record) => record.seconds)),
      checkpoint: context.checkpointSeconds,
    },
    tokensPerSecond: {
      generation: rate(sampled, samplingSeconds),
      training: rate(sum(steps.map((record) => record.tokens)), phase('training')),
    },
    maxLogProbGap: steps.reduce((gap, record) => Math.max(gap, record.maxLogProbGap), 0),
    policyVersion: context.policyVersion,
    parameters: context.parameters,
    engine: context.engine,
  }
}
