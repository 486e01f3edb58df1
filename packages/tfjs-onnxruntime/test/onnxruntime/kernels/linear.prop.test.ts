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
import { expectClose } from '../../../../../test/kit/close.js'
import { useOnnxRuntime, valuesOf } from '../../../../../test/kit/engine.js'
import { broadcastable, floatsIn, hostTensor, intsIn, shapes, toTensor } from '../../../../../test/kit/hostTensor.js'
import { cases, one, pair } from '../../../../../test/kit/kernelCases.js'
import { fusedRules, linearRules } from '../../../src/onnxruntime/kernels/linear.js'
import { layerNorm } from '../../../src/ops/layerNorm.js'
import { linearLayer, type WeightLayout } from '../../../src/ops/linear.js'
import { rmsNorm } from '../../../src/ops/rmsNorm.js'
import { rotary } from '../../../src/ops/rotary.js'
import { type ScaledMatMulOptions, scaledMatMul } from '../../../src/ops/scaledMatMul.js'
import { swiGlu } from '../../../src/ops/swiGlu.js'

const { backend } = useOnnxRuntime()

const values = floatsIn(-3, 3)
const close = { within: { absolute: 1e-4, relative: 1e-4 } }

const flags = { transposeA: fc.boolean(), transposeB: fc.boolean() }
const dimension = fc.integer({ min: 0, max: 5 })

const matrix = (rows: number, columns: number, transposed: boolean): readonly number[] =>
  transposed ? [columns, rows] : [rows, columns]

/** Two equal batches. */
const alike = (batch: readonly number[]): fc.Arbitrary<readonly [readonly number[], readonly number[]]> =>
  fc.constant([batch, batch])

/**
 * One batch without some of its first axes: tfjs-cpu is wrong on all other batches that broadcast.
 */
const suffixes = (batch: readonly number[]): fc.Arbitrary<readonly [readonly number[], readonly number[]]> =>
  fc
    .tuple(fc.nat(batch.length), fc.boolean())
    .map(([dropped, swapped]) => (swapped ? [batch.slice(dropped), batch] : [batch, batch.slice(dropped)]))

interface Product {
  readonly transposeA: boolean
  readonly transposeB: boolean
}

/** Batches of matrices that fit; `spread` gives the two batches' shapes for the common one. */
const products = (
  spread: (batch: readonly number[]) => fc.Arbitrary<readonly [readonly number[], readonly number[]]>,
  elements = values,
): fc.Arbitrary<KernelCase<Product>> =>
  cases(
    fc
      .record({ ...flags, m: dimension, k: dimension, n: dimension, batch: shapes(0, 3) })
      .chain(({ batch, m, k, n, ...options }) =>
        spread(batch).map(([left, right]) => {
          const a = hostTensor(elements, [...left, ...matrix(m, k, options.transposeA)])
          const b = hostTensor(elements, [...right, ...matrix(k, n, options.transposeB)])
          return [[a, b], options] as const
        }),
      ),
  )

type Fused = Product & {
  readonly activation: 'linear' | 'sigmoid' | 'relu' | 'relu6' | 'elu' | 'leakyrelu' | 'prelu' | undefined
}

/** Two matrices, and a bias for each column of the product, for the whole or none. */
const fusedProducts = (activations: readonly Fused['activation'][]): fc.Arbitrary<KernelCase<Fused>> =>
  cases(
    fc
      .record({
        ...flags,
        m: dimension,
        k: dimension,
        n: dimension,
        activation: fc.constantFrom(...activations),
        bias: fc.nat(2),
      })
      .map(({ m, k, n, bias, ...options }) => {
        const a = hostTensor(values, matrix(m, k, options.transposeA))
        const b = hostTensor(values, matrix(k, n, options.transposeB))
        const biases = [[], [hostTensor(values, [n])], [hostTensor(values, [1])]]
        return [[a, b, ...biases[bias]!], options] as const
      }),
  )

const scaledProducts: fc.Arbitrary<KernelCase<ScaledMatMulOptions>> = products(alike).chain((given) =>
  fc.constantFrom(1, 0.125, -2).map((alpha) => ({ ...given, options: { ...given.options, alpha } })),
)

const fused = ({ all }: { readonly all: readonly tf.Tensor[] }, options: Fused): tf.Tensor => {
  const { activation, transposeA, transposeB } = options
  const [a, b, bias] = all as [tf.Tensor, tf.Tensor, tf.Tensor | undefined] // two or three operands, see `fusedProducts`
  return tf.fused.matMul({
    a,
    b,
    transposeA,
    transposeB,
    ...(bias && { bias }),
    ...(activation && { activation }),
    ...(activation === 'leakyrelu' && { leakyreluAlpha: 0.3 }),
    ...(activation === 'prelu' && { preluActivationWeights: tf.scalar(-0.5) }),
  }) as tf.Tensor // exact
}

const linearMaps: fc.Arbitrary<KernelCase<WeightLayout>> = cases(
  fc
    .record({ n: dimension, i: dimension, o: dimension, layout: fc.constantFrom<WeightLayout>('out-in', 'in-out') })
    .map(({ n, i, o, layout }) => {
      const weight = hostTensor(values, layout === 'out-in' ? [o, i] : [i, o])
      return [[hostTensor(values, [n, i]), weight, hostTensor(values, [o])], layout] as const
    }),
)

const weighted: fc.Arbitrary<KernelCase<undefined>> = cases(
  shapes(1, 4, 1).map((shape) => [[hostTensor(values, shape), hostTensor(values, shape.slice(-1))], undefined]),
)

const shifted: fc.Arbitrary<KernelCase<undefined>> = cases(
  shapes(1, 4, 1).map((shape) => {
    const row = shape.slice(-1)
    return [[hostTensor(values, shape), hostTensor(values, row), hostTensor(values, row)], undefined] as const
  }),
)

/** x `[B, T, H * Dh]`, positions `[B, T]`, two tables `[M, Dh / 2]`. */
const turned: fc.Arbitrary<KernelCase<undefined>> = cases(
  fc
    .record({
      b: fc.integer({ min: 1, max: 3 }),
      t: fc.integer({ min: 1, max: 4 }),
      heads: fc.integer({ min: 1, max: 3 }),
      half: fc.integer({ min: 1, max: 4 }),
      m: fc.integer({ min: 1, max: 6 }),
    })
    .map(({ b, t, heads, half, m }) => [
      [
        hostTensor(values, [b, t, heads * 2 * half]),
        hostTensor(intsIn(0, m - 1), [b, t]),
        hostTensor(values, [m, half]),
        hostTensor(values, [m, half]),
      ],
      undefined,
    ]),
)

const EQUATIONS = ['i->', 'ij->ji', 'ij->j', 'i,j->ij', 'ij,jk->ik', ' bij , bjk -> bik', 'ij,ij->', 'bthd,bshd->bhts']

/** Tensors that fit one of the equations. */
const sumsOf = (elements: typeof values): fc.Arbitrary<KernelCase<string>> =>
  cases(
    fc
      .tuple(fc.constantFrom(...EQUATIONS), fc.array(fc.integer({ min: 0, max: 3 }), { minLength: 26, maxLength: 26 }))
      .map(([equation, sizes]) => {
        const terms = equation.replaceAll(' ', '').split('->')[0]!.split(',')
        const sizeOf = (letter: string): number => sizes[letter.charCodeAt(0) - 97]!
        return [terms.map((term) => hostTensor(elements, [...term].map(sizeOf))), equation] as const
      }),
  )

const sums = sumsOf(values)
const intSums = sumsOf(intsIn(-99, 99))

const logits = floatsIn(-30, 30)

const rows = [
  row('BatchMatMul', products(alike), ({ a, b }, f) => tf.matMul(a, b, f.transposeA, f.transposeB), close),
  row('BatchMatMul', products(suffixes), ({ a, b }, f) => tf.matMul(a, b, f.transposeA, f.transposeB), {
    ...close,
    on: 'broadcast batches',
  }),
  row('BatchMatMul', products(alike, intsIn(-9, 9)), ({ a, b }, f) => tf.matMul(a, b, f.transposeA, f.transposeB), {
    on: 'int32',
    form: 'cpu',
  }),
  row('Softmax', one(logits, shapes(1, 5)), ({ a }) => tf.softmax(a), close),
  row('_FusedMatMul', fusedProducts(['linear', 'sigmoid', undefined]), fused, close),
  row('_FusedMatMul', fusedProducts(['relu', 'relu6', 'elu', 'leakyrelu', 'prelu']), fused, {
    ...close,
    on: 'other activations',
  }),
  row('Einsum', sums, ({ all }, equation) => tf.einsum(equation, ...all), close),
  row('Einsum', intSums, ({ all }, equation) => tf.einsum(equation, ...all), { on: 'int32' }),
  row('ScaledMatMul', scaledProducts, ({ a, b }, options) => scaledMatMul(a, b, options), close),
  row('Linear', linearMaps, ({ a, b, c }, layout) => linearLayer(a, { weight: b, bias: c }, layout), close),
  row('RmsNorm', weighted, ({ a, b }) => rmsNorm(a, b, 1e-5), close),
  row('LayerNorm', shifted, ({ a, b, c }) => layerNorm(a, { weight: b, bias: c }, 1e-2), close),
  row('Silu', pair(values), ({ a, b }) => swiGlu(a, b), close),
  row('RotaryEmbedding', turned, ({ a, b, c, d }) => rotary(a, b, { cos: c, sin: d }), close),
]

const differences: readonly KnownDifference[] = [
  {
    kernel: 'BatchMatMul',
    reason: 'tfjs pairs batches by their number alone, which is wrong unless one is the end of the other',
    inputs: [
      { shape: [2, 1, 1, 1], dtype: 'float32', data: [1, 10] },
      { shape: [2, 2, 1, 1], dtype: 'float32', data: [1, 2, 3, 4] },
    ],
    call: ({ a, b }) => tf.matMul(a, b),
  },
]

describe('linear kernels', () => {
  knownDifferences(differences)
  it('a product of batches that broadcast equals the product of the batches spread out', () => {
    const batches = (batch: readonly number[]): fc.Arbitrary<readonly [readonly number[], readonly number[]]> =>
      fc.tuple(broadcastable(batch), broadcastable(batch))
    const law = fc.property(products(batches), ({ inputs, options: { transposeA, transposeB } }) => {
      fc.pre(inputs.every(({ data }) => data.length > 0)) // empty ones are left to tfjs-cpu, which has the fault above
      tf.tidy(() => {
        const [a, b] = inputs.map(toTensor) as [tf.Tensor, tf.Tensor] // `products` draws two
        const product = tf.matMul(a, b, transposeA, transposeB)
        const batch = product.shape.slice(0, -2)
        const spread = (x: tf.Tensor): tf.Tensor => tf.broadcastTo(x, [...batch, ...x.shape.slice(-2)])
        const expected = tf.matMul(spread(a), spread(b), transposeA, transposeB)
        expect(product.shape).toEqual(expected.shape)
        expectClose(valuesOf(product), valuesOf(expected), close.within)
      })
    })
    fc.assert(law)
  })

  kernelLaws(backend, () => Object.keys({ ...linearRules, ...fusedRules }), rows)
})
