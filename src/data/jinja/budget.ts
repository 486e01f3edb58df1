/**
 * How much work one run of a template may do. Templates come from model folders of strangers: nested loops, doubling macros and values that
 * contain each other must end with a failure instead of a stalled process.
 *
 * Work is counted, not timed, so the same template fails for the same conversation on every machine. The budget of the current run is a
 * module variable: a run is synchronous, and handing it through printing, comparing and tracing would give each of them one more parameter.
 */
import { TemplateError } from './templateError.js'

/** Units that every run has: a unit is one step, or eight characters that are read or written. */
const BASE = 2 ** 20

/** Units for each character and each value that a run is given. */
const PER_INPUT = 2 ** 8

const CHARACTERS_PER_UNIT = 8

interface Budget {
  readonly units: number
  left: number
}

let current: Budget | undefined

/** Takes steps off the budget of the current run. Errors: throws TemplateError when it is used up. Outside of a run nothing is counted. */
export const spend = (steps: number): void => {
  if (current === undefined) return
  current.left -= steps
  if (current.left < 0) throw new TemplateError(`the template does more than ${current.units} steps of work`)
}

/** Takes characters that are read or written off the budget. */
export const spendCharacters = (count: number): void => spend(count / CHARACTERS_PER_UNIT)

/** Runs with a budget for an input of so many characters and values. */
export const withBudget = <T>(inputSize: number, run: () => T): T => {
  const outer = current
  const units = BASE + PER_INPUT * inputSize
  current = { units, left: units }
  try {
    return run()
  } finally {
    current = outer
  }
}
