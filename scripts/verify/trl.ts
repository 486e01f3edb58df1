/**
 * Compares losses with those of TRL's trainers, values and gradients, and advantages, on fresh
 * random batches: `npm run verify -- trl [SEED]`, with PEERS_VENV set to the peers' virtual
 * environment. Prints a table; exits with 1 if anything differs by more than the limit.
 */
import { execFileSync } from 'node:child_process'
import { join } from 'node:path'
import { child, type Key, keyFromSeed, normals, uniforms } from '@tandem-rl/base'
import { selectBackend } from '@tandem-rl/tfjs-onnxruntime'
import { type KLTerm, type PolicyLossOptions, policyLoss } from '../../src/objectives/policyLoss.js'
import { type CorrectionWeights, rolloutCorrection } from '../../src/objectives/rolloutCorrection.js'
import type { Aggregation } from '../../src/objectives/tokenLosses/aggregation.js'
import { cispo } from '../../src/objectives/tokenLosses/cispo.js'
import { type ClippedSurrogateOptions, clippedSurrogate } from '../../src/objectives/tokenLosses/clippedSurrogate.js'
import { gmpo } from '../../src/objectives/tokenLosses/gmpo.js'
import { gspo } from '../../src/objectives/tokenLosses/gspo.js'
import { luspo } from '../../src/objectives/tokenLosses/luspo.js'
import { sapo } from '../../src/objectives/tokenLosses/sapo.js'
import { vespo } from '../../src/objectives/tokenLosses/vespo.js'
import { highEntropyWeights, offPolicyWeights } from '../../src/objectives/tokenWeights.js'
import { type LossRows, lossNumbers } from '../../test/kit/policyLoss.js'
import { type Comparison, type Numbers, OTHER_COMPARISONS, type PolicyRows, rlooLoss } from '../kit/trlLosses.js'

/**
 * Largest difference of a value or of an entry of a gradient, as a share of the largest entry of
 * TRL's. float32 here, float64 there.
 */
const LIMIT = 1e-6
const ROUNDS = 5
const LENGTH = 64

/** A policy loss in TRL's settings and in ours. */
interface Variant {
  readonly name: string
  readonly trl: Readonly<Record<string, unknown>>
  readonly ours: PolicyLossOptions
  readonly weights?: (rows: PolicyRows) => LossRows['mask']
  /**
   * Of the last completion, which is empty, where TRL lets such a one count: it has no gradient.
   */
  readonly lastAdvantage?: 0
}

const clip = (options: ClippedSurrogateOptions, aggregation: Aggregation): PolicyLossOptions => ({
  objective: clippedSurrogate(options),
  aggregation,
})
const CLIP = clip({}, 'token-mean')
const reference = (term: Partial<KLTerm>): Pick<PolicyLossOptions, 'kl'> => ({
  kl: [{ to: 'reference', coefficient: 0.04, ...term }],
})

const differences = (a: LossRows['mask'], b: LossRows['mask']): LossRows['mask'] =>
  a.map((row, i) => row.map((x, t) => x - b[i]![t]!))

const correction = (mode: string, weights: CorrectionWeights): Variant => ({
  name: `vLLM importance sampling, ${mode}, ${JSON.stringify(weights.limit)}`,
  trl: {
    loss_type: 'dapo',
    ratio: [mode, ...(typeof weights.limit === 'number' ? [null, weights.limit] : weights.limit)],
  },
  ours: CLIP,
  weights: ({ old, behavior, mask }) => rolloutCorrection(differences(old, behavior), mask, { weights }).weights,
})

const VARIANTS: readonly Variant[] = [
  { name: 'grpo', trl: { loss_type: 'grpo' }, ours: clip({}, 'seq-mean-token-mean') },
  { name: 'bnpo', trl: { loss_type: 'bnpo' }, ours: CLIP },
  {
    name: 'dr_grpo',
    trl: { loss_type: 'dr_grpo', max_completion_length: LENGTH },
    ours: clip({}, { mode: 'seq-mean-token-sum-norm', length: LENGTH }),
  },
  {
    name: 'dapo, clip-higher',
    trl: { loss_type: 'dapo', epsilon: 0.2, epsilon_high: 0.28 },
    ours: clip({ clipEpsilon: [0.2, 0.28] }, 'token-mean'),
  },
  { name: 'delta', trl: { loss_type: 'dapo', delta: 1.5 }, ours: clip({ dualClip: 1.5 }, 'token-mean') },
  {
    name: 'cispo',
    trl: { loss_type: 'cispo', epsilon_high: 1.4 },
    ours: { objective: cispo({ clipEpsilon: [1, 0.4] }) },
  },
  {
    name: 'gspo',
    trl: { loss_type: 'grpo', importance_sampling_level: 'sequence', epsilon: 0.1, epsilon_high: 0.15 },
    ours: { objective: gspo({ clipEpsilon: [0.1, 0.15] }) },
  },
  {
    name: 'luspo',
    trl: { loss_type: 'luspo', importance_sampling_level: 'sequence', epsilon: 0.1, epsilon_high: 0.15 },
    ours: { objective: luspo({ clipEpsilon: [0.1, 0.15] }) },
  },
  { name: 'sapo', trl: { loss_type: 'sapo' }, ours: { objective: sapo() } },
  {
    name: 'vespo',
    trl: { loss_type: 'vespo' },
    ours: { objective: vespo() },
  },
  {
    name: 'beta',
    trl: { loss_type: 'grpo', beta: 0.04 },
    ours: { ...clip({}, 'seq-mean-token-mean'), ...reference({}) },
  },
  {
    name: 'beta, bias corrected',
    trl: { loss_type: 'dapo', beta: 0.04, use_bias_correction_kl: true },
    ours: { ...CLIP, ...reference({ correction: 'ratio' }) },
  },
  {
    name: 'entropy_coef',
    trl: { loss_type: 'grpo', entropy_coef: 0.01 },
    ours: { ...clip({}, 'seq-mean-token-mean'), entropyCoefficient: 0.01, entropyAggregation: 'token-mean' },
  },
  {
    name: 'top_entropy_quantile',
    trl: { loss_type: 'dapo', top_entropy_quantile: 0.3123 },
    ours: CLIP,
    weights: ({ entropy, mask }) => highEntropyWeights(entropy, mask, 0.3123),
  },
  {
    name: 'off_policy_mask_threshold',
    trl: { loss_type: 'dapo', off_policy_mask_threshold: 0.05 },
    ours: CLIP,
    weights: ({ logProbs, old, mask, advantages }) =>
      offPolicyWeights({ difference: differences(logProbs, old), advantages: advantages.map(([a]) => a!), mask }, 0.05),
  },
  correction('token_truncate', { level: 'token', limit: 1.3 }),
  correction('token_mask', { level: 'token', limit: [0, 1.3] }),
  correction('token_mask', { level: 'token', limit: [0.8, 1.3] }),
  correction('sequence_truncate', { level: 'sequence', limit: 1.5 }),
  correction('sequence_mask', { level: 'sequence', limit: [0, 1.5] }),
  correction('sequence_mask', { level: 'sequence', limit: [0.7, 1.5] }),
  {
    name: 'experimental.gmpo',
    trl: { trainer: 'gmpo', loss_type: 'grpo', epsilon: 0.3, epsilon_high: 0.4 },
    ours: { objective: gmpo({ clipEpsilon: [0.3, 0.4] }) },
    lastAdvantage: 0,
  },
  {
    name: 'experimental.gspo_token',
    trl: {
      trainer: 'gspo_token',
      loss_type: 'grpo',
      importance_sampling_level: 'sequence_token',
      epsilon: 0.1,
      epsilon_high: 0.15,
    },
    ours: { objective: gspo({ clipEpsilon: [0.1, 0.15], form: 'token' }) },
  },
]

const B = 6
const T = 9

/**
 * A batch: completions of 0 to T tokens, with holes, whose last one is empty. All numbers are
 * float32.
 */
const randomRows = (key: Key): PolicyRows => {
  const matrix = (name: string, f: (x: number) => number): LossRows['mask'] => {
    const numbers = normals(child(key, name), B * T)
    return Array.from({ length: B }, (_, b) => Array.from({ length: T }, (_, t) => Math.fround(f(numbers[b * T + t]!))))
  }
  const near = (rows: LossRows['mask'], name: string, far: number): LossRows['mask'] => {
    const moves = matrix(name, (x) => far * x)
    return rows.map((row, b) => row.map((x, t) => Math.fround(Math.min(x + moves[b]![t]!, -1e-3))))
  }
  const old = matrix('old', (x) => -Math.abs(x) - 0.1)
  const draws = uniforms(child(key, 'mask'), B * (T + 1))
  return {
    old,
    logProbs: near(old, 'policy', 0.3),
    behavior: near(old, 'behavior', 0.2),
    reference: near(old, 'reference', 0.5),
    entropy: matrix('entropy', (x) => Math.abs(x)),
    advantages: matrix('advantage', (x) => x).map(([a]) => [a!]),
    mask: Array.from({ length: B }, (_, b) => {
      const length = b === B - 1 ? 0 : 1 + Math.floor(draws[b * (T + 1)]! * T)
      return Array.from({ length: T }, (_, t) => (t < length && draws[b * (T + 1) + 1 + t]! > 0.15 ? 1 : 0))
    }),
  }
}

const policyComparison = ({ name, trl, ours, weights, lastAdvantage }: Variant): Comparison => ({
  name,
  draw: (key) => {
    const drawn = randomRows(key)
    const advantages = drawn.advantages.map(([a], b) => [b === B - 1 ? (lastAdvantage ?? a!) : a!])
    const rows = { ...drawn, advantages }
    return {
      asked: { kind: 'policy', settings: trl, rows: { ...rows } },
      ours: () => lossNumbers(policyLoss(ours), { ...rows, ...(weights && { weights: weights(rows) }) }),
    }
  },
})

const COMPARISONS: readonly Comparison[] = [
  ...VARIANTS.map(policyComparison),
  rlooLoss(randomRows),
  ...OTHER_COMPARISONS,
]

const gapOf = (actual: Numbers, expected: Numbers) => {
  const flat = expected.gradient.flat()
  const scale = flat.reduce((most, g) => Math.max(most, Math.abs(g)), 0)
  const entries = actual.gradient.flat().map((g, i) => Math.abs(g - flat[i]!))
  return {
    value: Math.abs(actual.value - expected.value) / Math.max(1, Math.abs(expected.value)),
    gradient: entries.reduce((most, g) => Math.max(most, g), 0) / Math.max(1, scale),
    scale,
  }
}

const { PEERS_VENV: venv } = process.env
if (venv === undefined) {
  console.error('set PEERS_VENV to a virtual environment with trl and torch')
  process.exit(2)
}
await selectBackend()
const first = Number(process.argv[2] ?? Date.now() % 1_000_000)
const cases = COMPARISONS.flatMap(({ name, draw }) =>
  Array.from({ length: ROUNDS }, (_, i) => ({ name, ...draw(keyFromSeed(first + i)) })),
)
const answer = execFileSync(join(venv, 'bin/python'), ['scripts/verify/peers/trl.py'], {
  input: JSON.stringify(cases.map(({ asked }) => asked)),
  stdio: ['pipe', 'pipe', 'inherit'],
  maxBuffer: 2 ** 26,
})
const { version, results } = JSON.parse(answer.toString()) as {
  readonly version: string
  readonly results: readonly Numbers[]
} // written by peers/trl.py
console.log(`TRL ${version}, float64 there, float32 here; seeds ${first} to ${first + ROUNDS - 1}; limit ${LIMIT}`)
for (const { name: title } of COMPARISONS) {
  const gaps = cases.flatMap(({ name, ours }, i) => (name === title ? [gapOf(ours(), results[i]!)] : []))
  const most = (name: keyof (typeof gaps)[number]): number =>
    gaps.reduce((m, gap) => (Number.isFinite(gap[name]) ? Math.max(m, gap[name]) : Number.POSITIVE_INFINITY), 0)
  const ok = most('value') <= LIMIT && most('gradient') <= LIMIT && most('scale') > 1e-3
  if (!ok) process.exitCode = 1
  console.log(
    `${ok ? 'same     ' : 'DIFFERENT'}  ${title.padEnd(56)} value ${most('value').toExponential(1)}  gradient ${most('gradient').toExponential(1)}  (largest entry ${most('scale').toExponential(1)})`,
  )
}
