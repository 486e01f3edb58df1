import * as tf from '@tensorflow/tfjs-core'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  type KernelCase,
  type KnownDifference,
  kernelLaws,
  knownDifferences,
  row,
} from '../../../../../test/kit/backends.js'
import { useOnnxRuntime, valuesOf } from '../../../../../test/kit/engine.js'
import {
  anyFloat,
  anyInt,
  bools,
  broadcastable,
  type Elements,
  floatsIn,
  hostTensor,
  intsIn,
  shapes,
  vector,
} from '../../../../../test/kit/hostTensor.js'
import { cases, one, oneWith, pair, several } from '../../../../../test/kit/kernelCases.js'
import { elementwiseRules } from '../../../src/onnxruntime/kernels/elementwise.js'

const { backend } = useOnnxRuntime()

const equalZeros = { within: { absolute: 0, relative: 0 } } // -0 may come back as 0
const close = { within: { absolute: 1e-6, relative: 1e-5 } }
const DTYPES = ['float32', 'int32', 'bool'] as const

const unary = [
  row('Abs', one(anyFloat), ({ a }) => tf.abs(a)),
  row('Abs', one(intsIn(-(2 ** 24), 2 ** 24)), ({ a }) => tf.abs(a), { on: 'int32' }),
  row('Acos', one(anyFloat), ({ a }) => tf.acos(a), close),
  row('Acosh', one(anyFloat), ({ a }) => tf.acosh(a), close),
  row('Asin', one(anyFloat), ({ a }) => tf.asin(a), close),
  row('Asinh', one(anyFloat), ({ a }) => tf.asinh(a), close),
  row('Atan', one(anyFloat), ({ a }) => tf.atan(a), close),
  row('Ceil', one(anyFloat), ({ a }) => tf.ceil(a)),
  row('Cos', one(anyFloat), ({ a }) => tf.cos(a), close),
  row('Cosh', one(anyFloat), ({ a }) => tf.cosh(a), close),
  row('Erf', one(anyFloat), ({ a }) => tf.erf(a), close),
  row('Exp', one(anyFloat), ({ a }) => tf.exp(a), close),
  row('Floor', one(anyFloat), ({ a }) => tf.floor(a)),
  row('IsNan', one(anyFloat), ({ a }) => tf.isNaN(a)),
  row('Log', one(anyFloat), ({ a }) => tf.log(a), close),
  row('LogicalNot', one(bools), ({ a }) => tf.logicalNot(a)),
  row('Neg', one(anyFloat), ({ a }) => tf.neg(a)),
  row('Neg', one(anyInt), ({ a }) => tf.neg(a), { on: 'int32' }),
  row('Reciprocal', one(anyFloat), ({ a }) => tf.reciprocal(a)),
  row('Round', one(anyFloat), ({ a }) => tf.round(a), equalZeros),
  row('Rsqrt', one(anyFloat), ({ a }) => tf.rsqrt(a), close),
  row('Sigmoid', one(anyFloat), ({ a }) => tf.sigmoid(a), close),
  row('Sin', one(anyFloat), ({ a }) => tf.sin(a), close),
  row('Sinh', one(anyFloat), ({ a }) => tf.sinh(a), close),
  row('Sqrt', one(anyFloat), ({ a }) => tf.sqrt(a), close),
  row('Square', one(anyFloat), ({ a }) => tf.square(a), close),
  row('Square', one(intsIn(-(2 ** 12), 2 ** 12)), ({ a }) => tf.square(a), { on: 'int32' }),
  row('Tan', one(anyFloat), ({ a }) => tf.tan(a), close),
  row('Tanh', one(anyFloat), ({ a }) => tf.tanh(a), close),
]

const binary = [
  row('Add', pair(anyFloat), ({ a, b }) => tf.add(a, b)),
  row('Add', pair(anyInt), ({ a, b }) => tf.add(a, b), { on: 'int32' }),
  row('AddN', several(anyFloat), ({ all }) => tf.addN([...all]), equalZeros),
  row('AddN', several(anyInt), ({ all }) => tf.addN([...all]), { on: 'int32' }),
  row('Maximum', pair(anyFloat), ({ a, b }) => tf.maximum(a, b), equalZeros),
  row('Maximum', pair(anyInt), ({ a, b }) => tf.maximum(a, b), { on: 'int32' }),
  row('Minimum', pair(anyFloat), ({ a, b }) => tf.minimum(a, b), equalZeros),
  row('Minimum', pair(anyInt), ({ a, b }) => tf.minimum(a, b), { on: 'int32' }),
  row('Multiply', pair(anyFloat), ({ a, b }) => tf.mul(a, b)),
  row('Multiply', pair(intsIn(-(2 ** 26), 2 ** 26)), ({ a, b }) => tf.mul(a, b), { on: 'int32' }),
  row('Pow', pair(anyFloat, floatsIn(-20, 20)), ({ a, b }) => tf.pow(a, b), close),
  row('RealDiv', pair(anyFloat), ({ a, b }) => tf.div(a, b)),
  row('SquaredDifference', pair(anyFloat), ({ a, b }) => tf.squaredDifference(a, b), close),
  row('SquaredDifference', pair(intsIn(-(2 ** 25), 2 ** 25)), ({ a, b }) => tf.squaredDifference(a, b), {
    on: 'int32',
  }),
  row('Sub', pair(anyFloat), ({ a, b }) => tf.sub(a, b)),
  row('Sub', pair(anyInt), ({ a, b }) => tf.sub(a, b), { on: 'int32' }),
]

const comparisons = [
  row('Equal', pair(anyFloat), ({ a, b }) => tf.equal(a, b)),
  row('Equal', pair(anyInt), ({ a, b }) => tf.equal(a, b), { on: 'int32' }),
  row('Equal', pair(bools), ({ a, b }) => tf.equal(a, b), { on: 'bool' }),
  row('Greater', pair(anyFloat), ({ a, b }) => tf.greater(a, b)),
  row('GreaterEqual', pair(anyFloat), ({ a, b }) => tf.greaterEqual(a, b)),
  row('Less', pair(anyFloat), ({ a, b }) => tf.less(a, b)),
  row('LessEqual', pair(anyFloat), ({ a, b }) => tf.lessEqual(a, b)),
  row('NotEqual', pair(anyFloat), ({ a, b }) => tf.notEqual(a, b)),
  row('Greater', pair(anyInt), ({ a, b }) => tf.greater(a, b), { on: 'int32' }),
  row('LessEqual', pair(anyInt), ({ a, b }) => tf.lessEqual(a, b), { on: 'int32' }),
  row('Greater', pair(bools), ({ a, b }) => tf.greater(a, b), { on: 'bool' }),
  row('GreaterEqual', pair(bools), ({ a, b }) => tf.greaterEqual(a, b), { on: 'bool' }),
  row('Less', pair(bools), ({ a, b }) => tf.less(a, b), { on: 'bool' }),
  row('LessEqual', pair(bools), ({ a, b }) => tf.lessEqual(a, b), { on: 'bool' }),
  row('NotEqual', pair(bools), ({ a, b }) => tf.notEqual(a, b), { on: 'bool' }),
  row('LogicalAnd', pair(bools), ({ a, b }) => tf.logicalAnd(a, b)),
  row('LogicalOr', pair(bools), ({ a, b }) => tf.logicalOr(a, b)),
]

/** A condition and two values that broadcast together. */
const selection = (values: Elements): fc.Arbitrary<KernelCase<undefined>> =>
  cases(
    shapes().chain((shape) =>
      fc
        .tuple(broadcastable(shape), broadcastable(shape), broadcastable(shape))
        .map(([c, t, e]) => [[hostTensor(bools, c), hostTensor(values, t), hostTensor(values, e)], undefined] as const),
    ),
  )

const int32Range = floatsIn(-(2 ** 31), 2 ** 31 - 256)

const others = [
  row('Select', selection(anyFloat), ({ a, b, c }) => tf.where(a, b, c), equalZeros),
  row('Select', selection(anyInt), ({ a, b, c }) => tf.where(a, b, c), { on: 'int32' }),
  row('Select', selection(bools), ({ a, b, c }) => tf.where(a, b, c), { on: 'bool' }),
  row('Cast', one(int32Range), ({ a }) => tf.cast(a, 'int32'), { on: 'float32 to int32' }),
  row('Cast', one(anyFloat), ({ a }) => tf.cast(a, 'bool'), { on: 'float32 to bool' }),
  ...DTYPES.flatMap((dtype) => [
    row('Cast', one(anyInt), ({ a }) => tf.cast(a, dtype), { on: `int32 to ${dtype}` }),
    row('Cast', one(bools), ({ a }) => tf.cast(a, dtype), { on: `bool to ${dtype}` }),
  ]),
  row(
    'ClipByValue',
    oneWith(anyFloat, () =>
      fc.tuple(fc.float({ min: -50, max: 0, noNaN: true }), fc.float({ min: 0, max: 50, noNaN: true })),
    ),
    ({ a }, [low, high]) => tf.clipByValue(a, low, high),
  ),
]

const differences: readonly KnownDifference[] = [
  {
    kernel: 'Abs',
    reason: "tfjs's int32 values pass through float32 and lose digits above 2^24",
    inputs: [vector([2 ** 24 + 1], 'int32')],
    call: ({ a }) => tf.abs(a),
  },
  {
    kernel: 'Square',
    reason: "tfjs's int32 values pass through float32 and lose digits above 2^24",
    inputs: [vector([2 ** 12 + 1], 'int32')],
    call: ({ a }) => tf.square(a),
  },
  {
    kernel: 'Round',
    reason: 'onnxruntime rounds -0.5 to -0, tfjs to 0',
    inputs: [vector([-0.5])],
    call: ({ a }) => tf.round(a),
  },
  {
    kernel: 'AddN',
    reason: 'tfjs adds to zeros, so a lone -0 becomes 0',
    inputs: [vector([-0])],
    call: ({ all }) => tf.addN([...all]),
  },
  {
    kernel: 'Maximum',
    reason: 'of 0 and -0 onnxruntime takes the second',
    inputs: [vector([0]), vector([-0])],
    call: ({ a, b }) => tf.maximum(a, b),
  },
  {
    kernel: 'Minimum',
    reason: 'of 0 and -0 onnxruntime takes the second',
    inputs: [vector([-0]), vector([0])],
    call: ({ a, b }) => tf.minimum(a, b),
  },
  {
    kernel: 'Multiply',
    reason: 'tfjs multiplies int32 in float64, which rounds products above 2^53; onnxruntime wraps exactly',
    inputs: [vector([2 ** 31 - 1], 'int32'), vector([2 ** 31 - 1], 'int32')],
    call: ({ a, b }) => tf.mul(a, b),
  },
  {
    kernel: 'Pow',
    reason: 'in C, pow(1, NaN) and pow(-1, infinity) are 1; in JavaScript they are NaN',
    inputs: [vector([1]), vector([Number.NaN])],
    call: ({ a, b }) => tf.pow(a, b),
  },
  {
    kernel: 'Cast',
    reason:
      'a float32 that no int32 can hold (also NaN) becomes -2^31 in onnxruntime, and wraps or becomes 0 in JavaScript',
    inputs: [vector([Number.NaN])],
    call: ({ a }) => tf.cast(a, 'int32'),
  },
  {
    kernel: 'Select',
    reason: 'onnxruntime merges two halves that hold 0 where they were not chosen, and loses the sign of -0',
    inputs: [vector([1], 'bool'), vector([-0]), vector([1])],
    call: ({ a, b, c }) => tf.where(a, b, c),
  },
]

describe('elementwise kernels', () => {
  knownDifferences(differences)

  it('Select with a condition of rank 1 chooses whole rows (tfjs-cpu takes the wrong elements here)', () => {
    const law = fc.property(shapes(2, 4), fc.array(fc.boolean(), { minLength: 5, maxLength: 5 }), (shape, choices) => {
      tf.tidy(() => {
        const [t, e] = [tf.ones([...shape]), tf.zeros([...shape])]
        const condition = tf.tensor1d(choices.slice(0, shape[0]), 'bool')
        const chosen = tf.engine().runKernel('Select', { condition, t, e }) as tf.Tensor // one output
        const column = tf.reshape(condition, [shape[0]!, ...shape.slice(1).map(() => 1)])
        expect(valuesOf(chosen)).toEqual(valuesOf(tf.where(column, t, e)))
      })
    })
    fc.assert(law)
  })

  kernelLaws(backend, () => Object.keys(elementwiseRules), [...unary, ...binary, ...comparisons, ...others])
})
