import * as tf from '@tensorflow/tfjs-core'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { type WindowCase, windowCases } from '../../../../../test/kit/kernelCases.js'
import { borders, countsAsOnnx, type Windows, windowsOf } from '../../../src/onnxruntime/kernels/windows.js'

/** tfjs's windows over one image. Casts: the cases have one number for each axis. */
const windows = ({ size, kernel, strides, pad, rounding, batch, channels }: WindowCase): Windows =>
  size.length === 2
    ? windowsOf(
        tf.backend_util.computePool2DInfo(
          [batch, ...size, channels] as [number, number, number, number],
          kernel as [number, number],
          strides as [number, number],
          1,
          pad,
          rounding,
        ),
      )
    : windowsOf(
        tf.backend_util.computePool3DInfo(
          [batch, ...size, channels] as [number, number, number, number, number],
          kernel as [number, number, number],
          strides as [number, number, number],
          1,
          pad,
          rounding,
        ),
      )

const any = fc.oneof(windowCases(2, 'numbers'), windowCases(3, 'numbers'))

/** The number of windows of ONNX for a size, padding, a kernel and strides. */
const countOf = (made: Windows, axis: number): number => {
  const all = borders(made)
  const padded = made.size[axis]! + all[axis]! + all[axis + made.size.length]!
  return Math.floor((padded - made.kernel[axis]!) / made.strides[axis]!) + 1
}

describe('windowsOf', () => {
  it('gives borders in which ONNX fits as many windows as tfjs counts', () => {
    const law = fc.property(any, (given) => {
      const made = windows(given)
      fc.pre(countsAsOnnx(made))
      expect(made.size.map((_, axis) => countOf(made, axis))).toEqual(made.count)
    })
    fc.assert(law)
  })

  it('counts no windows as those of ONNX that begin inside of the image', () => {
    const given: WindowCase = {
      size: [4, 4, 4],
      kernel: [1, 1, 1],
      strides: [2, 2, 2],
      pad: 'same',
      rounding: undefined,
      batch: 1,
      channels: 1,
    }
    const made = windows(given)
    expect(made.before).toEqual([-1, -1, -1]) // tfjs pads the axes of three dimensions by a negative number here
    expect(countsAsOnnx(made)).toBe(false)
  })
})
