/** Alarms of a run: a state machine over step records that raises each alarm once, at its onset. */
import { meanOf } from '@tandem-rl/base'
import { z } from 'zod'
import {
  ALARM_KINDS,
  ALARM_RULES,
  type AlarmKind,
  type AlarmState,
  type Bell,
  FIRST_STEPS,
  REWARD_STEPS,
  type Rule,
} from './alarmRules.js'
import type { StepRecord } from './records.js'

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

/** Builds a record with one entry per kind. */
const byKind = <T>(of: (kind: AlarmKind) => T): Readonly<Record<AlarmKind, T>> =>
  Object.fromEntries(ALARM_KINDS.map((kind) => [kind, of(kind)])) as Record<AlarmKind, T> // by ALARM_KINDS

/** The default limits. */
export const DEFAULT_ALARM_LIMITS: AlarmLimits = byKind((kind) => ALARM_RULES[kind].limit)

/** Returns true for an alarm of a collapse, which ends the run unless alarms only warn. */
export const isCollapse = ({ alarm }: Alarm): boolean =>
  ALARM_KINDS.some((kind) => kind === alarm && ALARM_RULES[kind].ends === 'run')

/** The state before the first step. */
const NO_ALARMS: AlarmState = {
  firstEntropies: [],
  firstIllegal: [],
  lastRewards: [],
  bestReward: null,
  firstTruncated: [],
  firstTokens: [],
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

/** Consecutive steps within the limit that re-arm an alarm. */
const CALM_STEPS = 3

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
  const { bad, steps, what, wayOut, staleWayOut } = ALARM_RULES[kind]
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
    const rule = ALARM_RULES[kind]
    const limit = limits[kind]
    const value = limit === null ? null : rule.value(record, state)
    const isBad = value !== null && limit !== null && isBeyond(value, limit, rule.bad)
    const bell = nextBell(state.bells[kind], isBad ? 'beyond' : 'within', rule.steps)
    const isNew = isBad && bell.state === 'ringing' && state.bells[kind].state === 'quiet'
    return { bell, alarms: isNew ? [alarmOf(kind, record, { value, limit })] : [] }
  })
  const { firstEntropies, firstIllegal, firstTruncated, firstTokens } = state
  const lastRewards = [...state.lastRewards, record.reward ?? []].flat().slice(1 - REWARD_STEPS)
  const recent = meanOf(lastRewards.slice(-FIRST_STEPS))
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
      lastRewards,
      bestReward: lastRewards.length === 0 ? null : Math.max(state.bestReward ?? recent, recent),
      firstTruncated:
        firstTruncated.length < FIRST_STEPS && record.trajectories > 0 && typeof record.truncated === 'number'
          ? [...firstTruncated, record.truncated]
          : firstTruncated,
      firstTokens:
        firstTokens.length < FIRST_STEPS && record.trajectories > 0 && record.completionTokens !== undefined
          ? [...firstTokens, record.completionTokens]
          : firstTokens,
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
