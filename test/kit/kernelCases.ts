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
