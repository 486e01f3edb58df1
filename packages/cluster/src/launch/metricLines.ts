/** Training jobs on a Ray cluster: submitting them, and reading their logs into a run folder. */

/** The metrics that a trainer logged for a step, under its own names. */
export interface LoggedStep {
  readonly step: number
  readonly metrics: Readonly<Record<string, number>>
}

/** Reads lines of a log in order. */
interface StepReader {
  /** Returns the step that a line completes, or `null`. */
  readonly read: (line: string) => LoggedStep | null
  /** Returns the step that is still open at the end of the log, or `null`. */
  readonly end: () => LoggedStep | null
}

/** Longest line that is read; longer ones are no metrics. */
const MAX_LINE = 1_000_000

/** Reads a number as Python prints it: `0.5`, `1e-06`, `nan`, `np.float64(0.5)`. */
const numberIn = (text: string): number | null => {
  const open = text.indexOf('(')
  const inner = open > 0 && text.endsWith(')') ? text.slice(open + 1, -1) : text
  const trimmed = inner.trim()
  if (!/^[-+\d.]/.test(trimmed)) return null // also `nan` and `inf`, which JSON cannot hold
  const value = Number(trimmed)
  return Number.isFinite(value) ? value : null
}

const recordOf = (pairs: readonly (readonly [name: string, value: string])[]): Readonly<Record<string, number>> =>
  Object.fromEntries(
    pairs.flatMap(([name, value]) => {
      const number = numberIn(value)
      return number === null || name === '' ? [] : [[name, number]]
    }),
  )

/** Reads the digits at a position of a line. */
const digitsAt = (line: string, at: number): string => /^\d{1,9}/.exec(line.slice(at, at + 9))?.[0] ?? ''

/** A line of verl: `step:1 - actor/pg_loss:0.01 - critic/score/mean:0.5`. */
const verlStep = (line: string): LoggedStep | null => {
  const at = line.indexOf('step:')
  if (at === -1 || (at > 0 && /[\w/]/.test(line[at - 1]!))) return null
  const digits = digitsAt(line, at + 5)
  const [, ...fields] = line.slice(at).split(' - ')
  if (digits === '' || fields.length === 0 || line.slice(at + 5 + digits.length, at + 8 + digits.length) !== ' - ')
    return null
  const pairs = fields.map((field): readonly [string, string] => {
    const colon = field.lastIndexOf(':')
    return [field.slice(0, Math.max(0, colon)).trim(), field.slice(colon + 1)]
  })
  return { step: Number(digits), metrics: recordOf(pairs) }
}

const OPENRLHF = 'Global step '

/** A line of OpenRLHF: `Global step 1: {'reward': 0.4, 'policy_loss': 0.01}`. */
const openRlhfStep = (line: string): LoggedStep | null => {
  const at = line.indexOf(OPENRLHF)
  if (at === -1) return null
  const digits = digitsAt(line, at + OPENRLHF.length)
  const open = at + OPENRLHF.length + digits.length + 2
  const close = line.lastIndexOf('}')
  if (digits === '' || line.slice(open - 2, open + 1) !== ': {' || close < open) return null
  const pairs = line
    .slice(open + 1, close)
    .split(', ')
    .map((field): readonly [string, string] => {
      const colon = field.indexOf("': ")
      return [field.slice(1, Math.max(1, colon)), field.slice(colon + 3)]
    })
  return { step: Number(digits), metrics: recordOf(pairs) }
}

/** The step of a header of NeMo-RL: `===== Step 1/100 =====`. */
const nemoHeader = (line: string): number | null => {
  const at = line.indexOf('= Step ')
  const digits = at === -1 ? '' : digitsAt(line, at + 7)
  return digits !== '' && line[at + 7 + digits.length] === '/' && line.trimEnd().endsWith('=') ? Number(digits) : null
}

/** A bullet of NeMo-RL: `  • Avg Reward: 0.5000`, `  • Total step time: 12.50s`. */
const nemoBullet = (line: string): readonly [string, string] | null => {
  const at = line.indexOf('• ')
  const colon = line.indexOf(':', at)
  if (at === -1 || colon === -1) return null
  const [value = ''] = line
    .slice(colon + 1)
    .trim()
    .split(' ')
  return [line.slice(at + 2, colon), value.endsWith('s') ? value.slice(0, -1) : value]
}

/**
 * Makes a reader of the metrics in a log of verl, OpenRLHF or NeMo-RL. It recognizes the formats by
 * their lines, and ignores all other lines. Values that are not finite are left out.
 *
 * Cost     linear in the length of the log.
 * Source   verl `aggregate_logger.py`, OpenRLHF `ppo_trainer.py`, NeMo-RL `grpo.py`.
 *
 * @example
 * stepReader().read("(Trainer pid=7) Global step 3: {'reward': 0.5, 'note': 'a'}") // { step: 3, metrics: { reward: 0.5 } }
 */
export const stepReader = (): StepReader => {
  let open: { readonly step: number; readonly pairs: (readonly [string, string])[] } | null = null
  const end = (): LoggedStep | null => {
    const ended = open
    open = null
    return ended === null || ended.pairs.length === 0 ? null : { step: ended.step, metrics: recordOf(ended.pairs) }
  }
  const read = (line: string): LoggedStep | null => {
    if (line.length > MAX_LINE) return null
    const header = nemoHeader(line)
    if (header !== null) {
      const before = end()
      open = { step: header, pairs: [] }
      return before
    }
    const bullet = open === null ? null : nemoBullet(line)
    if (bullet === null) return verlStep(line) ?? openRlhfStep(line)
    open?.pairs.push(bullet)
    return bullet[0] === 'Total step time' ? end() : null
  }
  return { read, end }
}

/** Names of the same quantity in verl, OpenRLHF and NeMo-RL, in order of preference. */
const KNOWN = {
  reward: ['critic/score/mean', 'critic/rewards/mean', 'reward', 'Avg Reward'],
  loss: ['actor/pg_loss', 'actor/loss', 'policy_loss', 'Loss'],
  entropy: ['actor/entropy', 'actor/entropy_loss', 'entropy_loss', 'entropy'],
  gradNorm: ['actor/grad_norm', 'actor_grad_norm'],
} as const

/** Returns a known quantity of a step, or `null` if the trainer did not log it. */
export const knownMetric = ({ metrics }: LoggedStep, name: keyof typeof KNOWN): number | null => {
  const found = KNOWN[name].find((each) => metrics[each] !== undefined)
  return found === undefined ? null : metrics[found]!
}
