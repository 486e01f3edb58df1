/** Checks that nothing lives on: tensors, and values that somebody owns. */
import { liveTensors, ownedCount } from '../engine/scope.js'

interface Alive {
  readonly tensors: number
  readonly owned: number
}

const alive = (): Alive => ({ tensors: liveTensors().count, owned: ownedCount() })

/** What was made since `before` and lives on; undefined if nothing does. What was freed too much counts as well. */
const leakProblem = (before: Alive): string | undefined => {
  const now = alive()
  const [tensors, owned] = [now.tensors - before.tensors, now.owned - before.owned]
  if (tensors === 0 && owned === 0) return undefined
  const count = (n: number, what: string): readonly string[] =>
    n === 0 ? [] : [n > 0 ? `${n} ${what} left alive` : `${-n} ${what} of before freed`]
  return [...count(tensors, 'tensors'), ...count(owned, 'owned values')].join(' and ')
}

/** What a function left behind, and what it gave. */
export interface LeakReport<T> {
  readonly result: T
  /** Undefined if nothing lives on. */
  readonly problem: string | undefined
}

/** Runs a function, and says what it left behind. Its failure is its caller's. */
export const leaksOf = async <T>(f: () => T | Promise<T>): Promise<LeakReport<T>> => {
  const before = alive()
  const result = await f()
  return { result, problem: leakProblem(before) }
}

/**
 * Runs a function, and fails if tensors or owned values live on that it made, or if it freed some that were there before.
 *
 * Its result must not contain tensors: read them first. If it throws, that is the failure.
 *
 * Errors   the promise is rejected with an Error that counts them.
 *
 * @example
 * withoutLeaks(() => scope(() => tf.add(tf.ones([2]), 1).arraySync()))
 */
export const withoutLeaks = async <T>(f: () => T | Promise<T>): Promise<T> => {
  const { result, problem } = await leaksOf(f)
  if (problem !== undefined) throw new Error(problem)
  return result
}

/** The hooks of a test runner: vitest's, jest's, node:test's. */
export interface RunnerHooks {
  readonly beforeEach: (run: () => void) => unknown
  readonly afterEach: (run: () => void) => unknown
}

/**
 * Makes every test of a file, or of a `describe`, fail that leaves tensors or owned values behind. Tests that run at the same time in one
 * process cannot be told apart.
 *
 * Errors   the hook after a test throws Error, counting them.
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
