/** Batches of which only the places with tokens are computed: states, gradients and compiled graphs. */
import { keyFromSeed, uniformInteger } from '@tandem-rl/base'
import { gatherLogProbs, jit, valueAndGrad } from '@tandem-rl/tfjs-onnxruntime'
import { own, scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as tf from '@tensorflow/tfjs-core'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { ARCHITECTURES, type DecoderConfig } from '../../../src/modules/transformer/config.js'
import { logitsOf } from '../../../src/modules/transformer/forward.js'
import { filledBatch, packCompletions, packedBatch, varyingPlaces } from '../../../src/modules/transformer/pack.js'
import { initialParams, type Params } from '../../../src/modules/transformer/params.js'
import { type CompletionBatch, completionStates } from '../../../src/modules/transformer/score.js'
import { onBackend } from '../../kit/backends.js'
import { expectClose } from '../../kit/close.js'
import { anyConfigJsonOf } from '../../kit/configs.js'
import { useEngine, valuesOf } from '../../kit/engine.js'
import { configOf, tinyConfig } from '../../kit/models.js'
import { repeated } from '../../kit/repeated.js'

useEngine()

type Places = 'all' | 'filled'

interface Lengths {
  readonly prompts: readonly number[]
  /** Two for each prompt. */
  readonly completions: readonly number[]
}

const packedOf = (config: DecoderConfig, { prompts, completions }: Lengths, seed: number) => {
  const ids = (row: number, length: number): number[] =>
    Array.from({ length }, (_, t) => uniformInteger(keyFromSeed(seed + row), config.vocabularySize, t))
  return packCompletions({
    prompts: repeated(
      prompts.map((length, i) => ids(i, length)),
      2,
    ),
    completions: completions.map((length, i) => ids(100 + i, length)),
    shared: 2,
  })
}

interface Scored {
  readonly params: Params
  readonly batch: CompletionBatch
  /** `[P * G * Tr]` */
  readonly mask: tf.Tensor
}

/** The log-probabilities of all places, and the gradients of a sum over those with tokens. */
const scoresAndGradients =
  (config: DecoderConfig) =>
  ({ params, batch, mask }: Scored) =>
    valueAndGrad(params, (weights) => {
      const logits = logitsOf(weights, config, completionStates(weights, config, batch))
      const logProbs = gatherLogProbs(logits, tf.reshape(batch.completionIds, [-1]))
      const value = tf.sum(tf.mul(tf.mul(logProbs, mask), tf.cos(tf.range(0, mask.size))))
      return { value, aux: { logProbs: tf.mul(logProbs, mask) } }
    })

const inputOf = (config: DecoderConfig, lengths: Lengths, seed: number, places: Places) => {
  const packed = packedOf(config, lengths, seed)
  return {
    batch: (places === 'all' ? packedBatch : filledBatch)(packed, config),
    mask: tf.tensor1d(packed.completionMask),
  }
}

const lengths: fc.Arbitrary<Lengths> = fc.integer({ min: 1, max: 3 }).chain((prompts) =>
  fc.record({
    prompts: fc.array(fc.integer({ min: 1, max: 20 }), { minLength: prompts, maxLength: prompts }),
    completions: fc.array(fc.integer({ min: 1, max: 20 }), { minLength: 2 * prompts, maxLength: 2 * prompts }),
  }),
)

/** Ragged, so that both prompts and completions have places to leave out. */
const RAGGED: Lengths = { prompts: [30, 3], completions: [40, 2, 5, 1] }

describe('filled places', () => {
  it.each(ARCHITECTURES)('have the log-probabilities and gradients of all places, %s', (architecture) => {
    const problem = fc.record({ config: anyConfigJsonOf(architecture).map(configOf), lengths, seed: fc.nat(1000) })
    const law = fc.property(problem, ({ config, lengths, seed }) => {
      onBackend('cpu', () => {
        using params = own(scope(() => initialParams(config, keyFromSeed(seed), 0.5)))
        const numbers = (places: Places): number[][] =>
          scope(() => {
            const input = { params: params.value, ...inputOf(config, lengths, seed, places) }
            const { aux, grads } = scoresAndGradients(config)(input)
            return [valuesOf(aux.logProbs), ...Object.values(grads).map(valuesOf)]
          })
        const all = numbers('all')
        for (const [i, some] of numbers('filled').entries())
          expectClose(some, all[i]!, { absolute: 1e-3, relative: 1e-3 })
      })
    })
    fc.assert(law, { numRuns: 4 })
  })

  it('are fewer than all for ragged rows, and all if that hardly saves any', () => {
    scope(() => {
      const config = tinyConfig()
      const { filled } = inputOf(config, RAGGED, 1, 'filled').batch
      expect([filled?.prompts?.places.size, filled?.completions?.places.size]).toEqual([48, 64]) // of 64 and 192
      const full = inputOf(config, { prompts: [16, 16], completions: [16, 16, 15, 16] }, 1, 'filled').batch
      expect(full.filled).toEqual({})
    })
  })

  it('of any number run one compiled graph', () => {
    const config = tinyConfig()
    const compiled = jit(scoresAndGradients(config), { memory: 'automatic', varying: varyingPlaces })
    using params = own(scope(() => initialParams(config, keyFromSeed(3), 0.5)))
    for (const [i, last] of [2, 30].entries()) {
      scope(() => {
        const ragged = { ...RAGGED, completions: [40, last, 5, 1] }
        const input = (places: Places) => ({ params: params.value, ...inputOf(config, ragged, i, places) })
        const [some, all] = [compiled(input('filled')), scoresAndGradients(config)(input('all'))]
        expectClose(valuesOf(some.aux.logProbs), valuesOf(all.aux.logProbs), { absolute: 1e-5 })
        for (const [name, gradient] of Object.entries(some.grads))
          expectClose(valuesOf(gradient), valuesOf(all.grads[name]!), { absolute: 1e-4, relative: 1e-4 })
      })
    }
    expect(compiled.compiles()).toBe(1)
    compiled.release()
  })
})
