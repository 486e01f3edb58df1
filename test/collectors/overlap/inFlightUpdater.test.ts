/** New weights in the middle of completions of a real decoder. */
import { keyFromSeed } from '@tandem-rl/base'
import { own, scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as E from 'fp-ts/lib/Either.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { describe, expect, it } from 'vitest'
import { type InFlightUpdaterOptions, inFlightUpdater } from '../../../src/collectors/overlap/inFlightUpdater.js'
import { decoderForms } from '../../../src/collectors/updaters/decoderForms.js'
import { type Ragged, raggedRows } from '../../../src/data/tensorDict/leaf.js'
import { find, get } from '../../../src/data/tensorDict/tensorDict.js'
import type { LocalLLMEngine } from '../../../src/modules/generation/llmEngine.js'
import { modelEngine } from '../../../src/modules/generation/modelEngine.js'
import { enginePolicy, type PolicyEngine } from '../../../src/modules/generation/policy/enginePolicy.js'
import { localClient } from '../../../src/modules/remote/localClient.js'
import { initialParams, type Params } from '../../../src/modules/transformer/params.js'
import { makeScorer } from '../../../src/modules/transformer/scorer.js'
import { expectClose } from '../../kit/close.js'
import { useEngine } from '../../kit/engine.js'
import { tinyConfig } from '../../kit/models.js'
import { leftOf, rightOf } from '../../kit/results.js'
import { tokenPrompt } from '../../kit/small.js'

useEngine()

const config = tinyConfig({ vocabularySize: 24, maxPositions: 64, layers: 1 })
const PROMPTS = [
  [1, 2, 3],
  [4, 5],
]

const paramsOf = (seed: number) => own(scope(() => initialParams(config, keyFromSeed(seed), 0.4)))

/**
 * The client of an engine, that does something when the fifth token of a request is there, once.
 */
const watched = (engine: LocalLLMEngine, then: () => Promise<unknown>): PolicyEngine => {
  const client = localClient(engine, 'tiny')
  let seen = 0
  return {
    ...client,
    generate: (request, options) => ({
      async *[Symbol.asyncIterator]() {
        for await (const event of client.generate(request, options)) {
          if (event._tag === 'Tokens') seen += event.tokens.length
          if (seen >= 5) {
            seen = Number.NEGATIVE_INFINITY
            await then()
          }
          yield event
        }
      },
    }),
  }
}

/**
 * Completions with an update in their middle: ids, log-probabilities and stamps, and what both
 * weights think of the ids.
 */
const updatedInFlight = async (running: NonNullable<InFlightUpdaterOptions<Params>['running']>) => {
  using first = paramsOf(1)
  using second = paramsOf(2)
  const engine = modelEngine({ config, params: first.value, limits: { memoryBytes: 2 ** 22 } })
  const forms = decoderForms({ config })
  const scorer = makeScorer(config)
  const updater = inFlightUpdater({ engine, weights: forms, running })
  let pushed: Promise<unknown> = Promise.resolve()
  const policy = enginePolicy({
    engine: watched(engine, async () => {
      pushed = rightOf(updater.push(second.value, 1))
      if (running !== 'finish') await pushed
    }),
    sampling: { maxTokens: 24, minTokens: 24 },
    mixedVersions: 'each',
  })
  const state = tokenPrompt(PROMPTS)
  const action = await rightOf(policy.act(state, keyFromSeed(1)))
  const next = await rightOf(policy.act(state, keyFromSeed(2)))
  expect(await pushed).toBe(1)
  const ids = raggedRows(get(action, 'tokens', 'response'))
  const score = (params: Params) =>
    scorer.score(params, { prompts: PROMPTS, completions: ids, temperature: 1, shared: 1 })
  const result = {
    versions: raggedRows(find(action, ['versions', 'response']) as Ragged<'int32'>).map((row) => [...row]), // `each` has them
    oldest: get(action, 'policyVersion').items.toArray(),
    nextVersion: get(next, 'policyVersion').items.toArray(),
    logProbs: raggedRows(get(action, 'logProbs', 'response')),
    byVersion: [score(first.value), score(second.value)] as const,
  }
  forms.release()
  scorer.release()
  await engine.close()
  return result
}

describe('inFlightUpdater', () => {
  it('recompute: completions continue with the new weights, and each token has its own stamp and log-probability', async () => {
    const { versions, oldest, nextVersion, logProbs, byVersion } = await updatedInFlight('recompute')
    expect([oldest, nextVersion]).toEqual([
      [0, 0],
      [1, 1],
    ])
    for (const [i, row] of versions.entries()) {
      expect(row).toEqual([...row].sort())
      expect(new Set(row)).toEqual(new Set([0, 1]))
      const expected = row.map((version, t) => byVersion[version as 0 | 1][i]![t]!) // the two that there are
      expectClose([...logProbs[i]!], expected, { absolute: 1e-4 })
    }
  })

  it('keep: completions continue with the new weights over old keys and values', async () => {
    const { versions, logProbs, byVersion } = await updatedInFlight('keep')
    for (const [i, row] of versions.entries()) {
      const changed = row.indexOf(1)
      expect(changed).toBeGreaterThan(0)
      expectClose([...logProbs[i]!].slice(0, changed), [...byVersion[0][i]!].slice(0, changed), { absolute: 1e-4 })
      const gaps = [...logProbs[i]!].slice(changed).map((x, t) => Math.abs(x - byVersion[1][i]![changed + t]!))
      expect(Math.max(...gaps)).toBeGreaterThan(1e-3)
    }
  })

  it('finish: completions end with the weights that they began with, and the next begin with the new ones', async () => {
    const { versions, nextVersion } = await updatedInFlight('finish')
    expect(new Set(versions.flat())).toEqual(new Set([0]))
    expect(nextVersion).toEqual([1, 1])
  })

  it('reports refusals of the engine, and its end', async () => {
    using params = paramsOf(1)
    const engine = modelEngine({ config, params: params.value, limits: { memoryBytes: 2 ** 22 } })
    const wrong = {
      full: () => TE.right({ source: { _tag: 'Arrays', arrays: new Map() } as const, remove: async () => {} }),
    }
    const updater = inFlightUpdater({ engine, weights: wrong, running: 'finish' })
    expect((await leftOf(updater.push(null, 1))).reason).toContain('missing')
    expect(await engine.isPaused()).toBe(false)
    await engine.close()
    expect((await leftOf(inFlightUpdater({ engine, weights: wrong }).push(null, 1))).reason).toContain('closed')
    const lost = { full: () => TE.left({ _tag: 'WeightFailure', receiver: 'disk', reason: 'full' } as const) }
    expect(await inFlightUpdater({ engine, weights: lost }).push(null, 1)()).toEqual(
      E.left({ _tag: 'WeightFailure', receiver: 'disk', reason: 'full' }),
    )
  })
})
