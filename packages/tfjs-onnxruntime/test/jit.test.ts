import * as tf from '@tensorflow/tfjs-core'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { type BackendName, onBackend } from '../../../test/kit/backends.js'
import { expectClose } from '../../../test/kit/close.js'
import { take, useOnnxRuntime, using1d, valuesOf } from '../../../test/kit/engine.js'
import { inputsOf, programs, runProgram } from '../../../test/kit/program.js'
import { jit } from '../src/jit.js'

useOnnxRuntime()

const BACKENDS: readonly BackendName[] = ['onnxruntime', 'cpu']

describe.each(BACKENDS)('jit on %s', (name) => {
  const on =
    (f: () => void): (() => void) =>
    () =>
      onBackend(name, f)

  it(
    'gives what the function gives, for any program',
    on(() => {
      const law = fc.property(programs(8), (program) => {
        const compiled = jit((inputs: tf.Tensor[]) => runProgram(program, inputs).slice(inputs.length))
        const inputs = inputsOf(program)
        const expected = runProgram(program, inputs).slice(inputs.length)
        for (let call = 0; call < 2; call++) {
          const actual = compiled(inputs)
          expect(actual.map((t) => t.shape)).toEqual(expected.map((t) => t.shape))
          for (const [i, values] of take(...actual).entries()) {
            expectClose(values, valuesOf(expected[i]!), { absolute: 1e-5, relative: 1e-4 })
          }
        }
        tf.dispose([inputs, expected])
        compiled.release()
      })
      fc.assert(law, { numRuns: 50 })
    }),
  )

  it(
    'takes and returns nested records and arrays',
    on(() => {
      const f = jit(({ a, list: [b, { c }] }: { a: tf.Tensor; list: readonly [tf.Tensor, { c: tf.Tensor }] }) => ({
        sum: tf.add(tf.add(a, b), c),
        rest: [{ product: tf.mul(a, b) }, []] as const,
      }))
      using1d(
        [
          [1, 2],
          [3, 4],
          [5, 6],
        ],
        (a, b, c) => {
          const { sum, rest } = f({ a: a!, list: [b!, { c: c! }] })
          expect(rest).toHaveLength(2)
          expect(take(sum, rest[0].product)).toEqual([
            [9, 12],
            [3, 8],
          ])
        },
      )
      f.release()
    }),
  )

  it(
    'passes a parameter through as a new handle: freeing the result does not free the argument',
    on(() => {
      const f = jit((x: tf.Tensor) => ({
        same: x,
        flat: tf.reshape(x, [1, 2]),
        whole: tf.sum(x, []),
        part: tf.split(x, 1),
      }))
      using1d([[1, 2]], (x) => {
        const { same, flat, whole, part } = f(x!)
        expect(flat.shape).toEqual([1, 2])
        expect(take(same, flat, whole, ...part)).toEqual([
          [1, 2],
          [1, 2],
          [1, 2],
          [1, 2],
        ])
        expect(valuesOf(x!)).toEqual([1, 2])
      })
      f.release()
    }),
  )

  it(
    'returns constants, results that do not depend on the arguments, and the same result twice',
    on(() => {
      const f = jit((x: tf.Tensor) => {
        const twice = tf.add(x, x)
        return [
          tf.scalar(3),
          tf.zeros([2]),
          tf.fill([1], -0),
          tf.tensor1d([1, 0], 'bool'),
          twice,
          twice,
          tf.reshape(twice, [2, 1]),
        ]
      })
      using1d([[1, 2]], (x) => {
        for (let call = 0; call < 2; call++) {
          const results = f(x!)
          expect(results.map((t) => t.dtype)).toEqual([
            'float32',
            'float32',
            'float32',
            'bool',
            'float32',
            'float32',
            'float32',
          ])
          expect(results[6]!.shape).toEqual([2, 1])
          expect(results.map(valuesOf)).toEqual([[3], [0, 0], [-0], [1, 0], [2, 4], [2, 4], [2, 4]])
          tf.dispose(results)
        }
      })
      f.release()
    }),
  )

  it(
    'takes gradients inside',
    on(() => {
      const loss = (w: tf.Tensor, x: tf.Tensor): tf.Scalar => tf.sum(tf.tanh(tf.mul(w, x)))
      const step = jit(({ w, x }: { w: tf.Tensor; x: tf.Tensor }) => {
        const grads = tf.grads(loss)([w, x])
        return { w: tf.sub(w, tf.mul(grads[0]!, 0.1)), dx: grads[1]! }
      })
      const law = fc.property(
        fc.array(fc.float({ min: -2, max: 2, noNaN: true }), { minLength: 2, maxLength: 2 }),
        (data) => {
          using1d([data, [0.5, -1]], (w, x) => {
            const result = step({ w: w!, x: x! })
            const [next, dx] = take(result.w, result.dx)
            const slope = data.map((v, i) => 1 - Math.tanh(v * [0.5, -1][i]!) ** 2)
            expectClose(
              next!,
              data.map((v, i) => v - 0.1 * slope[i]! * [0.5, -1][i]!),
              { absolute: 1e-5 },
            )
            expectClose(
              dx!,
              data.map((v, i) => slope[i]! * v),
              { absolute: 1e-5 },
            )
          })
        },
      )
      fc.assert(law)
      step.release()
    }),
  )

  it(
    'lets a gradient that is taken around it pass through it',
    on(() => {
      const square = jit((x: tf.Tensor) => tf.square(x))
      using1d([[1, 2]], (x) => {
        square(x!).dispose()
        expect(take(tf.grad((y) => tf.sum(square(y)))(x!), square(x!))).toEqual([
          [2, 4],
          [1, 4],
        ])
      })
      square.release()
    }),
  )

  it(
    'a compiled function can be part of another one',
    on(() => {
      const square = jit((x: tf.Tensor) => tf.square(x))
      const sumOfSquares = jit((x: tf.Tensor) => ({ total: tf.sum(square(x)), twice: square(square(x)) }))
      using1d([[1, 2, 3]], (x) => {
        const { total, twice } = sumOfSquares(x!)
        expect(take(total, twice)).toEqual([[14], [1, 16, 81]])
      })
      expect(square.compiles()).toBe(0)
      square.release()
      sumOfSquares.release()
    }),
  )

  it(
    'leaves nothing behind: not what the function makes inside, not when it throws, not when its result is no tree',
    on(() => {
      const x = tf.tensor1d([1, 2])
      const before = tf.memory()
      const fine = jit((a: tf.Tensor) => tf.add(tf.mul(a, tf.scalar(2)), tf.tensor1d([1, 1])))
      fine(x).dispose()
      const broken = jit((a: tf.Tensor): tf.Tensor => {
        tf.add(tf.mul(a, 2), tf.scalar(1))
        throw new Error('mine')
      })
      expect(() => broken(x)).toThrow('mine')
      const brokenGradient = jit((a: tf.Tensor) => tf.grad(() => tf.scalar(1))(tf.mul(a, 2)))
      expect(() => brokenGradient(x)).toThrow('Cannot compute gradient')
      const asynchronous = jit(async (a: tf.Tensor) => tf.mul(a, 2))
      expect(() => asynchronous(x)).toThrow('tree is Promise')
      expect(tf.memory()).toMatchObject({ numTensors: before.numTensors, numDataBuffers: before.numDataBuffers })
      expect(take(fine(x))).toEqual([[3, 5]]) // and nothing is stuck
      tf.dispose(x)
      fine.release()
    }),
  )

  it(
    'an argument that is no tensor is refused, naming its place',
    on(() => {
      const f = jit(({ x }: { x: tf.Tensor; rate?: unknown }) => tf.neg(x))
      using1d([[1]], (x) => {
        expect(() => f({ x: x!, rate: 0.5 })).toThrow('tree.rate is Number')
      })
    }),
  )

  it(
    'a scope around a call frees its results',
    on(() => {
      const f = jit((x: tf.Tensor) => [tf.neg(x), x])
      using1d([[1, 2]], (x) => {
        const before = tf.memory().numTensors
        tf.tidy(() => void f(x!))
        expect(tf.memory().numTensors).toBe(before)
        expect(valuesOf(x!)).toEqual([1, 2])
      })
      f.release()
    }),
  )
})
