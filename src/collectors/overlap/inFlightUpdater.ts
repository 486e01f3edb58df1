/** New weights for an engine at hand, of this thread or of another one, while requests run. */
import * as E from 'fp-ts/lib/Either.js'
import { errorMessage } from '../../core/failure.js'
import { aRecord, checkOptions, oneOf } from '../../core/options.js'
import type { LLMEngine } from '../../data/generation.js'
import type { WeightForms } from '../updaters/settings.js'
import type { WeightUpdater } from '../weightSync.js'

export interface InFlightUpdaterOptions<in W> {
  readonly engine: Pick<LLMEngine, 'loadWeights' | 'pause' | 'resume'>
  /** The weights as the engine takes them: `decoderForms({ config })`. */
  readonly weights: Pick<WeightForms<W>, 'full'>
  /**
   * What becomes of completions that are not at their end. `recompute`: the next token is sampled as if the new weights had read all of it;
   * `keep`: with keys and values of the old weights, which costs nothing; `finish`: nobody begins before all have ended with the old ones. Default
   * `recompute`.
   */
  readonly running?: 'recompute' | 'keep' | 'finish'
}

/**
 * Updates an engine that is not behind a wire: in one change, between two of its steps. With `recompute` and `keep` the completions that
 * run go on with the new weights, each of their tokens stamped with the version that sampled it (`mixedVersions` of the policy must not be `refuse`).
 *
 * Errors   `Left(WeightFailure)` where the weights are refused, or the engine is closed or dead: the old ones are in use.
 * Effects  those of the engine; with `finish` it is paused, and runs again whatever happens.
 * Cost     one copy of the weights, and none where the engine's thread takes it (`weights: 'move'`).
 * Source   PipelineRL's updates in flight, arXiv:2509.19128, section 3: `keep` is what it does, `recompute` what it compares with.
 */
export const inFlightUpdater = <W>(options: InFlightUpdaterOptions<W>): WeightUpdater<W> => {
  checkOptions('inFlightUpdater', options, {
    engine: aRecord,
    weights: aRecord,
    running: oneOf('recompute', 'keep', 'finish'),
  })
  const { engine, weights: forms, running = 'recompute' } = options
  return {
    push: (weights, version) => async () => {
      const placed = await forms.full(weights, version)()
      if (E.isLeft(placed)) return placed
      try {
        if (running !== 'finish') return await engine.loadWeights(placed.right.source, { version, running })()
        await engine.pause({ mode: 'wait', cache: 'clear' })
        try {
          return await engine.loadWeights(placed.right.source, { version, running: 'keep' })()
        } finally {
          await engine.resume()
        }
      } catch (error) {
        const reason = errorMessage(error)
        return E.left({ _tag: 'WeightFailure', receiver: 'engine', reason })
      } finally {
        await placed.right.remove()
      }
    },
  }
}
