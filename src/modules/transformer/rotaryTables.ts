/** Cosines and sines of the rotary embeddings of a model. */
import * as tf from '@tensorflow/tfjs-core'
import type { RotaryTable } from '../../engine/ops/rotary.js'
import type { DecoderConfig, RopeScaling, RotaryDescription } from './config/description.js'

/** Tables by the name that a layer asks for: `global`, and `local` where layers with a window turn by other angles. */
export type RotaryTables = Readonly<Record<string, RotaryTable>>

const fround = Math.fround

/** `base ^ (-2 i / width)`, rounded to float32 after each operation as the reference does. */
const plainFrequencies = (theta: number, width: number): Float32Array =>
  Float32Array.from({ length: width / 2 }, (_, i) => fround(1 / fround(theta ** fround((2 * i) / width))))

type Scaling<T extends RopeScaling['type']> = Extract<RopeScaling, { readonly type: T }>

/** Long waves are stretched, short ones are left, those between are mixed. */
const llama3Frequency = (frequency: number, scaling: Scaling<'llama3'>): number => {
  const { factor, lowFrequencyFactor: low, highFrequencyFactor: high, trainedLength } = scaling
  const wave = fround((2 * Math.PI) / frequency)
  if (wave < fround(trainedLength / high)) return frequency
  if (wave > fround(trainedLength / low)) return fround(frequency / factor)
  const smooth = fround(fround(fround(trainedLength / wave) - low) / (high - low))
  return fround(fround(fround(fround(1 - smooth) * frequency) / factor) + fround(smooth * frequency))
}

/** The first and the last feature between those that are stretched and those that are left. */
const yarnBounds = (rotary: RotaryDescription, scaling: Scaling<'yarn'>): readonly [number, number] => {
  const { theta, width } = rotary
  const feature = (turns: number): number =>
    (width * Math.log(scaling.trainedLength / (turns * 2 * Math.PI))) / (2 * Math.log(theta))
  const [low, high] = [feature(scaling.betaFast), feature(scaling.betaSlow)]
  const rounded = scaling.bounds === 'rounded'
  return [Math.max(rounded ? Math.floor(low) : low, 0), Math.min(rounded ? Math.ceil(high) : high, width - 1)]
}

const yarnFrequencies = (rotary: RotaryDescription, scaling: Scaling<'yarn'>): Float32Array => {
  const [low, high] = yarnBounds(rotary, scaling)
  const span = low === high ? 0.001 : high - low
  return Float32Array.from({ length: rotary.width / 2 }, (_, i) => {
    const wave = fround(rotary.theta ** fround((2 * i) / rotary.width))
    const kept = fround(1 - Math.min(1, Math.max(0, fround(fround(i - low) / span))))
    const stretched = fround(1 / fround(scaling.factor * wave))
    return fround(fround(stretched * fround(1 - kept)) + fround(fround(1 / wave) * kept))
  })
}

/** Angles by which one position turns each pair of features, for sequences of a length. */
const frequenciesOf = (rotary: RotaryDescription, sequenceLength: number): Float32Array => {
  const { theta, width, scaling } = rotary
  switch (scaling.type) {
    case 'default':
      return plainFrequencies(theta, width)
    case 'linear':
      return plainFrequencies(theta, width).map((frequency) => fround(frequency / scaling.factor))
    case 'dynamic': {
      const { factor, trainedLength } = scaling
      const growth = (factor * Math.max(sequenceLength, trainedLength)) / trainedLength - (factor - 1)
      return plainFrequencies(theta * growth ** (width / (width - 2)), width)
    }
    case 'llama3':
      return plainFrequencies(theta, width).map((frequency) => llama3Frequency(frequency, scaling))
    case 'yarn':
      return yarnFrequencies(rotary, scaling)
    case 'longrope': {
      const factors = sequenceLength > scaling.trainedLength ? scaling.longFactors : scaling.shortFactors
      return Float32Array.from(factors, (factor, i) =>
        fround(1 / fround(fround(factor) * fround(theta ** fround((2 * i) / width)))),
      )
    }
  }
}

const tableOf = (rotary: RotaryDescription, length: number, sequenceLength: number): RotaryTable => {
  const frequencies = frequenciesOf(rotary, sequenceLength)
  const half = frequencies.length
  const angle = (i: number): number => fround(Math.floor(i / half) * frequencies[i % half]!)
  const table = (f: (x: number) => number): tf.Tensor =>
    tf.tensor2d(
      Float32Array.from({ length: length * half }, (_, i) => fround(f(angle(i))) * rotary.attentionFactor),
      [length, half],
    )
  return { cos: table(Math.cos), sin: table(Math.sin) }
}

export interface RotaryTableOptions {
  /**
   * Tokens of the longest sequence that the tables are for, without padding. Only `dynamic` and `longrope` scaling depend on it, and only
   * beyond the length that the model was trained on. By default the number of positions.
   */
  readonly sequenceLength?: number
}

/**
 * Cosines and sines for positions `0 .. length - 1`, `[length, width / 2]` each, for each rotary embedding of a model; none for a model
 * with learned positions. In float32 arithmetic as the reference does it.
 *
 * Where the frequencies depend on the length of the sequence, they are those of Transformers' forward pass over a whole sequence of that
 * length. Keys that were turned by the table of a shorter sequence do not fit a table for a longer one: a sequence that grows past the
 * trained length would have to be computed anew.
 *
 * Effects  makes two tensors for each table that belong to the enclosing scope.
 * Source   Su et al. 2021, arXiv:2104.09864; scaling as in `modeling_rope_utils.py` of Transformers 5.17: linear and dynamic NTK, YaRN
 *          (arXiv:2309.00071), LongRoPE (arXiv:2402.13753), Llama 3.1.
 */
export const rotaryTables = (config: DecoderConfig, length: number, options: RotaryTableOptions = {}): RotaryTables =>
  Object.fromEntries(
    Object.entries(config.rotary).map(([name, rotary]) => [
      name,
      tableOf(rotary, length, options.sequenceLength ?? length),
    ]),
  )
