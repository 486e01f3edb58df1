/** Checks for leaked tensors and owned values. */
import { liveTensors, ownedCount } from '@tandem-rl/tfjs-onnxruntime/scope'

interface Alive {
  readonly tensors: number
  readonly owned: number
}

const alive = (): Alive => ({ tensors: liveTensors().count, owned: ownedCount() })

/**
 * Returns a message about tensors and owned values that leaked since `before`, or were freed too
 * often, or `undefined`.
 */
const leakProblem = (before: Alive): string | undefined => {
  const now = alive()
  const [tensors, owned] = [now.tensors - before.tensors, now.owned - before.owned]
  if (tensors === 0 && owned === 0) return undefined
  const count = (n: number, what: string): readonly string[] =>
    n === 0 ? [] : [n > 0 ? `${n} ${what} left alive` : `${-n} earlier ${what} freed`]
  return [...count(tensors, 'tensors'), ...count(owned, 'owned values')].join(' and ')
}

/** The result of a function, and its leaks. */
export interface LeakReport<T> {
  readonly result: T
  /** `undefined` without leaks. */
  readonly problem: string | undefined
}

/** Runs a function and reports its leaks. Errors of the function are passed on. */
export const leaksOf = async <T>(f: () => T | Promise<T>): Promise<LeakReport<T>> => {
  const before = alive()
  const result = await f()
  return { result, problem: leakProblem(before) }
}

/**
 * Runs a function, and fails if it leaked tensors or owned values, or freed earlier ones.
 *
 * Its result must not contain tensors, so read them first. If it throws, that error is passed on.
 *
 * Errors   rejects with an Error that counts the leaks.
 *
 * @example
 * withoutLeaks(() => scope(() => tf.add(tf.ones([2]), 1).arraySync()))
 */
export const withoutLeaks = async <T>(f: () => T | Promise<T>): Promise<T> => {
  const { result, problem } = await leaksOf(f)
  if (problem !== undefined) throw new Error(problem)
  return result
}

/** The hooks of a test runner such as vitest, jest or node:test. */
export interface RunnerHooks {
  readonly beforeEach: (run: () => void) => unknown
  readonly afterEach: (run: () => void) => unknown
}

/**
 * Makes every test of a file or a `describe` fail that leaks tensors or owned values. Tests that
 * run concurrently in one process cannot be distinguished.
 *
 * Errors   the hook after a test throws an Error that counts the leaks.
 *
 * @example
 * leakChecks({ beforeEach: (run) => run(), afterEach: (run) => run() })
 */
export const leakChecks = ({ beforeEach, afterEach }: RunnerHooks): void => {
  let before = alive()
  beforeEach(() => {
    before = alive()
  })
  afterEach(() => {
    const problem = leakProblem(before)
    if (problem !== undefined) throw new Error(problem)
  })
}
