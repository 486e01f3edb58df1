/** The learner of a model that is trained elsewhere, over a trainer that records its calls. */
import { keyFromSeed, orThrow } from '@tandem-rl/base'
import { liveFiles } from '@tandem-rl/host'
import * as E from 'fp-ts/lib/Either.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { expect, it } from 'vitest'
import { raggedArray } from '../../src/data/tensorDict/leaf.js'
import { get } from '../../src/data/tensorDict/tensorDict.js'
import { type RemoteTrainer, remoteLearner } from '../../src/learners/remoteLearner.js'
import { policyLoss } from '../../src/objectives/policyLoss.js'
import { policyGradient } from '../../src/objectives/tokenLosses/policyGradient.js'
import { adamW } from '../../src/objectives/updates/adamW.js'
import { useEngine } from '../kit/engine.js'
import { batchOf, randomBatch } from '../kit/learners.js'
import { tinyConfig } from '../kit/models.js'
import { rowsOf } from '../kit/trainingRows.js'

useEngine()

const failure = { _tag: 'OwnFailure', reason: 'the trainer is full' }
const refused = TE.left(failure)
const config = tinyConfig({})

/** A trainer whose every log-probability is -2, and what was called. */
const recorder = (more: Partial<RemoteTrainer> = {}) => {
  const calls: unknown[] = []
  const gradients: number[][] = []
  const trainer: RemoteTrainer = {
    logProbs: ({ completions }) => TE.right(completions.map(({ length }) => new Float32Array(length).fill(-2))),
    step: ({ completions }, { learningRate, gradient }) => {
      calls.push({ step: completions.length, learningRate })
      const computed = gradient(completions.map(({ length }) => new Float32Array(length).fill(-2)))
      if (E.isRight(computed)) gradients.push(computed.right.gradients.flatMap((row) => Array.from(row)))
      return TE.fromEither(
        E.map((known: NonNullable<unknown>) => ({ computed: known as never, gradNorm: 3 }))(computed),
      )
    },
    save: (version) => {
      calls.push({ save: version })
      return TE.right(`saved ${version}`)
    },
    load: (name) => {
      calls.push({ load: name })
      return TE.right(undefined)
    },
    close: async () => void calls.push('close'),
    ...more,
  }
  return { trainer, calls, gradients }
}

const learnerOf = (trainer: RemoteTrainer, more: object = {}) =>
  remoteLearner({
    name: 'recorder',
    trainer,
    settings: { model: 'toy' },
    key: keyFromSeed(1),
    loss: policyLoss({ objective: policyGradient() }),
    optimizer: adamW({ learningRate: (step) => 0.1 / (1 + step) }),
    ...more,
  })

it('hands the derivative of the loss by each log-probability to the trainer', async () => {
  const { trainer, gradients } = recorder()
  const batch = randomBatch(config, [2, 2], 1)
  const { metrics } = orThrow(await learnerOf(trainer).update(batch)())
  const advantages = raggedArray(get(batch, 'advantage'))
  expect(gradients[0]).toHaveLength(advantages.length)
  for (const [i, x] of gradients[0]!.entries()) expect(x).toBeCloseTo(-advantages[i]! / advantages.length, 5)
  expect(metrics.gradNorm).toBe(3)
})

it('takes one step for each mini-batch, saves after the last one, and loads what it saved', async () => {
  const { trainer, calls } = recorder()
  const learner = learnerOf(trainer, { passes: { miniBatches: 2 } })
  const batch = randomBatch(config, [2, 1], 1)
  const updated = orThrow(await learner.update(batch)())
  expect([updated.version, updated.steps.length, updated.learningRate]).toEqual([1, 2, 0.1])
  expect(calls.filter((call) => typeof call === 'object' && call !== null && 'save' in call)).toEqual([{ save: 1 }])
  const text = String(learner.files()['learner.json'])
  const files = { ...liveFiles, readText: () => async () => E.right(text) }
  const next = learnerOf(trainer)
  orThrow(await next.restore('folder', files)())
  expect(next.version()).toBe(1)
  expect(calls.at(-1)).toEqual({ load: 'saved 1' })
  expect(orThrow(await next.update(batch)()).learningRate).toBe(0.05)
})

it('fails as the trainer does, with its failure as the cause, and keeps its version', async () => {
  const { trainer } = recorder({ step: () => refused })
  const learner = learnerOf(trainer)
  const failed = await learner.update(randomBatch(config, [2], 1))()
  expect(failed).toMatchObject({
    left: { kind: 'server', learner: 'recorder', reason: failure.reason, cause: failure },
  })
  expect(learner.version()).toBe(0)
})

it('refuses a loss that is not finite instead of a step', async () => {
  const { trainer, gradients } = recorder()
  const rows = rowsOf(config.vocabularySize, [2], 1)
  const batch = batchOf({ ...rows, advantages: [Number.NaN, 1] }, [2])
  expect(await learnerOf(trainer).update(batch)()).toMatchObject({ left: { kind: 'non-finite' } })
  expect(gradients).toEqual([])
})

it('scores rows on the trainer only for corrections that need it', async () => {
  const { trainer } = recorder({ logProbs: () => refused })
  const batch = randomBatch(config, [2], 1)
  orThrow(await learnerOf(trainer).update(batch)())
  const rescored = learnerOf(trainer, { offPolicy: { oldLogProbs: 'rescored' } })
  expect(await rescored.update(batch)()).toMatchObject({ left: { kind: 'server', cause: failure } })
})

it('refuses losses that need more than log-probabilities', () => {
  const { trainer } = recorder()
  expect(() => learnerOf(trainer, { loss: policyLoss({ entropyCoefficient: 0.1 }) })).toThrow(/entropy/)
  expect(() => learnerOf(trainer, { optimizer: adamW() })).toThrow(/learning rate/)
})
