/** The distributions of Transformers' logits processors: test/golden/generate/sampling.py. */
import { readFileSync } from 'node:fs'
import { keyFromSeed } from '@tandem-rl/base'
import { requireRight } from '@tandem-rl/testing'
import type { SamplingParams } from '@tandem-rl/text'
import { describe, expect, it } from 'vitest'
import { countTokens } from '../../../../src/modules/generation/sampling/counts.js'
import { DEFAULT_SAMPLING } from '../../../../src/modules/generation/sampling/params.js'
import { sampleToken } from '../../../../src/modules/generation/sampling/sampleToken.js'
import { nextTokenOf } from '../../../kit/nextToken.js'

interface Golden {
  readonly seen: readonly number[]
  readonly cases: readonly {
    readonly options: Partial<SamplingParams>
    readonly logits: readonly number[]
    readonly probabilities: readonly number[]
  }[]
}

const golden: Golden = JSON.parse(readFileSync('test/golden/sampling.json', 'utf8'))

describe('the distribution that tokens are drawn from is that of Transformers', () => {
  it.each(golden.cases.map((one) => [JSON.stringify(one.options), one] as const))('with %s', (_, one) => {
    const params: SamplingParams = {
      ...DEFAULT_SAMPLING,
      ...one.options,
      logProbsMode: 'processed',
      topLogProbs: one.logits.length,
    }
    const token = requireRight(
      sampleToken(nextTokenOf(Float32Array.from(one.logits), params), params, {
        promptCounts: countTokens(golden.seen),
        outputCounts: countTokens([]),
        banned: [],
        step: 0,
        key: keyFromSeed(0),
      }),
    )
    const chances = one.logits.map((_, id) =>
      Math.exp(token.top.find((other) => other.id === id)?.logProb ?? -Infinity),
    )
    for (const [id, chance] of chances.entries()) {
      expect(chance > 0).toBe(one.probabilities[id]! > 0)
      expect(chance).toBeCloseTo(one.probabilities[id]!, 6) // the reference divides in float32
    }
  })
})
