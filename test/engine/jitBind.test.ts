/** Compiled functions some of whose arguments are constants. */
import * as tf from '@tensorflow/tfjs-core'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { jit } from '../../src/engine/jit.js'
import { type BackendName, onBackend } from '../kit/backends.js'
import { expectClose } from '../kit/close.js'
import { take, useOnnxRuntime, valuesOf } from '../kit/engine.js'
import { inputsOf, programs, runProgram } from '../kit/program.js'

const { backend } = useOnnxRuntime()

interface Input {
  /** `[N, 3]` */
  readonly x: tf.Tensor
  /** `[3, 4]` */
  readonly w: tf.Tensor
  /** `[4]` */
  readonly b: tf.Tensor
}

const affine = ({ x, w, b }: Input): tf.Tensor => tf.add(tf.matMul(x, w), b)

const input = (rows: number, seed: number): Input => ({
  x: tf.randomUniform([rows, 3], -1, 1, 'float32', seed),
  w: tf.randomUniform([3, 4], -1, 1, 'float32', seed + 1),
  b: tf.randomUniform([4], -1, 1, 'float32', seed + 2),
})

const BACKENDS: readonly BackendName[] = ['onnxruntime', 'cpu']

describe.each(BACKENDS)('bind on %s', (name) => {
  const on =
    (f: () => void): (() => void) =>
    () =>
      onBackend(name, f)

  it(
    'gives what the function gives, for any program and any part of its arguments',
    on(() => {
      const law = fc.property(programs(8), fc.nat(), (program, bits) => {
        const compiled = jit((inputs: tf.Tensor[]) => runProgram(program, inputs).slice(inputs.length))
        const inputs = inputsOf(program)
        const bound = compiled.bind(inputs.filter((_, i) => ((bits >> i) & 1) === 1))
        const expected = compiled(inputs)
        for (let call = 0; call < 2; call++) {
          for (const [i, values] of take(...bound(inputs)).entries()) {
            expectClose(values, valuesOf(expected[i]!), { absolute: 1e-5, relative: 1e-4 })
          }
        }
        bound.release()
        tf.dispose([inputs, expected])
        compiled.release()
      })
      fc.assert(law, { numRuns: 50 })
    }),
  )

  it(
    'takes any number of rows where they vary',
    on(() => {
      const compiled = jit(affine, { varying: ({ x }) => [{ tensor: x, axes: ['rows', null] }] })
      const first = input(2, 1)
      const bound = compiled.bind([first.w, first.b])
      for (const rows of [2, 5, 1]) {
        const given = { ...first, x: tf.ones([rows, 3]) }
        const [expected, actual] = take(compiled(given), bound(given))
        expectClose(actual!, expected!, { absolute: 1e-6 })
        given.x.dispose()
      }
      bound.release()
      compiled.release()
      tf.dispose([first.x, first.w, first.b])
    }),
  )
})

describe('bind', () => {
  it('feeds only what is not bound', () => {
    const compiled = jit(affine)
    const given = input(2, 1)
    const bound = compiled.bind([given.w, given.b])
    take(bound(given))
    const before = backend().stats().bytesIn
    take(bound(given))
    expect(backend().stats().bytesIn - before).toBe(4 * 2 * 3)
    bound.release()
    compiled.release()
    tf.dispose([given.x, given.w, given.b])
  })

  it('compiles once for each structure, and again after others were bound', () => {
    const compiled = jit(affine)
    const [one, other] = [input(2, 1), input(2, 7)]
    const compiles = (f: () => void): number => {
      const before = backend().stats().compiles
      f()
      return backend().stats().compiles - before
    }
    const bound = compiled.bind([one.w, one.b])
    expect(compiles(() => take(bound(one), bound(one)))).toBe(1)
    const rebound = compiled.bind([other.w, other.b])
    expect(compiles(() => take(rebound(other)))).toBe(1)
    expect(take(bound(one), rebound(other))).toEqual(take(compiled(one), compiled(other)))
    bound.release()
    rebound.release()
    compiled.release()
    tf.dispose([Object.values(one), Object.values(other)])
  })

  it('refuses a call without a tensor that is bound, or with another one in its place', () => {
    const compiled = jit(affine)
    const [given, other] = [input(2, 1), input(2, 7)]
    const bound = compiled.bind([given.w])
    expect(() => bound({ ...given, w: other.w })).toThrow(/bound is not among the arguments/)
    take(bound(given))
    expect(() => bound({ ...given, w: other.w })).toThrow(/bound is not among the arguments/)
    bound.release()
    compiled.release()
    tf.dispose([Object.values(given), Object.values(other)])
  })

  it('of a function that a gradient is taken of lets the gradient pass', () => {
    const compiled = jit(affine)
    const given = input(2, 1)
    const bound = compiled.bind([given.w])
    const [slope] = take(tf.grad((w) => tf.sum(bound({ ...given, w })))(given.w))
    const sums = valuesOf(given.x).reduce((sum, x, i) => sum.with(i % 3, sum[i % 3]! + x), [0, 0, 0])
    expectClose(
      slope!,
      sums.flatMap((sum) => [sum, sum, sum, sum]),
      { absolute: 1e-6 },
    )
    bound.release()
    compiled.release()
    tf.dispose([given.x, given.w, given.b])
  })
})
