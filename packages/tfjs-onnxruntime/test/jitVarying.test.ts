import * as tf from '@tensorflow/tfjs-core'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { type BackendName, onBackend } from '../../../test/kit/backends.js'
import { expectClose } from '../../../test/kit/close.js'
import { take, useOnnxRuntime, using1d, valuesOf } from '../../../test/kit/engine.js'
import { jit } from '../src/jit.js'

useOnnxRuntime()

interface Input {
  readonly x: tf.Tensor
  readonly weight: tf.Tensor
}

/**
 * Rows of `x` `[N, D]` through products, reshapes, transposes, sums and a concatenation; N varies.
 */
const f = ({ x, weight }: Input): { readonly rows: tf.Tensor; readonly total: tf.Tensor; readonly same: tf.Tensor } => {
  const n = x.shape[0]!
  const heads = tf.transpose(tf.reshape(tf.matMul(x, weight), [n, 2, 3]), [1, 0, 2])
  const rows = tf.reshape(tf.transpose(heads, [1, 0, 2]), [n, 6])
  return { rows: tf.concat([rows, x], 1), total: tf.sum(tf.tanh(rows), 0), same: x }
}

const varying = ({ x }: Input) => [{ tensor: x, axes: ['rows', null] }]

const BACKENDS: readonly BackendName[] = ['onnxruntime', 'cpu']

describe.each(BACKENDS)('jit with varying sizes on %s', (name) => {
  it('one graph gives what the function gives, at every size', () => {
    onBackend(name, () => {
      const compiled = jit(f, { varying })
      const law = fc.property(fc.integer({ min: 1, max: 40 }), fc.integer(), (rows, seed) => {
        const x = tf.randomUniform([rows, 4], -1, 1, 'float32', seed)
        const weight = tf.randomUniform([4, 6], -1, 1, 'float32', seed + 1)
        const [actual, expected] = [compiled({ x, weight }), tf.tidy(() => f({ x, weight }))]
        for (const part of ['rows', 'total', 'same'] as const) {
          expect(actual[part].shape).toEqual(expected[part].shape)
          expectClose(valuesOf(actual[part]), valuesOf(expected[part]), { absolute: 1e-5, relative: 1e-4 })
        }
        tf.dispose([x, weight, actual.rows, actual.total, actual.same])
        if (!expected.same.isDisposed) expected.same.dispose()
        tf.dispose([expected.rows, expected.total])
      })
      fc.assert(law, { numRuns: 30 })
      expect(compiled.compiles()).toBe(name === 'onnxruntime' ? 1 : 0)
      compiled.release()
    })
  })
})

describe('jit with varying sizes', () => {
  it('a size may be the sum of others', () => {
    const compiled = jit(({ x, y, z }: Record<'x' | 'y' | 'z', tf.Tensor>) => tf.add(tf.concat([x, y]), z), {
      varying: ({ x, y, z }) => [
        { tensor: x, axes: ['a'] },
        { tensor: y, axes: ['b'] },
        { tensor: z, axes: ['a + b'] },
      ],
    })
    for (const [a, b] of [
      [1, 2],
      [4, 1],
    ] as const) {
      const [x, y, z] = [tf.ones([a]), tf.zeros([b]), tf.range(0, a + b)]
      const [sum] = take(compiled({ x, y, z }), x, y, z)
      expect(sum).toEqual(Array.from({ length: a + b }, (_, i) => i + (i < a ? 1 : 0)))
    }
    expect(compiled.compiles()).toBe(1)
    compiled.release()
  })

  it('a size that is not said to vary compiles another graph', () => {
    const compiled = jit(({ x }: { readonly x: tf.Tensor }) => tf.square(x), {
      varying: ({ x }) => [{ tensor: x, axes: ['rows', null] }],
    })
    for (const shape of [
      [2, 3],
      [5, 3],
      [2, 4],
    ] as const) {
      const x = tf.ones([...shape])
      take(compiled({ x }), x)
    }
    expect(compiled.compiles()).toBe(2)
    compiled.release()
  })

  it('refuses a function that counts on a size, and names the operation', () => {
    using1d([[1, 2, 3]], (x) => {
      const compiled = jit(({ x }: { readonly x: tf.Tensor }) => tf.mul(x, x.shape[0]!), {
        varying: ({ x }) => [{ tensor: x, axes: ['rows'] }],
      })
      expect(() => compiled({ x })).toThrow(
        /Multiply with result \[13\] depends on a varying size .* constant \[13\] is \[17\]/,
      )
    })
  })

  it('refuses a reshape with two sizes that only the caller knows', () => {
    const x = tf.ones([2, 3])
    const compiled = jit(
      ({ x }: { readonly x: tf.Tensor }) => tf.reshape(tf.square(x), [x.shape[1]!, 1, x.shape[0]!]),
      {
        varying: ({ x }) => [{ tensor: x, axes: ['rows', 'columns'] }],
      },
    )
    expect(() => compiled({ x })).toThrow(/depends on a varying size/)
    x.dispose()
  })

  it('refuses a result that is an argument in another shape, or a constant of varying size', () => {
    const x = tf.ones([2, 3])
    const options = { varying: ({ x }: { readonly x: tf.Tensor }) => [{ tensor: x, axes: ['rows', null] }] }
    const constant = jit(
      ({ x }: { readonly x: tf.Tensor }) => ({ y: tf.square(x), z: tf.tensor1d(Array(x.shape[0]!).fill(1)) }),
      options,
    )
    expect(() => constant({ x })).toThrow('result 1 is a constant of varying size')
    const reshaped = jit(({ x }: { readonly x: tf.Tensor }) => tf.reshape(x, [-1]), options)
    expect(() => reshaped({ x })).toThrow('result 0 is a reshaped argument of varying size')
    x.dispose()
  })

  it('refuses other operations for other sizes', () => {
    const x = tf.ones([2, 3])
    const compiled = jit(
      ({ x }: { readonly x: tf.Tensor }) => (x.shape[0]! < 15 ? tf.square(x) : tf.neg(tf.square(x))),
      {
        varying: ({ x }) => [{ tensor: x, axes: ['rows', null] }],
      },
    )
    expect(() => compiled({ x })).toThrow('records other operations for other sizes')
    x.dispose()
  })
})
