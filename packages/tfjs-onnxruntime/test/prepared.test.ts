/** Compiled functions whose arguments and results are arrays in host memory. */
import type { HostArray } from '@tandem-rl/base'
import * as tf from '@tensorflow/tfjs-core'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { type BackendName, onBackend } from '../../../test/kit/backends.js'
import { expectClose } from '../../../test/kit/close.js'
import { take, useOnnxRuntime, valuesOf } from '../../../test/kit/engine.js'
import { inputsOf, programs, runProgram } from '../../../test/kit/program.js'
import { adoptTensor, jit } from '../src/jit.js'

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

const arrayOf = (x: tf.Tensor): HostArray => ({ data: x.dataSync() as Float32Array, shape: x.shape }) // float32 here

const BACKENDS: readonly BackendName[] = ['onnxruntime', 'cpu']

describe.each(BACKENDS)('prepare on %s', (name) => {
  const on =
    (f: () => void): (() => void) =>
    () =>
      onBackend(name, f)

  it(
    'gives what the function gives, for any program and any part of its arguments as constants',
    on(() => {
      const law = fc.property(programs(8), fc.nat(), fc.nat(), (program, constant, other) => {
        const compiled = jit((inputs: tf.Tensor[]) => runProgram(program, inputs).slice(inputs.length))
        const inputs = inputsOf(program)
        const has = (bits: number, i: number): boolean => ((bits >> i) & 1) === 1
        const fed = inputs.filter((_, i) => !has(constant, i) && !has(other, i))
        const call = compiled.prepare(inputs, { fed, constants: inputs.filter((_, i) => has(constant, i)) })
        const expected = compiled(inputs)
        for (let turn = 0; turn < 2; turn++) {
          for (const [i, { data, shape }] of call(fed.map(arrayOf)).entries()) {
            expectClose([...data], valuesOf(expected[i]!), { absolute: 1e-5, relative: 1e-4 })
            expect(shape).toEqual(expected[i]!.shape)
          }
        }
        call.release()
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
      const call = compiled.prepare(first, { fed: [first.x], constants: [first.w, first.b] })
      for (const rows of [2, 5, 1]) {
        const given = { ...first, x: tf.ones([rows, 3]) }
        const actual = call([arrayOf(given.x)])
        expectClose([...actual.data], take(compiled(given))[0]!, { absolute: 1e-6 })
        expect(actual.shape).toEqual([rows, 4])
        given.x.dispose()
      }
      call.release()
      compiled.release()
      tf.dispose([first.x, first.w, first.b])
    }),
  )

  it(
    'copies constants of any size, which may change afterwards',
    on(() => {
      const table = ({ rows, w, b }: { rows: tf.Tensor; w: tf.Tensor; b: tf.Tensor }): tf.Tensor =>
        tf.add(tf.gather(w, rows as tf.Tensor1D), b)
      const sizes: readonly (readonly [number, number])[] = [
        [3, 4],
        [300, 200], // 240 kB, which is given to onnxruntime beside the model
      ]
      for (const [count, width] of sizes) {
        const compiled = jit(table)
        const numbers = Float32Array.from({ length: count * width }, (_, i) => i)
        const given = {
          rows: tf.tensor1d([2, 0], 'int32'),
          w: adoptTensor(numbers, [count, width], 'float32'),
          b: tf.ones([width]),
        }
        const call = compiled.prepare(given, { fed: [given.rows], constants: [given.w, given.b] })
        numbers.fill(-1)
        const { data } = call([{ data: Int32Array.of(2, 0), shape: [2] }])
        if (name === 'onnxruntime') expect([data[0], data[width]]).toEqual([2 * width + 1, 1])
        expect(data).toHaveLength(2 * width)
        call.release()
        compiled.release()
        tf.dispose([given.rows, given.w, given.b])
      }
    }),
  )

  it(
    'refuses tensors that are not among the arguments, and another number of arrays',
    on(() => {
      const compiled = jit(affine)
      const [given, other] = [input(2, 1), input(2, 7)]
      expect(() => compiled.prepare(given, { fed: [other.x] })).toThrow(/not among the arguments/)
      expect(() => compiled.prepare(given, { fed: [given.x], constants: [other.w] })).toThrow(/not among the arguments/)
      const call = compiled.prepare(given, { fed: [given.x] })
      expect(() => call([])).toThrow('prepare: 0 arrays given, 1 needed')
      compiled.release()
      tf.dispose([Object.values(given), Object.values(other)])
    }),
  )
})

describe('prepare', () => {
  it('feeds what is not constant, and takes tensors that are neither fed nor constant as they are', () => {
    const compiled = jit(affine)
    const given = input(2, 1)
    const calls = [
      compiled.prepare(given, { fed: [given.x], constants: [given.w, given.b] }),
      compiled.prepare(given, { fed: [given.x] }),
    ]
    const bytes = calls.map((call) => {
      const before = backend().stats().bytesIn
      call([arrayOf(given.x)])
      return backend().stats().bytesIn - before
    })
    expect(bytes).toEqual([4 * 2 * 3, 4 * (2 * 3 + 3 * 4 + 4)])
    for (const call of calls) call.release()
    compiled.release()
    tf.dispose([given.x, given.w, given.b])
  })

  it('compiles a graph once for its constants, and not at all without', () => {
    const compiled = jit(affine)
    const given = input(2, 1)
    take(compiled(given))
    const compiles = (f: () => void): number => {
      const before = backend().stats().compiles
      f()
      return backend().stats().compiles - before
    }
    const x = arrayOf(given.x)
    const plain = compiled.prepare(given, { fed: [given.x] })
    expect(compiles(() => [plain([x]), plain([x])])).toBe(0)
    const made = compiles(() => {
      const call = compiled.prepare(given, { fed: [given.x], constants: [given.w] })
      for (let i = 0; i < 2; i++) expect(call([x]).data).toEqual(plain([x]).data)
      call.release()
    })
    expect(made).toBe(1)
    compiled.release()
    tf.dispose([given.x, given.w, given.b])
  })

  it('works after the graphs of the function were released', () => {
    const compiled = jit(affine)
    const given = input(2, 1)
    const call = compiled.prepare(given, { fed: [given.x] })
    const before = call([arrayOf(given.x)])
    compiled.release()
    expect(call([arrayOf(given.x)]).data).toEqual(before.data)
    compiled.release()
    tf.dispose([given.x, given.w, given.b])
  })
})
