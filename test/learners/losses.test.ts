/** Learners and batch losses of every kind give the same results on batches as steps on rows. */
import { keyFromSeed, orThrow } from '@tandem-rl/base'
import { liveFiles } from '@tandem-rl/host'
import { valueAndGrad } from '@tandem-rl/tfjs-onnxruntime'
import { liveTensors, own, ownedCount, scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as tf from '@tensorflow/tfjs-core'
import { beforeAll, describe, expect, it } from 'vitest'
import { decodeSafetensors } from '../../src/data/codecs/safetensors.js'
import { ragged } from '../../src/data/tensorDict/leaf.js'
import { assign } from '../../src/data/tensorDict/merge.js'
import { take } from '../../src/data/tensorDict/selecting.js'
import { get, TensorDict } from '../../src/data/tensorDict/tensorDict.js'
import { batchLoss } from '../../src/learners/batchLoss.js'
import { localLearner } from '../../src/learners/localLearner.js'
import { loadExport } from '../../src/live/moduleExport.js'
import { hostArrays, type Pretrained } from '../../src/modules/pretrained/pretrained.js'
import { sharedParams } from '../../src/modules/pretrained/sharedParams.js'
import { initialValueHead } from '../../src/modules/valueHead.js'
import { DistillationLoss } from '../../src/objectives/distillationLoss.js'
import { dpoLoss } from '../../src/objectives/dpoLoss.js'
import { GRPOLoss } from '../../src/objectives/grpoLoss.js'
import { type AnyLoss, totalLoss } from '../../src/objectives/loss.js'
import { policyLoss } from '../../src/objectives/policyLoss.js'
import { ppoLoss } from '../../src/objectives/ppoLoss.js'
import { rewardModelLoss } from '../../src/objectives/rewardModelLoss.js'
import { SFTLoss } from '../../src/objectives/sftLoss.js'
import { cispo } from '../../src/objectives/tokenLosses/cispo.js'
import { clipCov } from '../../src/objectives/tokenLosses/covariance.js'
import { sgd } from '../../src/objectives/updates/sgd.js'
import { valueLoss } from '../../src/objectives/valueLoss.js'
import { expectClose } from '../kit/close.js'
import { useEngine, valuesOf } from '../kit/engine.js'
import { randomBatch, smallModel } from '../kit/learners.js'
import { rightOf } from '../kit/results.js'
import { useTemporaryFolder } from '../kit/runs.js'

useEngine({ threads: 1 })
const path = useTemporaryFolder()
const key = keyFromSeed(3)
const RATE = 0.5

let model: Pretrained
beforeAll(async () => {
  model = await smallModel()
})

const GROUPS = [2, 2, 2]

/** A batch with the entries of all losses of completions. */
const completions = () => {
  const batch = randomBatch(model.config, GROUPS, 2)
  const near = get(batch, 'logProbs', 'response')
  return assign(batch, { returns: near, values: near, teacherLogProbs: { response: near } })
}

/** Makes pairs of adjacent `completions`, which have the same prompt. */
const pairs = () => {
  const batch = completions()
  const side = (first: number) => {
    const rows = take(batch, [first, first + 2, first + 4])
    return { tokens: get(rows, 'tokens'), refLogProbs: { response: get(rows, 'logProbs', 'response') } }
  }
  return TensorDict({ chosen: side(0), rejected: side(1), margin: tf.tensor1d([0.5, 0, 1]) }, [3])
}

const CASES: readonly (readonly [string, AnyLoss, 'value' | 'none'])[] = [
  ['policy', GRPOLoss({ klToRefCoefficient: 0.1, entropyCoefficient: 0.01 }), 'none'],
  ['ppo', ppoLoss(), 'value'],
  ['value', valueLoss({ clipEpsilon: 0.5 }), 'value'],
  ['sft', SFTLoss({ reduction: 'token-mean', klToRefCoefficient: 0.2 }), 'none'],
  ['dpo', dpoLoss(), 'none'],
  ['rewardModel', rewardModelLoss({ centerRewardsCoefficient: 0.1 }), 'value'],
  ['distillation', DistillationLoss(), 'none'],
]

const batchFor = (loss: AnyLoss): TensorDict<never> =>
  (loss.reads.includes('chosen.tokens.prompt') ? pairs() : completions()) as unknown as TensorDict<never> // its entries

describe.each(CASES)('a learner of %s', (name, loss, head) => {
  it('steps down the gradient of its batch loss', async () => {
    using batch = own(scope(() => batchFor(loss)))
    const learner = localLearner({
      ...{ model, loss, key, optimizer: sgd({ learningRate: RATE }) },
      passes: { maxGradNorm: Number.POSITIVE_INFINITY },
    })
    const before = hostArrays(learner.weights())
    const { metrics } = await rightOf(learner.update(batch.value as never))
    scope(() => {
      using shared = sharedParams(model)
      const params = { ...shared.value, ...(head === 'value' && initialValueHead(model.config, key)) }
      const of = batchLoss(loss, { config: model.config })
      const { value, grads } = valueAndGrad(params, (p) => ({ value: of(p, batchFor(loss)).loss, aux: {} }))
      expectClose([metrics.loss], valuesOf(value), { absolute: 1e-5, relative: 1e-5 })
      const headBytes = learner.files()['value_head.safetensors']
      const numbersBefore = new Map([...before, ...hostArrays(params)])
      const numbersAfter = new Map<string, { readonly data: ArrayLike<unknown> }>([
        ...hostArrays(learner.weights()),
        ...(headBytes instanceof Uint8Array ? orThrow(decodeSafetensors(headBytes)).arrays : []),
      ])
      for (const [parameter, gradient] of Object.entries(grads)) {
        const [was, is] = [numbersBefore.get(parameter)!.data, numbersAfter.get(parameter)!.data]
        const moved = Array.from(is, (x, i) => (was[i]! - Number(x)) / RATE)
        expectClose(moved, valuesOf(gradient), { absolute: 2e-4, relative: 2e-3 })
      }
    })
    expect(batch.value.batchShape.length, name).toBe(1)
    await learner.close()
  })

  it('continues from its files bit for bit, with an adapter as well', async () => {
    for (const lora of [undefined, { rank: 2 }]) {
      const make = () =>
        localLearner({ ...{ model, loss, key, optimizer: sgd({ learningRate: RATE }) }, ...(lora && { lora }) })
      const [first, second] = [make(), make()]
      using batch = own(scope(() => batchFor(loss)))
      await rightOf(first.update(batch.value as never))
      const folder = path(`${name} ${lora === undefined ? 'whole' : 'adapter'}`)
      await rightOf(liveFiles.writeFolder(folder, first.files()))
      await rightOf(second.restore(folder, liveFiles))
      await rightOf(first.update(batch.value as never))
      await rightOf(second.update(batch.value as never))
      expect(second.files()).toEqual(first.files())
      await first.close()
      await second.close()
    }
  })

  it('names the entries that a batch lacks', async () => {
    const learner = localLearner({ model, loss, key, optimizer: sgd({ learningRate: RATE }) })
    const empty = TensorDict({}, [2]) as never
    await expect(learner.update(empty)()).rejects.toThrow(
      `the batch has no ${learner.reads.map((entry) => `'${entry}'`).join(', ')}`,
    )
    expect(() => batchLoss(loss, { config: model.config })({}, empty)).toThrow('the batch has no')
    await learner.close()
  })

  it('comes back from its module', async () => {
    const again = await loadExport<AnyLoss>(structuredClone(loss.module!))
    expect([again.name, again.options, again.reads]).toEqual([loss.name, loss.options, loss.reads])
  })
})

describe('batchLoss', () => {
  it('has the outputs of a policy loss, and their sum as loss', () => {
    scope(() => {
      using shared = sharedParams(model)
      const loss = GRPOLoss({ klToRefCoefficient: 0.1 })
      const output = batchLoss(loss, { config: model.config })(shared.value, completions())
      expect(Object.keys(output)).toEqual(
        expect.arrayContaining(['lossObjective', 'clipFraction', 'klApprox', 'klToRef', 'lossKlToRef', 'entropy']),
      )
      expectClose(valuesOf(output.loss), valuesOf(totalLoss(output)), { absolute: 1e-6 })
    })
  })

  it('wants a key for a loss that draws', () => {
    const loss = policyLoss({ objective: clipCov() })
    expect(() => batchLoss(loss, { config: model.config })).toThrow('give a key')
    scope(() => {
      using shared = sharedParams(model)
      const { loss: value } = batchLoss(loss, { config: model.config, key })(shared.value, completions())
      expect(Number.isFinite(valuesOf(value)[0]!)).toBe(true)
    })
  })
})

describe('options and modules of losses', () => {
  it('have the objective of a policy loss, and one of the caller if it names its module', () => {
    const loss = policyLoss({ objective: cispo({ clipEpsilon: [1, 4] }), aggregation: 'token-sum' })
    expect(loss.options).toEqual({
      objective: { name: 'cispo', options: { clipEpsilon: [1, 4] } },
      aggregation: 'token-sum',
    })
    const { module: _, ...objective } = cispo()
    expect(policyLoss({ objective }).module).toBeUndefined()
    expect(policyLoss({ objective: { ...objective, name: 'mine', module: 'file:///mine.js' } }).module).toMatchObject({
      input: { objective: { module: 'file:///mine.js', exportName: 'mine' } },
    })
  })
})

describe('a learner of pairs', () => {
  it('refuses a pair with two prompts', async () => {
    const learner = localLearner({ model, loss: dpoLoss(), key, optimizer: sgd({ learningRate: RATE }) })
    using made = own(scope(() => pairs()))
    const other = assign(made.value, { rejected: { tokens: { prompt: ragged('int32', [[1], [2], [3]]) } } })
    await expect(learner.update(other as never)()).rejects.toThrow('pair 0 have different prompts')
    await learner.close()
  })

  it('frees all that it made', async () => {
    const before = [liveTensors().count, ownedCount()]
    const learner = localLearner({ model, loss: rewardModelLoss(), key, optimizer: sgd({ learningRate: RATE }) })
    const batch = own(scope(() => pairs()))
    await rightOf(learner.update(batch.value))
    await learner.close()
    batch.release()
    expect([liveTensors().count, ownedCount()]).toEqual(before)
  })
})
