/** Random operands for kernels, by the way their shapes belong together. */
import fc from 'fast-check'
import type { KernelCase } from './backends.js'
import { broadcastable, type Elements, type HostTensor, hostTensor, shapes } from './hostTensor.js'

type Options = Readonly<Record<string, unknown>>
type Cases<A> = fc.Arbitrary<KernelCase<A>>

const NONE: Options = {}

/** One operand, and options drawn for its shape. */
export const oneWith = <A>(
  elements: Elements,
  options: (shape: readonly number[]) => fc.Arbitrary<A>,
  shape: fc.Arbitrary<readonly number[]> = shapes(),
): Cases<A> => shape.chain((s) => fc.record({ inputs: fc.tuple(hostTensor(elements, s)), options: options(s) }))

/** One operand of any shape. */
export const one = (elements: Elements, shape: fc.Arbitrary<readonly number[]> = shapes()): Cases<Options> =>
  oneWith(elements, () => fc.constant(NONE), shape)

/** Two operands whose shapes broadcast together. */
export const pair = (left: Elements, right: Elements = left): Cases<Options> =>
  shapes()
    .chain((shape) => fc.tuple(broadcastable(shape), broadcastable(shape)))
    .chain(([s, t]) =>
      fc.record({ inputs: fc.tuple(hostTensor(left, s), hostTensor(right, t)), options: fc.constant(NONE) }),
    )

/** One to four operands of one shape. */
export const several = (elements: Elements): Cases<Options> =>
  fc.tuple(shapes(), fc.integer({ min: 1, max: 4 })).chain(([shape, count]) =>
    fc.record({
      inputs: fc.array(hostTensor(elements, shape), { minLength: count, maxLength: count }),
      options: fc.constant(NONE),
    }),
  )

/** Operands and options drawn together. */
export const cases = <A>(
  draw: fc.Arbitrary<readonly [inputs: readonly fc.Arbitrary<HostTensor>[], options: A]>,
): Cases<A> =>
  draw.chain(([inputs, options]) => fc.record({ inputs: fc.tuple(...inputs), options: fc.constant(options) }))

/** Two operands of one shape. */
export const twins = (left: Elements, right: Elements = left): Cases<Options> =>
  shapes().chain((shape) =>
    fc.record({ inputs: fc.tuple(hostTensor(left, shape), hostTensor(right, shape)), options: fc.constant(NONE) }),
  )

/** How windows move over an image: no more of them than there is to see. */
interface WindowOptions {
  readonly kernel: readonly number[]
  readonly strides: number[]
  readonly pad: 'same' | 'valid' | number
  readonly rounding: 'floor' | 'ceil' | 'round' | undefined
}

/** An image's spatial axes together with windows that fit into it. */
export interface WindowCase extends WindowOptions {
  readonly size: readonly number[]
  readonly batch: number
  readonly channels: number
}

/**
 * Small images of `axes` spatial axes, and windows over them. `pads` says whether tfjs takes a
 * number as padding here.
 */
export const windowCases = (axes: number, pads: 'numbers' | 'names'): fc.Arbitrary<WindowCase> => {
  const perAxis = (min: number, max: number): fc.Arbitrary<number[]> =>
    fc.array(fc.integer({ min, max }), { minLength: axes, maxLength: axes })
  const named = fc.record({ pad: fc.constantFrom('same' as const, 'valid' as const), rounding: fc.constant(undefined) })
  const counted = fc.record({
    pad: fc.nat(1),
    rounding: fc.constantFrom('floor' as const, 'ceil' as const, 'round' as const),
  })
  return fc
    .record({
      size: perAxis(1, axes === 3 ? 4 : 6),
      kernel: perAxis(1, 3),
      strides: perAxis(1, 3),
      padding: pads === 'numbers' ? fc.oneof(named, counted) : named,
      batch: fc.integer({ min: 1, max: 2 }),
      channels: fc.integer({ min: 1, max: 3 }),
    })
    .map(({ padding, kernel, size, strides, ...rest }) => {
      // With a number as padding tfjs counts the windows of the first axis along all of them.
      const alike = (list: readonly number[]): number[] =>
        padding.rounding === undefined ? [...list] : list.map(() => list[0]!)
      const square = padding.rounding === undefined ? size : size.map((n) => Math.max(n, 3))
      const fitting = alike(kernel).map((n, i) => Math.min(n, square[i]!))
      return { ...rest, ...padding, size: square, kernel: fitting, strides: alike(strides) }
    })
}
