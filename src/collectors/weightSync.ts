/** Weights from the trainer to the policy, with versions. */
import { pipe } from 'fp-ts/lib/function.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import type { WeightFailure, WeightReceiver } from '../data/weights.js'

/** Gives an engine new weights, as one change. */
export interface WeightUpdater<in W> {
  /** Answers with the version that the engine samples with from now on. */
  readonly push: (weights: W, version: number) => TE.TaskEither<WeightFailure, number>
}

/**
 * Updates a policy in the same process.
 *
 * Errors   `Left(WeightFailure)` if the weights are refused, if the version does not grow, or if the engine answers with another version
 *          than it was given; in the first two cases the old weights are still in use.
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
