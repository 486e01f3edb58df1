/**
 * The arithmetic of a word problem: a start and a chain of steps whose running totals stay between
 * 0 and 99.
 */
import { child, type Key, uniformInteger } from '@tandem-rl/base'

export type ProblemOperation = 'add' | 'subtract' | 'multiply'

/** The largest running total. The smallest is 0. */
export const LARGEST_TOTAL = 99

/** One operation: `before` and `operand` give `after`. */
interface Step {
  readonly operation: ProblemOperation
  readonly operand: number
  readonly before: number
  readonly after: number
}

/**
 * A chain of operations. `before` of the first step is `start`, and of each later step the `after`
 * of the one before it.
 */
export interface ProblemPlan {
  readonly start: number
  readonly steps: readonly Step[]
}

/** The limits of a plan. */
export interface PlanLimits {
  readonly minSteps: number
  readonly maxSteps: number
  /** The largest operand and the largest start; the smallest is 1, for a product 2. */
  readonly maxNumber: number
  readonly operations: readonly ProblemOperation[]
}

const apply = (operation: ProblemOperation, total: number, operand: number): number => {
  switch (operation) {
    case 'add':
      return total + operand
    case 'subtract':
      return total - operand
    case 'multiply':
      return total * operand
  }
}

const range = (first: number, last: number): readonly number[] =>
  Array.from({ length: Math.max(0, last - first + 1) }, (_, i) => first + i)

/**
 * Returns every step of one operation from `before` that stays in range. Multiplying 0 is excluded,
 * because it changes nothing.
 */
const stepsOf = (operation: ProblemOperation, before: number, maxNumber: number): readonly Step[] => {
  if (operation === 'multiply' && before === 0) return []
  return range(operation === 'multiply' ? 2 : 1, maxNumber)
    .map((operand) => ({ operation, operand, before, after: apply(operation, before, operand) }))
    .filter(({ after }) => after >= 0 && after <= LARGEST_TOTAL)
}

/** Returns a table whose element `[n][total]` is true if `n` steps can follow `total`. */
const reachTable = ({ operations, maxNumber, maxSteps }: PlanLimits): readonly (readonly boolean[])[] => {
  const totals = range(0, LARGEST_TOTAL)
  const table: (readonly boolean[])[] = [totals.map(() => true)]
  for (const n of range(1, maxSteps)) {
    const fewer = table[n - 1]!
    table.push(
      totals.map((total) =>
        operations.some((operation) => stepsOf(operation, total, maxNumber).some(({ after }) => fewer[after]!)),
      ),
    )
  }
  return table
}

const pick = <T>(choices: readonly T[], key: Key): T => choices[uniformInteger(key, choices.length)]!

const checkLimits = ({ minSteps, maxSteps, maxNumber, operations }: PlanLimits): void => {
  const refuse = (what: string): never => {
    throw new RangeError(`planner: ${what}`)
  }
  if (!Number.isInteger(minSteps) || minSteps < 1) refuse(`minSteps must be an integer from 1, got ${minSteps}`)
  if (!Number.isInteger(maxSteps) || maxSteps < minSteps || maxSteps > 10) {
    refuse(`maxSteps must be an integer from minSteps (${minSteps}) to 10, got ${maxSteps}`)
  }
  if (!Number.isInteger(maxNumber) || maxNumber < 1 || maxNumber > LARGEST_TOTAL) {
    refuse(`maxNumber must be an integer from 1 to ${LARGEST_TOTAL}, got ${maxNumber}`)
  }
  if (operations.length === 0 || new Set(operations).size < operations.length) {
    refuse(`operations must be at least one, and each only once, got [${operations.join()}]`)
  }
}

/**
 * Returns the pure function from keys to plans within limits.
 *
 * The number of steps is uniform. The start, then the operation of each step, then its operand are
 * each uniform among those that can still be completed, so no draw is rejected.
 *
 * Errors   throws RangeError for invalid limits, and for limits that no plan of `maxSteps` steps
 *          meets.
 * Cost     a table of 100 x `maxSteps` entries, made once.
 */
export const planner = (limits: PlanLimits): ((key: Key) => ProblemPlan) => {
  checkLimits(limits)
  const { minSteps, maxSteps, maxNumber, operations } = limits
  const reach = reachTable(limits)
  const startsOf = (length: number): readonly number[] => range(1, maxNumber).filter((start) => reach[length]![start]!)
  if (startsOf(maxSteps).length === 0) {
    throw new RangeError(
      `planner: no chain of ${maxSteps} x [${operations.join()}] with numbers to ${maxNumber} stays in 0 to ${LARGEST_TOTAL}`,
    )
  }
  return (key) => {
    const length = minSteps + uniformInteger(child(key, 'length'), maxSteps - minSteps + 1)
    const start = pick(startsOf(length), child(key, 'start'))
    const steps: Step[] = []
    for (const index of range(0, length - 1)) {
      const total = steps.at(-1)?.after ?? start
      const possible = operations
        .map((operation) =>
          stepsOf(operation, total, maxNumber).filter(({ after }) => reach[length - 1 - index]![after]!),
        )
        .filter((choices) => choices.length > 0)
      const stepKey = child(key, index)
      steps.push(pick(pick(possible, child(stepKey, 'operation')), child(stepKey, 'operand')))
    }
    return { start, steps }
  }
}
