import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { type KernelCase, kernelLaws, row } from '../../../../../test/kit/backends.js'
import { take, useOnnxRuntime } from '../../../../../test/kit/engine.js'
import { floatsIn, type HostTensor, hostTensor, shapes, toTensor } from '../../../../../test/kit/hostTensor.js'
import { cases } from '../../../../../test/kit/kernelCases.js'
import { attentionRules } from '../../../src/onnxruntime/kernels/attention.js'
import { MASKED } from '../../../src/ops/attention.js'
import { cachedAttention } from '../../../src/ops/cachedAttention.js'
import { rowMax } from '../../../src/ops/rowMax.js'

const { backend } = useOnnxRuntime()

const values = floatsIn(-3, 3)
const close = { within: { absolute: 1e-5, relative: 1e-4 } }
const small = fc.integer({ min: 1, max: 4 })

interface Cap {
  readonly softCap: number | null
}

const caps = fc.constantFrom<Cap>({ softCap: null }, { softCap: 2 })

/** Rows that see at least the last place. */
const biases = (shape: readonly number[]): fc.Arbitrary<HostTensor> => {
  const width = shape.at(-1)!
  return fc.array(fc.constantFrom(0, MASKED), { minLength: width, maxLength: width }).map((line) => {
    const seen = line.map((x, i) => (i === width - 1 ? 0 : x))
    const rows = shape.slice(0, -1).reduce((n, m) => n * m, 1)
    return { shape, dtype: 'float32', data: Array.from({ length: rows }, () => seen).flat() } as const
  })
}

const sizes = fc.record({ b: small, k: small, r: small, t: small, c: small, h: small })

const prompts: fc.Arbitrary<KernelCase<Cap>> = sizes.chain(({ b, k, r, t, c, h }) =>
  fc
    .tuple(
      hostTensor(values, [b, k * r, t, h]),
      hostTensor(values, [b, k, t, h]),
      hostTensor(values, [b, k, t, h]),
      biases([1, 1, t, c + t]),
      hostTensor(values, [b, k, c, h]),
      hostTensor(values, [b, k, c, h]),
      caps,
    )
    .map(([...parts]) => ({ inputs: parts.slice(0, 6) as HostTensor[], options: parts[6] })),
)

describe('attention kernels', () => {
  kernelLaws(backend, () => Object.keys(attentionRules), [
    row(
      'CachedAttention',
      prompts,
      ({ all }, { softCap }) => {
        const [queries, keys, given, bias, pastKeys, pastValues] = all
        const past = { keys: pastKeys!, values: pastValues! }
        return cachedAttention(
          { queries: queries!, keys: keys!, values: given!, bias: bias!, past },
          { scale: 0.5, softCap },
        )
      },
      close,
    ),
    row(
      'RowMax',
      cases(shapes(1, 4, 1).map((shape) => [[hostTensor(values, shape)], undefined])),
      ({ a }) => rowMax(a),
      {
        within: { absolute: 0, relative: 0 },
      },
    ),
  ])

  it('wrong shapes are named', () => {
    const [a, b] = [
      toTensor({ shape: [1, 2, 1, 2], dtype: 'float32', data: [1, 2, 3, 4] }),
      toTensor({ shape: [1], dtype: 'float32', data: [1] }),
    ]
    expect(() => cachedAttention({ queries: a, keys: b, values: a, bias: b }, { scale: 1, softCap: null })).toThrow(
      'cachedAttention: queries, keys, values, bias and past [1,2,1,2] [1]',
    )
    take(a, b)
  })
})
