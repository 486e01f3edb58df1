import * as tf from '@tensorflow/tfjs-core'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { expectClose } from '../../../../test/kit/close.js'
import { expectForward, expectGradients, type Operation } from '../../../../test/kit/differentiable.js'
import { useOnnxRuntime, valuesOf } from '../../../../test/kit/engine.js'
import { floatsIn, hostTensor, intsIn, toTensor } from '../../../../test/kit/hostTensor.js'
import { rotaryOracle } from '../../../../test/kit/oracle.js'
import { rotary } from '../../src/ops/rotary.js'

useOnnxRuntime()

interface Turn {
  readonly operation: Operation
  readonly positions: readonly number[]
}

const size = (max: number): fc.Arbitrary<number> => fc.integer({ min: 1, max })

/** The time axis may be longer than the table: positions may start again within a row. */
const turns: fc.Arbitrary<Turn> = fc
  .record({ b: size(3), t: size(5), heads: size(3), half: size(4), m: size(6) })
  .chain(({ b, t, heads, half, m }) =>
    fc
      .tuple(hostTensor(floatsIn(-2, 2), [b, t, heads * 2 * half]), hostTensor(intsIn(0, m - 1), [b, t]))
      .map(([x, positions]) => {
        const angle = (i: number): number => Math.floor(i / half) / 3 ** (i % half)
        const angles = Array.from({ length: m * half }, (_, i) => angle(i))
        const [cos, sin] = [angles.map((a) => Math.fround(Math.cos(a))), angles.map((a) => Math.fround(Math.sin(a)))]
        const operation: Operation = {
          inputs: [x],
          shape: x.shape,
          call: ([input]) => {
            const table = { cos: tf.tensor2d(cos, [m, half]), sin: tf.tensor2d(sin, [m, half]) }
            return rotary(input!, toTensor(positions), table)
          },
          oracle: ([input]) => rotaryOracle(input!, positions.data, { cos, sin, half }),
        }
        return { operation, positions: positions.data }
      }),
  )

describe('rotary', () => {
  it('equals the float64 oracle', () => {
    const law = fc.property(turns, ({ operation }) => {
      expectForward(operation)
    })
    fc.assert(law)
  })

  it('has the gradient of the oracle', () => {
    const law = fc.property(turns, ({ operation }) => {
      expectGradients(operation)
    })
    fc.assert(law, { numRuns: 50 })
  })

  it('keeps the length of every vector', () => {
    const law = fc.property(turns, ({ operation: { inputs, call } }) => {
      tf.tidy(() => {
        const x = toTensor(inputs[0]!)
        const lengths = (v: tf.Tensor): number[] => valuesOf(tf.sum(tf.square(v), -1))
        expectClose(lengths(call([x])), lengths(x), { absolute: 1e-5 })
      })
    })
    fc.assert(law)
  })

  it('regression: takes a time axis longer than the table', () => {
    tf.tidy(() => {
      const table = { cos: tf.tensor2d([[1], [0]]), sin: tf.tensor2d([[0], [1]]) }
      const x = tf.tensor3d([
        [
          [1, 2],
          [1, 2],
          [1, 2],
        ],
      ]) // three steps, two positions
      const positions = tf.tensor2d([[0, 1, 0]], undefined, 'int32')
      expect(valuesOf(rotary(x, positions, table))).toEqual([1, 2, -2, 1, 1, 2])
    })
  })

  it.each([
    [[2, 4], 'got [2,4]'],
    [[1, 2, 6], 'x must be [B, T, heads * 4]'],
  ])('refuses x of shape %j', (shape, message) => {
    tf.tidy(() => {
      const table = { cos: tf.ones([3, 2]), sin: tf.zeros([3, 2]) }
      expect(() => rotary(tf.ones(shape), tf.zeros([1, 2], 'int32'), table)).toThrow(message)
    })
  })
})
