/** Measures how long a round spends inside policies and environments. */
import type { Clock } from '@tandem-rl/base'
import type { TaskEither } from 'fp-ts/lib/TaskEither.js'
import type { Env, Policy } from 'tandem-rl'

/** The parts of a round, in ms. Parts that overlap are counted in each. */
interface Parts {
  /** Time with at least one policy call in progress. */
  readonly policyMs: number
  /** Time with at least one reset or step of an environment in progress. */
  readonly envMs: number
  /** Time with neither in progress. */
  readonly restMs: number
  /** Rows that wait for the policy: the mean over time, and the maximum. */
  readonly meanInFlight: number
  readonly mostInFlight: number
}

export interface Stopwatch {
  readonly timePolicy: <In, Out>(policy: Policy<In, Out>) => Policy<In, Out>
  readonly timeEnv: <O, A>(env: Env<O, A>) => Env<O, A>
  /** Returns the parts so far. */
  readonly read: () => Parts
}

type Part = 'policy' | 'env'

/**
 * Starts a stopwatch. Calls of the policies and environments that it wraps are counted from then
 * on.
 */
export const startStopwatch = ({ now }: Clock): Stopwatch => {
  const started = now()
  const calls = { policy: 0, env: 0 }
  const ms = { policy: 0, env: 0, rest: 0 }
  let last = started
  let [inFlight, mostInFlight, rowMs] = [0, 0, 0]
  const advance = (): void => {
    const time = now()
    const passed = time - last
    last = time
    if (calls.policy > 0) ms.policy += passed
    if (calls.env > 0) ms.env += passed
    if (calls.policy + calls.env === 0) ms.rest += passed
    rowMs += inFlight * passed
  }
  const change = (part: Part, by: 1 | -1, rows: number): void => {
    advance()
    calls[part] += by
    inFlight += by * rows
    mostInFlight = Math.max(mostInFlight, inFlight)
  }
  const timed =
    <E, T>(part: Part, rows: number, task: () => TaskEither<E, T>): TaskEither<E, T> =>
    async () => {
      change(part, 1, rows)
      try {
        return await task()()
      } finally {
        change(part, -1, rows)
      }
    }
  return {
    timePolicy: (policy) => ({
      ...policy,
      act: (td, key, options) => timed('policy', td.batchShape[0] ?? 1, () => policy.act(td, key, options)),
    }),
    timeEnv: (env) => ({
      ...env,
      reset: (request, key) => timed('env', 0, () => env.reset(request, key)),
      step: (state, action, options) => timed('env', 0, () => env.step(state, action, options)),
    }),
    read: () => {
      advance()
      const seconds = last - started
      return {
        policyMs: ms.policy,
        envMs: ms.env,
        restMs: ms.rest,
        mostInFlight,
        meanInFlight: seconds > 0 ? rowMs / seconds : 0,
      }
    },
  }
}
