/** Selected rollouts as a data set: lines for fine-tuning, or pairs of preferences. */
import type { TrajectoryRecord } from 'tandem-rl/run'
import type { ExportFormat } from './protocol.js'
import type { RolloutLog } from './rolloutLog.js'
import type { Rollout } from './rowNumbers.js'

/** A rollout with its turns. */
interface Whole extends Rollout {
  readonly turns: readonly TrajectoryRecord[]
}

const completionOf = ({ turns }: Whole): string => turns.map(({ tokens }) => tokens.join('')).join('')

const promptOf = ({ turns }: Whole): string => turns[0]?.query ?? ''

const line = (record: object): string => `${JSON.stringify(record)}\n`

/** Returns the conversation: the task, each turn as it was sampled, and the replies to it. */
const messages = (rollout: Whole): readonly object[] => [
  { role: 'user', content: promptOf(rollout) },
  ...rollout.turns.flatMap(({ tokens, replies = [] }) => [
    { role: 'assistant', content: tokens.join('') },
    ...replies.map(({ role, text }) => ({ role, content: text })),
  ]),
]

/** Pairs of the best and the worst completion of each group with unequal rewards. */
const pairs = (rollouts: readonly Whole[]): readonly string[] => {
  const groups = new Map<string, Whole[]>()
  for (const rollout of rollouts) {
    const key = `${rollout.row.step} ${rollout.row.group}`
    const own = groups.get(key)
    if (own === undefined) groups.set(key, [rollout])
    else own.push(rollout)
  }
  return [...groups.values()].flatMap((group) => {
    const [worst, ...others] = [...group].sort((a, b) => a.row.reward - b.row.reward)
    const best = others.at(-1)
    if (worst === undefined || best === undefined || best.row.reward === worst.row.reward) return []
    return [line({ prompt: promptOf(best), chosen: completionOf(best), rejected: completionOf(worst) })]
  })
}

/** Returns the lines of a data set. */
export const dataSetOf = async (
  log: RolloutLog,
  rollouts: readonly Rollout[],
  format: ExportFormat,
): Promise<string> => {
  const turns = await log.turns(rollouts)
  const whole = rollouts.map(({ row }, i): Whole => ({ row, turns: turns[i]! }))
  return format === 'preferences'
    ? pairs(whole).join('')
    : whole.map((rollout) => line({ messages: messages(rollout), reward: rollout.row.reward })).join('')
}
