/** The learner and the policy on a Tinker server; objectives are in test/learning. */
import { keyFromSeed, orThrow } from '@tandem-rl/base'
import { liveFiles } from '@tandem-rl/host'
import * as E from 'fp-ts/lib/Either.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { describe, expect, it } from 'vitest'
import { raggedArray, raggedRow } from '../../../src/data/tensorDict/leaf.js'
import { merge } from '../../../src/data/tensorDict/merge.js'
import { get } from '../../../src/data/tensorDict/tensorDict.js'
import { policyLoss } from '../../../src/objectives/policyLoss.js'
import { clippedSurrogate } from '../../../src/objectives/tokenLosses/clippedSurrogate.js'
import { gspo } from '../../../src/objectives/tokenLosses/gspo.js'
import { adamW } from '../../../src/objectives/updates/adamW.js'
import { sgd } from '../../../src/objectives/updates/sgd.js'
import { useEngine } from '../../../test/kit/engine.js'
import { randomBatch } from '../../../test/kit/learners.js'
import { tokenPrompt } from '../../../test/kit/small.js'
import { tinkerModel } from '../../../test/kit/tinker.js'
import { tinkerConnected, weightGap } from '../../../test/kit/tinkerSessions.js'
import type { TinkerSampler } from '../src/client/sampler.js'
import { tinkerLearner } from '../src/learner/tinkerLearner.js'
import { tinkerPolicy } from '../src/learner/tinkerPolicy.js'

useEngine()

const optimizer = adamW({ learningRate: 1e-3, epsilon: 1e-6 })

describe('tinkerLearner', () => {
  it('uses the loss of the server where it has one', () =>
    tinkerConnected(async ({ session, weights }) => {
      const both = await Promise.all(
        (['exact', 'builtIn'] as const).map(async (route) => {
          const trainer = orThrow(await session.trainer({ baseModel: 'toy', lora: null })())
          const loss = policyLoss({ objective: clippedSurrogate() })
          const learner = tinkerLearner({ trainer, baseModel: 'toy', loss, optimizer, key: keyFromSeed(4), route })
          for (let step = 0; step < 3; step++)
            orThrow(await learner.update(randomBatch(tinkerModel().config, [2, 2], step))())
          return weights(trainer, 'last')
        }),
      )
      expect(weightGap(both[0]!, both[1]!)).toBeLessThan(1e-5)
    }))

  it('restores a checkpoint of the server from the files of a run', () =>
    tinkerConnected(async ({ session }) => {
      const open = async () => {
        const trainer = orThrow(await session.trainer({ baseModel: 'toy', lora: { rank: 2 } })())
        const learner = tinkerLearner({ trainer, baseModel: 'toy', loss: policyLoss(), optimizer, key: keyFromSeed(4) })
        return { trainer, learner }
      }
      const batches = [0, 1].map((seed) => randomBatch(tinkerModel().config, [2], seed))
      const [first, second] = [await open(), await open()]
      orThrow(await first.learner.update(batches[0]!)())
      const text = String(first.learner.files()['learner.json'])
      orThrow(await first.learner.update(batches[1]!)())
      const files = { ...liveFiles, readText: () => async () => E.right(text) }
      orThrow(await second.learner.restore('folder', files)())
      expect(second.learner.version()).toBe(1)
      orThrow(await second.learner.update(batches[1]!)())
      const logProbs = await Promise.all(
        [first, second].map(async ({ learner }) => orThrow(await learner.logProbs(batches[0]!)())),
      )
      expect(raggedRow(logProbs[0]!, 0)).toEqual(raggedRow(logProbs[1]!, 0))
    }))

  it('refuses what a server cannot do', () =>
    tinkerConnected(async ({ session }) => {
      const trainer = orThrow(await session.trainer({ baseModel: 'toy', lora: null })())
      const given = { trainer, baseModel: 'toy', key: keyFromSeed(1), optimizer }
      const make = (more: object) => () => tinkerLearner({ ...given, loss: policyLoss(), ...more })
      expect(make({ checkpointSeconds: 0.5 })).toThrow(/checkpointSeconds must be a whole number above 0, got 0.5/)
      expect(make({ optimizer: sgd({ learningRate: 1 }) })).toThrow(/adamW/)
      expect(make({ loss: policyLoss({ entropyCoefficient: 0.1 }) })).toThrow(/entropy/)
      expect(make({ loss: policyLoss({ objective: gspo() }), route: 'builtIn' })).toThrow(/route exact/)
    }))
})

describe('tinkerPolicy', () => {
  it.each([
    ['the end tokens of the model', {}, [1, 2]],
    ['its stop tokens, and the end tokens of the model', { stopTokens: [9, 2] }, [9, 2, 1]],
    ['nothing, if end tokens are ignored', { endTokens: 'ignore' as const }, []],
    ['its stop strings', { stop: ['x'] }, ['x']],
  ])('stops at %s, whatever the defaults of the server', async (_, sampling, expected) => {
    const asked: unknown[] = []
    const sampler: TinkerSampler = {
      ...{ id: 'seen', logProbs: () => TE.right([]) },
      sample: (_prompt, options) => {
        asked.push(options?.stop)
        return TE.left({ _tag: 'TinkerFailure', kind: 'refused', server: 'seen', call: 'asample', reason: 'seen' })
      },
    }
    const model = { vocabularySize: 32, maxLength: 16, endTokens: [1, 2] }
    const { policy } = tinkerPolicy({ sampler, model, sampling: { maxTokens: 4, ...sampling } })
    await policy.act(tokenPrompt([[5]]), keyFromSeed(2))()
    expect(asked).toEqual([expected])
  })

  it('samples with versions, and its log-probabilities are the trainer’s', () =>
    tinkerConnected(async ({ session }) => {
      const { config } = tinkerModel()
      const trainer = orThrow(await session.trainer({ baseModel: 'toy', lora: { rank: 2 } })())
      const loss = policyLoss()
      const learner = tinkerLearner({ trainer, baseModel: 'toy', loss, optimizer, key: keyFromSeed(4) })
      const model = {
        vocabularySize: config.vocabularySize,
        maxLength: config.maxPositions,
        endTokens: config.endTokens,
      }
      const { policy, updater } = tinkerPolicy({
        ...{ sampler: orThrow(await trainer.sampler()()), trainer, model, sampling: { maxTokens: 4 } },
      })
      orThrow(await learner.update(randomBatch(config, [2], 1))())
      expect(await updater.push({}, 1)()).toEqual(E.right(1))
      const prompts = tokenPrompt([[5, 9], [14]])
      const sampled = orThrow(await policy.act(prompts, keyFromSeed(2))())
      const batch = merge(prompts, sampled)
      const [own, theirs] = [get(sampled, 'logProbs', 'response'), orThrow(await learner.logProbs(batch)())]
      for (const [i, x] of raggedArray(own).entries()) expect(raggedArray(theirs)[i]).toBeCloseTo(x, 4)
      const again = orThrow(await policy.act(prompts, keyFromSeed(2))())
      expect(raggedArray(get(again, 'tokens', 'response'))).toEqual(raggedArray(get(sampled, 'tokens', 'response')))
    }))
})
