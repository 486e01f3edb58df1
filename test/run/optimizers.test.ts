/** Runs with each optimizer: what they keep, and that they resume bit for bit. */
import { scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as tf from '@tensorflow/tfjs-core'
import { beforeAll, describe, expect, it } from 'vitest'
import { type AnyStateOptimizer, restoredState, stateArrays, stateShapes } from '../../src/learners/optimizerState.js'
import { hostArrays, type Pretrained } from '../../src/modules/pretrained/pretrained.js'
import { parameterShapes } from '../../src/modules/transformer/params.js'
import { optimizerOf as chosenOptimizer, stateNumbers } from '../../src/run/define/choices.js'
import { OPTIMIZER_NAMES } from '../../src/run/parts/settings.js'
import { useEngine } from '../kit/engine.js'
import { answeringModel, type Flags, useTemporaryFolder, withFlags } from '../kit/runs.js'
import { useTrainingRuns } from '../kit/trainingRuns.js'

useEngine({ threads: 1 })
const path = useTemporaryFolder()

let model: Pretrained
beforeAll(async () => {
  model = await answeringModel()
})
const runs = useTrainingRuns(path)

/** Makes the optimizer of settings by flag name. */
const optimizerOf = (flags: Flags, config: Pretrained['config']): AnyStateOptimizer =>
  chosenOptimizer(withFlags({}, flags), config) as unknown as AnyStateOptimizer // it only gets states that it made

const made = () => ({
  params: Object.fromEntries([...parameterShapes(model.config)].map(([name, shape]) => [name, tf.ones([...shape])])),
  grads: Object.fromEntries(
    [...parameterShapes(model.config)].map(([name, shape], i) => [name, tf.fill([...shape], (i + 1) / 8)]),
  ),
})

describe.each(OPTIMIZER_NAMES)('%s', (optimizer) => {
  it('moves every weight, and its state comes back from its arrays, bit for bit', () => {
    const learner = optimizerOf({ optimizer }, model.config)
    scope(() => {
      const { params, grads } = made()
      const next = learner.update(grads, learner.init(params), params, tf.scalar(0.1))
      const stored = stateArrays(next.state)
      expect(new Map([...stored].map(([name, { shape }]) => [name, shape]))).toEqual(
        stateShapes(learner, hostArrays(params)),
      )
      const restored = restoredState(learner, params, stored)
      expect(stateArrays(restored)).toEqual(stored)
      const again = learner.update(grads, restored, next.params, tf.scalar(0.1))
      expect(hostArrays(again.params)).toEqual(
        hostArrays(learner.update(grads, next.state, next.params, tf.scalar(0.1)).params),
      )
      for (const [name, { data }] of hostArrays(next.params))
        expect(
          data.every((x) => x !== 1),
          name,
        ).toBe(true)
    })
  })
})

describe('options of an optimizer', () => {
  /** The update of a weight of 1 with a gradient of 1/8. */
  const moved = (flags: Flags): number =>
    scope(() => {
      const { params, grads } = made()
      const learner = optimizerOf(flags, model.config)
      const next = learner.update(grads, learner.init(params), params, tf.scalar(0.1))
      return Object.values(next.params)[0]!.dataSync()[0]!
    })

  it('are those of its name: weight decay, momentum', () => {
    expect(moved({ optimizer: 'sgd' })).toBeCloseTo(1 - 0.1 / 8, 6)
    expect(moved({ optimizer: 'sgd', optimizerOptions: { weightDecay: 0.5 } })).toBeCloseTo(1 - 0.1 * (1 / 8 + 0.5), 6)
    expect(moved({ optimizer: 'adamw', optimizerOptions: { weightDecay: 0.5 } })).toBeCloseTo(1 - 0.05 - 0.1, 5)
    expect(moved({ optimizer: 'adamw' })).toBeCloseTo(0.9, 5)
  })

  it('are refused, all of them, where the optimizer does not have them or cannot work with them', () => {
    const refusal = (optimizerOptions: Readonly<Record<string, number>>): (() => void) => {
      return () => optimizerOf({ optimizer: 'lion', optimizerOptions }, model.config)
    }
    expect(refusal({ epsilon: 1, betta1: 1 })).toThrow("unknown option of lion 'epsilon'")
    expect(refusal({ epsilon: 1, betta1: 1 })).toThrow("did you mean 'beta1'?")
    expect(refusal({ beta1: 2 })).toThrow('beta1')
  })

  it('tell how many numbers are kept for each that is trained: never fewer than there are', () => {
    for (const optimizer of OPTIMIZER_NAMES) {
      for (const optimizerOptions of [{}, ...(optimizer === 'sgd' ? [{ momentum: 0.9 }] : [])]) {
        const shapes = stateShapes(optimizerOf({ optimizer, optimizerOptions }, model.config), model.arrays)
        const kept = [...shapes.values()].reduce((sum, shape) => sum + shape.reduce((n, m) => n * m, 1), 0)
        const trained = [...model.arrays.values()].reduce((sum, { data }) => sum + data.length, 0)
        // Rows and columns are few only in large matrices; those of this model are small.
        const least = optimizer === 'adafactor' ? 0 : (kept - 1) / trained
        expect(stateNumbers(withFlags({}, { optimizer, optimizerOptions })), optimizer).toBeGreaterThanOrEqual(least)
      }
    }
  })
})

describe('the names of a state', () => {
  const names = (optimizer: (typeof OPTIMIZER_NAMES)[number]): readonly string[] => [
    ...stateShapes(optimizerOf({ optimizer }, model.config), model.arrays).keys(),
  ]

  it('are the step and two moments of each parameter for AdamW', () => {
    const parameters = [...model.arrays.keys()]
    expect(new Set(names('adamw'))).toEqual(
      new Set(['step', ...parameters.map((name) => `mean.${name}`), ...parameters.map((name) => `square.${name}`)]),
    )
  })

  it('are none for gradient descent, and tell which weights Muon learns', () => {
    expect(names('sgd')).toEqual([])
    const ofMuon = names('muon').filter((name) => name.startsWith('matrices.momentum.'))
    expect(ofMuon.length).toBeGreaterThan(0)
    expect(ofMuon.filter((name) => /embed|lm_head|norm|bias/.test(name))).toEqual([])
    expect(names('muon')).toContain(`rest.mean.${model.config.embedding.name}.weight`)
  })

  it('that are missing are reported', () => {
    const learner = optimizerOf({ optimizer: 'lion' }, model.config)
    expect(() => scope(() => restoredState(learner, made().params, new Map()))).toThrow(/'momentum\..*' is missing/)
  })
})

describe('a run', () => {
  const SETTINGS = { steps: 2, prompts: 2, group: 2, evalTasks: 1, learningRate: 0.01 }

  it.each(['muon', 'sgd'] as const)('with %s resumes to the same end, bit for bit', async (optimizer) => {
    const [step] = await runs.expectResumed(optimizer, { ...SETTINGS, optimizer })
    expect(step!.update.gradNorm).toBeGreaterThan(0)
  })
})
