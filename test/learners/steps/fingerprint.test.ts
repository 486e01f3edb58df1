/** Fingerprints of formulas, and what threads make of them. */
import { liveThreads } from '@tandem-rl/host'
import * as tf from '@tensorflow/tfjs-core'
import fc from 'fast-check'
import { isLeft } from 'fp-ts/lib/Either.js'
import { describe, expect, it } from 'vitest'
import { startReplicas } from '../../../src/learners/parallel/replicas.js'
import { advantageFingerprint, lossFingerprint } from '../../../src/learners/steps/fingerprint.js'
import { MCAdvantage } from '../../../src/objectives/advantages/mcAdvantage.js'
import { GAE } from '../../../src/objectives/advantages/valueAdvantages.js'
import { ALGORITHM_NAMES, algorithmLoss } from '../../../src/objectives/algorithms.js'
import { DistillationLoss } from '../../../src/objectives/distillationLoss.js'
import { dpoLoss } from '../../../src/objectives/dpoLoss.js'
import { GRPOLoss } from '../../../src/objectives/grpoLoss.js'
import { type AnyLoss, defineLoss } from '../../../src/objectives/loss.js'
import { policyLoss } from '../../../src/objectives/policyLoss.js'
import { ppoLoss } from '../../../src/objectives/ppoLoss.js'
import { rewardModelLoss } from '../../../src/objectives/rewardModelLoss.js'
import { SFTLoss } from '../../../src/objectives/sftLoss.js'
import { tokenMean } from '../../../src/objectives/tokenLosses/aggregation.js'
import { cispo } from '../../../src/objectives/tokenLosses/cispo.js'
import { valueLoss } from '../../../src/objectives/valueLoss.js'
import { useEngine } from '../../kit/engine.js'
import { SMALL_DECODER } from '../../kit/lossSteps.js'
import { tinyConfig } from '../../kit/models.js'

useEngine({ threads: 1 })

const DIGEST = /^[0-9a-f]{16}$/

const LOSSES: readonly AnyLoss[] = [
  ...ALGORITHM_NAMES.map((name) => algorithmLoss(name, { clipLow: null, clipHigh: null, longest: 8 })),
  ...[GRPOLoss(), ppoLoss(), valueLoss(), SFTLoss(), SFTLoss({ lossFunction: 'minor_sft' })],
  ...[dpoLoss(), rewardModelLoss(), DistillationLoss()],
]

/** A loss of one term: the mean of `factor` times the advantage times the log-probability. */
const scaled = (factor: number): AnyLoss =>
  defineLoss({
    name: 'scaled',
    reads: ['advantages'],
    apply: ({ logProbs }, { advantages, ...batch }) => ({
      loss: tokenMean(tf.mul(tf.mul(logProbs, advantages), factor), batch),
    }),
  })

describe('lossFingerprint', () => {
  it('is a digest for every loss of this package, and the same each time', () => {
    for (const loss of LOSSES) {
      expect(lossFingerprint(loss), loss.name).toMatch(DIGEST)
      expect(lossFingerprint(loss), loss.name).toBe(lossFingerprint(loss))
    }
  })

  it('law: differs if a factor of the formula differs', () => {
    const factor = fc.integer({ min: -64, max: 64 }).map((x) => x / 8)
    fc.assert(
      fc.property(factor, factor, (a, b) => {
        expect(lossFingerprint(scaled(a)) === lossFingerprint(scaled(b))).toBe(a === b)
      }),
      { numRuns: 20 },
    )
  })

  it('differs for the same name and settings with the sign of an objective turned', () => {
    const objective = cispo()
    const turned = {
      ...objective,
      apply: (terms: Parameters<typeof objective.apply>[0]) => {
        const { losses, ...rest } = objective.apply(terms)
        return { ...rest, losses: tf.neg(losses) }
      },
    }
    const [one, other] = [policyLoss({ objective }), policyLoss({ objective: turned })]
    expect([other.name, other.options]).toEqual([one.name, one.options])
    expect(lossFingerprint(other)).not.toBe(lossFingerprint(one))
  })

  it('reads entries of a loss that this package does not know', () => {
    const loss = defineLoss({
      name: 'own',
      reads: ['difficulty.tokens'],
      apply: ({ logProbs }, batch) => ({ loss: tokenMean(tf.mul(logProbs, batch['difficulty.tokens']), batch) }),
    })
    expect(lossFingerprint(loss)).toMatch(DIGEST)
  })

  it('is the reason if the loss cannot be computed', () => {
    const loss = defineLoss({
      name: 'own',
      apply: () => {
        throw new RangeError('no such entry')
      },
    })
    expect(lossFingerprint(loss)).toBe('not computed: no such entry')
  })
})

describe('advantageFingerprint', () => {
  it('differs for other estimators and settings', () => {
    const all = [MCAdvantage({ groupSize: 2 }), MCAdvantage({ groupSize: 3 }), GAE(), GAE({ lambda: 0.5 })]
    const digests = all.map((advantage) => advantageFingerprint(advantage as never)) // of batches with more entries
    for (const digest of digests) expect(digest).toMatch(DIGEST)
    expect(new Set(digests).size).toBe(all.length)
  })
})

describe('a thread', () => {
  it('refuses a loss whose module exports another formula', async () => {
    const objective = { ...cispo(), apply: cispo({ clipEpsilon: 0.9 }).apply }
    const started = await startReplicas({
      config: tinyConfig(SMALL_DECODER),
      loss: policyLoss({ objective }),
      workers: 2,
      threads: liveThreads,
    })()
    expect(isLeft(started) && started.left.reason).toMatch('is not cispo as it is used here')
  })
})
