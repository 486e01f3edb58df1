import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { attentionRules } from '../../../../src/engine/onnxruntime/kernels/attention.js'
import { MASKED } from '../../../../src/engine/ops/attention.js'
import { cachedAttention } from '../../../../src/engine/ops/cachedAttention.js'
import { decodeAttention } from '../../../../src/engine/ops/decodeAttention.js'
import { rowMax } from '../../../../src/engine/ops/rowMax.js'
import { scope } from '../../../../src/engine/scope.js'
import { type KernelCase, kernelLaws, row } from '../../../kit/backends.js'
import { take, useOnnxRuntime } from '../../../kit/engine.js'
import { floatsIn, type HostTensor, hostTensor, shapes, toTensor } from '../../../kit/hostTensor.js'
import { cases } from '../../../kit/kernelCases.js'

const { backend } = useOnnxRuntime()

const values = floatsIn(-3, 3)
const close = { within: { absolute: 1e-5, relative: 1e-4 } }
const small = fc.integer({ min: 1, max: 4 })

interface Cap {
  readonly softCap: number | null
}

const caps = fc.constantFrom<Cap>({ softCap: null }, { softCap: 2 })

/** Rows that see at least the last place. */
const biases = (shape: readonly number[], visible: 'first' | 'last'): fc.Arbitrary<HostTensor> => {
  const width = shape.at(-1)!
  return fc.array(fc.constantFrom(0, MASKED), { minLength: width, maxLength: width }).map((line) => {
    const seen = line.map((x, i) => (i === (visible === 'first' ? 0 : width - 1) ? 0 : x))
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
      biases([1, 1, t, c + t], 'last'),
      hostTensor(values, [b, k, c, h]),
      hostTensor(values, [b, k, c, h]),
      caps,
    )
    .map(([...parts]) => ({ inputs: parts.slice(0, 6) as HostTensor[], options: parts[6] })),
)

/** Place 0 of every row and head is zero. */
const withFreePlace = ({ shape, data, dtype }: HostTensor): HostTensor => {
  const [, , c, h] = shape as [number, number, number, number]
  return { shape, dtype, data: data.map((x, i) => (Math.floor(i / h) % c === 0 ? 0 : x)) }
}

const steps: fc.Arbitrary<KernelCase<Cap>> = sizes.chain(({ b, k, r, c, h }) =>
  fc
    .tuple(
      hostTensor(values, [b, k * r, 1, h]),
      hostTensor(values, [b, k, 1, h]),
      hostTensor(values, [b, k, 1, h]),
      biases([b, 1, 1, c], 'first'),
      hostTensor(values, [b, k, c, h]).map(withFreePlace),
      hostTensor(values, [b, k, c, h]).map(withFreePlace),
      caps,
    )
    .map(([...parts]) => ({
      inputs: [
        ...(parts.slice(0, 6) as HostTensor[]),
        { shape: [1, 1, 1, c], dtype: 'float32', data: [1, ...Array<number>(c - 1).fill(0)] } as const,
      ],
      options: parts[6],
    })),
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
      'DecodeAttention',
      steps,
      ({ all }, { softCap }) => {
        const [queries, keys, given, bias, pastKeys, pastValues, self] = all
        const past = { keys: pastKeys!, values: pastValues! }
        return decodeAttention(
          { queries: queries!, keys: keys!, values: given!, bias: bias!, past, self: self! },
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

  it('a decoding step gives what attention over the cache with the new place at its end gives', () => {
    const law = fc.property(steps, ({ inputs, options }) => {
      const [queries, keys, given, bias, pastKeys, pastValues, self] = inputs.map(toTensor)
      const past = { keys: pastKeys!, values: pastValues! }
      const step = scope(() =>
        decodeAttention(
          { queries: queries!, keys: keys!, values: given!, bias: bias!, past, self: self! },
          { scale: 0.5, ...options },
        ),
      )
      // Place 0 is masked for the long way, and the new place comes last.
      const [rows, , , places] = bias!.shape as [number, number, number, number]
      const line = Array.from(bias!.dataSync())
      const long = line.flatMap((x, i) => [
        ...(i % places === 0 ? [MASKED] : [x]),
        ...(i % places === places - 1 ? [0] : []),
      ])
      const longBias = toTensor({ shape: [rows, 1, 1, places + 1], dtype: 'float32', data: long })
      const whole = scope(() =>
        cachedAttention(
          { queries: queries!, keys: keys!, values: given!, bias: longBias, past },
          { scale: 0.5, ...options },
        ),
      )
      const [actual, expected] = take(step, whole)
      for (const [i, x] of expected!.entries()) expect(actual![i]).toBeCloseTo(x, 4)
      take(queries!, keys!, given!, bias!, pastKeys!, pastValues!, self!, longBias)
    })
    fc.assert(law)
  })

  it('wrong shapes are named', () => {
    const [a, b] = [
      toTensor({ shape: [1, 2, 1, 2], dtype: 'float32', data: [1, 2, 3, 4] }),
      toTensor({ shape: [1], dtype: 'float32', data: [1] }),
    ]
    const past = { keys: b, values: b }
    expect(() =>
      decodeAttention({ queries: a, keys: a, values: a, past, bias: b, self: b }, { scale: 1, softCap: null }),
    ).toThrow('decodeAttention: queries, keys, values, past keys, past values and bias [1,2,1,2]')
    expect(() => cachedAttention({ queries: a, keys: b, values: a, bias: b }, { scale: 1, softCap: null })).toThrow(
      'cachedAttention: queries, keys, values, bias and past [1,2,1,2] [1]',
    )
    take(a, b)
  })
})
