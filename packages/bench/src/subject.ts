/** The subject of a benchmark: something that does units of work, round by round. */
import type { Failure, Key } from '@tandem-rl/base'
import type { TaskEither } from 'fp-ts/lib/TaskEither.js'
import type { Env, Policy } from 'tandem-rl'

/** The inputs of a subject for one round. */
export interface RoundContext {
  /** The randomness of the round. In a comparison, both subjects receive the same keys. */
  readonly key: Key
  /** Wraps a policy, so that the time of its calls is known. */
  readonly timePolicy: <In, Out>(policy: Policy<In, Out>) => Policy<In, Out>
  /** Wraps an environment, so that the time of its resets and steps is known. */
  readonly timeEnv: <O, A>(env: Env<O, A>) => Env<O, A>
  /** Records the memory in use now. It is also recorded at the end of a round. */
  readonly readMemory: () => void
}

/**
 * Something to benchmark. `collectorSubject`, `envSubject`, `transformSubject` and `rewardSubject`
 * make one; for anything else, write the record.
 *
 * @example
 * const sorting: Subject = { name: 'sort', unit: 'sorts', counts: 'all', run: () => async () => right([3, 1].sort().length - 1) }
 */
export interface Subject {
  readonly name: string
  /** The unit of work in the plural, such as `rollouts`. */
  readonly unit: string
  /**
   * The time that its speed is computed from: `all` of the round, `env` (in environments), or
   * `rest` (outside of policies and environments).
   */
  readonly counts: 'all' | 'env' | 'rest'
  /** Does the work of one round and returns the number of units. */
  readonly run: (round: RoundContext) => TaskEither<Failure, number>
}
