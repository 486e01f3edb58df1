import { readFileSync } from 'node:fs'
import { jit } from '@tandem-rl/tfjs-onnxruntime'
import { own, scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as tf from '@tensorflow/tfjs-core'
import { describe, expect, it } from 'vitest'
import type { NamedTensors } from '../../../src/data/weights.js'
import { adamW } from '../../../src/objectives/updates/adamW.js'
import { clipByGlobalNorm } from '../../../src/objectives/updates/optimizer.js'
import { expectClose } from '../../kit/close.js'
import { useEngine } from '../../kit/engine.js'

useEngine()

interface Golden {
  readonly torch: string
  readonly start: Readonly<Record<string, tf.TensorLike>>
  readonly grads: readonly Readonly<Record<string, tf.TensorLike>>[]
  readonly cases: readonly {
    readonly options: {
      readonly lr: number
      readonly weight_decay: number
      readonly betas?: readonly [number, number]
      readonly eps?: number
    }
    readonly trace: readonly {
      readonly norm: number
      readonly params: Readonly<Record<string, number[] | number[][]>>
    }[]
  }[]
}

const golden = JSON.parse(readFileSync('test/golden/adamW.json', 'utf8')) as Golden // made by generate/adamW.py

const tensors = (record: Readonly<Record<string, tf.TensorLike>>): NamedTensors =>
  Object.fromEntries(Object.entries(record).map(([name, values]) => [name, tf.tensor(values)]))

describe('adamW with clipByGlobalNorm against torch', () => {
  it.each(golden.cases)('$options: five steps, eager and compiled', ({ options, trace }) => {
    const [beta1, beta2] = options.betas ?? [0.9, 0.999]
    const optimizer = adamW({ beta1, beta2, epsilon: options.eps ?? 1e-8, weightDecay: options.weight_decay })
    type State = { readonly params: NamedTensors; readonly state: ReturnType<typeof optimizer.init> }
    const update = (input: State & { readonly grads: NamedTensors; readonly rate: tf.Tensor }) => {
      const { grads, norm } = clipByGlobalNorm(input.grads, 1)
      return { ...optimizer.update(grads, input.state, input.params, input.rate), norm }
    }
    const compiled = jit(update)
    for (const step of [update, compiled]) {
      let current = own(
        scope((): State => {
          const params = tensors(golden.start)
          return { params, state: optimizer.init(params) }
        }),
      )
      for (const [i, expected] of trace.entries()) {
        const before = current
        current = scope(() => {
          const next = step({ ...before.value, grads: tensors(golden.grads[i]!), rate: tf.scalar(options.lr) })
          expectClose(next.norm.dataSync(), [expected.norm], { relative: 1e-6 })
          for (const [name, values] of Object.entries(expected.params)) {
            expectClose(next.params[name]!.dataSync(), values.flat(), { absolute: 2e-7, relative: 1e-6 })
          }
          return own({ params: next.params, state: next.state })
        })
        before.release()
      }
      current.release()
    }
    compiled.release()
  })
})

describe('clipByGlobalNorm', () => {
  it('leaves short gradients alone and keeps the direction of long ones', () => {
    scope(() => {
      const long = clipByGlobalNorm({ a: tf.tensor1d([3, 0]), b: tf.tensor1d([4]) }, 1)
      expectClose(long.norm.dataSync(), [5], { absolute: 1e-6 })
      expectClose([...long.grads.a!.dataSync(), ...long.grads.b!.dataSync()], [0.6, 0, 0.8], { absolute: 1e-6 })
      const short = clipByGlobalNorm({ a: tf.tensor1d([0.3, 0]), b: tf.tensor1d([0.4]) }, 1)
      expect([...short.grads.a!.dataSync(), ...short.grads.b!.dataSync()]).toEqual([
        Math.fround(0.3),
        0,
        Math.fround(0.4),
      ])
      return []
    })
  })
})
