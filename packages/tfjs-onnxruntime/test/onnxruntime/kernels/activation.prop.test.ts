import * as tf from '@tensorflow/tfjs-core'
import { describe } from 'vitest'
import { kernelLaws, row } from '../../../../../test/kit/backends.js'
import { useOnnxRuntime } from '../../../../../test/kit/engine.js'
import { anyFloat, anyInt, floatsIn } from '../../../../../test/kit/hostTensor.js'
import { one, pair, twins } from '../../../../../test/kit/kernelCases.js'
import { activationRules } from '../../../src/onnxruntime/kernels/activation.js'

const { backend } = useOnnxRuntime()

const equalZeros = { within: { absolute: 0, relative: 0 } } // -0 may come back as 0
const close = { within: { absolute: 1e-6, relative: 1e-5 } }

const eluGradient = ({ a, b }: { readonly a: tf.Tensor; readonly b: tf.Tensor }): tf.Tensor =>
  tf.engine().runKernel('EluGrad', { dy: a, y: b }) // has no function of its own

const rows = [
  row('Elu', one(anyFloat), ({ a }) => tf.elu(a), close),
  row('EluGrad', twins(anyFloat), eluGradient, close),
  row('LeakyRelu', one(anyFloat), ({ a }) => tf.leakyRelu(a, 0.3), close),
  row('LeakyRelu', one(anyInt), ({ a }) => tf.leakyRelu(a, 0.3), { on: 'int32', form: 'cpu' }),
  row('Prelu', pair(anyFloat, floatsIn(-2, 2)), ({ a, b }) => tf.prelu(a, b), equalZeros),
  row('Relu', one(anyFloat), ({ a }) => tf.relu(a), equalZeros),
  row('Relu', one(anyInt), ({ a }) => tf.relu(a), { on: 'int32' }),
  row('Relu6', one(anyFloat), ({ a }) => tf.relu6(a), equalZeros),
  row('Relu6', one(anyInt), ({ a }) => tf.relu6(a), { on: 'int32' }),
  row('Selu', one(anyFloat), ({ a }) => tf.selu(a), close),
  row('Softplus', one(anyFloat), ({ a }) => tf.softplus(a), close),
  row('Step', one(anyFloat), ({ a }) => tf.step(a)),
  row('Step', one(anyFloat), ({ a }) => tf.step(a, -3.5), { on: 'alpha' }),
]

describe('activation functions', () => {
  kernelLaws(backend, () => Object.keys(activationRules), rows)
})
