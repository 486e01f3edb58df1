/** Off-policy corrections of learners are equal to those of the functions on rows. */
import { keyFromSeed } from '@tandem-rl/base'
import { own, scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import { beforeAll, describe, expect, it } from 'vitest'
import { data, ragged, raggedRows } from '../../src/data/tensorDict/leaf.js'
import { assign } from '../../src/data/tensorDict/merge.js'
import { localLearner } from '../../src/learners/localLearner.js'
import type { OffPolicyOptions } from '../../src/learners/offPolicy.js'
import { correctStaleRows } from '../../src/learners/staleRows.js'
import { correctedRows, rescoredRows } from '../../src/learners/steps/correction.js'
import { lossStep } from '../../src/learners/steps/lossStep.js'
import { hostArrays, type Pretrained } from '../../src/modules/pretrained/pretrained.js'
import { sharedParams } from '../../src/modules/pretrained/sharedParams.js'
import { GRPOLoss } from '../../src/objectives/grpoLoss.js'
import { type LossRows, withoutRows } from '../../src/objectives/lossRows.js'
import { sgd } from '../../src/objectives/updates/sgd.js'
import { useEngine } from '../kit/engine.js'
import { batchOf, smallModel } from '../kit/learners.js'
import { rightOf } from '../kit/results.js'
import { lossRows, rowsOf } from '../kit/trainingRows.js'

useEngine({ threads: 1 })
const GROUPS = [2, 2]
const key = keyFromSeed(1)

let model: Pretrained
beforeAll(async () => {
  model = await smallModel()
})

const learnerOf = (offPolicy?: OffPolicyOptions) => {
  const options = { model, loss: GRPOLoss(), optimizer: sgd({ learningRate: 1 }), key }
  return localLearner({ ...options, ...(offPolicy && { offPolicy }) })
}

/** Returns the weights after one step on rows. */
const stepped = (rows: LossRows) => {
  const step = lossStep(GRPOLoss(), { config: model.config, optimizer: sgd() })
  using start = sharedParams(model)
  using before = own(scope(() => step.init(start.value)))
  const { state, metrics } = step.update(before.value, rows, 1)
  using after = state
  step.release()
  return { weights: hostArrays(after.value.params), metrics }
}

const given = () => {
  const rows = rowsOf(model.config.vocabularySize, GROUPS, 9)
  return { rows: lossRows(rows), batch: batchOf(rows, GROUPS) }
}

/** Returns the trainer's log-probabilities of a batch. */
const ownLogProbs = async () => {
  const learner = learnerOf()
  const own = await rightOf(learner.logProbs(given().batch))
  await learner.close()
  return own
}

const learned = async (batch: ReturnType<typeof given>['batch'], offPolicy?: OffPolicyOptions) => {
  const learner = learnerOf(offPolicy)
  const update = await rightOf(learner.update(batch))
  const weights = hostArrays(learner.weights())
  await learner.close()
  return { update, weights }
}

const BY_TOKEN = { weights: { level: 'token', limit: 2 } } as const

describe('offPolicy', () => {
  it('rescored: takes the ratio against the trainer, and keeps the sampler beside it', async () => {
    const { rows, batch } = given()
    const own = raggedRows(await ownLogProbs())
    const { weights, update } = await learned(batch, { oldLogProbs: 'rescored' })
    const expected = stepped(rescoredRows(rows, own))
    expect([weights, update.metrics]).toEqual([expected.weights, expected.metrics])
  })

  it('a correction weighs tokens, and is measured', async () => {
    const { rows, batch } = given()
    const own = raggedRows(await ownLogProbs())
    const { weights, update } = await learned(batch, { oldLogProbs: 'rescored', correction: BY_TOKEN })
    const corrected = correctedRows(rescoredRows(rows, own), BY_TOKEN)
    expect(weights).toEqual(stepped(corrected.rows).weights)
    expect(update.correction).toEqual(corrected.metrics)
  })

  it('entries of the batch take the place of what the learner would compute', async () => {
    const { rows, batch } = given()
    const own = await ownLogProbs()
    const corrected = correctedRows(rescoredRows(rows, raggedRows(own)), BY_TOKEN)
    const made = assign(batch, {
      oldLogProbs: { response: own },
      tokenWeights: ragged('float32', corrected.rows.lists.weights as number[][]),
      masks: { loss: ragged('bool', corrected.rows.masks!) },
    })
    expect((await learned(made)).weights).toEqual(stepped(corrected.rows).weights)
  })

  it('truncated: completions that reached the limit are masked out', async () => {
    const { rows, batch } = given()
    const stopped = assign(batch, { stopReason: data(['stop', 'length', 'stop', 'length']) })
    const { weights } = await learned(stopped, { truncated: 'mask' })
    expect(weights).toEqual(stepped(withoutRows(rows, [false, true, false, true])).weights)
  })

  it('stale: tokens of older weights are weighed, others are left alone bit for bit', async () => {
    const { rows, batch } = given()
    const learner = learnerOf({ stale: 'correct' })
    const fresh = assign(batch, { policyVersion: data([0, 0, 0, 0]) })
    const first = await rightOf(learner.update(fresh))
    expect(hostArrays(learner.weights())).toEqual(stepped(rows).weights)
    expect(first.correction).toBeNull()
    const own = raggedRows(await rightOf(learner.logProbs(batch)))
    const second = await rightOf(learner.update(fresh))
    const lags = rows.completions.map((row) => Array.from(row, () => 1))
    expect(second.correction).toEqual(correctStaleRows(rows, { own, lags }).metrics)
    await learner.close()
  })

  it('stamps that are newer than the learner are refused', async () => {
    const learner = learnerOf({ stale: 'correct' })
    const newer = assign(given().batch, { policyVersion: data([1, 0, 0, 0]) })
    await expect(learner.update(newer)()).rejects.toThrow('newer than 0')
    await learner.close()
  })

  it('rows of several temperatures are refused', async () => {
    const learner = learnerOf()
    const mixed = assign(given().batch, { sampling: data([1, 1, 0.5, 1].map((temperature) => ({ temperature }))) })
    await expect(learner.update(mixed)()).rejects.toThrow('several temperatures: 1, 0.5')
    await learner.close()
  })
})
