/** What a run writes down: records of steps, evaluations and trajectories, and the summary at its end. */
import type { SamplingCounts } from '../collectors/dynamicSampling.js'
import { bestEvaluation, rankingScore } from '../data/runLayout.js'
import type { EngineReport } from '../engine/report.js'
import type { CorrectionMetrics } from '../objectives/rolloutCorrection.js'
import type { BatchMetrics } from './batchMetrics.js'
import type { Measure, Scores } from './evaluation.js'

/** Seconds of wall time. */
export interface PhaseSeconds {
  /** The policy, from prompts to completions. */
  readonly generation: number
  /** The rest of collecting: environment, rewards, reference model. */
  readonly environment: number
  readonly training: number
  readonly weightSync: number
}

/** Memory at the end of a step. */
export interface MemoryRecord {
  /** Of the process. */
  readonly residentBytes: number
  /** Compiled graphs that are alive, and about how many bytes they hold between runs. */
  readonly graphs: number
  readonly graphBytes: number
}

/** How sampling went beside learning. */
export interface OverlapRecord {
  /** Updates that the tokens were behind the weights that learned from them: over all tokens, and of the oldest. */
  readonly meanLag: number
  readonly maxLag: number
  /** Groups that nobody learned from, since the step before: too old, failed, or without a signal. */
  readonly stale: number
  readonly failed: number
  readonly filtered: number
  /** Seconds since the step before in which something was sampled, and in which it was while the run was learning. */
  readonly samplingSeconds: number
  readonly bothSeconds: number
}

/**
 * Metrics of an update. Policy losses have all of them; other losses have `loss`, `gradNorm`, and those of their own.
 * Units    means over tokens; log-prob differences, divergences and entropy in nats.
 */
export interface UpdateMetrics {
  readonly loss: number
  readonly gradNorm: number
  /** Tokens that were learned from. */
  readonly tokens?: number
  readonly ess?: number
  readonly entropy?: number
  readonly klToRef?: number | null
  readonly klApprox?: number
  readonly clipFraction?: number
  readonly maxLogProbGap?: number
}

/** One line of metrics.jsonl. */
export interface StepRecord extends BatchMetrics {
  readonly type: 'step'
  /** Counted from 1. */
  readonly step: number
  /** All that was sampled for the step, what was not learned from included; null for batches of a data set. */
  readonly sampling: SamplingCounts | null
  /** How far the sampler was from the trainer; null where that was not corrected. */
  readonly correction: CorrectionMetrics | null
  readonly groupsUsed: number
  readonly groupsDropped: number
  /** Mean divergence of a completion from the reference in nats: what `kl.target` is a target for. Null without a reference. */
  readonly completionKL: number | null
  /** Weight of the divergence in this step. */
  readonly klCoefficient: number
  readonly learningRate: number
  /** Metrics of all optimizer steps together. */
  readonly update: UpdateMetrics
  /** Of each optimizer step, in order. */
  readonly updates: readonly UpdateMetrics[]
  /** The run's own metrics. */
  readonly metrics: Readonly<Record<string, number>>
  /** Null where sampling and learning take turns. */
  readonly overlap: OverlapRecord | null
  readonly memory: MemoryRecord
  readonly seconds: PhaseSeconds
}

/** One line of metrics.jsonl. */
export interface EvaluationRecord {
  readonly type: 'evaluation'
  /** The evaluator. */
  readonly name: string
  /** Steps done before it. */
  readonly step: number
  readonly tasks: number
  /** The score that chooses the best checkpoint. */
  readonly score: string
  readonly measure: Measure
  readonly scores: Scores
  readonly seconds: number
}

/** One line of trajectories.jsonl: a turn of a trajectory. */
export interface TrajectoryRecord {
  readonly step: number
  readonly trajectoryId: string
  readonly turn: number
  readonly groupId: string | null
  readonly query: string
  /** The reference answer of the task; null where it has none. */
  readonly answer: string | null
  /** Text of each sampled token, special tokens included; the whole text where the policy has no tokens. */
  readonly tokens: readonly string[]
  /** Nats; null where the policy gives none. */
  readonly logProbs: readonly number[] | null
  /** Of the turn. */
  readonly reward: number
  /** Of each token, or one number if all are equal. Null if the group was dropped, or where the batch has none. */
  readonly advantage: number | readonly number[] | null
  readonly stopReason: string | null
  readonly policyVersion: number | null
}

/** The curve of an evaluator. */
export interface EvaluationSummary {
  readonly name: string
  readonly score: string
  readonly measure: Measure
  readonly tasks: number
  readonly before: Scores
  readonly after: Scores
  /** Worst score in the second half of the run: whether what was learned stayed. */
  readonly worstLate: number
}

/** summary.json */
export interface RunSummary {
  readonly status: 'finished' | 'interrupted'
  /** Steps done, each with one or several updates. */
  readonly steps: number
  /** Empty for runs without rewards. */
  readonly rewardCurve: readonly number[]
  readonly lossCurve: readonly number[]
  /** By evaluator, in their order. */
  readonly evaluated: readonly EvaluationSummary[]
  /** Evaluations in order. */
  readonly evaluations: readonly EvaluationRecord[]
  /** The step with the best weights: see `bestEvaluation`. Null before the first evaluation of weights that were trained. */
  readonly best: { readonly step: number; readonly name: string; readonly value: number } | null
  /** Wall time of the run, all its sessions together. */
  readonly secondsTotal: number
  readonly seconds: PhaseSeconds & { readonly evaluation: number; readonly checkpoint: number }
  /** Sampled tokens per second of generation, and trained tokens per second of training. */
  readonly tokensPerSecond: { readonly generation: number; readonly training: number }
  readonly maxLogProbGap: number
  readonly policyVersion: number
  readonly engine: EngineReport
}

/** A score as text: shares of tasks as percentages. */
export const scoreText = (measure: Measure, value: number): string =>
  measure === 'success' ? `${(100 * value).toFixed(1)} %` : String(Number(value.toPrecision(4)))

const sum = (numbers: readonly number[]): number => numbers.reduce((a, b) => a + b, 0)

const rate = (amount: number, seconds: number): number => (seconds > 0 ? amount / seconds : 0)

/** Everything that the records do not contain. */
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
    ...{ name: last.name, score: last.score, measure: last.measure, tasks: last.tasks },
    before: first.scores,
    after: last.scores,
    worstLate: last.measure === 'loss' ? Math.max(...late.map(rankingScore)) : Math.min(...late.map(rankingScore)),
  }
}

/** Evaluations by evaluator, in order of first appearance. */
const byName = (evaluations: readonly EvaluationRecord[]): readonly (readonly EvaluationRecord[])[] =>
  [...new Set(evaluations.map(({ name }) => name))].map((name) => evaluations.filter((each) => each.name === name))

/** Summarizes a run from its records. */
export const summarize = (
  steps: readonly StepRecord[],
  evaluations: readonly EvaluationRecord[],
  context: SummaryContext,
): RunSummary => {
  const phase = (name: keyof PhaseSeconds): number => sum(steps.map((record) => record.seconds[name]))
  const sampled = sum(
    steps.map(
      ({ sampling, completionTokens = 0, trajectories }) => sampling?.tokens ?? completionTokens * trajectories,
    ),
  )
  /** Where sampling goes on beside learning, it takes longer than anything waits for it. */
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
