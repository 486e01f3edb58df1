import * as tf from '@tensorflow/tfjs-core'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { useOnnxRuntime, valuesOf } from '../../../../test/kit/engine.js'
import { FOLDS, folded } from '../../src/onnxruntime/folding.js'
import { type Attribute, makeOperation, type OutputSpec, sizeOf, type Value } from '../../src/onnxruntime/graph.js'
import type { OnnxType } from '../../src/onnxruntime/library.js'
import { copyArray, leaf } from '../../src/onnxruntime/storage.js'

const { backend } = useOnnxRuntime()

/** An operation with its inputs. */
interface Case {
  readonly name: string
  readonly inputs: readonly Value[]
  readonly output: OutputSpec
  readonly attributes: Readonly<Record<string, Attribute>>
}

const numberOf = (type: OnnxType): fc.Arbitrary<number> => {
  if (type === 'float32') return fc.float({ noNaN: false })
  return type === 'bool' ? fc.integer({ min: 0, max: 1 }) : fc.integer({ min: -9, max: 9 })
}

const known = (shape: readonly number[], type: OnnxType): fc.Arbitrary<Value> =>
  fc
    .array(numberOf(type), { minLength: sizeOf(shape), maxLength: sizeOf(shape) })
    .map((numbers) => leaf(copyArray(numbers, type), shape, type, { isConstant: false, trace: 0 }))

const integers = (...numbers: readonly number[]): Value =>
  leaf(copyArray(numbers, 'int64'), [numbers.length], 'int64', { isConstant: true, trace: 0 })

const shapes = fc.array(fc.integer({ min: 1, max: 4 }), { minLength: 1, maxLength: 3 })
const types = fc.constantFrom<OnnxType>('float32', 'int32', 'bool')

const pairwise = (names: readonly string[], type: OnnxType, result: OnnxType): fc.Arbitrary<Case> =>
  fc
    .tuple(fc.constantFrom(...names), shapes, fc.nat(2))
    .chain(([name, shape, single]) =>
      fc
        .tuple(known(single === 1 ? [1] : shape, type), known(single === 2 ? [] : shape, type))
        .map((inputs) => ({ name, inputs, output: { shape, type: result }, attributes: {} })),
    )

const along = fc
  .tuple(shapes, types)
  .chain(([shape, type]) => fc.tuple(fc.nat(shape.length - 1), fc.constant(shape), fc.constant(type)))

const withAxis = (shape: readonly number[], axis: number, size: number): readonly number[] =>
  shape.map((n, i) => (i === axis ? size : n))

const cases: fc.Arbitrary<Case> = fc.oneof(
  pairwise(['Add', 'Sub', 'Mul'], 'float32', 'float32'),
  pairwise(['Equal', 'Greater', 'GreaterOrEqual', 'Less', 'LessOrEqual'], 'float32', 'bool'),
  pairwise(['Equal', 'Greater', 'GreaterOrEqual', 'Less', 'LessOrEqual'], 'int32', 'bool'),
  pairwise(['And', 'Or', 'Equal'], 'bool', 'bool'),
  shapes.chain((shape) =>
    known(shape, 'bool').map((x) => ({
      name: 'Not',
      inputs: [x],
      output: { shape, type: 'bool' as const },
      attributes: {},
    })),
  ),
  fc.tuple(shapes, types).chain(([shape, type]) =>
    fc
      .tuple(fc.constantFrom(...(['Expand', 'Reshape'] as const)), known([1], type), known(shape, type))
      .map(([name, one, all]) => {
        const to = name === 'Expand' ? shape : [1, sizeOf(shape)]
        return {
          name,
          inputs: [name === 'Expand' ? one : all, integers(...to)],
          output: { shape: to, type },
          attributes: {},
        }
      }),
  ),
  along.chain(([axis, shape, type]) =>
    fc.array(fc.integer({ min: 1, max: 3 }), { minLength: 1, maxLength: 4 }).chain((sizes) =>
      fc.tuple(...sizes.map((size) => known(withAxis(shape, axis, size), type))).map((inputs) => {
        const total = sizes.reduce((sum, size) => sum + size, 0)
        return { name: 'Concat', inputs, output: { shape: withAxis(shape, axis, total), type }, attributes: { axis } }
      }),
    ),
  ),
  along.chain(([axis, shape, type]) =>
    fc
      .tuple(known(shape, type), fc.array(fc.nat(shape[axis]! - 1), { minLength: 1, maxLength: 5 }))
      .map(([x, places]) => {
        const index = leaf(copyArray(places, 'int32'), [places.length], 'int32', { isConstant: false, trace: 0 })
        return {
          name: 'Gather',
          inputs: [x, index],
          output: { shape: withAxis(shape, axis, places.length), type },
          attributes: { axis },
        }
      }),
  ),
  along.chain(([axis, shape, type]) =>
    fc.tuple(known(shape, type), fc.nat(shape[axis]! - 1), fc.nat(shape[axis]! - 1)).map(([x, a, b]) => {
      const [start, end] = [Math.min(a, b), Math.max(a, b) + 1]
      const inputs = [x, integers(start), integers(end), integers(axis)]
      return { name: 'Slice', inputs, output: { shape: withAxis(shape, axis, end - start), type }, attributes: {} }
    }),
  ),
)

/** The nodes that onnxruntime keeps of an operation. */
const computed = ({ name, inputs, output, attributes }: Case): Value['data'] => {
  const [value] = makeOperation(name, inputs, [output], { attributes, trace: 0 }).outputs
  backend().runtime.compute([value!])
  return value!.data
}

describe('operations on few known numbers', () => {
  it('law: are computed at once, to the bit as onnxruntime does', () => {
    const seen = new Set<string>()
    fc.assert(
      fc.property(cases, (each) => {
        seen.add(each.name)
        expect(folded(each.name, each.inputs, each)).toEqual(computed(each))
      }),
      { numRuns: 300 },
    )
    expect([...seen].sort()).toEqual(Object.keys(FOLDS).sort())
  })

  it('run nothing, and take part in what is recorded afterwards', () => {
    const before = backend().stats()
    const x = tf.tidy(() => tf.concat([tf.tensor1d([1, 2]), tf.add(tf.ones([1]), 2)]))
    expect(valuesOf(x)).toEqual([1, 2, 3])
    expect(backend().stats()).toEqual(before)
    const gradient = tf.grad((y) => tf.sum(tf.concat([y, tf.square(y)])))(x)
    expect(valuesOf(gradient)).toEqual([3, 5, 7])
    tf.dispose([x, gradient])
  })

  it.each([
    ['many numbers', () => tf.add(tf.zeros([300]), 1)],
    ['many ones', () => tf.onesLike(tf.zeros([300]))],
    ['many negative zeros', () => tf.fill([300], -0)],
    ['arithmetic of whole numbers', () => tf.mul(tf.tensor1d([2 ** 30], 'int32'), tf.scalar(4, 'int32'))],
    ['what has still to be computed', () => tf.concat([tf.exp(tf.zeros([1])), tf.ones([1])])],
    ['a run with steps', () => tf.reverse(tf.tensor1d([1, 2]))],
    ['other operations', () => tf.exp(tf.zeros([1]))],
  ])('leave %s to onnxruntime', (_, f) => {
    const before = backend().stats().runs
    tf.tidy(() => valuesOf(f()))
    expect(backend().stats().runs).toBe(before + 1)
  })

  it.each(['float32', 'int32', 'bool'] as const)('make zeros of any size (%s)', (dtype) => {
    const before = backend().stats()
    const [given, like] = tf.tidy(() => {
      const zeros = tf.fill([50_000], 0, dtype)
      return [zeros, tf.zerosLike(zeros)]
    })
    for (const zeros of [given, like]) expect(zeros.dataSync().every((x) => x === 0)).toBe(true)
    expect(backend().stats()).toEqual(before)
    tf.dispose([given, like])
  })

  it('leave an index that is not in the axis to onnxruntime', () => {
    const index = leaf(copyArray([5], 'int32'), [1], 'int32', { isConstant: false, trace: 0 })
    expect(folded('Gather', [index, index], { output: index, attributes: { axis: 0 } })).toBeUndefined()
  })
})
