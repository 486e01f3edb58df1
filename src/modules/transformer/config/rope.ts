/** The rotary embedding of a `config.json`: its base and scaling, in the old and the new format. */
import * as E from 'fp-ts/lib/Either.js'
import { z } from 'zod'
import type { RopeScaling, RotaryDescription } from './description.js'
import { eitherField, optionalField, positiveNumber, readEveryField, size } from './fields.js'

/**
 * The fields of a family's rotary embedding: `rope_scaling` with `rope_theta` (old), or
 * `rope_parameters` (Transformers 5).
 */
export const ropeFields = {
  rope_theta: optionalField(positiveNumber),
  rope_scaling: optionalField(z.record(z.string(), z.unknown())),
  rope_parameters: optionalField(z.record(z.string(), z.unknown())),
  original_max_position_embeddings: optionalField(size),
}

/**
 * Returns the parameters of a file's only rotary embedding. The older format takes precedence, as
 * in Transformers.
 */
export const ropeParameters = (raw: {
  readonly rope_theta: number | null
  readonly rope_scaling: Readonly<Record<string, unknown>> | null
  readonly rope_parameters: Readonly<Record<string, unknown>> | null
}): Readonly<Record<string, unknown>> => {
  const { rope_scaling: scaling, rope_parameters: parameters } = raw
  const settings = scaling !== null && Object.keys(scaling).length > 0 ? scaling : parameters
  return { rope_theta: raw.rope_theta, ...settings }
}

const factors = z.array(positiveNumber).max(65536)

const parameterFields = {
  rope_type: z.string().nullish(),
  type: z.string().nullish(),
  rope_theta: optionalField(positiveNumber),
  partial_rotary_factor: optionalField(positiveNumber),
  factor: optionalField(positiveNumber),
  original_max_position_embeddings: optionalField(size),
  low_freq_factor: optionalField(positiveNumber),
  high_freq_factor: optionalField(positiveNumber),
  attention_factor: optionalField(positiveNumber),
  mscale: optionalField(z.number()),
  mscale_all_dim: optionalField(z.number()),
  beta_fast: optionalField(z.number().nonnegative()),
  beta_slow: optionalField(z.number().nonnegative()),
  truncate: eitherField(z.boolean(), true),
  short_factor: optionalField(factors),
  long_factor: optionalField(factors),
}

type Parameters = z.output<z.ZodObject<typeof parameterFields>>

/** The other values of a config that a rotary embedding needs. */
export interface RopeContext {
  readonly headSize: number
  readonly maxPositions: number
  /** The default base. */
  readonly defaultTheta: number
  readonly originalMaxPositions: number | null
  /**
   * Default share of each head that is rotated, and whether the family supports partial rotation.
   */
  readonly partial: { readonly factor: number; readonly allowed: 'any' | 'whole' }
}

const yarnMagnitude = (factor: number, weight: number): number =>
  factor <= 1 ? 1 : 0.1 * weight * Math.log(factor) + 1

const yarnAttention = (
  { attention_factor: given, mscale, mscale_all_dim: all }: Parameters,
  factor: number,
): number => {
  if (given !== null) return given
  return mscale && all ? yarnMagnitude(factor, mscale) / yarnMagnitude(factor, all) : yarnMagnitude(factor, 1)
}

interface Stretch {
  readonly scaling: RopeScaling
  readonly attentionFactor: number
}

const plain = (scaling: RopeScaling): E.Either<string, Stretch> => E.right({ scaling, attentionFactor: 1 })

const longrope = (given: Parameters, context: RopeContext, trainedLength: number): E.Either<string, Stretch> => {
  const { short_factor: shortFactors, long_factor: longFactors } = given
  if (shortFactors === null || longFactors === null) {
    return E.left("rope type 'longrope' needs short_factor and long_factor")
  }
  const factor = given.factor ?? context.maxPositions / trainedLength
  const computed = factor <= 1 ? 1 : Math.sqrt(1 + Math.log(factor) / Math.log(trainedLength))
  const scaling = { type: 'longrope', shortFactors, longFactors, trainedLength } as const
  return E.right({ scaling, attentionFactor: given.attention_factor ?? computed })
}

const llama3 = (given: Parameters, trainedLength: number): E.Either<string, Stretch> => {
  const { factor, low_freq_factor: low, high_freq_factor: high } = given
  if (factor === null || low === null || high === null) {
    return E.left("rope type 'llama3' needs factor, low_freq_factor and high_freq_factor")
  }
  if (high <= low) return E.left(`high_freq_factor ${high} is not above low_freq_factor ${low}`)
  return plain({ type: 'llama3', factor, lowFrequencyFactor: low, highFrequencyFactor: high, trainedLength })
}

const yarn = (given: Parameters, context: RopeContext): E.Either<string, Stretch> => {
  const original = context.originalMaxPositions ?? given.original_max_position_embeddings
  // Transformers derives a factor that is null.
  const factor = given.factor ?? (original === null ? null : context.maxPositions / original)
  if (factor === null) return E.left("rope type 'yarn' needs a factor, or original_max_position_embeddings")
  const scaling = {
    type: 'yarn',
    factor,
    betaFast: given.beta_fast || 32,
    betaSlow: given.beta_slow || 1,
    bounds: given.truncate ? 'rounded' : 'exact',
    trainedLength: original ?? context.maxPositions,
  } as const
  return E.right({ scaling, attentionFactor: yarnAttention(given, factor) })
}

const stretchOf = (type: string, given: Parameters, context: RopeContext): E.Either<string, Stretch> => {
  const trainedLength = context.originalMaxPositions ?? given.original_max_position_embeddings ?? context.maxPositions
  const { factor } = given
  const withFactor = (f: (factor: number) => E.Either<string, Stretch>): E.Either<string, Stretch> =>
    factor === null ? E.left(`rope type '${type}' needs a factor`) : f(factor)
  switch (type) {
    case 'default':
      return plain({ type })
    case 'linear':
      return withFactor((f) => plain({ type, factor: f }))
    case 'dynamic':
      return withFactor((f) => plain({ type, factor: f, trainedLength: context.maxPositions }))
    case 'llama3':
      return llama3(given, trainedLength)
    case 'yarn':
      return yarn(given, context)
    case 'longrope':
      return longrope(given, context, trainedLength)
    default:
      return E.left(`not supported: rope type '${type}' (supported: default, linear, dynamic, llama3, yarn, longrope)`)
  }
}

const widthOf = (given: Parameters, { headSize, partial }: RopeContext): E.Either<string, number> => {
  const factor = given.partial_rotary_factor ?? partial.factor
  if (factor !== 1 && partial.allowed === 'whole') return E.left(`not supported: partial_rotary_factor ${factor}`)
  const width = Math.trunc(headSize * factor)
  return width >= 2 && width <= headSize && width % 2 === 0
    ? E.right(width)
    : E.left(
        `head size ${headSize}: ${width} of its features are rotated, which is not an even number from 2 to ${headSize}`,
      )
}

/**
 * Makes a rotary embedding from its parameters (`rope_parameters`, or the older `rope_scaling`).
 *
 * Errors   `Left` with a message that names the missing, unknown or unsupported part.
 * Source   `modeling_rope_utils.py` of Transformers 5.17.
 */
export const rotaryOf = (
  parameters: Readonly<Record<string, unknown>>,
  context: RopeContext,
): E.Either<string, RotaryDescription> => {
  const read = readEveryField(parameterFields, parameters, ['finetuned'])
  if (E.isLeft(read)) return E.left(`rope parameters: ${read.left}`)
  const given = read.right
  const type = given.rope_type ?? given.type ?? 'default'
  const width = widthOf(given, context)
  if (E.isLeft(width)) return width
  const stretch = stretchOf(type, given, context)
  if (E.isLeft(stretch)) return stretch
  const { scaling } = stretch.right
  if (scaling.type === 'dynamic' && width.right === 2)
    return E.left("rope type 'dynamic' needs more than 2 rotated features")
  const lists = scaling.type === 'longrope' ? [scaling.shortFactors, scaling.longFactors] : []
  const uneven = lists.find((list) => list.length !== width.right / 2)
  if (uneven !== undefined) {
    return E.left(`a list of longrope has ${uneven.length} factors for ${width.right / 2} frequencies`)
  }
  return E.right({ theta: given.rope_theta ?? context.defaultTheta, width: width.right, ...stretch.right })
}
