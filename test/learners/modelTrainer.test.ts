/** Models that are trained step by step: their gradients, steps, files and limits. */
import { keyFromSeed, orThrow } from '@tandem-rl/base'
import * as tf from '@tensorflow/tfjs-core'
import { expect, it } from 'vitest'
import type { PlaceLoss, PlaceRequest } from '../../src/learners/modelArithmetic.js'
import { modelTrainer, type TrainedModel } from '../../src/learners/modelTrainer.js'
import type { LoraOptions } from '../../src/learners/trainable.js'
import { hostArrays } from '../../src/modules/pretrained/pretrained.js'
import { useEngine } from '../kit/engine.js'
import { smallModel } from '../kit/learners.js'

useEngine()

const LOSSES: Readonly<Record<string, PlaceLoss>> = {
  weighted: ({ logProbs, input }) => tf.neg(tf.mul(logProbs, input('weights'))),
}

const ADAM = { learningRate: 0.01, beta1: 0.9, beta2: 0.95, epsilon: 1e-8, weightDecay: 0, maxGradNorm: Infinity }

/** A request for rows that predict the next token, with one weight for each place. */
const requestOf = (
  rows: readonly (readonly number[])[],
  weight = 1,
  mode: PlaceRequest['mode'] = 'backward',
): PlaceRequest => ({
  loss: 'weighted',
  mode,
  parts: [
    {
      count: rows.length,
      rows: {
        prompts: rows.map(([first]) => [first!]),
        completions: rows.map((row) => [...row.slice(1), 0]),
        temperature: 1,
        lists: {
          targets: rows.map((row) => [...row.slice(1), 0]),
          weights: rows.map((row) => row.map((_, t) => (t === row.length - 1 ? 0 : weight))),
        },
      },
    },
  ],
})

const ROWS = [
  [5, 9, 14, 33],
  [7, 2, 40, 8],
]

const weightsOf = (model: TrainedModel): readonly number[] => {
  const kept = model.snapshot()
  if (kept._tag === 'Adapter') return [...kept.adapter.arrays.values()].flatMap(({ data }) => Array.from(data))
  const all = [...hostArrays(kept.params.value).values()].flatMap(({ data }) => Array.from(data))
  kept.params.release()
  return all
}

/** Starts models of one trainer, and releases all of them. */
const withModels = async <const L extends readonly (LoraOptions | null)[]>(
  adapters: L,
  use: (models: { readonly [K in keyof L]: TrainedModel }) => void,
): Promise<void> => {
  const trainer = modelTrainer(await smallModel(), LOSSES)
  const models = adapters.map((lora) => trainer.start({ lora, key: keyFromSeed(1) }))
  use(models as never) // one for each adapter
  for (const each of [...models, trainer]) each.release()
}

it('adds the gradients of requests until a step', () =>
  withModels([null, null], ([together, apart]) => {
    orThrow(together.compute(requestOf(ROWS)))
    for (const row of ROWS) orThrow(apart.compute(requestOf([row])))
    const [one, two] = [orThrow(together.step(ADAM)), orThrow(apart.step(ADAM))]
    expect(one.gradNorm).toBeCloseTo(two.gradNorm, 4)
    const other = weightsOf(apart)
    expect(Math.max(...weightsOf(together).map((x, i) => Math.abs(x - other[i]!)))).toBeLessThan(1e-4)
    expect(apart.step(ADAM)).toMatchObject({ left: { kind: 'state' } })
  }))

it('computes the same losses forward, without a gradient', () =>
  withModels([{ rank: 2 }], ([model]) => {
    const forward = orThrow(model.compute(requestOf(ROWS, 1, 'forward')))
    expect(model.step(ADAM)).toMatchObject({ left: { kind: 'state' } })
    const backward = orThrow(model.compute(requestOf(ROWS)))
    for (const [i, { losses }] of forward.entries())
      for (const [t, x] of Array.from(losses).entries()) expect(backward[i]!.losses[t]).toBeCloseTo(x, 4)
  }))

it('keeps nothing of a loss that is not finite', () =>
  withModels([{ rank: 2 }], ([model]) => {
    expect(model.compute(requestOf(ROWS, Number.NaN))).toMatchObject({ left: { kind: 'non-finite' } })
    expect(model.step(ADAM)).toMatchObject({ left: { kind: 'state' } })
  }))

it('refuses adapters that do not fit the model, and more memory than is free', async () => {
  const model = await smallModel()
  const trainer = modelTrainer(model, LOSSES)
  expect(trainer.problem({ targetModules: ['x_proj'] }, 1e12)).toMatch(/not a projection/)
  expect(trainer.problem(null, 1)).toBeUndefined()
  trainer.release()
  const large = modelTrainer({ ...model, config: { ...model.config, vocabularySize: 1e7 } }, LOSSES)
  expect(large.problem(null, 1)).toMatch(/are free: choose a smaller rank/)
  expect(large.problem(null, 1e12)).toBeUndefined()
  large.release()
})
