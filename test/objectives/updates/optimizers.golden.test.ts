/**
 * Optimizers against torch.optim, and Lion against its paper: five steps in float64 there and
 * float32 here.
 */
import { readFileSync } from 'node:fs'
import { jit } from '@tandem-rl/tfjs-onnxruntime'
import { own, scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as tf from '@tensorflow/tfjs-core'
import { describe, expect, it } from 'vitest'
import type { NamedTensors } from '../../../src/data/weights.js'
import { adafactor } from '../../../src/objectives/updates/adafactor.js'
import { adamW } from '../../../src/objectives/updates/adamW.js'
import { grouped } from '../../../src/objectives/updates/grouped.js'
import { lion } from '../../../src/objectives/updates/lion.js'
import { muon, orthogonalized } from '../../../src/objectives/updates/muon.js'
import type { Optimizer } from '../../../src/objectives/updates/optimizer.js'
import { sgd } from '../../../src/objectives/updates/sgd.js'
import { weightAverage } from '../../../src/objectives/updates/weightAverage.js'
import { expectClose } from '../../kit/close.js'
import { useEngine, valuesOf } from '../../kit/engine.js'

useEngine()

type Arrays = Readonly<Record<string, number[] | number[][]>>

interface Golden {
  readonly start: Arrays
  readonly grads: readonly Arrays[]
  readonly cases: readonly {
    readonly name: string
    readonly options: Readonly<Record<string, never>>
    readonly rate: number
    readonly trace: readonly Arrays[]
  }[]
}

const golden = JSON.parse(readFileSync('test/golden/optimizers.json', 'utf8')) as Golden // made by generate/optimizers.py

/** The state of every optimizer. */
type StateTree = Readonly<Record<string, NamedTensors | tf.Tensor>>

const MAKERS = { sgd, adafactor, lion, muon } as unknown as Readonly<
  Record<string, (options: object) => Optimizer<StateTree>> // the options of a case are those of its optimizer
>

const select = (arrays: Arrays, names: readonly string[]): NamedTensors =>
  Object.fromEntries(names.map((name) => [name, tf.tensor(arrays[name]!)]))

interface State {
  readonly params: NamedTensors
  readonly state: StateTree
}

describe('optimizers against torch', () => {
  it.each(golden.cases)('$name $options: five steps, eager and compiled', ({ name, options, rate, trace }) => {
    const optimizer = MAKERS[name]!(options)
    const names = Object.keys(trace[0]!)
    const update = (input: State & { readonly grads: NamedTensors; readonly rate: tf.Tensor }) =>
      optimizer.update(input.grads, input.state, input.params, input.rate)
    const compiled = jit(update)
    for (const step of [update, compiled]) {
      let current = own(
        scope((): State => {
          const params = select(golden.start, names)
          return { params, state: optimizer.init(params) }
        }),
      )
      for (const [i, expected] of trace.entries()) {
        const before = current
        current = own(
          scope((): State => step({ ...before.value, grads: select(golden.grads[i]!, names), rate: tf.scalar(rate) })),
        )
        before.release()
        for (const parameter of names) {
          expectClose(valuesOf(current.value.params[parameter]!), expected[parameter]!.flat(), {
            absolute: 2e-6,
            relative: 2e-6,
          })
        }
      }
      current.release()
    }
    compiled.release()
  })
})

const one = (value: number): NamedTensors => ({ w: tf.scalar(value) })

describe('orthogonalized', () => {
  it('gives all singular values a size near 1', () => {
    scope(() => {
      const matrix = tf.tensor2d([3, 0.2, -1, 0.5, 2, 0.1, 0.3, -0.4, 1, 2, 0.7, -0.6], [4, 3])
      const result = orthogonalized(matrix, 5)
      const gram = Array.from(tf.matMul(result, result, true, false).dataSync())
      for (let i = 0; i < 3; i++)
        for (let j = 0; j < 3; j++) {
          const value = gram[3 * i + j]!
          if (i === j) expect(value).toBeGreaterThan(0.4)
          expect(Math.abs(value)).toBeLessThan(i === j ? 1.5 : 0.45)
        }
      return []
    })
  })
})

describe('grouped', () => {
  it('learns each parameter as its group does, at the rate of its group', () => {
    scope(() => {
      const optimizer = grouped([
        { name: 'slow', has: (name) => name.startsWith('s'), optimizer: sgd(), learningRateScale: 0.1 },
        { name: 'rest', optimizer: lion() },
      ])
      const params = { other: tf.scalar(1), slow: tf.scalar(1) }
      const grads = { other: tf.scalar(5), slow: tf.scalar(5) }
      const next = optimizer.update(grads, optimizer.init(params), params, tf.scalar(0.1)).params
      expect(Object.keys(next)).toEqual(['other', 'slow'])
      expectClose([...valuesOf(next.other!), ...valuesOf(next.slow!)], [0.9, 0.95], { absolute: 1e-6 })
      return []
    })
  })

  it('names the parameter that no group has, and refuses groups of one name', () => {
    const optimizer = grouped([{ name: 'a', has: () => false, optimizer: sgd() }])
    expect(() => scope(() => optimizer.init(one(1)))).toThrow("no group has the parameter 'w'")
    const group = { name: 'a', optimizer: sgd() }
    expect(() => grouped([group, group])).toThrow('names of their own, got a, a')
  })
})

describe('weightAverage', () => {
  it('exponential: a share of the old one stays; uniform: the mean of all', () => {
    scope(() => {
      const exponential = weightAverage({ decay: 0.9 })
      expectClose(valuesOf(exponential.update(one(1), one(2), 0).w!), [1.1], { absolute: 1e-6 })
      const uniform = weightAverage('uniform')
      const after = uniform.update(uniform.update(uniform.init(one(1)), one(2), 0), one(6), 1)
      expectClose(valuesOf(after.w!), [3], { absolute: 1e-6 })
      return []
    })
  })
})

describe('options of optimizers', () => {
  it.each<readonly [string, () => unknown]>([
    ['sgd: momentum must be from 0 to below 1, got 1', () => sgd({ momentum: 1 })],
    ['lion: beta1 must be from 0 to below 1, got -0.1', () => lion({ beta1: -0.1 })],
    ['adamW: weightDecay must not be negative, got -1', () => adamW({ weightDecay: -1 })],
    ['adafactor: decay must be negative, got 0.8', () => adafactor({ decay: 0.8 })],
    ["muon: 'w' is not a matrix, it is []", () => scope(() => muon().init(one(1)))],
    ['weightAverage: decay must be from 0 to below 1, got 1', () => weightAverage({ decay: 1 })],
  ])('%s', (message, make) => {
    expect(make).toThrow(message)
  })
})
