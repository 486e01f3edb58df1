import { requireLeft, requireRight } from '@tandem-rl/testing'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  type PromptLogProbOptions,
  promptLogProbs,
  tokenLogProbs,
} from '../../../../src/modules/generation/sampling/logProbs.js'
import { ranking, softmax } from '../../../kit/samplingOracle.js'

const VOCABULARY = 7

const row = fc.array(fc.oneof(fc.integer({ min: -4, max: 4 }), fc.double({ min: -30, max: 30, noNaN: true })), {
  minLength: VOCABULARY,
  maxLength: VOCABULARY,
})

const anyPrompt = fc.array(fc.tuple(row, fc.nat(VOCABULARY - 1)), { minLength: 1, maxLength: 6 })

const anyOptions: fc.Arbitrary<PromptLogProbOptions> = fc.record({
  top: fc.nat(VOCABULARY + 1),
  mode: fc.constantFrom('raw', 'tempered', 'processed'),
  temperature: fc.constantFrom(0, 0.5, 1, 3),
})

describe('log-probabilities of a prompt', () => {
  it('are the log-softmax of the row before each token, with ranks and the most probable tokens', () => {
    const law = fc.property(anyPrompt, anyOptions, (places, options) => {
      const logits = Float32Array.from(places.flatMap(([scores]) => scores))
      const prompt = Int32Array.from(places, ([, id]) => id)
      const [first, ...rest] = requireRight(promptLogProbs(logits, prompt, options))
      expect(first).toBeNull()
      expect(rest).toHaveLength(places.length - 1)
      const divisor = options.mode === 'raw' || options.temperature === 0 ? 1 : options.temperature
      for (const [t, told] of rest.entries()) {
        const scores = Array.from(logits.subarray(t * VOCABULARY, (t + 1) * VOCABULARY))
        const expected = softmax(scores.map((logit) => logit / divisor)).map(Math.log)
        const order = ranking(scores)
        expect(told).toMatchObject({ id: prompt[t + 1], rank: order.indexOf(prompt[t + 1]!) + 1 })
        expect(told!.logProb).toBeCloseTo(expected[prompt[t + 1]!]!, 9)
        expect(told!.top.map(({ id }) => id)).toEqual(order.slice(0, options.top))
        for (const { id, logProb } of told!.top) expect(logProb).toBeCloseTo(expected[id]!, 9)
      }
    })
    fc.assert(law, { numRuns: 300 })
  })

  it('are the same in pieces', () => {
    const law = fc.property(anyPrompt, anyOptions, fc.nat(6), (places, options, cut) => {
      const logits = Float32Array.from(places.flatMap(([scores]) => scores))
      const ids = places.map(([, id]) => id)
      const at = Math.min(cut, ids.length)
      const pieces = [
        tokenLogProbs(logits.subarray(0, at * VOCABULARY), ids.slice(0, at), options),
        tokenLogProbs(logits.subarray(at * VOCABULARY), ids.slice(at), options),
      ]
      expect(pieces.flatMap(requireRight)).toEqual(requireRight(tokenLogProbs(logits, ids, options)))
    })
    fc.assert(law, { numRuns: 100 })
  })

  const raw: PromptLogProbOptions = { top: 1, mode: 'raw', temperature: 1 }

  it('fail by row and token where a logit is NaN', () => {
    const logits = Float32Array.of(1, 2, 3, 4, Number.NaN, 6, 7, 8)
    expect(requireLeft(promptLogProbs(logits, [0, 1, 0, 1], raw))).toMatchObject({
      kind: 'internal',
      reason: 'the model gave the logit NaN to token 0, at row 2',
    })
  })

  it('refuse logits that are not one row for each token', () => {
    expect(() => tokenLogProbs(new Float32Array(5), [1, 2], raw)).toThrow(
      'tokenLogProbs: 5 logits are not a row for each of 2 tokens',
    )
  })

  it('do not read the last row of a prompt', () => {
    const logits = Float32Array.of(0, 0, Number.NaN, Number.NaN)
    expect(requireRight(promptLogProbs(logits, [1, 1], raw))[1]).toMatchObject({ id: 1, rank: 2 })
  })
})
