import * as tf from '@tensorflow/tfjs-core'
import { runFused } from './fused.js'

/** The layout of a weight matrix: `[out, in]` as in PyTorch's Linear, or `[in, out]`. */
export type WeightLayout = 'out-in' | 'in-out'

/**
 * Applies a linear map with a bias: `x W^T + b`, or `x W + b` for the other weight layout.
 *
 * Shapes   x `[N, I]`, weight `[O, I]` or `[I, O]`, bias `[O]`; result `[N, O]`.
 * Errors   throws if shapes do not fit.
 * Cost     one product, one operation on the onnxruntime backend. The gradient takes two products
 *          and a sum.
 *
 * @example
 * linearLayer(tf.tensor2d([[1, 2]]), { weight: tf.tensor2d([[3, 4]]), bias: tf.tensor1d([5]) }, 'out-in').dataSync() // [16]
 */
export const linearLayer = (
  x: tf.Tensor,
  { weight, bias }: { readonly weight: tf.Tensor; readonly bias: tf.Tensor },
  layout: WeightLayout,
): tf.Tensor => {
  const transposeB = layout === 'out-in'
  return tf.customGrad((...args) => {
    // Casts: tfjs types the arguments of a custom gradient as a mixed list of tensors and the save
    // function.
    const save = args[3] as tf.GradSaveFunc
    save([x, weight])
    const fused = runFused('Linear', { x, weight, bias }, { transposeB })
    const value = fused ?? tf.add(tf.matMul(x, weight, false, transposeB), bias)
    const gradFunc = (dy: tf.Tensor, saved: tf.Tensor[]): tf.Tensor[] => {
      const [input, matrix] = [saved[0]!, saved[1]!]
      return [
        tf.matMul(dy, matrix, false, !transposeB),
        transposeB ? tf.matMul(dy, input, true, false) : tf.matMul(input, dy, true, false),
        tf.sum(dy, 0),
      ]
    }
    return { value, gradFunc }
  })(x, weight, bias)
}
