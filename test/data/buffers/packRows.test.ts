import { readFileSync } from 'node:fs'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { balancedPartition } from '../../../src/data/buffers/balancedPartition.js'
import { packRows } from '../../../src/data/buffers/packRows.js'

interface PartitionCase {
  readonly lengths: readonly number[]
  readonly k: number
  readonly equal: boolean
  readonly partitions: readonly (readonly number[])[]
}

const { partitions } = JSON.parse(readFileSync('test/golden/buffers.json', 'utf8')) as {
  readonly partitions: readonly PartitionCase[]
} // written by the generator beside it

const sum = (numbers: readonly number[]): number => numbers.reduce((a, b) => a + b, 0)
const loadsOf = (parts: readonly (readonly number[])[], lengths: readonly number[]): readonly number[] =>
  parts.map((part) => sum(part.map((row) => lengths[row]!)))
const sortedRows = (parts: readonly (readonly number[])[]): readonly number[] => parts.flat().sort((a, b) => a - b)
const upTo = (n: number): readonly number[] => Array.from({ length: n }, (_, i) => i)

/** All ways to cut rows into at most `parts` parts, each as the loads of its parts. */
const allLoads = (lengths: readonly number[], parts: number): readonly (readonly number[])[] =>
  lengths.reduce<readonly (readonly number[])[]>(
    (ways, length) =>
      ways.flatMap((loads) => [
        ...loads.map((load, i) => loads.with(i, load + length)),
        ...(loads.length < parts ? [[...loads, length]] : []),
      ]),
    [[]],
  )

const lengthsUpTo = (maxLength: number) => fc.array(fc.nat({ max: 60 }), { minLength: 1, maxLength })

const lengthsAndParts = lengthsUpTo(24).chain((lengths) =>
  fc.tuple(fc.constant(lengths), fc.integer({ min: 1, max: lengths.length })),
)

describe('balancedPartition', () => {
  it.each(partitions)(
    'gives the parts of verl: $k of $lengths, equal sizes: $equal',
    ({ lengths, k, equal, ...verl }) => {
      expect(balancedPartition(lengths, k, { rows: equal ? 'equal' : 'free' })).toEqual(verl.partitions)
    },
  )

  it('law: each row is in exactly one part, no part is empty', () => {
    fc.assert(
      fc.property(lengthsAndParts, ([lengths, parts]) => {
        const cut = balancedPartition(lengths, parts)
        expect(cut).toHaveLength(parts)
        expect(cut.every((part) => part.length > 0)).toBe(true)
        expect(sortedRows(cut)).toEqual(upTo(lengths.length))
      }),
    )
  })

  it('law: parts of equal size have the same number of rows', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 5 }),
        fc.integer({ min: 1, max: 5 }),
        fc.infiniteStream(fc.nat(50)),
        (parts, size, stream) => {
          const lengths = [...stream.take(parts * size)]
          const cut = balancedPartition(lengths, parts, { rows: 'equal' })
          expect(cut.map((part) => part.length)).toEqual(Array<number>(parts).fill(size))
          expect(sortedRows(cut)).toEqual(upTo(parts * size))
        },
      ),
    )
  })

  it('law: the largest part is at most 4/3 of that of the best cut, and no part differs from another by more than the longest row', () => {
    fc.assert(
      fc.property(lengthsUpTo(7), fc.integer({ min: 1, max: 3 }), (lengths, wanted) => {
        const parts = Math.min(wanted, lengths.length)
        const loads = loadsOf(balancedPartition(lengths, parts), lengths)
        const best = Math.min(...allLoads(lengths, parts).map((way) => Math.max(...way)))
        expect(Math.max(...loads)).toBeLessThanOrEqual((4 / 3) * best + 1e-9)
        expect(Math.max(...loads) - Math.min(...loads)).toBeLessThanOrEqual(Math.max(...lengths))
      }),
    )
  })

  it('law: lengths that are all multiplied by one number give the same parts', () => {
    fc.assert(
      fc.property(lengthsAndParts, fc.integer({ min: 1, max: 9 }), ([lengths, parts], factor) => {
        const scaled = lengths.map((length) => length * factor)
        expect(balancedPartition(scaled, parts)).toEqual(balancedPartition(lengths, parts))
      }),
    )
  })

  it('refuses what cannot be cut, with all reasons', () => {
    expect(() => balancedPartition([1, -2, 0.5], 4)).toThrow(
      new RangeError('balancedPartition: length 1 must be a natural number, got -2; 3 rows cannot fill 4 parts'),
    )
    expect(() => balancedPartition([1, 2, 3], 2, { rows: 'equal' })).toThrow(
      '3 rows cannot be cut into 2 parts of equal size',
    )
    expect(() => balancedPartition([], 0)).toThrow('parts must be a natural number from 1, got 0')
  })
})

describe('packRows', () => {
  const bound = fc.integer({ min: 1, max: 120 })
  const cost = fc.constantFrom('sum' as const, 'padded' as const)
  const priceOf = (rows: readonly number[], lengths: readonly number[], kind: 'sum' | 'padded'): number => {
    const each = rows.map((row) => lengths[row]!)
    return kind === 'sum' ? sum(each) : each.length * Math.max(...each)
  }

  it('law: each row is in exactly one micro-batch, and the bound is kept by all that have more than one row', () => {
    fc.assert(
      fc.property(lengthsUpTo(30), bound, cost, (lengths, maxTokens, kind) => {
        const bins = packRows(lengths, maxTokens, { cost: kind })
        expect(sortedRows(bins)).toEqual(upTo(lengths.length))
        for (const bin of bins) {
          expect(bin.length === 1 || priceOf(bin, lengths, kind) <= maxTokens).toBe(true)
        }
      }),
    )
  })

  it('law: rows of one name stay together, next to each other, in order', () => {
    const named = fc.array(fc.tuple(fc.nat(40), fc.nat(4)), { minLength: 1, maxLength: 24 })
    fc.assert(
      fc.property(named, bound, cost, (rows, maxTokens, kind) => {
        const names = rows.map(([, name]) => name)
        const bins = packRows(
          rows.map(([length]) => length),
          maxTokens,
          { cost: kind, together: names },
        )
        const order = bins.flat()
        for (const name of new Set(names)) {
          const members = upTo(rows.length).filter((row) => names[row] === name)
          const at = order.indexOf(members[0]!)
          expect(order.slice(at, at + members.length)).toEqual(members)
          expect(bins.filter((bin) => bin.some((row) => names[row] === name))).toHaveLength(1)
        }
      }),
    )
  })

  it('law: there are at most 11/9 of the fewest micro-batches that do, and 6/9', () => {
    fc.assert(
      fc.property(lengthsUpTo(7), fc.integer({ min: 60, max: 120 }), (lengths, maxTokens) => {
        const fewest = Math.min(
          ...allLoads(lengths, lengths.length)
            .filter((loads) => loads.every((load) => load <= maxTokens))
            .map((loads) => loads.length),
        )
        expect(packRows(lengths, maxTokens).length).toBeLessThanOrEqual((11 / 9) * fewest + 6 / 9)
      }),
    )
  })

  it('spreads the rows evenly: loads of 8 and 8, where first-fit would fill the first to 10', () => {
    expect(packRows([6, 5, 2, 2, 1], 10)).toEqual([
      [0, 3],
      [1, 2, 4],
    ])
  })

  it('gives a row that is longer than the bound a micro-batch of its own', () => {
    expect(packRows([3, 50, 3], 10)).toEqual([[0, 2], [1]])
    expect(packRows([50], 10)).toEqual([[0]])
    expect(packRows([], 10)).toEqual([])
  })

  it('packs rows of like length into rectangles', () => {
    expect(packRows([1, 8, 1, 8, 1, 1], 16, { cost: 'padded' })).toEqual([
      [0, 2, 4, 5],
      [1, 3],
    ])
  })

  it('refuses what cannot be packed, with all reasons', () => {
    expect(() => packRows([1, Number.NaN], 0, { together: ['a'] })).toThrow(
      new RangeError(
        'packRows: length 1 must be a natural number, got NaN; maxTokens must be at least 1, got 0; 2 rows but 1 names in together',
      ),
    )
  })
})
