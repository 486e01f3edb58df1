/** Weight updates for an in-process engine, on this or another thread, while requests run. */
import { checkOptions, errorMessage } from '@tandem-rl/base'
import type { LLMEngine } from '@tandem-rl/text'
import * as E from 'fp-ts/lib/Either.js'
import { IN_FLIGHT_UPDATER_OPTIONS } from '../optionKinds.js'
import type { WeightForms } from '../updaters/settings.js'
import type { WeightUpdater } from '../weightSync.js'

export interface InFlightUpdaterOptions<in W> {
  readonly engine: Pick<LLMEngine, 'loadWeights' | 'pause' | 'resume'>
  /** Converts the weights to the engine's format: `decoderForms({ config })`. */
  readonly weights: Pick<WeightForms<W>, 'full'>
  /**
   * Treatment of unfinished completions. `recompute`: the next token is sampled as if the new
   * weights had processed the whole completion. `keep`: the keys and values of the old weights stay
   * in use, which costs nothing. `finish`: new requests wait until all running ones have finished
   * with the old weights. Default `recompute`.
   */
  readonly running?: 'recompute' | 'keep' | 'finish'
}

/**
 * Updates an in-process engine in a single change between two of its steps. With `recompute` and
 * `keep`, running completions continue with the new weights, and each token is stamped with the
 * version that sampled it (`mixedVersions` of the policy must not be `refuse`).
 *
 * Errors   `Left(WeightFailure)` if the engine rejects the weights, is closed or has failed. The
 *          old weights then stay in use.
 * Effects  those of the engine. With `finish` it is paused, and always resumed afterwards.
 * Cost     one copy of the weights, or no copy with an engine on a thread and `weights: 'move'`.
 * Source   PipelineRL's in-flight updates, arXiv:2509.19128, section 3. It uses `keep` and compares
 *          it with `recompute`.
 */
export const inFlightUpdater = <W>(options: InFlightUpdaterOptions<W>): WeightUpdater<W> => {
  checkOptions('inFlightUpdater', options, IN_FLIGHT_UPDATER_OPTIONS)
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
