import { keyFromSeed } from '@tandem-rl/base'
import { own, scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { makeRunner } from '../../../src/modules/generation/runner/runner.js'
import { ARCHITECTURES } from '../../../src/modules/transformer/config.js'
import { initialParams } from '../../../src/modules/transformer/params.js'
import { makeScorer } from '../../../src/modules/transformer/scorer.js'
import { anyConfigJsonOf } from '../../kit/configs.js'
import { useOnnxRuntime } from '../../kit/engine.js'
import { configOf } from '../../kit/models.js'

useOnnxRuntime()

describe.each(ARCHITECTURES)('a runner of %s', (architecture) => {
  it('samples with the log-probabilities that scoring finds', () => {
    const law = fc.property(
      anyConfigJsonOf(architecture).map(configOf),
      fc.array(fc.nat(), { minLength: 8, maxLength: 30 }),
      fc.integer({ min: 1, max: 6 }),
      (config, drawn, cut) => {
        const ids = drawn.map((x) => x % config.vocabularySize)
        using params = own(scope(() => initialParams(config, keyFromSeed(1), 0.5)))
        const [runner, scorer] = [makeRunner(config), makeScorer(config)]
        const [expected] = scorer.score(params.value, {
          prompts: [ids.slice(0, cut)],
          completions: [ids.slice(cut)],
          temperature: 1,
        })
        const [start] = runner.prefill(
          params.value,
          [{ tokens: Int32Array.from(ids.slice(0, cut)), past: [], inverseTemperature: 1, scores: 'last' }],
          'fed',
        )
        const [lane, decoding] = [runner.makeLane(), runner.makeDecoding('fed')]
        const slot = lane.insert([start!.keyValues])
        let next = start!.next
        for (const [t, id] of ids.slice(cut).entries()) {
          const logProb = next.logits[id]! - next.logNormalizer
          expect(Math.abs(logProb - expected![t]!), `token ${t}`).toBeLessThan(1e-5)
          next = decoding.step(params.value, [{ lane, rows: [{ slot, token: id, inverseTemperature: 1 }] }])[0]!
        }
        lane.release()
        runner.release()
        scorer.release()
      },
    )
    fc.assert(law, { numRuns: 3 })
  })
})
