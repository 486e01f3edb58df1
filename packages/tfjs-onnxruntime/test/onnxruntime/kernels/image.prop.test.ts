import * as tf from '@tensorflow/tfjs-core'
import fc from 'fast-check'
import { describe, it } from 'vitest'
import {
  type Call,
  type KernelCase,
  type KnownDifference,
  kernelLaws,
  knownDifferences,
  row,
} from '../../../../../test/kit/backends.js'
import { expectClose } from '../../../../../test/kit/close.js'
import { useOnnxRuntime, valuesOf } from '../../../../../test/kit/engine.js'
import {
  anyFloat,
  type Elements,
  elementCount,
  floatsIn,
  hostTensor,
  intsIn,
  toTensor,
} from '../../../../../test/kit/hostTensor.js'
import { cases } from '../../../../../test/kit/kernelCases.js'
import { imageRules } from '../../../src/onnxruntime/kernels/image.js'

const { backend } = useOnnxRuntime()

const values = floatsIn(-50, 50)
const close = { within: { absolute: 1e-4, relative: 1e-5 } }

interface Resize {
  readonly size: [number, number]
  readonly alignCorners: boolean
  readonly halfPixelCenters: boolean
}

interface Draw {
  readonly shapes: 'any' | 'square' | 'single'
  readonly placements: readonly (readonly [alignCorners: boolean, halfPixelCenters: boolean])[]
}

const ALL = [
  [false, false],
  [true, false],
  [false, true],
] as const

/** Images and the size that they get. */
const images = (elements: Elements, { shapes, placements }: Draw): fc.Arbitrary<KernelCase<Resize>> =>
  cases(
    fc
      .record({
        batch: fc.integer({ min: 1, max: 2 }),
        size: fc.tuple(fc.integer({ min: 1, max: 5 }), fc.integer({ min: 1, max: 5 })),
        channels: fc.integer({ min: 1, max: 3 }),
        made: fc.tuple(fc.integer({ min: 1, max: 9 }), fc.integer({ min: 1, max: 9 })),
        placement: fc.constantFrom(...placements),
      })
      .map(({ batch, size: [height, width], channels, made, placement: [alignCorners, halfPixelCenters] }) => {
        const shape = [shapes === 'single' ? 1 : batch, height, shapes === 'square' ? height : width, channels]
        return [[hostTensor(elements, shape)], { size: made, alignCorners, halfPixelCenters }] as const
      }),
  )

type Resizer = typeof tf.image.resizeBilinear

const run =
  (resize: Resizer): Call<Resize> =>
  ({ a }, { size, alignCorners, halfPixelCenters }) =>
    resize(a as tf.Tensor4D, size, alignCorners, halfPixelCenters) // the cases have rank 4

const gradient =
  (resize: Resizer): Call<Resize> =>
  ({ a }, { size, alignCorners, halfPixelCenters }) =>
    tf.grad((x) => {
      const made = resize(x as tf.Tensor4D, size, alignCorners, halfPixelCenters)
      return tf.sum(tf.mul(made, tf.reshape(tf.sin(tf.range(1, made.size + 1)), made.shape)))
    })(a)

const { resizeBilinear, resizeNearestNeighbor } = tf.image
const anyPlacement = { shapes: 'any', placements: ALL } as const

/**
 * Gradients of a lone row or column with aligned corners are left out: tfjs's cpu kernel does not
 * return from those.
 */
const nearestGradients = images(values, { shapes: 'single', placements: ALL.slice(0, 2) }).filter(
  ({ inputs: [image], options }) => !options.alignCorners || !image!.shape.slice(1, 3).includes(1),
)
const wholePixels = { shapes: 'any', placements: ALL.slice(0, 2) } as const

const rows = [
  row('ResizeBilinear', images(values, anyPlacement), run(resizeBilinear), close),
  row('ResizeBilinear', images(intsIn(-9, 9), anyPlacement), run(resizeBilinear), {
    ...close,
    on: 'int32',
    form: 'cpu',
  }),
  row('ResizeBilinearGrad', images(values, { ...wholePixels, shapes: 'square' }), gradient(resizeBilinear), close),
  row('ResizeNearestNeighbor', images(anyFloat, anyPlacement), run(resizeNearestNeighbor)),
  row('ResizeNearestNeighborGrad', nearestGradients, gradient(resizeNearestNeighbor), close),
]

const differences: readonly KnownDifference[] = [
  {
    kernel: 'ResizeBilinearGrad',
    reason: "tfjs's cpu backend swaps height and width in the shape of the gradient",
    inputs: [
      { shape: [1, 2, 1, 1], dtype: 'float32', data: [1, 2] },
      { shape: [1, 1, 1, 1], dtype: 'float32', data: [1] },
    ],
    call: ({ a, b }) => tf.engine().runKernel('ResizeBilinearGrad', { images: a, dy: b }, { alignCorners: false }),
  },
  {
    kernel: 'ResizeNearestNeighborGrad',
    reason: "tfjs's cpu backend reads the gradients of all images but the first from the wrong place",
    inputs: [
      { shape: [2, 1, 1, 1], dtype: 'float32', data: [0, 0] },
      { shape: [2, 1, 2, 1], dtype: 'float32', data: [1, 2, 4, 8] },
    ],
    call: ({ a, b }) =>
      tf.engine().runKernel('ResizeNearestNeighborGrad', { images: a, dy: b }, { alignCorners: false }),
  },
]

describe('images that change size', () => {
  knownDifferences(differences)
  kernelLaws(backend, () => Object.keys(imageRules), rows)

  it('the gradient of several images is the gradients of each', () => {
    const law = fc.property(images(values, wholePixels), ({ inputs: [host], options }) => {
      const parts = (x: tf.Tensor): readonly tf.Tensor[] => tf.split(x, x.shape[0]!)
      for (const name of ['ResizeBilinearGrad', 'ResizeNearestNeighborGrad']) {
        tf.tidy(() => {
          const image = toTensor(host!)
          const [batch, , , channels] = image.shape
          const size = [batch!, ...options.size, channels!]
          const dy = tf.reshape(tf.sin(tf.range(0, elementCount(size))), size)
          const gradientOf = (x: tf.Tensor, given: tf.Tensor): tf.Tensor =>
            tf.engine().runKernel(name, { images: x, dy: given }, { alignCorners: options.alignCorners })
          const each = parts(image).map((x, i) => gradientOf(x, parts(dy)[i]!))
          expectClose(valuesOf(gradientOf(image, dy)), valuesOf(tf.concat(each)), { absolute: 1e-5 })
        })
      }
    })
    fc.assert(law, { numRuns: 20 })
  })
})
