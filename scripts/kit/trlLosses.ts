/**
 * Compares the losses of TRL's trainers other than GRPO's with ours: losses from logits, RLOO, and
 * advantages.
 */
import { child, type Key, normals, uniforms } from '@tandem-rl/base'
import { gatherLogProbs, valueAndGrad } from '@tandem-rl/tfjs-onnxruntime'
import { scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as tf from '@tensorflow/tfjs-core'
import * as E from 'fp-ts/lib/Either.js'
import { grpoAdvantage, rlooAdvantage } from '../../src/objectives/advantages/outcome.js'
import type { TokenAdvantages } from '../../src/objectives/advantages/rows.js'
import { type VocabularyDivergence, vocabularyDivergence } from '../../src/objectives/distillationLoss.js'
import { type DPOLossOptions, dpoLoss } from '../../src/objectives/dpoLoss.js'
import { klPenalizedRewards } from '../../src/objectives/klControl.js'
import { totalLoss } from '../../src/objectives/loss.js'
import { policyLoss } from '../../src/objectives/policyLoss.js'
import { SFTLoss } from '../../src/objectives/sftLoss.js'
import { aggregate, countsOf } from '../../src/objectives/tokenLosses/aggregation.js'
import { clippedSurrogate } from '../../src/objectives/tokenLosses/clippedSurrogate.js'
import type { LossNumbers, LossRows } from '../../test/kit/policyLoss.js'

/** A loss and its gradient, row by row. */
export type Numbers = Pick<LossNumbers, 'value' | 'gradient'>

/** The input of a case for `peers/trl.py`: rows of numbers, by name, of any rank. */
interface Asked {
  readonly kind: 'policy' | 'sft' | 'dpo' | 'distillation' | 'advantages'
  readonly settings: Readonly<Record<string, unknown>>
  readonly rows: Readonly<Record<string, readonly unknown[]>>
}

/** A case for both sides. */
export interface Comparison {
  readonly name: string
  readonly draw: (key: Key) => { readonly asked: Asked; readonly ours: () => Numbers }
}

/** Rows of tokens of policies, as GRPO's loss reads them. */
export type PolicyRows = Required<Omit<LossRows, 'noise' | 'weights' | 'chosen'>>

type Matrix = LossRows['mask']

/** The value of `f` and its gradient with respect to rows of numbers. */
const numbersOf = (rows: readonly (readonly number[])[], f: (x: tf.Tensor) => tf.Tensor): Numbers => {
  let numbers: Numbers | undefined
  scope(() => {
    const width = rows[0]!.length
    const { value, grads } = valueAndGrad({ x: tf.tensor2d(rows.flat(), [rows.length, width]) }, ({ x }) => ({
      value: tf.reshape(f(x), []),
      aux: {},
    }))
    const gradient = Array.from(grads.x!.dataSync())
    numbers = {
      value: value.dataSync()[0]!,
      gradient: rows.map((_, b) => gradient.slice(b * width, (b + 1) * width)),
    }
    return []
  })
  return numbers!
}

const [B, T, V] = [6, 7, 5]

/**
 * Completions after one token of a prompt: logits `[B, T * V]` of two models, and at `[B, T]` the
 * tokens and which ones count.
 */
interface Batch {
  readonly logits: Matrix
  readonly reference: Matrix
  readonly ids: Matrix
  readonly mask: Matrix
}

/** Lengths from 0 to T - 1, with holes; the last row is empty. All numbers are float32. */
const randomBatch = (key: Key): Batch => {
  const matrix = (name: string): Matrix => {
    const numbers = normals(child(key, name), B * T * V)
    return Array.from({ length: B }, (_, b) =>
      Array.from({ length: T * V }, (_, i) => Math.fround(numbers[b * T * V + i]!)),
    )
  }
  const draws = uniforms(child(key, 'tokens'), 2 * B * T)
  return {
    logits: matrix('student'),
    reference: matrix('teacher'),
    ids: Array.from({ length: B }, (_, b) => Array.from({ length: T }, (_, t) => Math.floor(draws[b * T + t]! * V))),
    mask: Array.from({ length: B }, (_, b) =>
      Array.from({ length: T }, (_, t) =>
        t > 0 && b < B - 1 && t <= 2 + b && draws[B * T + b * T + t]! > 0.15 ? 1 : 0,
      ),
    ),
  }
}

const cubes = (rows: Matrix): readonly Matrix[] =>
  rows.map((row) => Array.from({ length: T }, (_, t) => row.slice(t * V, (t + 1) * V)))

const asking = (kind: Asked['kind'], settings: Asked['settings'], batch: Batch): Asked => ({
  kind,
  settings,
  rows: { ...batch, logits: cubes(batch.logits), reference: cubes(batch.reference) },
})

const matrixOf = (rows: Matrix): tf.Tensor => tf.tensor2d(rows.flat(), [rows.length, rows[0]!.length])

/**
 * `[B, T - 1]`: the log-probability of each token but the first one, from the logits `[B, T * V]`
 * before it.
 */
const tokenLogProbs = (logits: tf.Tensor, ids: Matrix): tf.Tensor => {
  const rows = ids.length
  const before = tf.slice(tf.reshape(logits, [rows, T, V]), [0, 0, 0], [rows, T - 1, V])
  const next = tf.tensor1d(
    ids.flatMap((row) => row.slice(1)),
    'int32',
  )
  return tf.reshape(gatherLogProbs(tf.reshape(before, [rows * (T - 1), V]), next), [rows, T - 1])
}

const behind = (rows: Matrix): tf.Tensor => matrixOf(rows.map((row) => row.slice(1)))

const sft = (
  name: string,
  settings: { readonly loss_type: string; readonly num_items_in_batch?: number },
): Comparison => ({
  name: `SFT, ${name}`,
  draw: (key) => {
    const batch = randomBatch(key)
    const count = settings.num_items_in_batch
    const ours = (): Numbers =>
      numbersOf(batch.logits, (logits) => {
        const mask = behind(batch.mask)
        const counts = count === undefined ? countsOf(mask) : { tokens: tf.scalar(count), completions: tf.scalar(0) }
        return SFTLoss({ reduction: 'token-mean' }).apply(
          { logProbs: tokenLogProbs(logits, batch.ids) },
          { mask, counts },
        ).lossSft
      })
    return { asked: asking('sft', settings, batch), ours }
  },
})

/** `pairs` 1 takes the first pair alone. */
const dpo = (
  name: string,
  trl: {
    readonly loss_type: string
    readonly beta: number
    readonly label_smoothing?: number
    readonly reference?: 'none'
  },
  { pairs = B / 2, ...options }: DPOLossOptions & { readonly pairs?: number },
): Comparison => ({
  name: `DPO, ${name}`,
  draw: (key) => {
    const drawn = randomBatch(key)
    const some = (rows: Matrix): Matrix => [...rows.slice(0, pairs), ...rows.slice(B / 2, B / 2 + pairs)]
    const batch: Batch = {
      logits: some(drawn.logits),
      reference: some(drawn.reference),
      ids: some(drawn.ids),
      mask: some(drawn.mask),
    }
    const ours = (): Numbers =>
      numbersOf(batch.logits, (logits) => {
        const [own, other] = [tokenLogProbs(logits, batch.ids), tokenLogProbs(matrixOf(batch.reference), batch.ids)]
        const mask = behind(batch.mask)
        const half = (x: tf.Tensor, from: number): tf.Tensor => tf.slice(x, [from, 0], [pairs, T - 1])
        const both = (x: tf.Tensor): tf.Tensor =>
          tf.reshape(tf.stack([half(x, 0), half(x, pairs)], 1), [2 * pairs, T - 1])
        return dpoLoss({ beta: trl.beta, ...options }).apply(
          { logProbs: both(own) },
          { refLogProbs: both(other), mask: both(mask) },
        ).lossDpo
      })
    return { asked: asking('dpo', trl, batch), ours }
  },
})

const distillation = (trainer: 'gkd' | 'distillation', beta: number, divergence: VocabularyDivergence): Comparison => ({
  name: `distillation, ${trainer}, beta ${beta}`,
  draw: (key) => {
    const batch = randomBatch(key)
    const ours = (): Numbers =>
      numbersOf(batch.logits, (logits) => {
        const whole = (x: tf.Tensor): tf.Tensor => tf.reshape(x, [B, T, V])
        const each = vocabularyDivergence(whole(logits), whole(matrixOf(batch.reference)), divergence)
        const mask = matrixOf(batch.mask)
        return aggregate(each, { mask, counts: countsOf(mask), aggregation: 'token-mean' })
      })
    return { asked: asking('distillation', { trainer, beta }, batch), ours }
  },
})

/** The ratio is that of whole completions: one row of one "token" for each. */
export const rlooLoss = (randomRows: (key: Key) => PolicyRows): Comparison => ({
  name: 'RLOO, loss',
  draw: (key) => {
    const rows = randomRows(key)
    const sums = (x: tf.Tensor): tf.Tensor => tf.sum(tf.mul(x, matrixOf(rows.mask)), 1, true)
    const loss = policyLoss({ objective: clippedSurrogate({ clipEpsilon: [0.2, 0.3] }) })
    const ours = (): Numbers =>
      numbersOf(rows.logProbs, (x) =>
        totalLoss(
          loss.apply(
            { logProbs: sums(x) },
            {
              oldLogProbs: sums(matrixOf(rows.old)),
              advantages: matrixOf(rows.advantages),
              mask: tf.ones([rows.mask.length, 1]),
            },
          ),
        ),
      )
    const settings = { trainer: 'rloo', loss_type: 'grpo', epsilon: 0.2, epsilon_high: 0.3 }
    return { asked: { kind: 'policy', settings, rows: { ...rows } }, ours }
  },
})

const GROUP = 3
const GROUPS = Array.from({ length: B }, (_, b) => `group ${Math.floor(b / GROUP)}`)

const right = <L, R>(either: E.Either<L, R>): R =>
  E.getOrElse<L, R>((reason) => {
    throw new Error(`no advantages: ${JSON.stringify(reason)}`)
  })(either)

/** Advantages of completions, in the place of a gradient. */
const advantageNumbers = (rows: TokenAdvantages): Numbers => ({
  value: rows.reduce((sum, row) => sum + Math.abs(row[0]!), 0),
  gradient: rows.map((row) => [row[0]!]),
})

/** Rewards `[B, 1]` of completions of one token. */
const randomRewards = (key: Key): Matrix => Array.from(normals(child(key, 'rewards'), B), (reward) => [reward])

const ONES: Matrix = Array.from({ length: B }, () => [1])

const grpo = (
  name: string,
  settings: Readonly<Record<string, unknown>>,
  ours: (rewards: Matrix) => TokenAdvantages,
): Comparison => ({
  name: `advantages, ${name}`,
  draw: (key) => {
    const rewards = randomRewards(key)
    const asked: Asked = {
      kind: 'advantages',
      settings: { trainer: 'grpo', num_generations: GROUP, reward_weights: [1], ...settings },
      rows: { rewards },
    }
    return { asked, ours: () => advantageNumbers(ours(rewards)) }
  },
})

/** With the divergence of whole completions in the rewards. */
const rloo = (name: string, beta: number): Comparison => ({
  name: `advantages, RLOO${name}`,
  draw: (key) => {
    const batch = randomBatch(key)
    const mask = batch.mask.map((row) => [1, ...row.slice(1)])
    const [logProbs, reference] = [batch.logits, batch.reference].map((rows) => rows.map((row) => row.slice(0, T)))
    const rewards = randomRewards(key).map(([reward]) => mask[0]!.map((_, t) => (t === 0 ? reward! : 0)))
    const settings = { trainer: 'rloo', num_generations: GROUP, beta, normalize_advantages: false }
    const ours = (): Numbers => {
      const rows = { rewards, logProbs: logProbs!, reference: reference!, mask }
      const penalized = klPenalizedRewards(rows, { coefficient: beta }).rewards
      return advantageNumbers(right(rlooAdvantage({ groups: GROUPS, rewards: penalized, mask })))
    }
    const rows = { rewards, old: logProbs!, reference: reference!, mask }
    return { asked: { kind: 'advantages', settings, rows }, ours }
  },
})

const added = { epsilon: 1e-4, epsilonRule: 'add' } as const

/** All but those that read GRPO's rows. */
export const OTHER_COMPARISONS: readonly Comparison[] = [
  sft('nll', { loss_type: 'nll' }),
  sft('chunked_nll', { loss_type: 'chunked_nll' }),
  sft('chunked_nll, a part of a batch of 40 tokens', { loss_type: 'chunked_nll', num_items_in_batch: 40 }),
  dpo('sigmoid', { loss_type: 'sigmoid', beta: 0.3 }, {}),
  dpo('sigmoid_norm', { loss_type: 'sigmoid_norm', beta: 0.3 }, { normalizeBySeqLength: 'yes' }),
  dpo('sigmoid, reference of 0', { loss_type: 'sigmoid', beta: 0.3, reference: 'none' }, { reference: 'none' }),
  dpo('ipo', { loss_type: 'ipo', beta: 0.4 }, { form: 'ipo' }),
  dpo(
    'label_smoothing (aot_unpaired of one pair)',
    { loss_type: 'aot_unpaired', beta: 0.3, label_smoothing: 0.2 },
    { labelSmoothing: 0.2, pairs: 1 },
  ),
  ...(['gkd', 'distillation'] as const).flatMap((trainer) => [
    distillation(trainer, 0, 'forward'),
    distillation(trainer, 1, 'reverse'),
    distillation(trainer, 0.3, { teacherShare: 0.3 }),
  ]),
  grpo('GRPO', {}, (rewards) => right(grpoAdvantage({ groups: GROUPS, rewards, mask: ONES }, added))),
  grpo('GRPO without scale', { scale_rewards: 'none' }, (rewards) =>
    right(grpoAdvantage({ groups: GROUPS, rewards, mask: ONES }, { normalize: 'mean' })),
  ),
  rloo('', 0),
  rloo(', divergence in the reward', 0.1),
]
