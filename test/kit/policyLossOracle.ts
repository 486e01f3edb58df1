/**
 * Policy losses in float64 on plain arrays, slow and obvious, by the equations of their papers: no
 * tensors, nothing of `src`.
 *
 * The parts that a loss holds constant are computed from `still`, the rest from `now`. The finite
 * difference with respect to `now` is then the intended gradient, also for losses that stop
 * gradients.
 */
import type { LossRows } from './policyLoss.js'

type Matrix = readonly (readonly number[])[]
type Pair = readonly [low: number, high: number]

/** An objective with all of its settings. */
export type ObjectiveSpec =
  | { readonly name: 'clippedSurrogate'; readonly clip: Pair; readonly dual?: number }
  | { readonly name: 'cispo'; readonly clip: Pair }
  | { readonly name: 'policyGradient' }
  | { readonly name: 'sapo'; readonly positive: number; readonly negative: number }
  | { readonly name: 'dro'; readonly beta: number }
  | { readonly name: 'gspo' | 'luspo'; readonly clip: Pair; readonly form: 'sequence' | 'token' }
  | { readonly name: 'gmpo'; readonly clip: Pair }
  | { readonly name: 'vespo'; readonly positive: Pair; readonly negative: Pair }
  | { readonly name: 'dppo'; readonly divergence: 'tv' | 'kl'; readonly epsilon: Pair; readonly largest: number }
  | { readonly name: 'klCov'; readonly share: number; readonly coefficient: number }
  | { readonly name: 'clipCov'; readonly share: number; readonly bounds: Pair; readonly clip: Pair }

export interface OracleKL {
  readonly to: 'reference' | 'behavior'
  readonly form: string
  readonly coefficient: number
  readonly aggregation: 'loss' | 'token-mean'
  readonly correction: 'none' | 'ratio'
}

export interface OracleSettings {
  readonly objective: ObjectiveSpec
  readonly aggregation: string | { readonly length: number }
  readonly kl?: readonly OracleKL[]
  readonly entropyCoefficient?: number
  readonly entropyAggregation?: 'loss' | 'token-mean'
  readonly klMaskThreshold?: number
}

const sum = (xs: readonly number[]): number => xs.reduce((a, b) => a + b, 0)
const mean = (xs: readonly number[]): number => (xs.length === 0 ? 0 : sum(xs) / xs.length)
const clamp = (x: number, low: number, high: number): number => Math.min(high, Math.max(low, x))

/** A token that counts. */
interface Token {
  readonly b: number
  readonly t: number
  readonly now: number
  readonly still: number
  readonly old: number
  readonly a: number
}

const tokensOf = (rows: LossRows, now: Matrix, mask: Matrix): readonly Token[] =>
  mask.flatMap((row, b) =>
    row.flatMap((m, t) => {
      const advantages = rows.advantages[b]!
      const a = advantages.length === 1 ? advantages[0]! : advantages[t]!
      return m === 0 ? [] : [{ b, t, now: now[b]![t]!, still: rows.logProbs[b]![t]!, old: rows.old[b]![t]!, a }]
    }),
  )

const surrogate = (ratio: number, a: number, [low, high]: Pair): number =>
  Math.max(-ratio * a, -clamp(ratio, 1 - low, 1 + high) * a)

/** Tokens whose score is at least the n-th largest of all candidates. */
const largest = (scores: ReadonlyMap<Token, number>, n: number): ReadonlySet<Token> => {
  const border = [...scores.values()].sort((x, y) => y - x)[Math.min(n, scores.size) - 1]
  return new Set([...scores].flatMap(([token, score]) => (border !== undefined && score >= border ? [token] : [])))
}

const covariances = (tokens: readonly Token[]): ReadonlyMap<Token, number> => {
  const [a, p] = [mean(tokens.map((token) => token.a)), mean(tokens.map((token) => token.still))]
  return new Map(tokens.map((token) => [token, (token.a - a) * (token.still - p)]))
}

const chosenCount = (share: number, tokens: readonly Token[]): number =>
  Math.max(1, Math.floor(share * tokens.length + 1e-4))

const bernoulliKL = (p: number, q: number): number =>
  p * Math.log(p / q) + (1 - p) * Math.log(Math.max(1 - p, 1e-8) / Math.max(1 - q, 1e-8))

/** The loss of each token. */
const lossOfToken = (spec: ObjectiveSpec, tokens: readonly Token[], rows: LossRows): ((token: Token) => number) => {
  const rowOf = (b: number): readonly Token[] => tokens.filter((token) => token.b === b)
  switch (spec.name) {
    case 'clippedSurrogate':
      return ({ now, old, a }) => {
        const l = surrogate(Math.exp(now - old), a, spec.clip)
        return spec.dual !== undefined && a < 0 ? Math.min(l, -spec.dual * a) : l
      }
    case 'cispo':
      return ({ now, still, old, a }) => -clamp(Math.exp(still - old), 1 - spec.clip[0], 1 + spec.clip[1]) * a * now
    case 'policyGradient':
      return ({ now, a }) => -a * now
    case 'sapo':
      return ({ now, old, a }) => {
        const tau = a > 0 ? spec.positive : spec.negative
        return (-a * 4) / tau / (1 + Math.exp(-tau * (Math.exp(now - old) - 1)))
      }
    case 'dro':
      return ({ now, old, a }) => -(a * now - (spec.beta / 2) * (now - old) ** 2)
    case 'gspo':
    case 'luspo':
      return ({ b, now, still, a }) => {
        const average = (which: 'now' | 'still'): number => mean(rowOf(b).map((token) => token[which] - token.old))
        const s =
          spec.form === 'sequence' ? Math.exp(average('now')) : Math.exp(average('still')) * Math.exp(now - still)
        return surrogate(s, a, spec.clip)
      }
    case 'gmpo':
      return ({ b }) => {
        const chosen = rowOf(b).map(({ now, old, a }) => {
          const [d, sign] = [now - old, Math.sign(a)]
          return sign * Math.min(sign * d, sign * clamp(d, -spec.clip[0], spec.clip[1]))
        })
        return -mean(rowOf(b).map(({ a }) => a)) * Math.exp(mean(chosen))
      }
    case 'vespo':
      return ({ b, now, a }) => {
        const s = Math.exp(sum(rowOf(b).map(({ still, old }) => still - old)))
        const [k, d] = a >= 0 ? spec.positive : spec.negative
        return -(s ** k) * Math.exp(d * (1 - s)) * a * now
      }
    case 'dppo':
      return ({ now, still, old, a }) => {
        const move = Math.exp(still) - Math.exp(old)
        const far = spec.divergence === 'tv' ? Math.abs(move) : bernoulliKL(Math.exp(old), Math.exp(still))
        const isOnward = a > 0 ? move > 0 : move < 0
        const isLeft = isOnward && far > spec.epsilon[a > 0 ? 1 : 0]
        return isLeft ? 0 : -a * Math.min(Math.exp(still - old), spec.largest) * now
      }
    case 'klCov': {
      const held = largest(covariances(tokens), chosenCount(spec.share, tokens))
      return (token) =>
        -Math.exp(token.now - token.old) * token.a +
        (held.has(token) ? spec.coefficient * Math.abs(token.now - token.old) : 0)
    }
    case 'clipCov': {
      const cut = ({ still, old, a }: Token): boolean => {
        const ratio = Math.exp(still - old)
        return a > 0 ? ratio > 1 + spec.clip[1] : a < 0 && ratio < 1 - spec.clip[0]
      }
      const between = [...covariances(tokens)].filter(
        ([token, c]) => c > spec.bounds[0] && c < spec.bounds[1] && !cut(token),
      )
      const noise = new Map(between.map(([token]) => [token, rows.noise![token.b]![token.t]!]))
      const held = largest(noise, chosenCount(spec.share, tokens))
      return (token) => (held.has(token) ? 0 : surrogate(Math.exp(token.now - token.old), token.a, spec.clip))
    }
  }
}

const klValue = (form: string, d: number): number => {
  switch (form) {
    case 'k1':
      return d
    case 'abs':
      return Math.abs(d)
    case 'k2':
      return d ** 2 / 2
    case 'k3':
      return Math.exp(-d) - 1 + d
    default: {
      const x = clamp(-d, -20, 20)
      return clamp(Math.exp(x) - 1 - x, -10, 10)
    }
  }
}

/** The divergence of a token: a trailing `+` is the value of the form with the gradient of k2. */
export const klOracle = (form: string, now: number, still: number): number =>
  form.endsWith('+')
    ? klValue('k2', now) + klValue(form.slice(0, -1), still) - klValue('k2', still)
    : klValue(form, now)

/** What the loss of a batch is divided by: tokens that count, and completions. */
export type OracleCounts = readonly [tokens: number, completions: number]

const aggregated = (
  losses: readonly (readonly [Token, number])[],
  aggregation: OracleSettings['aggregation'],
  [tokens, completions]: OracleCounts,
): number => {
  const total = sum(losses.map(([, l]) => l))
  if (typeof aggregation === 'object') return total / Math.max(completions, 1) / aggregation.length
  switch (aggregation) {
    case 'token-mean':
      return total / Math.max(tokens, 1)
    case 'token-sum':
      return total
    case 'seq-mean-token-sum':
      return total / Math.max(completions, 1)
    default: {
      const rows = new Set(losses.map(([{ b }]) => b))
      const means = [...rows].map((row) => mean(losses.flatMap(([{ b }, l]) => (b === row ? [l] : []))))
      return sum(means) / Math.max(completions, 1)
    }
  }
}

/** The whole loss at `now`. `rows.logProbs` is what stays still. */
export const lossOracle = (settings: OracleSettings, rows: LossRows, now: Matrix, counts?: OracleCounts): number => {
  const { objective, aggregation, kl = [], klMaskThreshold = Number.POSITIVE_INFINITY } = settings
  const isNear = (b: number, t: number): boolean =>
    (rows.logProbs[b]![t]! - rows.old[b]![t]!) ** 2 / 2 <= klMaskThreshold
  const mask = rows.mask.map((row, b) => row.map((m, t) => (m === 1 && isNear(b, t) ? 1 : 0)))
  const tokens = tokensOf(rows, now, mask)
  const by: OracleCounts = counts ?? [tokens.length, rows.mask.length]
  const put = (f: (token: Token) => number, how: OracleSettings['aggregation'] = aggregation): number =>
    aggregated(
      tokens.map((token) => [token, f(token)]),
      how,
      by,
    )
  const howOf = (how: 'loss' | 'token-mean' = 'loss') => (how === 'loss' ? aggregation : how)
  const objectiveOf = lossOfToken(objective, tokens, rows)
  const divergences = kl.map((term) => {
    const target = term.to === 'reference' ? rows.reference! : (rows.behavior ?? rows.old)
    return (
      term.coefficient *
      put((token) => {
        const other = target[token.b]![token.t]!
        const each = klOracle(term.form, token.now - other, token.still - other)
        return term.correction === 'none' ? each : each * Math.exp(token.now - token.old)
      }, howOf(term.aggregation))
    )
  })
  const bonus =
    settings.entropyCoefficient === undefined
      ? 0
      : -settings.entropyCoefficient * put(({ b, t }) => rows.entropy![b]![t]!, howOf(settings.entropyAggregation))
  const weightOf = ({ b, t }: Token): number => (rows.weights === undefined ? 1 : rows.weights[b]![t]!)
  return put((token) => weightOf(token) * objectiveOf(token)) + sum(divergences) + bonus
}

/** Its gradient with respect to each log-probability, by central differences. */
export const gradientOracle = (settings: OracleSettings, rows: LossRows, counts?: OracleCounts): Matrix => {
  const step = 1e-6
  const moved = (b: number, t: number, by: number): number => {
    const now = rows.logProbs.map((row, i) => row.map((x, j) => (i === b && j === t ? x + by : x)))
    return lossOracle(settings, rows, now, counts)
  }
  return rows.mask.map((row, b) =>
    row.map((m, t) => (m === 0 ? 0 : (moved(b, t, step) - moved(b, t, -step)) / (2 * step))),
  )
}
