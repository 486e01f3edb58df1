/** Numbers that change with the step: learning rates and coefficients. */

/** The value at a step, counted from 0. */
export type Schedule = (step: number) => number

const requireSteps = (name: string, steps: number): void => {
  if (!Number.isInteger(steps) || steps < 1) throw new RangeError(`${name}: steps must be at least 1, got ${steps}`)
}

/** The same value at every step. */
export const constant =
  (value: number): Schedule =>
  () =>
    value

/**
 * From `start` to `end` in `steps` equal steps, and `end` from then on.
 *
 * @example
 * linear(1, 0, 4)(1) // 0.75
 */
export const linear = (start: number, end: number, steps: number): Schedule => {
  requireSteps('linear', steps)
  return (step) => start + (end - start) * Math.min(1, step / steps)
}

/**
 * Half a cosine from `start` to `end` over `steps`, and `end` from then on.
 *
 * Source   Loshchilov and Hutter 2017, arXiv:1608.03983, equation 5, without restarts.
 *
 * @example
 * cosine(1, 0, 4)(2) // 0.5
 */
export const cosine = (start: number, end: number, steps: number): Schedule => {
  requireSteps('cosine', steps)
  return (step) => end + (start - end) * 0.5 * (1 + Math.cos(Math.PI * Math.min(1, step / steps)))
}

/**
 * Rises to the value that `after` has at its step 0 during `steps` steps, then follows `after`. Step 0 is not 0: it is the first of the
 * `steps` equal parts.
 *
 * @example
 * warmUp(4, constant(1))(0) // 0.25
 */
export const warmUp = (steps: number, after: Schedule): Schedule => {
  requireSteps('warmUp', steps)
  return (step) => (step < steps ? (after(0) * (step + 1)) / steps : after(step - steps))
}
