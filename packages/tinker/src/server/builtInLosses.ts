/** The losses that the server computes: sums over tokens, as the Tinker protocol defines them. */
import { stopGradient } from '@tandem-rl/tfjs-onnxruntime'
import { tf } from 'tandem-rl'
import type { LossRows, PlaceLoss, TrainedModel } from 'tandem-rl/objectives'
import type { Datum, LossConfig } from '../protocol/values.js'

type LossTerms = Parameters<PlaceLoss>[0]

type MicroBatches = Parameters<TrainedModel['compute']>[0]['parts']

interface BuiltInLoss {
  /** Inputs of each datum besides `target_tokens` and the optional `mask`. */
  readonly inputs: readonly string[]
  /** Settings with their defaults. */
  readonly settings: Readonly<Record<string, number>>
  /** Its inputs are `[B, T]`, its settings `[B, 1]`. */
  readonly losses: PlaceLoss
}

const ratio = ({ logProbs, input }: LossTerms): tf.Tensor => tf.exp(tf.sub(logProbs, input('logprobs')))

const clipped = (terms: LossTerms): tf.Tensor =>
  tf.minimum(tf.maximum(ratio(terms), terms.input('clip_low_threshold')), terms.input('clip_high_threshold'))

const RL_INPUTS = ['logprobs', 'advantages'] as const

/**
 * The losses by name, with the defaults of the hosted service.
 *
 * Source   tinker-cookbook, "Loss functions".
 */
const LOSSES: Readonly<Record<string, BuiltInLoss>> = {
  cross_entropy: {
    inputs: ['weights'],
    settings: {},
    losses: ({ logProbs, input }) => tf.neg(tf.mul(logProbs, input('weights'))),
  },
  importance_sampling: {
    inputs: RL_INPUTS,
    settings: {},
    losses: (terms) => tf.neg(tf.mul(ratio(terms), terms.input('advantages'))),
  },
  ppo: {
    inputs: RL_INPUTS,
    settings: { clip_low_threshold: 0.8, clip_high_threshold: 1.2 },
    losses: (terms) => {
      const advantages = terms.input('advantages')
      return tf.neg(tf.minimum(tf.mul(ratio(terms), advantages), tf.mul(clipped(terms), advantages)))
    },
  },
  cispo: {
    inputs: RL_INPUTS,
    settings: { clip_low_threshold: 0, clip_high_threshold: 4 },
    losses: (terms) => tf.neg(tf.mul(tf.mul(stopGradient(clipped(terms)), terms.logProbs), terms.input('advantages'))),
  },
  dro: {
    inputs: RL_INPUTS,
    settings: { beta: 0.05 },
    losses: (terms) => {
      const apart = tf.square(tf.sub(terms.logProbs, terms.input('logprobs')))
      const pull = tf.mul(tf.mul(apart, terms.input('beta')), 0.5)
      return tf.sub(pull, tf.mul(terms.logProbs, terms.input('advantages')))
    },
  },
}

/** The names of the losses. */
const BUILT_IN_LOSSES: readonly string[] = Object.keys(LOSSES)

/** The losses, without the tokens that the input `mask` leaves out. Every row has one. */
export const MASKED_LOSSES: Readonly<Record<string, PlaceLoss>> = Object.fromEntries(
  Object.entries(LOSSES).map(([name, { losses }]) => [name, (terms) => tf.mul(losses(terms), terms.input('mask'))]),
)

const datumProblem = (
  { tokens, inputs }: Datum,
  { needed, limits }: { readonly needed: readonly string[]; readonly limits: RowLimits },
): string | undefined => {
  const { length } = tokens
  if (length === 0) return 'model_input is empty'
  if (length > limits.maxLength) return `model_input has ${length} tokens, and the model reads ${limits.maxLength}`
  const missing = needed.filter((name) => inputs[name] === undefined)
  if (missing.length > 0) return `loss_fn_inputs lacks ${missing.join(', ')}`
  const known = new Set([...needed, 'mask'])
  const unknown = Object.keys(inputs).filter((name) => !known.has(name))
  if (unknown.length > 0) return `loss_fn_inputs has ${unknown.join(', ')}, and the loss reads ${[...known].join(', ')}`
  for (const [name, { data, shape }] of Object.entries(inputs)) {
    if (shape.length !== 1 || data.length !== length)
      return `${name} has the shape [${shape.join()}], expected [${length}]: one number for each token`
    if (Array.prototype.some.call(data, (x: number) => !Number.isFinite(x))) return `${name} is not finite`
  }
  const isToken = (id: number): boolean => Number.isInteger(id) && id >= 0 && id < limits.vocabularySize
  for (const ids of [tokens, inputs.target_tokens!.data]) {
    const wrong = Array.prototype.find.call(ids, (id: number) => !isToken(id)) as number | undefined // of an array of numbers
    if (wrong !== undefined) return `token ${wrong} is not in the model's vocabulary of ${limits.vocabularySize} tokens`
  }
  return undefined
}

interface RowLimits {
  readonly maxLength: number
  readonly vocabularySize: number
}

/**
 * Everything that is wrong with a request to compute a loss; undefined for one that can be
 * computed.
 */
export const lossProblem = (
  request: { readonly data: readonly Datum[]; readonly lossFn: string; readonly lossConfig: LossConfig },
  limits: RowLimits,
): string | undefined => {
  const { data, lossFn, lossConfig } = request
  const loss = Object.hasOwn(LOSSES, lossFn) ? LOSSES[lossFn] : undefined
  if (loss === undefined) return `there is no loss_fn ${lossFn}; the losses are ${BUILT_IN_LOSSES.join(', ')}`
  for (const [name, value] of Object.entries(lossConfig)) {
    if (!Object.hasOwn(loss.settings, name))
      return `${lossFn} has no setting ${name}; its settings are ${Object.keys(loss.settings).join(', ') || 'none'}`
    if (typeof value !== 'number' || !Number.isFinite(value)) return `${name} must be a finite number, got ${value}`
  }
  if (data.length === 0) return 'data is empty'
  const needed = ['target_tokens', ...loss.inputs]
  const problems = data.map((datum) => datumProblem(datum, { needed, limits }))
  const first = problems.findIndex((problem) => problem !== undefined)
  return first < 0 ? undefined : `data[${first}]: ${problems[first]}`
}

/** Lengths are computed in steps of so many tokens. */
const LENGTH_STEP = 16

/** A token that no gradient comes from. */
const PADDING: Datum = { tokens: [0], inputs: {} }

const powerOfTwo = (most: number): number => 2 ** Math.floor(Math.log2(Math.max(1, most)))

/**
 * Rows of a checked request, in micro-batches whose sizes are powers of two. The first token of a
 * datum is the prompt. Its other tokens follow as the completion, whose last place is not read.
 */
export const lossRows = (
  {
    data,
    lossFn,
    lossConfig,
  }: { readonly data: readonly Datum[]; readonly lossFn: string; readonly lossConfig: LossConfig },
  tokens: number,
): MicroBatches => {
  const longest = data.reduce((most, datum) => Math.max(most, datum.tokens.length), 1)
  const width = Math.ceil(longest / LENGTH_STEP) * LENGTH_STEP
  const needed = powerOfTwo(data.length) < data.length ? 2 * powerOfTwo(data.length) : powerOfTwo(data.length)
  const size = Math.min(powerOfTwo(tokens / (LENGTH_STEP + width)), needed)
  return Array.from({ length: Math.ceil(data.length / size) }, (_, i) => {
    const part = data.slice(i * size, (i + 1) * size)
    const padding = Array.from({ length: size - part.length }, () => PADDING)
    return { rows: rowsOf([...part, ...padding], lossFn, lossConfig), count: part.length }
  })
}

const rowsOf = (data: readonly Datum[], lossFn: string, lossConfig: LossConfig): LossRows => {
  const { inputs, settings } = LOSSES[lossFn]!
  const listed = (name: string): readonly ArrayLike<number>[] => data.map((datum) => datum.inputs[name]?.data ?? [0])
  return {
    prompts: data.map(({ tokens }) => [tokens[0]!]),
    shared: 1,
    completions: data.map(({ tokens }) => [...Array.prototype.slice.call(tokens, 1), 0] as number[]), // ids are numbers
    temperature: 1,
    lists: {
      targets: listed('target_tokens'),
      mask: data.map(
        (datum) => datum.inputs.mask?.data ?? new Float32Array(datum.tokens.length).fill(datum === PADDING ? 0 : 1),
      ),
      ...Object.fromEntries(inputs.map((name) => [name, listed(name)])),
      ...Object.fromEntries(
        Object.entries(settings).map(([name, otherwise]) => [
          name,
          data.map(() => Number(lossConfig[name] ?? otherwise)),
        ]),
      ),
    },
  }
}
