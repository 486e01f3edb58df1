/** Training a part of a model: the rest is left alone, and costs nothing. */
import { flatten, keyFromSeed, type Tree, unflatten } from '@tandem-rl/base'
import { requireRight } from '@tandem-rl/testing'
import { isTensor } from '@tandem-rl/tfjs-onnxruntime'
import { type Owned, own, scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as tf from '@tensorflow/tfjs-core'
import fc from 'fast-check'
import { beforeAll, describe, expect, it } from 'vitest'
import { wholeGradients } from '../../../src/learners/steps/stepGradients.js'
import { stepLoss } from '../../../src/learners/steps/stepLoss.js'
import { stepRows, tensorsOfRows } from '../../../src/learners/steps/tokenRows.js'
import { initialLora, type LoraParams, loraScalings } from '../../../src/modules/lora/adapter.js'
import { loraConfig } from '../../../src/modules/lora/config.js'
import { projections } from '../../../src/modules/lora/projections.js'
import { makeParams } from '../../../src/modules/pretrained/pretrained.js'
import { initialParams, type Params } from '../../../src/modules/transformer/params.js'
import { GRPOLoss } from '../../../src/objectives/grpoLoss.js'
import { adamW } from '../../../src/objectives/updates/adamW.js'
import { expectClose } from '../../kit/close.js'
import { useOnnxRuntime, valuesOf } from '../../kit/engine.js'
import { randomAdapter } from '../../kit/lora.js'
import { undividedMetrics } from '../../kit/lossSteps.js'
import { tinyConfig } from '../../kit/models.js'
import { policyStep } from '../../kit/stepsOf.js'
import { descent, lossRows, rowsOf } from '../../kit/trainingRows.js'

const { backend } = useOnnxRuntime({ threads: 1 })

const config = tinyConfig({ layers: 2, hiddenSize: 8, intermediateSize: 24, heads: 2, keyValueHeads: 1, headSize: 4 })
const V = config.vocabularySize

let base: Params
let lora: LoraParams
let held: Owned<unknown>
beforeAll(() => {
  held = own(
    scope(() => {
      base = initialParams(config, keyFromSeed(1), 0.5)
      const adapter = randomAdapter(
        config,
        loraConfig({ rank: 2, targetModules: ['q_proj', 'down_proj'] }),
        keyFromSeed(2),
      )
      lora = { config: adapter.config, tensors: makeParams(adapter.arrays) }
      return [base, lora]
    }),
  )
  return () => held.release()
})

const numbersOf = (record: Params) => Object.fromEntries(Object.entries(record).map(([n, t]) => [n, valuesOf(t)]))

/** The base, and the scalings of the adapter, which are no more trained than it is. */
const frozen = (): Params => ({ ...base, ...loraScalings(lora) })

type Options = Partial<Omit<Parameters<typeof policyStep>[0], 'config' | 'optimizer' | 'frozen'>>

/** One step of plain descent on the adapter alone. */
const adapterStep = (rows: ReturnType<typeof rowsOf>, options: Options = {}) => {
  const step = scope(() => policyStep({ config, optimizer: descent, maxGradNorm: 1e9, frozen: frozen(), ...options }))
  const { state, metrics } = step.update({ params: lora.tensors, optimizer: {} }, rows, 1)
  using after = state
  const result = { params: numbersOf(after.value.params), metrics }
  step.release()
  return result
}

describe('a step with frozen weights', () => {
  it('moves the adapter as a step moves it that trains everything, and gives nothing else back', () => {
    const rows = rowsOf(V, [2, 2])
    const all = scope(() => {
      const step = policyStep({ config, optimizer: descent, maxGradNorm: 1e9 })
      const { state } = step.update({ params: { ...frozen(), ...lora.tensors }, optimizer: {} }, rows, 1)
      using after = state
      const result = numbersOf(after.value.params)
      step.release()
      return result
    })
    const { params } = adapterStep(rows)
    expect(Object.keys(params)).toEqual(Object.keys(lora.tensors))
    for (const [name, values] of Object.entries(params)) {
      expectClose(values, all[name]!, { absolute: 1e-6, relative: 1e-6 })
      expect(values).not.toEqual(valuesOf(lora.tensors[name]!))
    }
  })

  it('moves only B at first: A has no gradient while B is zero', () => {
    const fresh = requireRight(initialLora(config, loraConfig({ rank: 2 }), keyFromSeed(3)))
    scope(() => {
      const start = { config: fresh.config, tensors: makeParams(fresh.arrays) }
      const scalings = loraScalings(start)
      const step = policyStep({ config, optimizer: descent, maxGradNorm: 1e9, frozen: { ...base, ...scalings } })
      const { state } = step.update({ params: start.tensors, optimizer: {} }, rowsOf(V, [2]), 1)
      using after = state
      for (const [name, tensor] of Object.entries(after.value.params)) {
        const isMoved = valuesOf(tensor).some((x, i) => x !== fresh.arrays.get(name)!.data[i])
        expect(isMoved, name).toBe(name.endsWith('lora_B.weight'))
      }
      step.release()
    })
  })

  it('has optimizer state for what is trained and for nothing else', () => {
    const step = scope(() => policyStep({ config, optimizer: adamW(), frozen: frozen() }))
    using state = own(scope(() => step.init(lora.tensors)))
    expect(Object.keys(state.value.optimizer.mean)).toEqual(Object.keys(lora.tensors))
    expect(Object.keys(state.value.optimizer.square)).toEqual(Object.keys(lora.tensors))
    step.release()
  })

  it('refuses to train what is frozen', () => {
    const step = scope(() => policyStep({ config, optimizer: descent, frozen: frozen() }))
    const state = { params: { 'model.norm.weight': base['model.norm.weight']! }, optimizer: {} }
    for (const call of [() => step.init(state.params), () => step.update(state, rowsOf(V, [2]), 1)]) {
      expect(call).toThrow("GRPOLoss: 'model.norm.weight' cannot be trained: it is frozen")
    }
    step.release()
  })
})

describe('the compiled gradient of an adapter', () => {
  /** Without leading axes of size 1, which tfjs puts in front of some gradients. */
  const matrixShape = (shape: readonly number[]): string => shape.join().replace(/^(1,)+(?=\d+,\d+$)/, '')

  /** Shapes of all matrix products in the graph of the gradients of `params`. */
  const products = (params: Params, frozen: Params): readonly string[] => {
    const batch = tensorsOfRows(stepRows(lossRows(rowsOf(V, [2]))), config)
    const counts = { tokens: tf.scalar(1), completions: tf.scalar(1) }
    const { shape, leaves } = flatten<tf.Tensor>(
      { ...batch, counts, params, frozen } as unknown as Tree<tf.Tensor>, // a record of tensors, which interfaces do not show
      isTensor,
    )
    const gradients = (inputs: readonly tf.Tensor[]): readonly tf.Tensor[] => {
      const input = unflatten(shape, inputs) as unknown as Parameters<ReturnType<typeof wholeGradients>>[0] // of the shape above
      return Object.values(wholeGradients(config, stepLoss(config, GRPOLoss()))(input).grads)
    }
    const { graph } = backend().trace(leaves, gradients, 'fixed')
    return graph.operations
      .filter(({ name }) => /MatMul|Gemm/.test(name))
      .map(({ outputs }) => matrixShape(outputs[0]!.shape))
  }

  it('has no product of the shape of a frozen weight, where that of the whole has one for each', () => {
    const weights = [...projections(config)].flatMap(([module]) => base[`${module}.weight`] ?? []) // a tied head has none
    const shapes = new Set(weights.map(({ shape }) => shape.join()))
    const likeWeights = (list: readonly string[]): number => list.filter((shape) => shapes.has(shape)).length
    scope(() => {
      const whole = products(base, {})
      const adapter = products(lora.tensors, { ...base, ...loraScalings(lora) })
      expect(likeWeights(whole)).toBe(2 * weights.length) // for the prompts and for the completions
      expect(likeWeights(adapter)).toBe(0)
    })
  })
})

describe('micro-batches', () => {
  const groupings = fc.array(fc.integer({ min: 1, max: 4 }), { minLength: 2, maxLength: 5 })

  it('of any size, with layers computed again or not, give the adapter and the metrics of one batch', () => {
    const loss = {
      aggregation: 'prompt-mean',
      klToRefCoefficient: 0.1,
      entropyCoefficient: 0.01,
      klMaskThreshold: 2,
    } as const
    fc.assert(
      fc.property(
        groupings,
        fc.integer({ min: 1, max: 200 }),
        fc.constantFrom('none' as const, 'layers' as const),
        fc.nat(50),
        (sizes, microBatchTokens, recompute, seed) => {
          const rows = rowsOf(V, sizes, seed)
          const [whole, parts] = [adapterStep(rows, { loss }), adapterStep(rows, { loss, microBatchTokens, recompute })]
          for (const [name, values] of Object.entries(whole.params)) {
            expectClose(parts.params[name]!, values, { absolute: 1e-6, relative: 1e-6 })
          }
          for (const [name, value] of undividedMetrics(whole.metrics)) {
            expectClose([parts.metrics[name] ?? 0], [value], { absolute: 2e-6, relative: 1e-5 })
          }
        },
      ),
      { numRuns: 3 },
    )
  })
})
