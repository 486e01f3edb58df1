/** Alarms of a run: a state machine over step records that raises each alarm once, at its onset. */
import { z } from 'zod'
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
] as const

export type AlarmKind = (typeof ALARM_KINDS)[number]

/** A raised alarm. */
export interface Alarm {
  /**
   * The kind of alarm. `non-finite`: the loss or its gradient is NaN or infinite. `failed`: the
   * environment or the policy failed. Both end the run. `changed-inputs`: the run was resumed with
   * other rows, another tokenizer, template or recipe file.
   */
  readonly alarm: AlarmKind | 'non-finite' | 'failed' | 'changed-inputs'
  readonly step: number
  /** The first bad step. The alarm is raised after as many bad steps as its kind requires. */
  readonly since: number
  /** The measured value and the limit it exceeds. `null` if there is no finite number. */
  readonly value: number | null
  readonly limit: number | null
  /** A message with the problem and a suggested fix. */
  readonly message: string
}

/** The limit of each kind. `null` disables the kind. */
export type AlarmLimits = Readonly<Record<AlarmKind, number | null>>

/** The state of one kind of alarm. */
interface Bell {
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
  readonly bells: Readonly<Record<AlarmKind, Bell>>
}

/** Steps averaged for first values, and steps within which the reward must change. */
const FIRST_STEPS = 3
const REWARD_STEPS = 20

/** Consecutive steps within the limit that re-arm an alarm. */
const CALM_STEPS = 3

/** The least share of illegal moves whose rise is watched. Below it, a rise may be noise. */
const FEW_ILLEGAL = 0.07

/** Success rate from which low variance and low entropy are expected, not a problem. */
const SOLVED = 0.9

interface Rule {
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
}

const mean = (xs: readonly number[]): number => xs.reduce((a, b) => a + b, 0) / xs.length

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
  const first = firstEntropies.length < FIRST_STEPS ? 0 : mean(firstEntropies)
  const { tokens, entropy } = record.update
  return tokens === 0 || entropy === undefined || first <= 0 ? null : entropy / first
}

/** The share of illegal moves as a multiple of that of the first steps. */
const illegalRise: Rule['value'] = ({ metrics }, { firstIllegal }) => {
  const { illegalMoves } = metrics
  if (illegalMoves === undefined || firstIllegal.length < FIRST_STEPS) return null
  return illegalMoves < FEW_ILLEGAL ? 0 : illegalMoves / Math.max(mean(firstIllegal), FEW_ILLEGAL / 10)
}

const rewardRange: Rule['value'] = (record, { lastRewards }) => {
  if (record.reward === undefined || record.sampling === null || lastRewards.length < REWARD_STEPS - 1) return null
  const rewards = [...lastRewards, record.reward]
  return Math.max(...rewards) - Math.min(...rewards)
}

const RULES: Readonly<Record<AlarmKind, Rule>> = {
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
}

/** Builds a record with one entry per kind. */
const byKind = <T>(of: (kind: AlarmKind) => T): Readonly<Record<AlarmKind, T>> =>
  Object.fromEntries(ALARM_KINDS.map((kind) => [kind, of(kind)])) as Record<AlarmKind, T> // by ALARM_KINDS

/** The default limits. */
export const DEFAULT_ALARM_LIMITS: AlarmLimits = byKind((kind) => RULES[kind].limit)

/** The state before the first step. */
const NO_ALARMS: AlarmState = {
  firstEntropies: [],
  firstIllegal: [],
  lastRewards: [],
  bells: byKind(() => ({ beyond: 0, within: 0, state: 'quiet' })),
}

const limitsSchema = z.object({
  keep: z.object({ alarmLimits: z.partialRecord(z.enum(ALARM_KINDS), z.number().nullable()) }),
})

/** Returns the limits of recorded settings (`keep.alarmLimits`), and the default of all others. */
export const recordedLimits = (settings: object): AlarmLimits => {
  const parsed = limitsSchema.safeParse(settings)
  return { ...DEFAULT_ALARM_LIMITS, ...(parsed.success ? parsed.data.keep.alarmLimits : {}) }
}

/** Returns `true` if the value is beyond the limit. A value that is not finite always is. */
const isBeyond = (value: number, limit: number, bad: Rule['bad']): boolean =>
  bad === 'above' ? !(value <= limit) : !(value >= limit)

const nextBell = (bell: Bell, side: 'beyond' | 'within', steps: number): Bell => {
  const beyond = side === 'beyond' ? bell.beyond + 1 : 0
  const within = side === 'beyond' ? 0 : bell.within + 1
  if (bell.state === 'ringing') return { beyond, within, state: within >= CALM_STEPS ? 'quiet' : 'ringing' }
  return { beyond, within, state: beyond >= steps ? 'ringing' : 'quiet' }
}

const shown = (x: number): string => String(Number(x.toPrecision(3)))

const staleText = (lag: number): string =>
  `the rollouts are up to ${lag} ${lag === 1 ? 'update' : 'updates'} stale, which alone has this effect`

const alarmOf = (
  kind: AlarmKind,
  { step, overlap }: StepRecord,
  { value, limit }: { readonly value: number; readonly limit: number },
) => {
  const { bad, steps, what, wayOut, staleWayOut } = RULES[kind]
  const lasting = steps === 1 ? '' : ` for ${steps} steps`
  const lag = overlap?.maxLag ?? 0
  const remedy = lag > 0 && staleWayOut !== undefined ? `${staleText(lag)}: ${staleWayOut}` : wayOut
  return {
    alarm: kind,
    step,
    since: step - (kind === 'reward-stuck' ? REWARD_STEPS : steps) + 1,
    value: Number.isFinite(value) ? value : null,
    limit,
    message: `${kind}: ${what} is ${shown(value)}, ${bad} ${shown(limit)}${lasting}: ${remedy}`,
  }
}

/**
 * Returns the state after a step and the alarms that the step raises.
 *
 * A kind is raised when its value has been beyond its limit for the required number of consecutive
 * steps. It is raised again only after three consecutive steps within the limit. NaN and infinite
 * values are beyond every limit. Low entropy, groups without variance and a constant reward raise
 * no alarm in a step in which at least nine of ten answers are right.
 *
 * Cost     constant time and memory.
 */
export const watchStep = (
  state: AlarmState,
  record: StepRecord,
  limits: AlarmLimits,
): { readonly state: AlarmState; readonly alarms: readonly Alarm[] } => {
  const seen = byKind((kind) => {
    const rule = RULES[kind]
    const limit = limits[kind]
    const value = limit === null ? null : rule.value(record, state)
    const isBad = value !== null && limit !== null && isBeyond(value, limit, rule.bad)
    const bell = nextBell(state.bells[kind], isBad ? 'beyond' : 'within', rule.steps)
    const isNew = isBad && bell.state === 'ringing' && state.bells[kind].state === 'quiet'
    return { bell, alarms: isNew ? [alarmOf(kind, record, { value, limit })] : [] }
  })
  const { firstEntropies, firstIllegal } = state
  const { illegalMoves } = record.metrics
  return {
    state: {
      firstEntropies:
        firstEntropies.length < FIRST_STEPS && record.update.tokens !== 0 && record.update.entropy !== undefined
          ? [...firstEntropies, record.update.entropy]
          : firstEntropies,
      firstIllegal:
        firstIllegal.length < FIRST_STEPS && illegalMoves !== undefined
          ? [...firstIllegal, illegalMoves]
          : firstIllegal,
      lastRewards: [...state.lastRewards, record.reward ?? []].flat().slice(1 - REWARD_STEPS),
      bells: byKind((kind) => seen[kind].bell),
    },
    alarms: ALARM_KINDS.flatMap((kind) => seen[kind].alarms),
  }
}

/** Runs `watchStep` over all steps of a run. Returns the final state and all alarms in order. */
export const watchSteps = (
  records: readonly StepRecord[],
  limits: AlarmLimits,
): { readonly state: AlarmState; readonly alarms: readonly Alarm[] } => {
  const alarms: Alarm[] = []
  let state = NO_ALARMS
  for (const record of records) {
    const next = watchStep(state, record, limits)
    state = next.state
    alarms.push(...next.alarms)
  }
  return { state, alarms }
}

/** Returns the first steps of bad sequences that have not raised an alarm yet, as of `step`. */
export const suspectSteps = ({ bells }: AlarmState, step: number): readonly number[] =>
  ALARM_KINDS.flatMap((kind) => {
    const { beyond, state } = bells[kind]
    return state === 'quiet' && beyond > 0 ? [step - beyond + 1] : []
  })

/**
 * Returns the alarm that ends a run: a loss that is not finite, or a failed environment or policy.
 */
export const endingAlarm = (alarm: 'non-finite' | 'failed', step: number, reason: string): Alarm => ({
  alarm,
  step,
  since: step,
  value: null,
  limit: null,
  message: `${alarm}: ${reason}`,
})

/** Returns the alarm of a run that continues with other inputs. */
export const changedInputsAlarm = (step: number, names: readonly string[]): Alarm => ({
  alarm: 'changed-inputs',
  step,
  since: step,
  value: null,
  limit: null,
  message: `changed-inputs: the run was resumed with other inputs than before: ${names.join('; ')}`,
})
