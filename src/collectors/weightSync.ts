/** Versioned weight updates from the trainer to the policy. */
import type { WeightFailure } from '@tandem-rl/text'
import { pipe } from 'fp-ts/lib/function.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import type { WeightReceiver } from '../data/weights.js'

/** Updates an engine's weights atomically. */
export interface WeightUpdater<in W> {
  /** Returns the version that the engine samples with from now on. */
  readonly push: (weights: W, version: number) => TE.TaskEither<WeightFailure, number>
}

/**
 * Updates a policy in the same process.
 *
 * Errors   `Left(WeightFailure)` if the weights are rejected, the version does not increase, or the
 *          engine reports another version than the given one. In the first two cases the old
 *          weights stay in use.
 */
export const inProcessUpdater = <W>(receiver: WeightReceiver<W>): WeightUpdater<W> => ({
  push: (weights, version) => () => {
    const fail = (reason: string): WeightFailure => ({ _tag: 'WeightFailure', receiver: 'in process', reason })
    if (version <= receiver.version()) {
      return TE.left(fail(`version ${version} is not newer than ${receiver.version()}, which is in use`))()
    }
    return pipe(
      receiver.load(weights, version),
      TE.filterOrElse(
        (answered) => answered === version,
        (answered) => fail(`gave version ${version}, but the engine samples with ${answered}`),
      ),
    )()
  },
})
