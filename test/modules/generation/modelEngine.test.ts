import { child, keyFromSeed } from '@tandem-rl/base'
import { requireRight } from '@tandem-rl/testing'
import { describe, expect, it } from 'vitest'
import { generateAll } from '../../../src/modules/generation/generateAll.js'
import { DEFAULT_SAMPLING } from '../../../src/modules/generation/sampling/params.js'
import { decoderSuite } from '../../kit/decoderEngine.js'
import { useOnnxRuntime } from '../../kit/engine.js'
import { engineSuite } from '../../kit/engineSuite.js'

useOnnxRuntime()

engineSuite('the engine of a decoder', () => decoderSuite())

it('an engine with a longer context than its model has positions is refused', () => {
  expect(() => decoderSuite({ limits: { maxModelLength: 161 } })).toThrow(
    'maxModelLength must be at most 160, the number of positions of the model, got 161',
  )
})

describe('the engine of a decoder, under load', () => {
  it('gives each of many requests, of any length and sampling, the very numbers that it gets alone', async () => {
    const { engine } = decoderSuite()
    const requests = Array.from({ length: 40 }, (_, i) => ({
      id: `${i}`,
      prompt: Int32Array.from({ length: 1 + ((i * 7) % 60) }, (_, t) => 4 + ((i * 5 + t * 3) % 12)),
      sampling: {
        ...DEFAULT_SAMPLING,
        n: 1 + (i % 3),
        maxTokens: 3 + ((i * 11) % 40),
        temperature: [0.7, 1, 1.3][i % 3]!,
        topP: i % 4 === 0 ? 0.9 : 1,
        topK: i % 5 === 0 ? 6 : 0,
        repetitionPenalty: i % 7 === 0 ? 1.2 : 1,
        key: child(keyFromSeed(3), i),
      },
      adapter: null,
      cacheSalt: '',
    }))
    const together = (await generateAll(engine, requests)).map(requireRight)
    await engine.resetPrefixCache()
    for (const [i, request] of requests.entries()) {
      if (i % 4 !== 0) continue
      const [alone] = (await generateAll(engine, [{ ...request, id: `alone ${i}` }])).map(requireRight)
      expect(alone!.completions).toEqual(together[i]!.completions)
    }
    await engine.close()
  })
})
