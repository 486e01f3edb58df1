import { scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as tf from '@tensorflow/tfjs-core'
import fc from 'fast-check'
import { equals, isTensorDict, leafEntries, type TensorDict } from 'tandem-rl/tensordict'
import { describe, expect, it } from 'vitest'
import { alikeOfShapes, alikeTensorDicts, type NearMiss, nearMiss } from '../../../test/data/tensorDictLaws/alike.js'
import { useEngine } from '../../../test/kit/engine.js'
import { anyTensorDict, type TensorDictRecipe } from '../src/arbitraries.js'

useEngine()

/**
 * All that alike TensorDicts share: names in order, kinds, dtypes, feature shapes, axes that nodes
 * add, Meta values.
 */
const structureOf = (td: TensorDict, above = td.batchShape.length): unknown => [
  td.batchShape.slice(above),
  ...[...td.entries].map(([name, entry]) => {
    if (isTensorDict(entry)) return [name, structureOf(entry, td.batchShape.length)]
    if (entry instanceof tf.Tensor) return [name, entry.dtype, entry.shape.slice(td.batchShape.length)]
    return [name, entry._tag, entry._tag === 'Ragged' ? entry.type : entry._tag === 'Meta' ? entry.value : '']
  }),
]

const nodesOf = (td: TensorDict): readonly TensorDict[] => [
  td,
  ...[...td.entries.values()].flatMap((entry) => (isTensorDict(entry) ? nodesOf(entry) : [])),
]

const numbersOf = (td: TensorDict): readonly number[] =>
  leafEntries(td).flatMap(([, leaf]) => {
    if (leaf instanceof tf.Tensor) return Array.from(leaf.dataSync())
    return leaf._tag === 'Ragged' ? Array.from(leaf.values) : []
  })

describe('anyTensorDict', () => {
  it('has empty nodes, nodes with more batch axes than their parent, and batches of nothing', () => {
    scope(() => {
      const built = fc.sample(anyTensorDict(), 300).map((recipe) => recipe.build())
      const inner = built.flatMap((td) =>
        nodesOf(td)
          .slice(1)
          .map((node) => [td, node] as const),
      )
      expect(inner.some(([, node]) => node.entries.isEmpty())).toBe(true)
      expect(inner.some(([td, node]) => node.batchShape.length > td.batchShape.length && !node.entries.isEmpty())).toBe(
        true,
      )
      expect(built.some((td) => td.batchShape.includes(0) && !td.entries.isEmpty())).toBe(true)
      return []
    })
  })

  it('numbers can be asked to be small and whole', () => {
    const law = fc.property(anyTensorDict(undefined, { numbers: 'whole' }), (recipe) => {
      scope(() => {
        expect(numbersOf(recipe.build()).every((x) => Number.isInteger(x) && Math.abs(x) <= 4)).toBe(true)
        return []
      })
    })
    fc.assert(law)
  })
})

describe('alikeTensorDicts', () => {
  it('share the structure and the batch shape', () => {
    const law = fc.property(alikeTensorDicts(3), (recipes) => {
      scope(() => {
        const built = recipes.map((recipe) => recipe.build())
        expect(built).toHaveLength(3)
        for (const td of built) {
          expect(structureOf(td)).toEqual(structureOf(built[0]!))
          expect(td.batchShape).toEqual(built[0]!.batchShape)
        }
        return []
      })
    })
    fc.assert(law)
  })

  it('often have different values', () => {
    scope(() => {
      const pairs = fc.sample(alikeTensorDicts(2), 100).map((recipes) => recipes.map((recipe) => recipe.build()))
      expect(pairs.filter(([a, b]) => !equals(a!, b!)).length).toBeGreaterThan(20)
      return []
    })
  })

  it('of other shapes, each has its own', () => {
    const shapes = [[1, 2], [3, 2], [0, 2], []]
    const law = fc.property(alikeOfShapes(fc.constant(shapes)), (recipes: readonly TensorDictRecipe[]) => {
      scope(() => {
        const built = recipes.map((recipe) => recipe.build())
        expect(built.map((td) => td.batchShape)).toEqual(shapes)
        expect(new Set(built.map((td) => JSON.stringify(structureOf(td)))).size).toBe(1)
        return []
      })
    })
    fc.assert(law)
  })
})

describe('nearMiss', () => {
  it('the two are not equal, and differ in nothing but the entry at the path', () => {
    const law = fc.property(nearMiss(), ({ left, right, path, difference }: NearMiss) => {
      scope(() => {
        const [a, b] = [left.build(), right.build()]
        expect(equals(a, b)).toBe(false)
        expect(a.batchShape).toEqual(b.batchShape)
        const off = (td: TensorDict) =>
          leafEntries(td)
            .filter(([place]) => !place.at(-1)!.includes('miss '))
            .map(([place]) => place)
        expect(off(a)).toEqual(off(b))
        expect(path.at(-1)).toContain('left')
        expect(['key', 'dtype', 'featureShape', 'kind', 'meta']).toContain(difference)
        return []
      })
    })
    fc.assert(law)
  })

  it('all differences occur, in the root and in nodes, and can be chosen', () => {
    const drawn = fc.sample(nearMiss(), 300)
    expect(new Set(drawn.map(({ difference }) => difference)).size).toBe(5)
    expect(drawn.some(({ path }) => path.length === 1)).toBe(true)
    expect(drawn.some(({ path }) => path.length > 1)).toBe(true)
    const chosen = fc.sample(nearMiss(undefined, ['dtype']), 20)
    expect(chosen.every(({ difference }) => difference === 'dtype')).toBe(true)
  })
})
