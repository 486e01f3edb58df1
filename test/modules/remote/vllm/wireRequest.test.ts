import { keyFromSeed, orThrow } from '@tandem-rl/base'
import type { SamplingParams } from '@tandem-rl/text'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import { samplingFields } from '../../../../packages/serve/src/requests/fields.js'
import { requestedSampling, requestKey } from '../../../../packages/serve/src/requests/sampling.js'
import { samplingParams } from '../../../../src/modules/generation/sampling/params.js'
import {
  requestedLogProbs,
  requestSeed,
  type SamplingEndpoint,
  wireBody,
} from '../../../../src/modules/remote/vllm/wireRequest.js'
import { requestOf } from '../../../kit/wire.js'

const VOCABULARY = 50
const id = fc.nat(VOCABULARY - 1)
const share = fc.double({ min: 0.01, max: 1, noNaN: true })
const penalty = fc.double({ min: -2, max: 2, noNaN: true }).map((x) => x + 0) // JSON has no -0

/** Sampling that vLLM can be asked for. */
const sampling: fc.Arbitrary<SamplingParams> = fc
  .record({
    n: fc.integer({ min: 1, max: 5 }),
    maxTokens: fc.integer({ min: 4, max: 20 }),
    minTokens: fc.nat(4),
    temperature: fc.double({ min: 0.01, max: 2, noNaN: true }),
    topK: fc.nat(VOCABULARY),
    topP: share,
    minP: share,
    repetitionPenalty: fc.double({ min: 0.1, max: 3, noNaN: true }),
    presencePenalty: penalty,
    frequencyPenalty: penalty,
    logitBias: fc.array(fc.tuple(id, fc.integer({ min: -100, max: 100 }))).map((entries) => new Map(entries)),
    allowedTokens: fc.option(fc.uniqueArray(id, { minLength: 1 })),
    stop: fc.array(fc.constantFrom('a', 'end', 'é')),
    stopText: fc.constantFrom('exclude' as const, 'include' as const),
    stopTokens: fc.uniqueArray(id),
    endTokens: fc.constantFrom('stop' as const, 'ignore' as const),
    key: fc.nat().map(keyFromSeed),
    topLogProbs: fc.option(fc.nat(5)),
    promptLogProbs: fc.option(fc.nat(5)),
  })
  .map((params) => orThrow(samplingParams(params)))

const settings = (endpoint: SamplingEndpoint, maxTokens = 20) =>
  ({ endpoint, delivery: 'whole', model: 'policy', requestId: 'id', maxTokens }) as const

const fieldsSchema = z.object({ ...samplingFields, logprobs: z.int() })

describe('wireBody', () => {
  it.each(['generate', 'completions'] as const)('says on %s what our own server reads back', (endpoint) => {
    fc.assert(
      fc.property(sampling, (asked) => {
        const body = wireBody(requestOf({ sampling: asked }), settings(endpoint, asked.maxTokens ?? 1))
        const json: unknown = JSON.parse(JSON.stringify(endpoint === 'generate' ? body.sampling_params : body))
        const fields = fieldsSchema.parse(json)
        const info = { vocabularySize: VOCABULARY, maxModelLength: 99, maxConcurrent: 9, endTokens: [] }
        const read = requestedSampling(fields, {
          ...{ info, maxTokens: fields.max_tokens ?? null, logProbs: fields.logprobs, logProbsMode: 'raw' },
          maxLogProbs: -1,
        })
        expect({ ...orThrow(read), key: requestKey(fields.seed, keyFromSeed(0)) }).toEqual({
          ...asked,
          key: keyFromSeed(requestSeed(asked.key)),
          topLogProbs: requestedLogProbs(asked, endpoint),
          allowedTokens: asked.allowedTokens,
        })
      }),
    )
  })

  it('names the adapter in place of the model, and leaves an empty salt out', () => {
    expect(wireBody(requestOf(), settings('generate'))).toMatchObject({ model: 'policy', token_ids: [5, 6, 7] })
    expect(wireBody(requestOf(), settings('generate'))).not.toHaveProperty('cache_salt')
    const adapted = requestOf({ adapter: 'policy-v3', cacheSalt: 'v3' })
    expect(wireBody(adapted, settings('completions'))).toMatchObject({
      ...{ model: 'policy-v3', cache_salt: 'v3', prompt: [5, 6, 7], return_token_ids: true },
    })
  })

  it('asks streams for their usage', () => {
    const body = wireBody(requestOf(), { ...settings('generate'), delivery: 'stream' })
    expect(body).toMatchObject({ stream: true, stream_options: { include_usage: true } })
  })
})

describe('requestSeed', () => {
  it('is one that JSON, vLLM and our own server can hold, the last completion included', () => {
    fc.assert(
      fc.property(fc.nat({ max: 2 ** 53 - 1 }), fc.nat(16_384), (seed, first) => {
        const asked = requestSeed(keyFromSeed(seed), first)
        expect(Number.isSafeInteger(asked) && asked >= 0).toBe(true)
        expect(asked - requestSeed(keyFromSeed(seed))).toBe(first)
      }),
    )
  })

  it('is far from those of neighboring keys', () => {
    const seeds = Array.from({ length: 4000 }, (_, i) => requestSeed(keyFromSeed(i))).sort((a, b) => a - b)
    const gaps = seeds.slice(1).map((seed, i) => seed - seeds[i]!)
    expect(Math.min(...gaps)).toBeGreaterThan(16_384)
  })
})
