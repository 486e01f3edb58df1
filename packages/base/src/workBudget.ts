/**
 * Limits on the work that a template or a tokenizer of an untrusted model folder may do in one run.
 *
 * Work is counted, not timed, so the same input fails on every machine. The budget of the current
 * run is a variable of the counter: runs are synchronous, and passing it through every function
 * would add a parameter to each.
 */

/**
 * The units of work of every run. A unit is one step, or eight characters that are read or written.
 */
const BASE = 2 ** 20

/** The units of work for each character or value of the input. */
const PER_INPUT = 2 ** 8

const CHARACTERS_PER_UNIT = 8

/** Counts the work of runs. Outside of a run, nothing is counted. */
export interface WorkCounter {
  /**
   * Subtracts steps from the budget of the current run. Throws the counter's error when the budget
   * is used up.
   */
  readonly spend: (steps: number) => void
  /** Subtracts characters from the budget of the current run. Throws like `spend`. */
  readonly spendCharacters: (count: number) => void
  /** Runs a function with a budget for an input of `inputSize` characters and values. */
  readonly withBudget: <T>(inputSize: number, run: () => T) => T
}

/** The units of work of a run: some in every run, and some for each unit of its input's size. */
interface WorkUnits {
  readonly base: number
  readonly perInput: number
}

/** Creates a counter. `exceeded` creates the error of a run that needs more than `units` steps. */
export const workCounter = (
  exceeded: (units: number) => Error,
  { base, perInput }: WorkUnits = { base: BASE, perInput: PER_INPUT },
): WorkCounter => {
  let current: { readonly units: number; left: number } | undefined
  const spend = (steps: number): void => {
    if (current === undefined) return
    current.left -= steps
    if (current.left < 0) throw exceeded(current.units)
  }
  return {
    spend,
    spendCharacters: (count) => spend(count / CHARACTERS_PER_UNIT),
    withBudget: (inputSize, run) => {
      const outer = current
      const units = base + perInput * inputSize
      current = { units, left: units }
      try {
        return run()
      } finally {
        current = outer
      }
    },
  }
}
