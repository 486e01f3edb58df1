/** Cosines and sines of the rotary embeddings of a model. */
import type { RotaryTable } from '@tandem-rl/tfjs-onnxruntime'
import * as tf from '@tensorflow/tfjs-core'
import type { DecoderConfig, RopeScaling, RotaryDescription } from './config/description.js'

/** Tables by name: `global`, and `local` if layers with a window use other angles. */
export type RotaryTables = Readonly<Record<string, RotaryTable>>

const fround = Math.fround

/** Computes `base ^ (-2 i / width)`, rounded to float32 after each operation like the reference. */
const plainFrequencies = (theta: number, width: number): Float32Array =>
  Float32Array.from({ length: width / 2 }, (_, i) => fround(1 / fround(theta ** fround((2 * i) / width))))

type Scaling<T extends RopeScaling['type']> = Extract<RopeScaling, { readonly type: T }>

/**
 * Scales a frequency: long waves are stretched, short ones kept, and those in between interpolated.
 */
const llama3Frequency = (frequency: number, scaling: Scaling<'llama3'>): number => {
  const { factor, lowFrequencyFactor: low, highFrequencyFactor: high, trainedLength } = scaling
  const wave = fround((2 * Math.PI) / frequency)
  if (wave < fround(trainedLength / high)) return frequency
  if (wave > fround(trainedLength / low)) return fround(frequency / factor)
  const smooth = fround(fround(fround(trainedLength / wave) - low) / (high - low))
  return fround(fround(fround(fround(1 - smooth) * frequency) / factor) + fround(smooth * frequency))
}

/** Returns the first and last feature between the stretched and the unchanged ones. */
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

/** Returns the angle per position of each pair of features, for sequences of a length. */
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
   * Length of the longest sequence in tokens, without padding. Only `dynamic` and `longrope`
   * scaling depend on it, and only beyond the trained length. Default: the number of positions.
   */
  readonly sequenceLength?: number
}

/**
 * Computes cosines and sines for positions `0 .. length - 1`, `[length, width / 2]` each, for each
 * rotary embedding of a model. A model with learned positions has no tables. Uses float32
 * arithmetic like the reference.
 *
 * If the frequencies depend on the length of the sequence, they are those of Transformers' forward
 * pass over a whole sequence of that length. Keys rotated by the table of a shorter sequence do not
 * match the table of a longer one, so a sequence that grows past the trained length must be
 * computed again.
 *
 * Effects  makes two tensors per table, which belong to the enclosing scope.
 * Source   Su et al. 2021, arXiv:2104.09864; scaling as in `modeling_rope_utils.py` of Transformers
 *          5.17: linear and dynamic NTK, YaRN (arXiv:2309.00071), LongRoPE (arXiv:2402.13753),
 *          Llama 3.1.
 */
export const rotaryTables = (config: DecoderConfig, length: number, options: RotaryTableOptions = {}): RotaryTables =>
  Object.fromEntries(
    Object.entries(config.rotary).map(([name, rotary]) => [
      name,
      tableOf(rotary, length, options.sequenceLength ?? length),
    ]),
  )

/** Returns a table by its name. Throws an Error if the model has none of it. */
export const tableNamed = (tables: RotaryTables, name: string): RotaryTable => {
  const table = tables[name]
  if (table === undefined) throw new Error(`forward: the rotary table '${name}' is missing (see rotaryTables)`)
  return table
}
