import { child, keyFromSeed } from '@tandem-rl/base'
import { type Owned, own, scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as tf from '@tensorflow/tfjs-core'
import fc from 'fast-check'
import { beforeAll, describe, expect, it } from 'vitest'
import {
  type Completion,
  completionKeys,
  type GenerationOptions,
  makeGenerator,
} from '../../../src/modules/generation/generator.js'
import { initialParams, type Params } from '../../../src/modules/transformer/params.js'
import { makeScorer } from '../../../src/modules/transformer/scorer.js'
import { expectClose } from '../../kit/close.js'
import { useEngine } from '../../kit/engine.js'
import { tinyConfig } from '../../kit/models.js'
import { repeated } from '../../kit/repeated.js'

useEngine()

const config = tinyConfig({ vocabularySize: 24, maxPositions: 96 })
const key = keyFromSeed(5)
const generator = makeGenerator(config)
let params: Owned<Params> | undefined

beforeAll(() => {
  params = own(scope(() => initialParams(config, key, 0.3)))
  return () => params?.release()
})

const defaults: GenerationOptions = { temperature: 1, maxNewTokens: 20, stopTokens: [3] }
const prompts = [[5, 6, 7], [9], [4, 4, 4, 4, 8, 11, 12]]

const generate = (
  options: Partial<GenerationOptions> = {},
  request: { readonly prompts?: readonly number[][]; readonly group?: number; readonly seed?: number } = {},
): Promise<readonly Completion[]> => {
  const { prompts: given = prompts, group = 2, seed = 1 } = request
  return generator.generate(
    params!.value,
    {
      prompts: given,
      group,
      keys: completionKeys(keyFromSeed(seed), given.length, group),
      options: { ...defaults, ...options },
    },
    noPause,
  )
}

const idsOf = (completions: readonly Completion[]): number[][] => completions.map(({ ids }) => Array.from(ids))

const WIDE = { hiddenSize: 128, intermediateSize: 256, headSize: 32, vocabularySize: 64 } as const
const noPause = async (): Promise<void> => undefined

describe('token ids', () => {
  const score = (given: readonly number[][], completions: readonly number[][]) => {
    const scorer = makeScorer(config)
    try {
      return scorer.score(params!.value, { prompts: given, completions, temperature: 1 })
    } finally {
      scorer.release()
    }
  }

  it.each([-1, 24, 2 ** 32, 1.5, Number.NaN])('that are not in the vocabulary are refused by name: %s', async (id) => {
    const reason = `must be an id from 0 to 23, got ${id}`
    expect(() => score([[1], [2, id]], [[1], [2]])).toThrow(`score: token 1 of prompt 1 ${reason}`)
    expect(() => score([[1], [2]], [[1], [2, 3, id]])).toThrow(`score: token 2 of completion 1 ${reason}`)
    await expect(generate({}, { prompts: [[1, id]] })).rejects.toThrow(`generate: token 1 of prompt 0 ${reason}`)
  })

  it('of an empty prompt are refused: there is nothing that a first token could follow', async () => {
    expect(() => score([[1], []], [[1], [2]])).toThrow('score: prompt 1 is empty')
    await expect(generate({}, { prompts: [[]] })).rejects.toThrow('generate: prompt 0 is empty')
  })
})

describe('generate', () => {
  it('gives equal completions for equal arguments and other ones for other keys', async () => {
    const first = await generate()
    expect(idsOf(await generate())).toEqual(idsOf(first))
    expect(idsOf(await generate({}, { seed: 2 }))).not.toEqual(idsOf(first))
  })

  it('gives what a new generator gives, whatever it has sampled before and with which weights', async () => {
    const model = tinyConfig({ vocabularySize: 24, maxPositions: 200 })
    using other = own(scope(() => initialParams(model, keyFromSeed(8), 0.3)))
    using broken = own(
      scope(
        (): Params =>
          Object.fromEntries(Object.entries(other.value).map(([name, x]) => [name, tf.fill(x.shape, Number.NaN)])),
      ),
    )
    const used = makeGenerator(model)
    const call = fc.record({
      weights: fc.constantFrom('usual', 'other', 'broken'),
      length: fc.constantFrom(1, 20, 130), // from 128 on, weights are constants
      prompt: fc.array(fc.nat(23), { minLength: 1, maxLength: 40 }),
      group: fc.integer({ min: 1, max: 5 }),
    })
    const law = fc.asyncProperty(fc.array(call, { minLength: 2, maxLength: 4 }), async (calls) => {
      for (const [i, { weights, length, prompt, group }] of calls.entries()) {
        const given = { usual: params!.value, other: other.value, broken: broken.value }[weights]
        const keys = completionKeys(keyFromSeed(i), 1, group)
        const request = { prompts: [prompt], group, keys, options: { ...defaults, maxNewTokens: length } }
        const fresh = makeGenerator(model)
        if (weights === 'broken') await expect(used.generate(given, request, noPause)).rejects.toThrow()
        else expect(await used.generate(given, request, noPause)).toEqual(await fresh.generate(given, request, noPause))
        fresh.release()
      }
    })
    await fc.assert(law, { numRuns: 15 })
    used.release()
  })

  it('samples a row the same way whatever else is in the batch', async () => {
    const all = await generate()
    const keys = completionKeys(keyFromSeed(1), 3, 2)
    const alone = await generator.generate(
      params!.value,
      { prompts: [prompts[1]!], group: 1, keys: [keys[3]!], options: defaults },
      noPause,
    )
    expect(idsOf(alone)[0]).toEqual(idsOf(all)[3])
    expectClose(alone[0]!.logProbs, all[3]!.logProbs, { absolute: 1e-5 })
  })

  it('ends with a sampled stop token, or at the limit', async () => {
    const stopTokens = [1, 3, 5, 7, 9, 11, 13]
    const completions = await generate({ maxNewTokens: 6, stopTokens }, { group: 8 })
    expect(new Set(completions.map((c) => c.stopReason))).toEqual(new Set(['stop', 'length']))
    for (const { ids, stopReason } of completions) {
      const row = Array.from(ids)
      expect(row.slice(0, -1).filter((id) => stopTokens.includes(id))).toEqual([])
      if (stopReason === 'stop') expect(stopTokens).toContain(row.at(-1))
      else expect(row).toHaveLength(6)
    }
  })

  it('does not stop before the least number of tokens', async () => {
    const completions = await generate({ minNewTokens: 5 }, { group: 8 })
    for (const { ids } of completions) {
      expect(ids.length).toBeGreaterThanOrEqual(6)
      expect(Array.from(ids.slice(0, 5))).not.toContain(3)
    }
  })

  it('takes the same tokens at temperature 0 whatever the key', async () => {
    const greedy = await generate({ temperature: 0 })
    expect(idsOf(await generate({ temperature: 0 }, { seed: 9 }))).toEqual(idsOf(greedy))
    expect(idsOf(greedy)[0]).toEqual(idsOf(greedy)[1])
    expect(idsOf(await generate({ topK: 1 }))).toEqual(idsOf(greedy))
    expect(idsOf(await generate({ topP: 1e-9 }))).toEqual(idsOf(greedy))
  })

  it('records the log-probabilities that scoring computes, at the temperature used', async () => {
    const scorer = makeScorer(config)
    for (const temperature of [1, 0.7, 1.6]) {
      const completions = await generate({ temperature, maxNewTokens: 40, stopTokens: [] })
      const rows = completions.map(({ ids }) => ids)
      const scores = scorer.score(params!.value, { prompts: repeated(prompts, 2), completions: rows, temperature })
      for (const [i, { logProbs }] of completions.entries())
        expectClose(scores[i]!, logProbs, { absolute: 1e-5, relative: 0 })
    }
    scorer.release()
  })

  it('records what scoring computes within 1e-5, in a model of ordinary widths', async () => {
    const wide = tinyConfig(WIDE)
    const [wideGenerator, scorer] = [makeGenerator(wide), makeScorer(wide)]
    using weights = own(scope(() => initialParams(wide, key, 0.1)))
    const options = { ...defaults, maxNewTokens: 40, stopTokens: [] }
    const keys = completionKeys(key, prompts.length, 48)
    const completions = await wideGenerator.generate(weights.value, { prompts, group: 48, keys, options }, noPause)
    const rows = completions.map(({ ids }) => ids)
    const scores = scorer.score(weights.value, { prompts: repeated(prompts, 48), completions: rows, temperature: 1 })
    for (const [i, row] of scores.entries()) expectClose(row, completions[i]!.logProbs, { absolute: 1e-5 })
    scorer.release()
    wideGenerator.release()
  })

  it('records what scoring computes within 1e-5 where completions may be so long that weights are constants, and changes with them', async () => {
    const long = tinyConfig({ ...WIDE, maxPositions: 160 })
    const [generator, scorer] = [makeGenerator(long), makeScorer(long)]
    const keys = completionKeys(key, prompts.length, 2)
    const options = { ...defaults, maxNewTokens: 140, stopTokens: [] }
    const sampled: number[][][] = []
    for (const seed of [1, 2, 1]) {
      using weights = own(scope(() => initialParams(long, keyFromSeed(seed), 0.1)))
      const completions = await generator.generate(weights.value, { prompts, group: 2, keys, options }, noPause)
      const rows = completions.map(({ ids }) => ids)
      const scores = scorer.score(weights.value, { prompts: repeated(prompts, 2), completions: rows, temperature: 1 })
      for (const [i, row] of scores.entries()) expectClose(row, completions[i]!.logProbs, { absolute: 1e-5 })
      sampled.push(idsOf(completions))
    }
    expect(sampled[2]).toEqual(sampled[0])
    expect(sampled[1]).not.toEqual(sampled[0])
    scorer.release()
    generator.release()
  })

  it('samples with the probabilities of the model', async () => {
    const group = 2000
    const completions = await generate({ maxNewTokens: 1, stopTokens: [] }, { prompts: [prompts[0]!], group })
    const seen = new Map<number, number>()
    const probability = new Map<number, number>()
    for (const { ids, logProbs } of completions) {
      seen.set(ids[0]!, (seen.get(ids[0]!) ?? 0) + 1)
      probability.set(ids[0]!, Math.exp(logProbs[0]!))
    }
    for (const [id, count] of seen) {
      const expected = group * probability.get(id)!
      expect(Math.abs(count - expected), `token ${id}`).toBeLessThan(5 * Math.sqrt(expected) + 3)
    }
  })

  it('refuses empty prompts, prompts beyond the last position and keys that do not fit', async () => {
    await expect(generate({}, { prompts: [[]] })).rejects.toThrow('prompt 0 is empty')
    await expect(generate({ maxNewTokens: 90 })).rejects.toThrow('limit of 96')
    const request = { prompts, group: 2, keys: [key], options: defaults }
    await expect(generator.generate(params!.value, request, async () => undefined)).rejects.toThrow('need as many keys')
  })

  it('lets the event loop turn between tokens', async () => {
    let turns = 0
    const request = { prompts, group: 1, keys: completionKeys(key, 3, 1), options: { ...defaults, stopTokens: [] } }
    await generator.generate(params!.value, request, async () => {
      turns++
    })
    expect(turns).toBe(20) // one for the prompts, which bring the first token
  })
})

describe('completionKeys', () => {
  it('gives every completion a key of its own', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 6 }), fc.integer({ min: 1, max: 6 }), (count, group) => {
        const keys = completionKeys(child(key, 'x'), count, group)
        expect(new Set(keys.map((k) => `${k.high}:${k.low}`)).size).toBe(count * group)
      }),
    )
  })
})
