import { keyFromSeed, normals, permutation } from '@tandem-rl/base'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { type Cuts, draw, keep, keptIds, NO_CUTS } from '../../../../src/modules/generation/sampling/cuts.js'

/** More than what top-k selects without buckets. */
const VOCABULARY = 9000

/**
 * The ids of the first `count`, or of the first that reach `share` of the weights, by a sort of
 * all.
 */
const sortedKept = (logits: Float32Array, inverse: number, { minP, topK, topP }: Cuts): readonly number[] => {
  const max = Math.max(...logits)
  const order = Array.from(logits.keys()).sort((a, b) => logits[b]! - logits[a]! || a - b)
  const distance = (id: number): number => (max - logits[id]!) * inverse
  const probable = order.filter((id) => Number.isFinite(distance(id)) && distance(id) <= -Math.log(minP))
  const counted = topK === 0 ? probable : probable.slice(0, topK)
  const masses = counted.map((id) => Math.exp(-distance(id)))
  const target = topP * masses.reduce((sum, mass) => sum + mass, 0)
  if (topP === 1) return counted
  let mass = 0
  return counted.filter((_, i) => {
    const stays = mass < target
    mass += masses[i]!
    return stays
  })
}

const spread = fc.constantFrom(0.001, 1, 4, 40)

/** Normal logits, some on a coarse grid, so that many tie. */
const anyRow = fc
  .tuple(fc.nat(1000), spread, fc.constantFrom(0, 1, 8))
  .map(([seed, width, steps]) =>
    normals(keyFromSeed(seed), VOCABULARY).map((x) =>
      steps === 0 ? x * width : (Math.round(x * steps) / steps) * width,
    ),
  )

const anyCuts: fc.Arbitrary<Cuts> = fc.record({
  minP: fc.constantFrom(0, 0, 0.003, 0.2, 1),
  topK: fc.constantFrom(0, 1, 50, 4096, 4097, 7001, VOCABULARY + 5),
  topP: fc.constantFrom(1, 0.123456, 0.95123, 0.99999),
})

const inverses = fc.constantFrom(0.05, 1, 1.7, 100)

describe('what cuts keep of a large vocabulary', () => {
  it('is what sorting all of it keeps', () => {
    const law = fc.property(anyRow, anyCuts, inverses, (logits, cuts, inverseTemperature) => {
      const scale = { max: Math.max(...logits), inverseTemperature }
      const kept = keep(logits, scale, cuts)
      const expected = sortedKept(logits, inverseTemperature, cuts)
      expect(keptIds(logits, kept)).toEqual(expected)
      expect(kept.count).toBe(expected.length)
      const mass = expected.reduce((sum, id) => sum + Math.exp((logits[id]! - scale.max) * inverseTemperature), 0)
      expect(Math.abs(kept.mass / mass - 1)).toBeLessThan(1e-11)
    })
    fc.assert(law, { numRuns: 60 })
  })

  it('has as many equal tokens as were asked for, those of the lowest ids', () => {
    const logits = new Float32Array(VOCABULARY).fill(2.5)
    const scale = { max: 2.5, inverseTemperature: 1 }
    for (const topK of [3, 5000]) {
      expect(keptIds(logits, keep(logits, scale, { ...NO_CUTS, topK }))).toEqual(
        Array.from({ length: topK }, (_, i) => i),
      )
    }
    expect(keep(logits, scale, { ...NO_CUTS, topP: 0.50005 }).count).toBe(4501)
  })

  it('is no token more where the share is reached exactly', () => {
    const scale = { max: 0, inverseTemperature: 1 }
    for (const topK of [0, 4]) expect(keep(new Float32Array(4), scale, { minP: 0, topK, topP: 0.5 }).count).toBe(2)
  })

  it('is found in a row that rises, where every logit is a new largest one', () => {
    const logits = Float32Array.from({ length: VOCABULARY }, (_, i) => i / 1000)
    const kept = keep(logits, { max: logits.at(-1)!, inverseTemperature: 1 }, { ...NO_CUTS, topK: 3 })
    expect(keptIds(logits, kept)).toEqual([8999, 8998, 8997])
  })
})

describe('a draw', () => {
  it('passes each kept token once as the point goes from 0 to 1, and no other', () => {
    const law = fc.property(fc.nat(1000), fc.integer({ min: 1, max: 12 }), (seed, topK) => {
      const logits = Float32Array.from(permutation(keyFromSeed(seed), 40), (x) => Math.floor(x / 3) / 4)
      const scale = { max: Math.max(...logits), inverseTemperature: 1 }
      const kept = keep(logits, scale, { ...NO_CUTS, topK })
      const drawn = Array.from({ length: 2000 }, (_, i) => draw(logits, scale, { kept, point: i / 2000 }))
      expect(drawn).toEqual(drawn.toSorted((a, b) => a - b))
      expect(new Set(drawn)).toEqual(new Set(keptIds(logits, kept)))
      expect(draw(logits, scale, { kept, point: 1 })).toBe(Math.max(...keptIds(logits, kept)))
    })
    fc.assert(law, { numRuns: 50 })
  })
})
