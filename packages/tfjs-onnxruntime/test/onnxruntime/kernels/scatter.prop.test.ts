import * as tf from '@tensorflow/tfjs-core'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { type Call, type KernelCase, kernelLaws, row } from '../../../../../test/kit/backends.js'
import { useOnnxRuntime } from '../../../../../test/kit/engine.js'
import {
  anyFloat,
  anyInt,
  bools,
  type Elements,
  floatsIn,
  type HostTensor,
  hostTensor,
  intsIn,
  shapes,
} from '../../../../../test/kit/hostTensor.js'
import { cases, one } from '../../../../../test/kit/kernelCases.js'
import { scatterRules } from '../../../src/onnxruntime/kernels/scatter.js'

const { backend } = useOnnxRuntime()

/** Index vectors `[...places, k]` into the first k axes of a shape. */
const indexVectors = (shape: readonly number[], k: number, places: readonly number[]): fc.Arbitrary<HostTensor> =>
  hostTensor(intsIn(0, 1000), [...places, k]).map((host) => ({
    ...host,
    data: host.data.map((n, i) => n % shape[i % k]!),
  }))

interface Target {
  readonly shape: number[]
}

/** A target, index vectors into its first axes, and a slice of the target for each of them. */
const scattered = (elements: Elements): fc.Arbitrary<KernelCase<Target>> =>
  cases(
    fc.tuple(shapes(1, 4, 1), fc.nat(3), fc.integer({ min: 1, max: 6 })).map(([shape, axes, count]) => {
      const k = 1 + (axes % shape.length)
      const updates = hostTensor(elements, [count, ...shape.slice(k)])
      return [[hostTensor(elements, shape), indexVectors(shape, k, [count]), updates], { shape: [...shape] }] as const
    }),
  )

/** A table and index vectors of any number of axes. */
const lookUps = (elements: Elements): fc.Arbitrary<KernelCase<undefined>> =>
  cases(
    fc.tuple(shapes(1, 4, 1), fc.nat(3), shapes(0, 2)).map(([shape, axes, places]) => {
      const k = 1 + (axes % shape.length)
      return [[hostTensor(elements, shape), indexVectors(shape, k, places)], undefined] as const
    }),
  )

/** Places in a shape, a value for each or one for all, and the value elsewhere. */
const sparse = (elements: Elements): fc.Arbitrary<KernelCase<Target>> =>
  cases(
    fc.tuple(shapes(1, 4, 1), fc.integer({ min: 1, max: 6 }), fc.boolean()).map(([shape, count, single]) => {
      const values = hostTensor(elements, single ? [] : [count])
      const indices = indexVectors(shape, shape.length, [count])
      return [[indices, values, hostTensor(elements, [])], { shape: [...shape] }] as const
    }),
  )

const update: Call<Target> = ({ a, b, c }) => tf.tensorScatterUpdate(a, b, c)
const add: Call<Target> = ({ b, c }, { shape }) => tf.scatterND(b, c, shape)
const gather: Call<undefined> = ({ a, b }) => tf.gatherND(a, b)
const dense: Call<Target> = ({ a, b, c }, { shape }) => tf.sparseToDense(a, b, shape, c as tf.Scalar) // of rank 0
const close = { within: { absolute: 1e-4, relative: 1e-5 } }
const diag: Call<unknown> = ({ a }) => tf.diag(a)

const rows = [
  row('Diag', one(anyFloat, shapes(0, 3)), diag),
  row('Diag', one(anyInt, shapes(0, 3)), diag, { on: 'int32' }),
  row('Diag', one(bools, shapes(0, 3)), diag, { on: 'bool' }),
  row('GatherNd', lookUps(anyFloat), gather),
  row('GatherNd', lookUps(anyInt), gather, { on: 'int32' }),
  row('GatherNd', lookUps(bools), gather, { on: 'bool' }),
  row('ScatterNd', scattered(floatsIn(-100, 100)), add, close),
  row('ScatterNd', scattered(anyInt), add, { on: 'int32' }),
  row('ScatterNd', scattered(bools), add, { on: 'bool', form: 'cpu' }),
  row('SparseToDense', sparse(anyFloat), dense),
  row('SparseToDense', sparse(anyInt), dense, { on: 'int32' }),
  row('SparseToDense', sparse(bools), dense, { on: 'bool' }),
  row('TensorScatterUpdate', scattered(anyFloat), update),
  row('TensorScatterUpdate', scattered(anyInt), update, { on: 'int32' }),
  row('TensorScatterUpdate', scattered(bools), update, { on: 'bool' }),
]

describe('kernels that scatter', () => {
  kernelLaws(backend, () => Object.keys(scatterRules), rows)

  it('an index outside of the target is an error when the result is read', () => {
    tf.tidy(() => {
      const indices = tf.tensor2d([[3]], [1, 1], 'int32')
      const made = tf.scatterND(indices, tf.tensor1d([1]), [3])
      expect(() => made.dataSync()).toThrow(/indices element out of data bounds|out of/)
    })
  })
})
