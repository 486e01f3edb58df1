/** The rules of alarms: the number that each kind watches, its limit, and what to change. */
import { meanOf } from '@tandem-rl/base'
import type { StepRecord } from './records.js'

/** The kinds of trouble that are checked in every step record. */
export const ALARM_KINDS = [
  'ratio-drift',
  'sampler-gap',
  'kl-runaway',
  'entropy-collapse',
  'zero-variance',
  'truncation',
  'reward-stuck',
  'illegal-moves',
  'illegal-rise',
  'loses-to-past',
  'same-game',
  'reward-collapse',
  'all-truncated',
  'kl-explosion',
  'length-collapse',
  'entropy-explosion',
] as const

export type AlarmKind = (typeof ALARM_KINDS)[number]

/** The state of one kind of alarm. */
export interface Bell {
  /** Consecutive steps beyond the limit, and within it. */
  readonly beyond: number
  readonly within: number
  readonly state: 'quiet' | 'ringing'
}

/** The state of the alarms after some steps, as plain JSON. */
export interface AlarmState {
  readonly firstEntropies: readonly number[]
  readonly firstIllegal: readonly number[]
  readonly lastRewards: readonly number[]
  /** The best mean reward of three steps in a row, or of fewer at the start. */
  readonly bestReward: number | null
  readonly firstTruncated: readonly number[]
  readonly firstTokens: readonly number[]
  readonly bells: Readonly<Record<AlarmKind, Bell>>
}

/** Steps averaged for first values, and steps within which the reward must change. */
export const FIRST_STEPS = 3
export const REWARD_STEPS = 20

/** The least share of illegal moves whose rise is watched. Below it, a rise may be noise. */
const FEW_ILLEGAL = 0.07

/** Expected rewarded completions of a step, below which a step without any may be chance. */
const ENOUGH_REWARDED = 6

/** Success rate from which low variance and low entropy are expected, not a problem. */
const SOLVED = 0.9

/** The number that a kind watches, its limit, and what to change. */
export interface Rule {
  /** The default limit. */
  readonly limit: number
  readonly bad: 'above' | 'below'
  /** Consecutive steps beyond the limit that raise the alarm. */
  readonly steps: number
  /** Returns the watched number, or `null` if it is missing or does not indicate a problem. */
  readonly value: (record: StepRecord, before: AlarmState) => number | null
  readonly what: string
  readonly wayOut: string
  /** The same for a step with rollouts of older weights. Default: `wayOut`. */
  readonly staleWayOut?: string
  /** `run` for a collapse: what follows is lost, so the run ends unless alarms only warn. */
  readonly ends?: 'run'
}

/** Reads a loss metric, or returns `null` if the step trained on no tokens or lacks the metric. */
const learned =
  (value: (record: StepRecord) => number | null | undefined): Rule['value'] =>
  (record) =>
    record.update.tokens === 0 ? null : (value(record) ?? null)

/** Returns `null` once the success rate reaches `SOLVED`. */
const unsolved =
  (value: Rule['value']): Rule['value'] =>
  (record, before) =>
    (record.parts.success ?? 0) >= SOLVED ? null : value(record, before)

const entropyLeft: Rule['value'] = (record, { firstEntropies }) => {
  const first = firstEntropies.length < FIRST_STEPS ? 0 : meanOf(firstEntropies)
  const { tokens, entropy } = record.update
  return tokens === 0 || entropy === undefined || first <= 0 ? null : entropy / first
}

/** The share of illegal moves as a multiple of that of the first steps. */
const illegalRise: Rule['value'] = ({ metrics }, { firstIllegal }) => {
  const { illegalMoves } = metrics
  if (illegalMoves === undefined || firstIllegal.length < FIRST_STEPS) return null
  return illegalMoves < FEW_ILLEGAL ? 0 : illegalMoves / Math.max(meanOf(firstIllegal), FEW_ILLEGAL / 10)
}

const rewardRange: Rule['value'] = (record, { lastRewards }) => {
  if (record.reward === undefined || record.sampling === null || lastRewards.length < REWARD_STEPS - 1) return null
  const rewards = [...lastRewards, record.reward]
  return Math.max(...rewards) - Math.min(...rewards)
}

/** The reward as a share of the best one so far, where rewards are positive and not rare. */
const rewardLeft: Rule['value'] = ({ reward, sampling, trajectories }, { bestReward }) =>
  reward === undefined || sampling === null || bestReward === null || bestReward * trajectories < ENOUGH_REWARDED
    ? null
    : reward / bestReward

/**
 * Returns `null` for a step that earned at least a tenth of the best reward so far: a policy that
 * has changed because it learns.
 */
const unrewarded =
  (value: Rule['value']): Rule['value'] =>
  (record, before) => {
    const { bestReward } = before
    if (record.reward === undefined || bestReward === null || bestReward <= 0) return null
    return record.reward < bestReward / 10 ? value(record, before) : null
  }

/** The length of completions as a share of the longest mean of the first steps. */
const lengthLeft: Rule['value'] = ({ completionTokens }, { firstTokens }) =>
  completionTokens === undefined || firstTokens.length === 0 ? null : completionTokens / Math.max(...firstTokens)

/** The entropy as a multiple of the lowest of the first steps. */
const entropyRise: Rule['value'] = ({ update }, { firstEntropies }) =>
  update.entropy === undefined || firstEntropies.length === 0 ? null : update.entropy / Math.min(...firstEntropies)

/** The share of truncated completions, unless most were truncated from the start. */
const newlyTruncated: Rule['value'] = ({ truncated = null, trajectories }, { firstTruncated }) =>
  trajectories === 0 || firstTruncated.length === 0 || meanOf(firstTruncated) >= 0.5 ? null : truncated

export const ALARM_RULES: Readonly<Record<AlarmKind, Rule>> = {
  'ratio-drift': {
    limit: 0.5,
    bad: 'below',
    steps: 1,
    value: learned(({ update, updates }) =>
      update.ess === undefined ? null : Math.min(update.ess, ...updates.map(({ ess = 1 }) => ess)),
    ),
    what: 'the effective sample size, as a share of the tokens,',
    wayOut:
      'the policy drifted from the one that sampled: use fewer --epochs or --mini-batches, or a lower --learning-rate',
    staleWayOut: 'use a smaller maxLag, fewer --epochs or --mini-batches, or a lower --learning-rate',
  },
  'sampler-gap': {
    limit: 1,
    bad: 'above',
    steps: 1,
    value: learned(({ update }) => update.maxLogProbGap),
    what: 'the largest difference between log-probabilities of sampler and trainer, in nats,',
    wayOut:
      'they compute different numbers: compare their weights, temperatures and number formats, or correct with --old-log-probs rescored --correction token-truncated',
    staleWayOut:
      'use a smaller maxLag or a lower --learning-rate, or correct with --old-log-probs rescored --correction token-truncated',
  },
  'kl-runaway': {
    limit: 1,
    bad: 'above',
    steps: 3,
    value: learned(({ update }) => update.klToRef),
    what: 'the KL divergence from the initial weights, in nats per token,',
    wayOut: 'the policy drifts from its start: use a higher --kl-coefficient or a lower --learning-rate',
  },
  'entropy-collapse': {
    limit: 0.02,
    bad: 'below',
    steps: 3,
    value: unsolved(entropyLeft),
    what: 'the entropy, as a share of that of the first steps,',
    wayOut:
      'the policy no longer explores: use a higher --temperature or --clip-high, a lower --learning-rate, or an earlier checkpoint',
  },
  'zero-variance': {
    limit: 0.9,
    bad: 'above',
    steps: 5,
    value: unsolved(({ groupsWithoutSignal, groupsUsed, groupsDropped }) =>
      groupsWithoutSignal === undefined || groupsUsed + groupsDropped === 0
        ? null
        : groupsWithoutSignal / (groupsUsed + groupsDropped),
    ),
    what: 'the share of groups in which every completion earned the same',
    wayOut: 'there is little to learn from: use tasks of another difficulty, a larger --group, or --dynamic-sampling',
  },
  truncation: {
    limit: 0.5,
    bad: 'above',
    steps: 3,
    value: ({ truncated = null, trajectories }) => (trajectories === 0 ? null : truncated),
    what: 'the share of completions that the token limit cut off',
    wayOut: 'cut-off completions rarely earn a reward: use more --max-new-tokens, or --truncated mask',
  },
  'reward-stuck': {
    limit: 0.001,
    bad: 'below',
    steps: 1,
    value: unsolved(rewardRange),
    what: `the range of the rewards of ${REWARD_STEPS} steps`,
    wayOut:
      'nothing is learned: check trajectories.jsonl, whether any completion can earn the reward, and the learning rate',
  },
  'illegal-moves': {
    limit: 0.2,
    bad: 'above',
    steps: 3,
    value: ({ metrics }) => metrics.illegalMoves ?? null,
    what: 'the share of replies that are no legal move',
    wayOut:
      'the policy forgets the format or the rules: use a lower --learning-rate or a higher --kl-coefficient, or an earlier checkpoint',
  },
  'illegal-rise': {
    limit: 1.5,
    bad: 'above',
    steps: 3,
    value: illegalRise,
    what: 'the share of illegal moves, as a multiple of that of the first steps,',
    wayOut:
      'self-play often begins to collapse like this: use a lower --learning-rate or a higher --kl-coefficient, and continue from an earlier checkpoint',
  },
  'loses-to-past': {
    limit: 0.25,
    bad: 'above',
    steps: 5,
    value: ({ metrics }) => metrics.lossToPast ?? null,
    what: 'the mean loss against old weights of the pool',
    wayOut:
      'self-play goes in circles or has collapsed: use a higher selfPlay.poolShare or KL coefficient, a lower --learning-rate, or an earlier checkpoint',
  },
  'same-game': {
    limit: 0.9,
    bad: 'above',
    steps: 5,
    value: ({ metrics }) => metrics.sameGame ?? null,
    what: 'the probability that two games with the same cards are the same game',
    wayOut:
      'the policy plays one line, which may be far from an equilibrium: use a higher --temperature or KL coefficient, opponents from selfPlay.poolShare, or an earlier checkpoint',
  },
  'reward-collapse': {
    limit: 0.1,
    bad: 'below',
    steps: 2,
    value: rewardLeft,
    what: 'the reward, as a share of the best of three steps so far,',
    wayOut: 'the policy has collapsed: use a lower --learning-rate, or train an adapter with --lora-rank 16',
    ends: 'run',
  },
  'all-truncated': {
    limit: 0.98,
    bad: 'above',
    steps: 2,
    value: newlyTruncated,
    what: 'the share of completions that the token limit cut off',
    wayOut:
      'the policy no longer ends its completions: use a lower --learning-rate, or a length penalty with --overlong-cache',
    ends: 'run',
  },
  'kl-explosion': {
    limit: 5,
    bad: 'above',
    steps: 2,
    value: learned(({ update }) => update.klToRef),
    what: 'the KL divergence from the initial weights, in nats per token,',
    wayOut: 'nothing is left of the initial policy: use a lower --learning-rate or a higher --kl-coefficient',
    ends: 'run',
  },
  'length-collapse': {
    limit: 0.1,
    bad: 'below',
    steps: 2,
    value: unrewarded(lengthLeft),
    what: 'the length of completions that earn nothing, as a share of that of the first steps,',
    wayOut: 'the policy has collapsed: use a lower --learning-rate, or train an adapter with --lora-rank 16',
    ends: 'run',
  },
  'entropy-explosion': {
    limit: 3,
    bad: 'above',
    steps: 2,
    value: unrewarded(entropyRise),
    what: 'the entropy of completions that earn nothing, as a multiple of that of the first steps,',
    wayOut: 'the policy samples at random: use a lower --learning-rate, or train an adapter with --lora-rank 16',
    ends: 'run',
  },
}
