/** Random straight-line programs over square matrices, for laws that hold whatever is computed. */
import * as tf from '@tensorflow/tfjs-core'
import fc from 'fast-check'

const SIZE = 3

/** Each keeps shape `[3, 3]` and values of moderate size; all are differentiable. */
const OPERATIONS = {
  add: (a: tf.Tensor, b: tf.Tensor) => tf.add(a, b),
  multiply: (a: tf.Tensor, b: tf.Tensor) => tf.tanh(tf.mul(a, b)),
  matMul: (a: tf.Tensor, b: tf.Tensor) => tf.tanh(tf.matMul(a, b, false, true)),
  softmax: (a: tf.Tensor) => tf.softmax(a),
  transpose: (a: tf.Tensor) => tf.transpose(a),
  center: (a: tf.Tensor) => tf.sub(a, tf.mean(a, 1, true)),
  gather: (a: tf.Tensor) => tf.gather(a, tf.tensor1d([2, 0, 0], 'int32')),
  rejoin: (a: tf.Tensor, b: tf.Tensor) => tf.concat([tf.slice(a, [0, 0], [1, SIZE]), tf.slice(b, [1, 0], [2, SIZE])]),
  scale: (a: tf.Tensor) => tf.mul(a, 0.5),
  reshape: (a: tf.Tensor) => tf.reshape(tf.reshape(a, [SIZE * SIZE]), [SIZE, SIZE]),
} as const

interface Step {
  readonly name: keyof typeof OPERATIONS
  readonly left: number
  readonly right: number
}

export interface Program {
  readonly inputs: readonly (readonly number[])[]
  readonly steps: readonly Step[]
}

const element = fc.float({ min: -2, max: 2, noNaN: true })

/** Two inputs and one to `maxSteps` steps; a step takes any two earlier values. */
export const programs = (maxSteps = 10): fc.Arbitrary<Program> =>
  fc.record({
    inputs: fc.array(fc.array(element, { minLength: SIZE * SIZE, maxLength: SIZE * SIZE }), {
      minLength: 2,
      maxLength: 2,
    }),
    steps: fc.array(
      fc.record({
        name: fc.constantFrom(...(Object.keys(OPERATIONS) as (keyof typeof OPERATIONS)[])), // the keys of a literal
        left: fc.nat(maxSteps),
        right: fc.nat(maxSteps),
      }),
      { minLength: 1, maxLength: maxSteps },
    ),
  })

export const inputsOf = ({ inputs }: Program): tf.Tensor[] => inputs.map((data) => tf.tensor([...data], [SIZE, SIZE]))

/**
 * Every value of a program, inputs first. `after` runs after each step. Helpers inside a step are
 * freed.
 */
export const runProgram = (
  { steps }: Program,
  inputs: readonly tf.Tensor[],
  after: (step: number) => void = () => {},
): tf.Tensor[] => {
  const values = [...inputs]
  for (const [i, { name, left, right }] of steps.entries()) {
    const [a, b] = [values[left % values.length]!, values[right % values.length]!]
    values.push(tf.tidy(() => OPERATIONS[name](a, b)))
    after(i)
  }
  return values
}
