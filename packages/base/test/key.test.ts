import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  child,
  formatKey,
  type Key,
  keyFromSeed,
  normals,
  parseKey,
  permutation,
  threefry,
  uniform,
  uniformInteger,
  uniforms,
} from '../src/key.js'

const word = fc.integer({ min: 0, max: 2 ** 32 - 1 })
const anyKey: fc.Arbitrary<Key> = fc.record({ _tag: fc.constant('Key' as const), high: word, low: word })
const naturals = fc.maxSafeNat()
const label = fc.oneof(naturals, fc.string({ unit: 'binary' }))

const mean = (xs: ArrayLike<number>): number => Array.from(xs).reduce((sum, x) => sum + x, 0) / xs.length

const variance = (xs: ArrayLike<number>): number => {
  const center = mean(xs)
  return mean(Array.from(xs, (x) => (x - center) ** 2))
}

/** Pearson's statistic of observed counts against equal expected ones. */
const chiSquare = (counts: readonly number[]): number => {
  const expected = mean(counts)
  return counts.reduce((sum, n) => sum + (n - expected) ** 2 / expected, 0)
}

const countsOf = (xs: Iterable<number>, bins: number): number[] => {
  const counts = new Array<number>(bins).fill(0)
  for (const x of xs) counts[x] = counts[x]! + 1
  return counts
}

describe('threefry', () => {
  // Random123 1.14.0, tests/kat_vectors, threefry2x32 with 20 rounds: key, counter, result.
  it.each([
    { key: [0, 0], counter: [0, 0], expected: [0x6b200159, 0x99ba4efe] },
    { key: [0xffffffff, 0xffffffff], counter: [0xffffffff, 0xffffffff], expected: [0x1cb996fc, 0xbb002be7] },
    { key: [0x13198a2e, 0x03707344], counter: [0x243f6a88, 0x85a308d3], expected: [0xc4923a9c, 0x483df7a0] },
  ])('gives the known answer of Random123 for key $key, counter $counter', ({ key, counter, expected }) => {
    expect(threefry(key[0]!, key[1]!, counter[0]!, counter[1]!)).toEqual(expected)
  })

  it('gives two unsigned words, and takes signed ones for the same bits', () => {
    const law = fc.property(word, word, word, word, (a, b, c, d) => {
      const result = threefry(a, b, c, d)
      for (const x of result) expect(Number.isInteger(x) && x >= 0 && x < 2 ** 32).toBe(true)
      expect(threefry(a | 0, b | 0, c | 0, d | 0)).toEqual(result)
    })
    fc.assert(law)
  })
})

describe('keyFromSeed', () => {
  it('writes the seed into the key, so that different seeds are different keys', () => {
    const law = fc.property(naturals, (seed) => {
      expect(formatKey(keyFromSeed(seed))).toBe(seed.toString(16).padStart(16, '0'))
    })
    fc.assert(law)
  })

  it.each([-1, 0.5, Number.NaN, 2 ** 53, Number.POSITIVE_INFINITY])('refuses the seed %d', (seed) => {
    expect(() => keyFromSeed(seed)).toThrow(RangeError)
  })
})

describe('child', () => {
  it('equal arguments give equal keys', () => {
    const law = fc.property(anyKey, label, (key, l) => {
      expect(child(key, l)).toEqual(child({ ...key }, l))
    })
    fc.assert(law)
  })

  it('different labels of one parent give different keys', () => {
    const law = fc.property(anyKey, fc.uniqueArray(label, { minLength: 2, maxLength: 20 }), (key, labels) => {
      expect(new Set(labels.map((l) => formatKey(child(key, l)))).size).toBe(labels.length)
    })
    fc.assert(law)
  })

  it('a number and the string that spells it are different labels', () => {
    const law = fc.property(anyKey, naturals, (key, n) => {
      expect(child(key, n)).not.toEqual(child(key, String(n)))
    })
    fc.assert(law)
  })

  it('one label under different parents gives different keys, and no child is its parent', () => {
    const law = fc.property(anyKey, anyKey, label, (a, b, l) => {
      fc.pre(formatKey(a) !== formatKey(b))
      expect(child(a, l)).not.toEqual(child(b, l))
      expect(child(a, l)).not.toEqual(a)
    })
    fc.assert(law)
  })

  it('the order of labels on a path matters', () => {
    const law = fc.property(anyKey, fc.uniqueArray(label, { minLength: 2, maxLength: 2 }), (key, [a, b]) => {
      expect(child(child(key, a!), b!)).not.toEqual(child(child(key, b!), a!))
    })
    fc.assert(law)
  })

  it('100,000 numbered and 100,000 named children of one key are all different', () => {
    const root = keyFromSeed(1)
    const indices = Array.from({ length: 100_000 }, (_, i) => i)
    const keys = new Set(indices.flatMap((i) => [formatKey(child(root, i)), formatKey(child(root, `group/${i}`))]))
    expect(keys.size).toBe(200_000)
  })

  it('streams of siblings are not correlated', () => {
    const root = keyFromSeed(3)
    const [a, b] = [normals(child(root, 0), 20_000), normals(child(root, 1), 20_000)]
    // The mean of n products of independent standard normals has standard deviation 1 / sqrt(n) =
    // 0.007.
    expect(Math.abs(mean(a.map((x, i) => x * b[i]!)))).toBeLessThan(0.035)
  })

  it.each([-1, 0.5, Number.NaN, 2 ** 53])('refuses the numeric label %d', (l) => {
    expect(() => child(keyFromSeed(0), l)).toThrow(RangeError)
  })
})

describe('formatKey and parseKey', () => {
  it('round trip', () => {
    const law = fc.property(anyKey, (key) => {
      expect(formatKey(key)).toMatch(/^[0-9a-f]{16}$/)
      expect(parseKey(formatKey(key))).toEqual(key)
    })
    fc.assert(law)
  })

  it('parseKey gives undefined for any text that formatKey does not write', () => {
    const law = fc.property(fc.string(), (text) => {
      const key = parseKey(text)
      expect(key === undefined || formatKey(key) === text).toBe(true)
    })
    fc.assert(law)
  })

  it.each([
    '',
    '0123456789abcde',
    '0123456789abcdef0',
    '0123456789ABCDEF',
    ' 123456789abcdef',
    '0123456789abcdeg',
    '0123456789abcdef\n',
  ])('parseKey refuses %j', (text) => {
    expect(parseKey(text)).toBeUndefined()
  })
})

describe('uniform', () => {
  it('lies in [0, 1)', () => {
    const law = fc.property(anyKey, naturals, (key, index) => {
      const x = uniform(key, index)
      expect(x >= 0 && x < 1).toBe(true)
    })
    fc.assert(law)
  })

  it('uniforms are uniform at each index', () => {
    const law = fc.property(anyKey, fc.nat(50), (key, count) => {
      expect([...uniforms(key, count)]).toEqual(Array.from({ length: count }, (_, i) => uniform(key, i)))
    })
    fc.assert(law)
  })

  it('different indices above and below 2^32 give different numbers', () => {
    const key = keyFromSeed(5)
    expect(new Set([0, 1, 2 ** 32, 2 ** 32 + 1, 2 ** 52].map((i) => uniform(key, i))).size).toBe(5)
  })

  it('is statistically uniform: 100 bins, pairs of neighbors, mean and variance', () => {
    const xs = uniforms(keyFromSeed(11), 100_000)
    // 99 degrees of freedom: mean 99, standard deviation 14; the bounds are five of them away.
    const bins = chiSquare(
      countsOf(
        xs.map((x) => Math.floor(x * 100)),
        100,
      ),
    )
    expect(bins).toBeGreaterThan(29)
    expect(bins).toBeLessThan(169)
    const pairs = Array.from(
      { length: 50_000 },
      (_, i) => Math.floor(xs[2 * i]! * 10) * 10 + Math.floor(xs[2 * i + 1]! * 10),
    )
    expect(chiSquare(countsOf(pairs, 100))).toBeLessThan(169)
    expect(mean(xs)).toBeCloseTo(0.5, 2)
    expect(variance(xs)).toBeCloseTo(1 / 12, 2)
  })

  it('sets each of its 53 bits in about half of the numbers', () => {
    const count = 4000
    const ones = new Array<number>(53).fill(0)
    for (const x of uniforms(keyFromSeed(29), count)) {
      for (const [i, bit] of [
        ...BigInt(x * 2 ** 53)
          .toString(2)
          .padStart(53, '0'),
      ].entries())
        ones[i]! += Number(bit)
    }
    // The standard deviation of a count is sqrt(count) / 2 = 32.
    for (const [i, n] of ones.entries()) expect(Math.abs(n - count / 2), `bit ${i}`).toBeLessThan(5 * 32)
  })

  it('uses its low bits: the last ten of 53 are uniform too', () => {
    const tails = uniforms(keyFromSeed(12), 50_000).map((x) => (x * 2 ** 53) % 1024)
    // 1023 degrees of freedom, standard deviation 45.
    expect(chiSquare(countsOf(tails, 1024))).toBeLessThan(1023 + 5 * 45)
  })
})

describe('uniformInteger', () => {
  it('lies in [0, bound), and repeats', () => {
    const law = fc.property(anyKey, fc.integer({ min: 1, max: 2 ** 31 }), naturals, (key, bound, index) => {
      const n = uniformInteger(key, bound, index)
      expect(Number.isInteger(n) && n >= 0 && n < bound).toBe(true)
      expect(uniformInteger(key, bound, index)).toBe(n)
    })
    fc.assert(law)
  })

  it('takes every value about equally often', () => {
    const drawn = Array.from({ length: 70_000 }, (_, i) => uniformInteger(keyFromSeed(13), 7, i))
    expect(chiSquare(countsOf(drawn, 7))).toBeLessThan(6 + 5 * Math.sqrt(12)) // 6 degrees of freedom
  })

  it.each([0, -1, 1.5, Number.NaN, 2 ** 31 + 1])('refuses the bound %d', (bound) => {
    expect(() => uniformInteger(keyFromSeed(0), bound)).toThrow(RangeError)
  })
})

describe('normals', () => {
  it('are finite, and each depends on the key and its place alone', () => {
    const law = fc.property(anyKey, fc.nat(40), fc.nat(40), (key, a, b) => {
      const [short, long] = [Math.min(a, b), Math.max(a, b)]
      const xs = normals(key, long)
      expect(xs.every(Number.isFinite)).toBe(true)
      expect([...normals(key, short)]).toEqual([...xs.slice(0, short)])
    })
    fc.assert(law)
  })

  it('have mean 0, variance 1, kurtosis 3, and the tails of a normal distribution', () => {
    const xs = normals(keyFromSeed(17), 100_000)
    // Standard errors at this size: 0.003, 0.0045, 0.015.
    expect(Math.abs(mean(xs))).toBeLessThan(0.016)
    expect(Math.abs(variance(xs) - 1)).toBeLessThan(0.023)
    expect(Math.abs(mean(xs.map((x) => x ** 4)) - 3)).toBeLessThan(0.16)
    const beyond = (bound: number): number => mean(xs.map((x) => (Math.abs(x) > bound ? 1 : 0)))
    expect(beyond(1)).toBeCloseTo(0.3173, 2)
    expect(beyond(2)).toBeCloseTo(0.0455, 2)
    expect(beyond(3)).toBeCloseTo(0.0027, 3)
  })

  it('the two of a Box-Muller pair are not correlated', () => {
    const xs = normals(keyFromSeed(19), 40_000)
    expect(Math.abs(mean(Array.from({ length: 20_000 }, (_, i) => xs[2 * i]! * xs[2 * i + 1]!)))).toBeLessThan(0.035)
  })
})

describe('permutation', () => {
  it('has every index once, and repeats', () => {
    const law = fc.property(anyKey, fc.nat(200), (key, size) => {
      const order = permutation(key, size)
      expect([...order].sort((a, b) => a - b)).toEqual(Array.from({ length: size }, (_, i) => i))
      expect(permutation(key, size)).toEqual(order)
    })
    fc.assert(law)
  })

  it('of three takes all six orders about equally often', () => {
    const ranks: Readonly<Record<string, number>> = {
      '0,1,2': 0,
      '0,2,1': 1,
      '1,0,2': 2,
      '1,2,0': 3,
      '2,0,1': 4,
      '2,1,0': 5,
    }
    const orders = Array.from({ length: 30_000 }, (_, i) => ranks[permutation(child(keyFromSeed(23), i), 3).join()]!)
    expect(chiSquare(countsOf(orders, 6))).toBeLessThan(5 + 5 * Math.sqrt(10)) // 5 degrees of freedom
  })
})
