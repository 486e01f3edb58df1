/** Schedules: numbers that change with the step, such as learning rates and coefficients. */

/** Returns the value at a step, counted from 0. */
export type Schedule = (step: number) => number

const requireSteps = (name: string, steps: number): void => {
  if (!Number.isInteger(steps) || steps < 1) throw new RangeError(`${name}: steps must be at least 1, got ${steps}`)
}

/**
 * Returns the same value at every step.
 *
 * Equation $v_s = c$
 * When     for a coefficient, and for a learning rate in short runs; after a `warmUp` for a run
 *          without a fixed length.
 * Used by  Transformers `constant`
 *
 * @example
 * constant(0.1)(1000) // 0.1
 */
export const constant =
  (value: number): Schedule =>
  () =>
    value

/**
 * Changes from `start` to `end` in `steps` equal steps, and stays at `end`.
 *
 * Equation $v_s = a + (b - a) \min(1, s / n)$ with a the start, b the end and n the steps
 * When     to end a run of known length, most often at 0; for a coefficient that should fade.
 * Used by  Transformers `linear`, its default `lr_scheduler_type`
 * Errors   throws RangeError unless `steps` is an integer of at least 1.
 *
 * @example
 * linear(1, 0, 4)(1) // 0.75
 */
export const linear = (start: number, end: number, steps: number): Schedule => {
  requireSteps('linear', steps)
  return (step) => start + (end - start) * Math.min(1, step / steps)
}

/**
 * Follows half a cosine from `start` to `end` over `steps`, and stays at `end`.
 *
 * Equation $v_s = b + \frac{a - b}{2} (1 + \cos(\pi \min(1, s / n)))$ with a the start, b the end
 *          and n the steps
 * When     as `linear`; it stays near its start for longer, and approaches its end slowly.
 * Used by  Transformers `cosine`
 * Errors   as `linear`.
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
 * Rises during `steps` steps to the value of `after` at its step 0, then follows `after`. Step 0 is
 * not 0: it is the first of the `steps` equal parts.
 *
 * Equation $v_s = u_0 \frac{s + 1}{n}$ for the n steps, then $u_{s - n}$, with u the schedule
 *          `after`
 * When     before a schedule of the learning rate, because the moments of an optimizer are based on
 *          few gradients at first.
 * Used by  Transformers `warmup_steps`, whose step 0 is 0
 * Errors   as `linear`.
 *
 * @example
 * warmUp(4, constant(1))(0) // 0.25
 */
export const warmUp = (steps: number, after: Schedule): Schedule => {
  requireSteps('warmUp', steps)
  return (step) => (step < steps ? (after(0) * (step + 1)) / steps : after(step - steps))
}
