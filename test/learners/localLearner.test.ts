import { child, cosine, keyFromSeed } from '@tandem-rl/base'
import { liveFiles } from '@tandem-rl/host'
import { liveTensors, own, ownedCount, scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as tf from '@tensorflow/tfjs-core'
import { isLeft } from 'fp-ts/lib/Either.js'
import { beforeAll, describe, expect, it } from 'vitest'
import { exclude } from '../../src/data/tensorDict/edit.js'
import { data, ragged, raggedRows } from '../../src/data/tensorDict/leaf.js'
import { assign } from '../../src/data/tensorDict/merge.js'
import type { TensorDict } from '../../src/data/tensorDict/tensorDict.js'
import type { NamedTensors } from '../../src/data/weights.js'
import { type LocalLearnerOptions, localLearner } from '../../src/learners/localLearner.js'
import { lossStep } from '../../src/learners/steps/lossStep.js'
import { miniBatches } from '../../src/learners/steps/miniBatches.js'
import { MAX_LORA_RANK } from '../../src/modules/lora/config.js'
import { hostArrays, type Pretrained } from '../../src/modules/pretrained/pretrained.js'
import { sharedParams } from '../../src/modules/pretrained/sharedParams.js'
import { GRPOLoss } from '../../src/objectives/grpoLoss.js'
import { rowsAt, withNoise } from '../../src/objectives/lossRows.js'
import { type PolicyBatch, type PolicyLoss, policyLoss } from '../../src/objectives/policyLoss.js'
import type { StepMetrics } from '../../src/objectives/policyMetrics.js'
import { clipCov } from '../../src/objectives/tokenLosses/covariance.js'
import { adamW } from '../../src/objectives/updates/adamW.js'
import { grouped } from '../../src/objectives/updates/grouped.js'
import { muon } from '../../src/objectives/updates/muon.js'
import { useEngine } from '../kit/engine.js'
import { randomBatch, smallModel } from '../kit/learners.js'
import { rightOf } from '../kit/results.js'
import { useTemporaryFolder } from '../kit/runs.js'
import { sameThread } from '../kit/sameThread.js'
import { lossRows, rowsOf } from '../kit/trainingRows.js'

useEngine({ threads: 1 })
const path = useTemporaryFolder()
const GROUPS = [2, 2, 2, 2]
const key = keyFromSeed(7)

let model: Pretrained
beforeAll(async () => {
  model = await smallModel()
})

type Changes = Partial<LocalLearnerOptions<PolicyBatch, StepMetrics>>

const learnerOf = (changes: Changes = {}) =>
  localLearner<PolicyBatch, StepMetrics>({
    model,
    loss: GRPOLoss(),
    optimizer: adamW({ learningRate: 1e-2 }),
    key,
    ...changes,
  })

const batch = (seed: number) => randomBatch(model.config, GROUPS, seed)

const numbers = (tensors: NamedTensors) => hostArrays(tensors)

const noisyLoss = (): PolicyLoss => policyLoss({ objective: clipCov({ share: 0.2, bounds: [-9, 9] }) })

const muonAndRest = () =>
  grouped(
    [
      { name: 'matrices', has: (name, { rank }) => rank === 2 && !name.includes('embed'), optimizer: muon() },
      { name: 'rest', optimizer: adamW() },
    ],
    { learningRate: cosine(1e-2, 0, 6) },
  )

const CASES: readonly (readonly [string, () => Changes])[] = [
  ['all weights with AdamW', () => ({})],
  [
    'a schedule, two passes of two mini-batches, and a loss that draws',
    () => ({
      loss: noisyLoss(),
      optimizer: adamW({ learningRate: cosine(1e-2, 0, 6) }),
      passes: { epochs: 2, miniBatches: 2 },
    }),
  ],
  ['two threads', () => ({ compute: { threads: 2, threadStarter: sameThread } })],
  ['an adapter', () => ({ lora: { rank: 2 } })],
  ['muon', () => ({ optimizer: muonAndRest() })],
]

describe('localLearner', () => {
  it.each(CASES)('continues from its files bit for bit: %s', async (name, changes) => {
    const [straight, first, second] = [learnerOf(changes()), learnerOf(changes()), learnerOf(changes())]
    for (const seed of [1, 2, 3, 4]) await rightOf(straight.update(batch(seed)))
    for (const seed of [1, 2]) await rightOf(first.update(batch(seed)))
    const folder = path(`learner ${name.replaceAll(/\W/g, '-')}`)
    await rightOf(liveFiles.writeFolder(folder, first.files()))
    await rightOf(second.restore(folder, liveFiles))
    expect(second.version()).toBe(2)
    expect(numbers(second.weights())).toEqual(numbers(first.weights()))
    const resumed = [await rightOf(second.update(batch(3))), await rightOf(second.update(batch(4)))]
    expect(numbers(second.weights())).toEqual(numbers(straight.weights()))
    expect(second.files()).toEqual(straight.files())
    expect(resumed.map(({ version }) => version)).toEqual([3, 4])
    expect(second.description).toEqual(straight.description)
    for (const learner of [straight, first, second]) await learner.close()
  })

  it('computes what rows, mini-batches and steps compute when they are called one by one', async () => {
    const loss = noisyLoss()
    const optimizer = adamW({ learningRate: 1e-2 })
    const learner = learnerOf({ loss, passes: { epochs: 2, miniBatches: 2 } })
    const update = await rightOf(learner.update(batch(5)))

    const rows = rowsOf(model.config.vocabularySize, GROUPS, 5)
    const step = lossStep(loss, { config: model.config, optimizer })
    using start = sharedParams(model)
    let state = own(scope(() => step.init(start.value)))
    const metrics = []
    for (const epoch of [0, 1]) {
      const noise = child(child(key, 'noise'), 1)
      const noisy = withNoise(lossRows(rows), epoch === 0 ? noise : child(noise, 'epoch 1'))
      const groups = GROUPS.flatMap((size, group) => Array<string>(size).fill(`g${group}`))
      for (const places of miniBatches(groups, { count: 2, key: child(child(child(key, 'order'), 1), epoch) })) {
        const next = step.update(state.value, rowsAt(noisy, places), 1e-2)
        state.release()
        state = next.state
        metrics.push(next.metrics)
      }
    }
    expect(numbers(learner.weights())).toEqual(numbers(state.value.params))
    expect(update.steps).toEqual(metrics)
    expect(update).toMatchObject({ version: 1, learningRate: 1e-2, correction: null })
    state.release()
    step.release()
    await learner.close()
  })

  it('gives the log-probabilities of a batch, at its temperature', async () => {
    const learner = learnerOf()
    const sampled = batch(1)
    const logProbs = await rightOf(learner.logProbs(sampled))
    const own = assign(sampled, { logProbs: { response: logProbs } })
    const { metrics } = await rightOf(learner.update(own))
    expect(metrics.maxLogProbGap).toBeLessThan(1e-5)
    await learner.close()
  })

  it('compares greedy rows at temperature 1, where their log-probabilities were recorded', async () => {
    const learner = learnerOf()
    const rows = batch(1)
    const greedy = Array.from({ length: rows.batchShape[0]! }, () => ({ temperature: 0 }))
    const expected = await rightOf(learner.logProbs(rows))
    expect(await rightOf(learner.logProbs(assign(rows, { sampling: data(greedy) })))).toEqual(expected)
    await learner.close()
  })

  it('names every entry that a batch lacks', async () => {
    const learner = learnerOf({ offPolicy: { truncated: 'mask' } })
    const poor = exclude(batch(1), 'advantage', ['logProbs', 'response']) as unknown as ReturnType<typeof batch>
    await expect(learner.update(poor)()).rejects.toThrow(
      "the batch has no 'logProbs.response', 'advantage', 'stopReason'",
    )
    expect(learner.version()).toBe(0)
    await learner.close()
  })

  it('answers with a failure where the loss is not finite, and keeps its weights', async () => {
    const learner = learnerOf()
    const before = numbers(learner.weights())
    const good = batch(1)
    const bad = assign(good, {
      advantage: ragged(
        'float32',
        raggedRows(rowsLike(good)).map((row) => row.map(() => Number.NaN)),
      ),
    })
    const result = await learner.update(bad)()
    expect(isLeft(result) && result.left).toMatchObject({ _tag: 'LearnerFailure', kind: 'non-finite' })
    expect([numbers(learner.weights()), learner.version()]).toEqual([before, 0])
    await learner.close()
  })

  it('leaves a batch without rows alone, and counts the update', async () => {
    const learner = learnerOf()
    const empty = randomBatch(model.config, [], 1)
    const { metrics, steps } = await rightOf(learner.update(empty))
    expect([metrics.tokens, steps, learner.version()]).toEqual([0, [], 1])
    await learner.close()
  })

  it('refuses settings that make no sense, all of them', () => {
    expect(() => learnerOf({ optimizer: adamW(), passes: { epochs: 0 }, compute: { threads: 1.5 } })).toThrow(
      /no learning rate.*epochs.*threads/,
    )
    expect(() => learnerOf({ offPolicy: { correction: { weights: { level: 'token', limit: 2 } } } })).toThrow(
      'rescored',
    )
    expect(() => learnerOf({ lora: { rank: 0 } })).toThrow('rank')
  })

  it('refuses an adapter larger than the memory of the machine before it is made', () => {
    const wide = { ...model, config: { ...model.config, layers: 10_000 } }
    expect(() => learnerOf({ model: wide, lora: { rank: MAX_LORA_RANK } })).toThrow(
      /an adapter of rank 4096 takes at least [\d.]+ GiB of memory, and this machine has/,
    )
  })

  it('shares the weights of the model with others until the first update, and frees all that it made', async () => {
    const before = [liveTensors().count, ownedCount()]
    const learner = learnerOf()
    {
      using shared = sharedParams(model)
      for (const [name, tensor] of Object.entries(shared.value)) expect(learner.weights()[name]).toBe(tensor)
    }
    await rightOf(learner.update(batch(1)))
    await learner.close()
    expect([liveTensors().count, ownedCount()]).toEqual(before)
    expect(tf.memory().numTensors).toBe(before[0])
  })

  it('refuses the checkpoint of another optimizer, and stays as it was', async () => {
    const [adam, other] = [learnerOf(), learnerOf({ optimizer: muonAndRest() })]
    const folder = path('another optimizer')
    await rightOf(liveFiles.writeFolder(folder, adam.files()))
    const before = numbers(other.weights())
    const result = await other.restore(folder, liveFiles)()
    expect(isLeft(result) && result.left.reason).toMatch('is missing')
    expect(numbers(other.weights())).toEqual(before)
    await adam.close()
    await other.close()
  })
})

const rowsLike = (given: TensorDict<{ readonly advantage: ReturnType<typeof ragged> }>) =>
  given.entries.get('advantage') as ReturnType<typeof ragged>
