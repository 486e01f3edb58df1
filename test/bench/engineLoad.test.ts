import type { LLMEngine } from '@tandem-rl/text'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { mixedRequests, runLoad } from '../../bench/shared/engineLoad.js'
import { keyedEngine } from '../kit/keyedEngine.js'
import { rightOf } from '../kit/results.js'

const mix = { shortest: 2, longest: 12, seed: 3, vocabulary: 50 }

/** An engine that records its largest number of concurrent requests. */
const counted = (engine: LLMEngine) => {
  let [now, most] = [0, 0]
  const generate: LLMEngine['generate'] = async function* (request, options) {
    most = Math.max(most, ++now)
    yield* engine.generate(request, options)
    now--
  }
  return { engine: { ...engine, generate }, most: () => most }
}

describe('requests of mixed lengths', () => {
  it('are the same for the same arguments, have lengths and tokens within their bounds, and names of their own', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 50 }),
        fc.nat({ max: 200 }),
        fc.nat({ max: 20 }),
        (shortest, more, count) => {
          const bounds = { ...mix, shortest, longest: shortest + more }
          const requests = mixedRequests('a', count, bounds)
          expect(requests).toEqual(mixedRequests('a', count, bounds))
          expect(new Set(requests.map(({ id }) => id)).size).toBe(count)
          for (const { prompt, sampling } of requests) {
            for (const length of [prompt.length, sampling.maxTokens!]) {
              expect(length).toBeGreaterThanOrEqual(bounds.shortest)
              expect(length).toBeLessThanOrEqual(bounds.longest)
            }
            expect(prompt.every((id) => id >= 0 && id < 50)).toBe(true)
          }
        },
      ),
    )
    expect(() => mixedRequests('a', 1, { ...mix, shortest: 0 })).toThrow(/lengths from 0 to 12/)
  })
})

describe('a load', () => {
  it('keeps the given number of requests running, and counts all of their tokens', async () => {
    const { engine, most } = counted(await rightOf(keyedEngine({})))
    const requests = mixedRequests('a', 20, mix)
    const result = await runLoad(engine, requests, 5)
    expect(most()).toBe(5)
    expect(result.requests).toBe(20)
    expect(result.tokens).toBe(requests.reduce((sum, { sampling }) => sum + sampling.maxTokens!, 0))
    expect(result.promptTokens).toBe(requests.reduce((sum, { prompt }) => sum + prompt.length, 0))
    expect(result.firstTokenMs.p50).toBeLessThanOrEqual(result.firstTokenMs.p99)
    expect(result.betweenTokensMs.p50).toBeGreaterThan(0)
  })

  it('is no measurement if a request fails or is cut short', async () => {
    const engine = await rightOf(keyedEngine({}))
    const requests = mixedRequests('a', 1, mix)
    const short: LLMEngine = {
      ...engine,
      generate: (request) => engine.generate({ ...request, sampling: { ...request.sampling, maxTokens: 1 } }),
    }
    await expect(runLoad(short, requests, 1)).rejects.toThrow(/1 tokens came/)
    await engine.close()
    await expect(runLoad(engine, requests, 1)).rejects.toThrow(/not now/)
  })
})
