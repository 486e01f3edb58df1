/**
 * Both routes of losses, and every objective of ours on a Tinker server against the local learner.
 */
import { keyFromSeed, orThrow } from '@tandem-rl/base'
import * as E from 'fp-ts/lib/Either.js'
import { describe, expect, it } from 'vitest'
import { localLearner } from '../../../../src/learners/localLearner.js'
import { hostArrays } from '../../../../src/modules/pretrained/pretrained.js'
import { type PolicyLossOptions, policyLoss } from '../../../../src/objectives/policyLoss.js'
import { cispo } from '../../../../src/objectives/tokenLosses/cispo.js'
import { clippedSurrogate } from '../../../../src/objectives/tokenLosses/clippedSurrogate.js'
import { clipCov, klCov } from '../../../../src/objectives/tokenLosses/covariance.js'
import { dppo } from '../../../../src/objectives/tokenLosses/dppo.js'
import { dro } from '../../../../src/objectives/tokenLosses/dro.js'
import { gmpo } from '../../../../src/objectives/tokenLosses/gmpo.js'
import { gspo } from '../../../../src/objectives/tokenLosses/gspo.js'
import { luspo } from '../../../../src/objectives/tokenLosses/luspo.js'
import { policyGradient } from '../../../../src/objectives/tokenLosses/policyGradient.js'
import { sapo } from '../../../../src/objectives/tokenLosses/sapo.js'
import { vespo } from '../../../../src/objectives/tokenLosses/vespo.js'
import { adamW } from '../../../../src/objectives/updates/adamW.js'
import { useEngine } from '../../../../test/kit/engine.js'
import { randomBatch } from '../../../../test/kit/learners.js'
import { tinkerModel } from '../../../../test/kit/tinker.js'
import { textDatum } from '../../../../test/kit/tinkerFaults.js'
import { tinkerConnected, weightGap } from '../../../../test/kit/tinkerSessions.js'
import { exactBackward } from '../../src/learner/exactRoute.js'
import { tinkerLearner } from '../../src/learner/tinkerLearner.js'
import { type Datum, floatTensor } from '../../src/protocol/values.js'

useEngine()

const ADAM = { learning_rate: 1e-4, beta2: 0.95, eps: 1e-8 }

const TOKENS = [
  [5, 9, 14, 33, 70, 61, 22],
  [5, 9, 81, 4],
]

/** Data of a policy loss: log-probabilities near the model's own, advantages of both signs. */
const rlData = (): readonly Datum[] =>
  TOKENS.map((tokens, row) => {
    const { inputs, ...datum } = textDatum(tokens)
    const numbers = tokens.slice(1)
    return {
      ...datum,
      inputs: {
        target_tokens: inputs.target_tokens!,
        logprobs: floatTensor(numbers.map((_, t) => -5.5 - 0.3 * Math.sin(t + row))),
        advantages: floatTensor(numbers.map((_, t) => (t === 0 ? 0 : Math.cos(3 * t + row)))),
      },
    }
  })

/**
 * The derivative of each built-in loss by a log-probability: with the ratio r, advantage a, and old
 * log-probability q.
 */
const DERIVATIVES: Readonly<Record<string, (p: number, q: number, a: number) => number>> = {
  cross_entropy: () => -1,
  importance_sampling: (p, q, a) => -Math.exp(p - q) * a,
  ppo: (p, q, a) => {
    const r = Math.exp(p - q)
    const isClipped = (a > 0 && r > 1.2) || (a < 0 && r < 0.8)
    return isClipped ? 0 : -r * a
  },
  cispo: (p, q, a) => -Math.min(Math.max(Math.exp(p - q), 0), 4) * a,
  dro: (p, q, a) => 0.05 * (p - q) - a,
}

describe('both routes', () => {
  it.each(Object.keys(DERIVATIVES))('give the same parameters after ten steps of %s', (lossFn) =>
    tinkerConnected(async ({ session, weights }) => {
      const data = lossFn === 'cross_entropy' ? TOKENS.map(textDatum) : rlData()
      const [builtIn, exact] = [
        orThrow(await session.trainer({ baseModel: 'toy', lora: null })()),
        orThrow(await session.trainer({ baseModel: 'toy', lora: null })()),
      ]
      const old = (row: number, t: number, name: string): number => data[row]!.inputs[name]?.data[t] ?? 0
      for (let step = 0; step < 10; step++) {
        orThrow(await builtIn.forwardBackward({ data, lossFn })())
        orThrow(
          await exactBackward(exact, data, (logProbs) =>
            E.right({
              gradients: logProbs.map((row, i) =>
                Array.from(row, (p, t) => DERIVATIVES[lossFn]!(p, old(i, t, 'logprobs'), old(i, t, 'advantages'))),
              ),
            }),
          )(),
        )
        for (const trainer of [builtIn, exact]) orThrow(await orThrow(await trainer.optimStep(ADAM)()).result())
      }
      expect(weightGap(await weights(builtIn, 'built-in'), await weights(exact, 'exact'))).toBeLessThan(1e-5)
    }),
  )
})

const LOSSES: Readonly<Record<string, PolicyLossOptions>> = {
  clippedSurrogate: { objective: clippedSurrogate({ dualClip: 3 }), kl: [{ to: 'reference', coefficient: 0.1 }] },
  gspo: { objective: gspo() },
  gmpo: { objective: gmpo() },
  sapo: { objective: sapo() },
  vespo: { objective: vespo() },
  luspo: { objective: luspo() },
  dppo: { objective: dppo() },
  clipCov: { objective: clipCov() },
  klCov: { objective: klCov() },
  dro: { objective: dro(), aggregation: 'seq-mean-token-mean' },
  policyGradient: { objective: policyGradient(), klMaskThreshold: 5 },
  cispo: { objective: cispo(), aggregation: 'seq-mean-token-sum' },
}

const optimizer = adamW({ learningRate: 1e-3, epsilon: 1e-6 })

describe('tinkerLearner', () => {
  it.each(Object.entries(LOSSES))('equals the local learner with %s', (_, options) =>
    tinkerConnected(async ({ session, weights }) => {
      const model = tinkerModel()
      const loss = policyLoss(options)
      const local = localLearner({ model, loss, optimizer, key: keyFromSeed(4) })
      const trainer = orThrow(await session.trainer({ baseModel: 'toy', lora: null })())
      const remote = tinkerLearner({ trainer, baseModel: 'toy', loss, optimizer, key: keyFromSeed(4) })
      for (let step = 0; step < 3; step++) {
        const batch = randomBatch(model.config, [2, 2], step)
        const [here, there] = [orThrow(await local.update(batch)()), orThrow(await remote.update(batch)())]
        expect(there.version).toBe(here.version)
        expect(there.metrics.loss).toBeCloseTo(here.metrics.loss, 4)
        expect(there.metrics.gradNorm).toBeCloseTo(here.metrics.gradNorm, 3)
      }
      const mine = new Map([...hostArrays(local.weights())].map(([name, { data }]) => [name, data]))
      expect(weightGap(await weights(trainer, 'last'), mine)).toBeLessThan(1e-4)
      await local.close()
      await remote.close()
    }),
  )

  it('corrects for a sampler that differs from the trainer as the local learner does', () =>
    tinkerConnected(async ({ session, weights }) => {
      const model = tinkerModel()
      const loss = policyLoss({ objective: clippedSurrogate() })
      const offPolicy = { oldLogProbs: 'rescored', correction: { weights: { level: 'token', limit: 2 } } } as const
      const shared = { loss, optimizer, key: keyFromSeed(4), offPolicy }
      const local = localLearner({ model, ...shared })
      const trainer = orThrow(await session.trainer({ baseModel: 'toy', lora: null })())
      const remote = tinkerLearner({ trainer, baseModel: 'toy', ...shared })
      for (let step = 0; step < 2; step++) {
        const batch = randomBatch(model.config, [2, 2], step)
        const [here, there] = [orThrow(await local.update(batch)()), orThrow(await remote.update(batch)())]
        expect(there.correction!.meanWeight).toBeCloseTo(here.correction!.meanWeight, 4)
        expect(there.metrics.loss).toBeCloseTo(here.metrics.loss, 4)
      }
      const mine = new Map([...hostArrays(local.weights())].map(([name, { data }]) => [name, data]))
      expect(weightGap(await weights(trainer, 'last'), mine)).toBeLessThan(1e-4)
      await local.close()
      await remote.close()
    }))
})
