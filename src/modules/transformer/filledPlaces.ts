/**
 * Places with tokens in a padded segment. Everything but attention is computed for these alone:
 * around attention, rows are put at their places and taken from them.
 */
import * as tf from '@tensorflow/tfjs-core'

/**
 * The computed positions of a padded segment: N of its `P * G * T` places, which include all that
 * hold a token. At least one place is left out, and at least one position is computed for padding.
 */
export interface FilledPlaces {
  /** The place of each computed position, `[N]` int32. */
  readonly places: tf.Tensor
  /**
   * The computed position of each place, `[P * G * T]` int32. Places that are left out have the
   * number of one that is computed for padding.
   */
  readonly positions: tf.Tensor
}

/** Numbers of computed positions are padded to multiples of this. */
const FILLED_STEP = 16

/** Largest share of places that is computed alone. Leaving out fewer costs more than it saves. */
const WORTH = 15 / 16

/**
 * Finds the places that hold tokens, and others to pad their number. Returns undefined if these are
 * most of all. The tensors belong to the enclosing scope.
 */
export const filledPlaces = (mask: Float32Array): FilledPlaces | undefined => {
  const tokens: number[] = []
  for (const [place, on] of mask.entries()) if (on === 1) tokens.push(place)
  const count = Math.ceil((tokens.length + 1) / FILLED_STEP) * FILLED_STEP
  if (count > WORTH * mask.length) return undefined
  const padding = mask.indexOf(0)
  const places = Int32Array.from({ length: count }, (_, i) => tokens[i] ?? padding)
  const positions = new Int32Array(mask.length).fill(tokens.length)
  for (const [position, place] of tokens.entries()) positions[place] = position
  return { places: tf.tensor1d(places, 'int32'), positions: tf.tensor1d(positions, 'int32') }
}

/** Takes rows `[N, D]` of x `[M, D]` by number; `back` has the numbers that undo it, `[M]`. */
const takeRows = (x: tf.Tensor, numbers: tf.Tensor, back: tf.Tensor): tf.Tensor =>
  tf.customGrad((input, save) => {
    // Casts: tfjs types the arguments of a custom gradient as a mixed list of tensors and the save
    // function.
    ;(save as tf.GradSaveFunc)([back])
    return {
      value: tf.gather(input as tf.Tensor, numbers as tf.Tensor1D),
      gradFunc: (dy: tf.Tensor, saved: tf.Tensor[]) => tf.gather(dy, saved[0] as tf.Tensor1D),
    }
  })(x)

/** Copies computed positions `[N, D]` to their places, `[P * G * T, D]`. */
export const toPlaces = (x: tf.Tensor, filled: FilledPlaces | undefined): tf.Tensor =>
  filled === undefined ? x : takeRows(x, filled.positions, filled.places)

/** Takes the computed positions `[N, D]` of `[P * G * T, D]`: the inverse of `toPlaces`. */
export const fromPlaces = (x: tf.Tensor, filled: FilledPlaces | undefined): tf.Tensor =>
  filled === undefined ? x : takeRows(x, filled.places, filled.positions)

/** Takes the numbers of computed positions, `[N]` of `[P * G * T]`, which have no gradient. */
export const numbersAt = (x: tf.Tensor, filled: FilledPlaces | undefined): tf.Tensor =>
  filled === undefined ? x : tf.gather(x, filled.places as tf.Tensor1D) // [N]
