/** The masks of a lane: which positions each row attends to, by window. */
import { MASKED } from '@tandem-rl/tfjs-onnxruntime'

/** The size of a lane: the tokens of each row, and the capacity of its arrays. */
export interface LaneExtent {
  /** Number of tokens of each row; dense. */
  readonly lengths: readonly number[]
  readonly rows: () => number
  readonly places: () => number
}

/** Masks that are kept between steps. */
export interface LaneMasks {
  /** Returns the mask of a window, `[rows, places]`. `null`: without a window. */
  readonly of: (window: number | null) => Float32Array
  /** Updates the masks after a new token of a row. */
  readonly onToken: (row: number) => void
  /** Makes the masks anew at the next use, because rows or positions have changed. */
  readonly clear: () => void
}

/**
 * Makes the masks of a lane. A row attends to its own positions inside the window, and to the token
 * of the step at position 0.
 */
export const laneMasks = ({ lengths, rows, places }: LaneExtent): LaneMasks => {
  const masks = new Map<number | null, Float32Array>()

  const make = (window: number | null): Float32Array => {
    const mask = new Float32Array(rows() * places()).fill(MASKED)
    for (let row = 0; row < rows(); row++) {
      const [start, length] = [row * places(), lengths[row] ?? 0]
      mask[start] = 0
      mask.fill(0, start + 1 + (window === null ? 0 : Math.max(0, length + 1 - window)), start + 1 + length)
    }
    return mask
  }

  return {
    of: (window) => {
      const mask = masks.get(window) ?? make(window)
      masks.set(window, mask)
      return mask
    },
    onToken: (row) => {
      const [start, length] = [row * places(), lengths[row]!] // with the new token
      for (const [window, mask] of masks) {
        if (window === null || window > 1) mask[start + length] = 0
        if (window !== null && length + 1 - window > 0) mask[start + length + 1 - window] = MASKED
      }
    },
    clear: () => masks.clear(),
  }
}
