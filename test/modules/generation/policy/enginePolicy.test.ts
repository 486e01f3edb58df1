import { keyFromSeed } from '@tandem-rl/base'
import { policyLaws, tokenActionSpec } from '@tandem-rl/testing'
import type { GenerationRequest } from '@tandem-rl/text'
import { own, scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import fc from 'fast-check'
import { left, right } from 'fp-ts/lib/Either.js'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { EngineAbilities } from '../../../../src/data/engineClient.js'
import { ragged, raggedRows } from '../../../../src/data/tensorDict/leaf.js'
import { get } from '../../../../src/data/tensorDict/tensorDict.js'
import type { LocalLLMEngine } from '../../../../src/modules/generation/llmEngine.js'
import { modelEngine } from '../../../../src/modules/generation/modelEngine.js'
import {
  type EnginePolicy,
  enginePolicy,
  type PolicyEngine,
} from '../../../../src/modules/generation/policy/enginePolicy.js'
import { localClient } from '../../../../src/modules/remote/localClient.js'
import { initialParams } from '../../../../src/modules/transformer/params.js'
import { type TransformersPolicy, TransformersWrapper } from '../../../../src/modules/transformersWrapper.js'
import { expectClose } from '../../../kit/close.js'
import { useEngine } from '../../../kit/engine.js'
import { tinyConfig } from '../../../kit/models.js'
import { leftOf, rightOf } from '../../../kit/results.js'
import { tokenPrompt } from '../../../kit/small.js'

useEngine()

const config = tinyConfig({ vocabularySize: 24, maxPositions: 64, layers: 1 })
const key = keyFromSeed(3)

let engine: LocalLLMEngine
let policy: EnginePolicy
let oracle: TransformersPolicy
/** The requests to the engine. */
const seen: GenerationRequest[] = []

/** The engine, limited to fewer log-probabilities. */
const engineThat = (abilities: Partial<EngineAbilities>): PolicyEngine => {
  const client = localClient(engine, 'tiny')
  return {
    name: 'tiny',
    connect: async () => {
      const connected = await client.connect()
      return connected._tag === 'Left' ? connected : right({ ...connected.right, ...abilities })
    },
    generate: (request, options) => {
      seen.push(request)
      return client.generate(request, options)
    },
  }
}

beforeAll(() => {
  using params = own(scope(() => initialParams(config, keyFromSeed(1), 0.4)))
  engine = modelEngine({ config, params: params.value, version: 5, limits: { memoryBytes: 2 ** 22, maxConcurrent: 8 } })
  oracle = TransformersWrapper({ config, params: params.value, sampling: { maxNewTokens: 12 } })
  policy = enginePolicy({ engine: engineThat({}), sampling: { maxTokens: 12 } })
})
afterAll(async () => {
  oracle.release()
  await engine.close()
})

const PROMPTS = [[5, 6, 7], [5, 6, 7], [9], [9], [9], [5, 6, 7]]

const idsOf = (action: Awaited<ReturnType<typeof acted>>) => raggedRows(get(action, 'tokens', 'response'))
const logProbsOf = (action: Awaited<ReturnType<typeof acted>>) => raggedRows(get(action, 'logProbs', 'response'))
const acted = (asked = policy, rows: readonly (readonly number[])[] = PROMPTS, given = key) =>
  rightOf(asked.act(tokenPrompt(rows), given))

describe('a policy over an engine', () => {
  const anyRows = fc.array(fc.array(fc.integer({ min: 4, max: 23 }), { minLength: 1, maxLength: 6 }), {
    minLength: 1,
    maxLength: 4,
  })
  const samples = anyRows.map((rows) => ({
    policy: enginePolicy({ engine: localClient(engine, 'tiny'), sampling: { maxTokens: 6 } }),
    state: () => tokenPrompt(rows),
    spec: tokenActionSpec,
  }))
  for (const { name, check } of policyLaws(samples, 5)) it(name, check)

  it('draws what TransformersWrapper draws, with its log-probabilities, at any temperature and with cuts', async () => {
    for (const sampling of [{}, { temperature: 0.7 }, { temperature: 1.3, topK: 5, topP: 0.9 }, { temperature: 0 }]) {
      const [mine, theirs] = [
        await acted(policy.withSampling(sampling)),
        await rightOf(oracle.withSampling(sampling).act(tokenPrompt(PROMPTS), key)),
      ]
      expect(idsOf(mine)).toEqual(raggedRows(get(theirs, 'tokens', 'response')))
      expectClose(logProbsOf(mine).flat(), raggedRows(get(theirs, 'logProbs', 'response')).flat(), { absolute: 2e-5 })
      expect(get(mine, 'stopReason').items.toArray()).toEqual(get(theirs, 'stopReason').items.toArray())
      expect(get(mine, 'sampling').items.toArray()).toEqual(get(theirs, 'sampling').items.toArray())
      expect(get(mine, 'policyVersion').items.toArray()).toEqual(PROMPTS.map(() => 5))
    }
  })

  it('scores as the model of this process does, at any temperature', async () => {
    const completions = get(await acted(), 'tokens', 'response')
    for (const temperature of [1, 0.6]) {
      const [mine, theirs] = [
        await rightOf(policy.score(ragged('int32', PROMPTS), completions, temperature)),
        await rightOf(oracle.score(ragged('int32', PROMPTS), completions, temperature)),
      ]
      expect(raggedRows(mine).map((row) => row.length)).toEqual(raggedRows(theirs).map((row) => row.length))
      expectClose(raggedRows(mine).flat(), raggedRows(theirs).flat(), { absolute: 2e-5 })
    }
  })

  it('makes one request of neighbours with equal prompts, and several where a request may not have so many', async () => {
    seen.length = 0
    await acted()
    expect(seen.map(({ sampling: { n }, firstCompletion }) => [n, firstCompletion])).toEqual([
      [2, 0],
      [3, 2],
      [1, 5],
    ])
    const whole = await acted(policy, Array(5).fill([9]))
    seen.length = 0
    const parts = enginePolicy({ engine: engineThat({}), sampling: { maxTokens: 12 }, limits: { maxPerRequest: 2 } })
    expect(idsOf(await acted(parts, Array(5).fill([9])))).toEqual(idsOf(whole))
    expect(seen.map(({ sampling }) => sampling.n)).toEqual([2, 2, 1])
    expect(new Set(seen.map(({ id }) => id)).size).toBe(3)
  })

  it('refuses requests without log-probabilities from the engine, and names the remedy', async () => {
    const raw = enginePolicy({ engine: engineThat({ logProbs: 'raw' }), sampling: { maxTokens: 4 } })
    const processed = enginePolicy({ engine: engineThat({ logProbs: 'processed' }), sampling: { maxTokens: 4 } })
    seen.length = 0
    for (const [refusing, word] of [
      [raw.withSampling({ temperature: 0.5 }), '--logprobs-mode processed_logprobs'],
      [processed.withSampling({ topK: 3 }), 'before topK'],
      [processed.withSampling({ repetitionPenalty: 1.1, minP: 0.1 }), 'minP, repetitionPenalty'],
      [processed.withSampling({ minTokens: 2 }), 'minTokens'],
      [processed.withSampling({ topK: 3, logitBias: new Map([[5, 1]]) }), 'topK, logitBias'],
      [policy.withSampling({ topP: 0 }), 'topP must be'],
    ] as const) {
      const failure = await leftOf(refusing.act(tokenPrompt([[5]]), key))
      expect(failure).toMatchObject({ _tag: 'PolicyFailure', kind: 'asked', reason: expect.stringContaining(word) })
    }
    expect(seen).toEqual([])
    for (const sampling of [{ topK: 3 }, { temperature: 0 }]) await acted(raw.withSampling(sampling), [[5]])
    const hot = await acted(processed.withSampling({ temperature: 0.5 }), PROMPTS)
    const full = await acted(policy.withSampling({ temperature: 0.5, maxTokens: 4 }), PROMPTS)
    expectClose(logProbsOf(hot).flat(), logProbsOf(full).flat(), { absolute: 1e-6 })
  })

  it('refuses to score what the engine cannot', async () => {
    const [prompts, completions] = [ragged('int32', [[5]]), ragged('int32', [[6, 7]])]
    const raw = enginePolicy({ engine: engineThat({ logProbs: 'raw' }) })
    expect((await leftOf(raw.score(prompts, completions, 0.5))).reason).toContain('only at temperature 1')
    await rightOf(raw.score(prompts, completions, 1))
    const silent = enginePolicy({ engine: engineThat({ promptLogProbs: 'no' }) })
    expect((await leftOf(silent.score(prompts, completions, 1))).kind).toBe('asked')
    const long = ragged('int32', [Array(62).fill(6)])
    expect((await leftOf(policy.score(ragged('int32', [[5, 5]]), long, 1))).reason).toContain('limit of 64')
    expect((await leftOf(policy.score(ragged('int32', [[5], [5]]), completions, 1))).reason).toContain(
      'got 1 completions',
    )
  })

  it('refuses every prompt that it cannot complete in one failure, or cuts it where that was asked for', async () => {
    const rows = [[5], [], Array.from({ length: 60 }, (_, i) => 4 + (i % 20)), [99]]
    const failure = await leftOf(policy.act(tokenPrompt(rows), key))
    expect(failure).toMatchObject({ kind: 'asked' })
    for (const word of ['prompt 1 is empty', "truncate: { keep: 52, side: 'end' }", 'prompt 3 has id 99'])
      expect(failure.reason).toContain(word)
    for (const [side, kept] of [
      ['end', rows[2]!.slice(-52)],
      ['start', rows[2]!.slice(0, 52)],
    ] as const) {
      const cutting = enginePolicy({
        engine: engineThat({}),
        sampling: { maxTokens: 12 },
        truncate: { keep: 52, side },
      })
      expect(idsOf(await acted(cutting, [rows[2]!]))).toEqual(idsOf(await acted(policy, [kept])))
    }
  })

  it('fails where the engine cannot be asked what it is: for the one who asked, or for its keepers', async () => {
    for (const [kind, expected] of [
      ['refused', 'asked'],
      ['unreachable', 'infrastructure'],
    ] as const) {
      const gone: PolicyEngine = {
        ...engineThat({}),
        connect: async () => left({ _tag: 'EngineFailure', engine: 'tiny', kind, reason: 'no such model' }),
      }
      const failure = await leftOf(enginePolicy({ engine: gone }).act(tokenPrompt([[5]]), key))
      expect(failure).toMatchObject({ kind: expected, reason: 'no such model', policy: 'tiny' })
    }
  })
})
