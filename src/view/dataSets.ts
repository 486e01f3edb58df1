/** Selected rollouts as a data set: lines for fine-tuning, or pairs of preferences. */
import type { ExportFormat } from './protocol.js'
import type { Rollout } from './rolloutRows.js'

const completionOf = ({ turns }: Rollout): string => turns.map(({ tokens }) => tokens.join('')).join('')

const promptOf = ({ turns }: Rollout): string => turns[0]?.query ?? ''

const line = (record: object): string => `${JSON.stringify(record)}\n`

const messages = (rollout: Rollout): readonly object[] => [
  { role: 'user', content: promptOf(rollout) },
  { role: 'assistant', content: completionOf(rollout) },
]

/** Pairs of the best and the worst completion of each group with unequal rewards. */
const pairs = (rollouts: readonly Rollout[]): readonly string[] => {
  const groups = new Map<string, Rollout[]>()
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
export const dataSetOf = (rollouts: readonly Rollout[], format: ExportFormat): string =>
  format === 'preferences'
    ? pairs(rollouts).join('')
    : rollouts.map((rollout) => line({ messages: messages(rollout), reward: rollout.row.reward })).join('')
