/** Early alarms of a run: a machine over the records of its steps that tells trouble once, when it begins. */
import type { StepRecord } from './records.js'

/** What a record is watched for. */
export const ALARM_KINDS = [
  'ratio-drift',
  'sampler-gap',
  'kl-runaway',
  'entropy-collapse',
  'zero-variance',
  'truncation',
  'reward-stuck',
] as const

export type AlarmKind = (typeof ALARM_KINDS)[number]

/** Trouble that has begun. */
export interface Alarm {
  /** `non-finite`: the loss or its gradient is NaN or infinite. `failed`: environment or policy failed. Both end the run. */
  readonly alarm: AlarmKind | 'non-finite' | 'failed'
  readonly step: number
  /** The step in which the trouble began: the alarm comes when it has lasted for as long as its kind is given. */
  readonly since: number
  /** What was measured, and the limit that it is beyond; null for what is not a number. */
  readonly value: number | null
  readonly limit: number | null
  /** What is wrong and what to change, for people. */
  readonly message: string
}

/** The limit of each kind; null where nobody wants to know. */
export type AlarmLimits = Readonly<Record<AlarmKind, number | null>>

/** What is remembered of one kind. */
interface Bell {
  /** Steps in a row beyond the limit, and within it. */
  readonly beyond: number
  readonly within: number
  readonly state: 'quiet' | 'ringing'
}

/** What is remembered of the steps so far: plain JSON. */
export interface AlarmState {
  readonly firstEntropies: readonly number[]
  readonly lastRewards: readonly number[]
  readonly bells: Readonly<Record<AlarmKind, Bell>>
}

/** Steps that the first entropy is the mean of, and steps in which a reward has to move. */
const FIRST_STEPS = 3
const REWARD_STEPS = 20

/** Steps in a row within the limit after which trouble is over. */
const CALM_STEPS = 3

/** Share of right answers from which on little variance and entropy are what success looks like. */
const SOLVED = 0.9

interface Rule {
  /** Used unless the settings say otherwise. */
  readonly limit: number
  readonly bad: 'above' | 'below'
  /** Steps in a row beyond the limit that make an alarm. */
  readonly steps: number
  /** Null where the record says nothing, or where the number means no harm. */
  readonly value: (record: StepRecord, before: AlarmState) => number | null
  readonly what: string
  readonly wayOut: string
}

const mean = (xs: readonly number[]): number => xs.reduce((a, b) => a + b, 0) / xs.length

/** Of a step that learned something, by a loss that measures it. */
const learned =
  (value: (record: StepRecord) => number | null | undefined): Rule['value'] =>
  (record) =>
    record.update.tokens === 0 ? null : (value(record) ?? null)

/** Of a step on tasks that are not solved yet. */
const unsolved =
  (value: Rule['value']): Rule['value'] =>
  (record, before) =>
    (record.parts.success ?? 0) >= SOLVED ? null : value(record, before)

const entropyLeft: Rule['value'] = (record, { firstEntropies }) => {
  const first = firstEntropies.length < FIRST_STEPS ? 0 : mean(firstEntropies)
  const { tokens, entropy } = record.update
  return tokens === 0 || entropy === undefined || first <= 0 ? null : entropy / first
}

const rewardRange: Rule['value'] = (record, { lastRewards }) => {
  if (record.reward === undefined || record.sampling === null || lastRewards.length < REWARD_STEPS - 1) return null
  const rewards = [...lastRewards, record.reward]
  return Math.max(...rewards) - Math.min(...rewards)
}

const RULES: Readonly<Record<AlarmKind, Rule>> = {
  'ratio-drift': {
    ...{ limit: 0.5, bad: 'below', steps: 1 },
    value: learned(({ update, updates }) =>
      update.ess === undefined ? null : Math.min(update.ess, ...updates.map(({ ess = 1 }) => ess)),
    ),
    what: 'the effective sample size, as a share of the tokens,',
    wayOut: 'the policy has left the one that sampled: fewer --epochs or --mini-batches, or a lower --learning-rate',
  },
  'sampler-gap': {
    ...{ limit: 1, bad: 'above', steps: 1 },
    value: learned(({ update }) => update.maxLogProbGap),
    what: 'the largest difference between log-probabilities of sampler and trainer, in nats,',
    wayOut:
      'they do not compute the same: compare weights, temperature and number format of both, or correct for it with --old-log-probs rescored --correction token-truncated',
  },
  'kl-runaway': {
    ...{ limit: 1, bad: 'above', steps: 3 },
    value: learned(({ update }) => update.klToRef),
    what: 'the divergence from the first weights, in nats of a token,',
    wayOut: 'the policy runs away from where it began: a higher --kl-coefficient or a lower --learning-rate',
  },
  'entropy-collapse': {
    ...{ limit: 0.02, bad: 'below', steps: 3 },
    value: unsolved(entropyLeft),
    what: 'the entropy, as a share of that of the first steps,',
    wayOut:
      'the policy has stopped to explore: a higher --temperature or --clip-high, a lower --learning-rate, or an earlier checkpoint',
  },
  'zero-variance': {
    ...{ limit: 0.9, bad: 'above', steps: 5 },
    value: unsolved(({ groupsWithoutSignal, groupsUsed, groupsDropped }) =>
      groupsWithoutSignal === undefined || groupsUsed + groupsDropped === 0
        ? null
        : groupsWithoutSignal / (groupsUsed + groupsDropped),
    ),
    what: 'the share of groups in which every completion earned the same',
    wayOut: 'there is little to learn from: tasks of another difficulty, a larger --group, or --dynamic-sampling',
  },
  truncation: {
    ...{ limit: 0.5, bad: 'above', steps: 3 },
    value: ({ truncated = null, trajectories }) => (trajectories === 0 ? null : truncated),
    what: 'the share of completions that the token limit cut off',
    wayOut: 'they earn nothing for what they did not come to say: more --max-new-tokens, or --truncated mask',
  },
  'reward-stuck': {
    ...{ limit: 0.001, bad: 'below', steps: 1 },
    value: unsolved(rewardRange),
    what: `the range of the rewards of ${REWARD_STEPS} steps`,
    wayOut:
      'nothing is learned: look at trajectories.jsonl, and for a reward that nobody earns or a learning rate of 0',
  },
}

/** A record with one entry for each kind. */
const byKind = <T>(of: (kind: AlarmKind) => T): Readonly<Record<AlarmKind, T>> =>
  Object.fromEntries(ALARM_KINDS.map((kind) => [kind, of(kind)])) as Record<AlarmKind, T> // by ALARM_KINDS

/** The limits that are used unless somebody says otherwise. */
export const DEFAULT_ALARM_LIMITS: AlarmLimits = byKind((kind) => RULES[kind].limit)

/** Before the first step. */
const NO_ALARMS: AlarmState = {
  firstEntropies: [],
  lastRewards: [],
  bells: byKind(() => ({ beyond: 0, within: 0, state: 'quiet' })),
}

/** Numbers that are not finite are beyond every limit. */
const isBeyond = (value: number, limit: number, bad: Rule['bad']): boolean =>
  bad === 'above' ? !(value <= limit) : !(value >= limit)

const nextBell = (bell: Bell, side: 'beyond' | 'within', steps: number): Bell => {
  const beyond = side === 'beyond' ? bell.beyond + 1 : 0
  const within = side === 'beyond' ? 0 : bell.within + 1
  if (bell.state === 'ringing') return { beyond, within, state: within >= CALM_STEPS ? 'quiet' : 'ringing' }
  return { beyond, within, state: beyond >= steps ? 'ringing' : 'quiet' }
}

const shown = (x: number): string => String(Number(x.toPrecision(3)))

const alarmOf = (
  kind: AlarmKind,
  step: number,
  { value, limit }: { readonly value: number; readonly limit: number },
) => {
  const { bad, steps, what, wayOut } = RULES[kind]
  const lasting = steps === 1 ? '' : ` for ${steps} steps`
  return {
    alarm: kind,
    step,
    since: step - (kind === 'reward-stuck' ? REWARD_STEPS : steps) + 1,
    value: Number.isFinite(value) ? value : null,
    limit,
    message: `${kind}: ${what} is ${shown(value)}, ${bad} ${shown(limit)}${lasting}: ${wayOut}`,
  }
}

/**
 * What a step adds to what is remembered, and the alarms that it raises.
 *
 * A kind is raised when its number has been beyond its limit for as many steps in a row as the kind is given, and not again before it
 * has been within the limit for three steps in a row. Numbers that are NaN or infinite are beyond every limit. Low entropy, groups
 * without variance and a reward that stands still are no trouble in a step in which nine of ten answers are right.
 *
 * Cost     constant, for time and for what is remembered.
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
    return { bell, alarms: isNew ? [alarmOf(kind, record.step, { value, limit })] : [] }
  })
  const { firstEntropies } = state
  return {
    state: {
      firstEntropies:
        firstEntropies.length < FIRST_STEPS && record.update.tokens !== 0 && record.update.entropy !== undefined
          ? [...firstEntropies, record.update.entropy]
          : firstEntropies,
      lastRewards: [...state.lastRewards, record.reward ?? []].flat().slice(1 - REWARD_STEPS),
      bells: byKind((kind) => seen[kind].bell),
    },
    alarms: ALARM_KINDS.flatMap((kind) => seen[kind].alarms),
  }
}

/** Watches the steps of a run from its beginning: what is remembered after them, and all alarms in order. */
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

/** The steps in which trouble may have begun that is not told yet: after so many steps, what has been remembered of them. */
export const suspectSteps = ({ bells }: AlarmState, step: number): readonly number[] =>
  ALARM_KINDS.flatMap((kind) => {
    const { beyond, state } = bells[kind]
    return state === 'quiet' && beyond > 0 ? [step - beyond + 1] : []
  })

/** The alarm of a step that was not done: its loss or gradient is no number, or environment or policy failed. */
export const endingAlarm = (alarm: 'non-finite' | 'failed', step: number, reason: string): Alarm => ({
  ...{ alarm, step, since: step, value: null, limit: null },
  message: `${alarm}: ${reason}`,
})
