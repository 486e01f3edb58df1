/** Scores saved rollouts again under other weights of the reward's parts. */
import { normOf, ownValue } from '@tandem-rl/base'
import type { RescoreAnswer, RescoreRequest } from './protocol.js'
import type { Rollout } from './rowNumbers.js'

/** Below this standard deviation, all rewards of a group count as equal. */
const FLAT = 1e-6

const mean = (values: readonly number[]): number =>
  values.length === 0 ? 0 : values.reduce((sum, value) => sum + value, 0) / values.length

const deviation = (values: readonly number[], center: number): number =>
  normOf(values.map((value) => value - center)) / Math.sqrt(values.length)

const grouped = <T>(items: readonly T[], keyOf: (item: T) => string): ReadonlyMap<string, readonly T[]> => {
  const groups = new Map<string, T[]>()
  for (const item of items) {
    const own = groups.get(keyOf(item))
    if (own === undefined) groups.set(keyOf(item), [item])
    else own.push(item)
  }
  return groups
}

/** The rewards of one scoring, with what a step learns from them. */
interface Scoring {
  readonly rewards: readonly number[]
  /** Group-relative advantages, divided by the standard deviation of the group. */
  readonly advantages: readonly number[]
  /** Indices of the rollouts of groups with equal rewards, one list per group. */
  readonly flat: readonly (readonly number[])[]
}

const scoringOf = (rollouts: readonly Rollout[], rewards: readonly number[]): Scoring => {
  const advantages = rewards.map(() => 0)
  const flat: (readonly number[])[] = []
  const indices = rollouts.map((_, i) => i)
  for (const group of grouped(indices, (i) => `${rollouts[i]!.row.step} ${rollouts[i]!.row.group}`).values()) {
    const own = group.map((i) => rewards[i]!)
    const center = mean(own)
    const scale = deviation(own, center)
    if (scale < FLAT) flat.push(group)
    else for (const i of group) advantages[i] = (rewards[i]! - center) / scale
  }
  return { rewards, advantages, flat }
}

/**
 * Returns the weight that each part has in the recorded reward: least squares over the rollouts,
 * $\min_w \|Pw - r\|^2$, with a small ridge for parts that always agree.
 */
const recordedWeights = (rollouts: readonly Rollout[], names: readonly string[]): Readonly<Record<string, number>> => {
  const rows = rollouts.map(({ row }) => names.map((name) => ownValue(row.parts, name) ?? 0))
  const matrix = names.map((_, i) => names.map((__, j) => rows.reduce((sum, row) => sum + row[i]! * row[j]!, 0)))
  const right = names.map((_, i) => rows.reduce((sum, row, k) => sum + row[i]! * rollouts[k]!.row.reward, 0))
  const ridge = 1e-9 * Math.max(1, rows.length)
  const system = matrix.map((line, i) => [...line.map((value, j) => value + (i === j ? ridge : 0)), right[i]!])
  for (let i = 0; i < names.length; i++) {
    const pivot = system[i]!
    for (let k = 0; k < names.length; k++) {
      if (k === i) continue
      const factor = system[k]![i]! / pivot[i]!
      system[k] = system[k]!.map((value, j) => value - factor * pivot[j]!)
    }
  }
  return Object.fromEntries(names.map((name, i) => [name, system[i]![names.length]! / system[i]![i]!]))
}

const perStep = (rollouts: readonly Rollout[], steps: readonly number[], values: readonly number[]) => {
  const indices = grouped(
    rollouts.map((_, i) => i),
    (i) => String(rollouts[i]!.row.step),
  )
  return steps.map((step) => mean((indices.get(String(step)) ?? []).map((i) => values[i]!)))
}

const flatPerStep = (rollouts: readonly Rollout[], steps: readonly number[], { flat }: Scoring): readonly number[] =>
  steps.map((step) => flat.filter(([first]) => rollouts[first!]!.row.step === step).length)

/**
 * Scores all rollouts again. A reward changes by the sum of its parts times the change of their
 * weights, so a request without weights repeats the recorded rewards.
 */
export const rescore = (
  rollouts: readonly Rollout[],
  names: readonly string[],
  { weights, rollouts: wanted = [] }: RescoreRequest,
): RescoreAnswer => {
  const recordedBy = recordedWeights(rollouts, names)
  const recorded = scoringOf(
    rollouts,
    rollouts.map(({ row }) => row.reward),
  )
  const changeOf = ({ row }: Rollout): number =>
    names.reduce(
      (sum, name) =>
        sum + ((ownValue(weights, name) ?? recordedBy[name]!) - recordedBy[name]!) * (ownValue(row.parts, name) ?? 0),
      0,
    )
  const rescored = scoringOf(
    rollouts,
    rollouts.map((rollout) => rollout.row.reward + changeOf(rollout)),
  )
  const steps = [...new Set(rollouts.map(({ row }) => row.step))].sort((a, b) => a - b)
  const isWanted = new Set(wanted)
  const changed = rollouts.filter((_, i) => Math.sign(recorded.advantages[i]!) !== Math.sign(rescored.advantages[i]!))
  return {
    weights: Object.fromEntries(names.map((name) => [name, ownValue(weights, name) ?? recordedBy[name]!])),
    step: steps,
    recorded: perStep(rollouts, steps, recorded.rewards),
    rescored: perStep(rollouts, steps, rescored.rewards),
    withoutSignal: {
      recorded: flatPerStep(rollouts, steps, recorded),
      rescored: flatPerStep(rollouts, steps, rescored),
    },
    rollouts: rollouts.flatMap(({ row }, i) =>
      isWanted.has(row.id)
        ? [
            {
              id: row.id,
              reward: rescored.rewards[i]!,
              advantage: rescored.advantages[i]!,
              recordedReward: recorded.rewards[i]!,
              recordedAdvantage: recorded.advantages[i]!,
            },
          ]
        : [],
    ),
    signChanges: rollouts.length === 0 ? 0 : changed.length / rollouts.length,
    advantage: 'grpo',
  }
}
