import { liveTensors, scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import fc from 'fast-check'
import * as E from 'fp-ts/lib/Either.js'
import {
  dataSpec,
  get,
  type LeafSpec,
  leafEntries,
  metaSpec,
  type NodeSpec,
  nodeSpec,
  type RaggedType,
  raggedSpec,
  refine,
  requireSpec,
  type Spec,
  tensorSpec,
} from 'tandem-rl/tensordict'
import { describe, expect, it } from 'vitest'
import { useEngine } from '../../../test/kit/engine.js'
import { anyName } from '../src/arbitraries.js'
import { anyOfSpec } from '../src/specArbitraries.js'

useEngine()

const shapes = fc.array(fc.nat(2), { maxLength: 2 })

/** Types of data and meta that `anyOfSpec` has arbitraries for. */
const NAMED = ['string', 'number', 'boolean', 'number | null', 'History', 'Message'] as const

const RAGGED: readonly RaggedType[] = ['int32', 'float32', 'bool']

const anyLeafSpec: fc.Arbitrary<LeafSpec> = fc.oneof(
  fc
    .tuple(fc.constantFrom('float32', 'int32', 'bool'), fc.array(fc.nat(3), { maxLength: 2 }))
    .map(([dtype, shape]): LeafSpec => tensorSpec(dtype, shape)),
  fc.constantFrom(...RAGGED).map((type): LeafSpec => raggedSpec(type)),
  fc.constantFrom(...NAMED).map((of): LeafSpec => dataSpec(of)),
  fc.constantFrom(...NAMED).map((of): LeafSpec => metaSpec(of)),
)

const specOf = (depth: number): fc.Arbitrary<Spec> => {
  const part: fc.Arbitrary<LeafSpec | NodeSpec | Spec> =
    depth === 0
      ? anyLeafSpec
      : fc.oneof(
          { weight: 6, arbitrary: anyLeafSpec },
          { weight: 1, arbitrary: specOf(depth - 1) },
          {
            weight: 1,
            arbitrary: fc.tuple(fc.nat(2), specOf(depth - 1)).map(([axis, entries]) => nodeSpec([axis], entries)),
          },
        )
  return fc
    .uniqueArray(fc.tuple(anyName, part), { maxLength: 4, selector: ([name]) => name })
    .map((pairs) => Object.fromEntries(pairs))
}

/**
 * Draws specs with all kinds of leaves, up to three levels deep, with names that break careless
 * code.
 */
const anySpec: fc.Arbitrary<Spec> = specOf(2)

describe('anyOfSpec', () => {
  it('builds what keeps the spec, and as many leaves as the spec has, for any spec', () => {
    const law = fc.property(anySpec, fc.gen(), (spec, g) => {
      const recipe = g(anyOfSpec, spec, shapes)
      expect(liveTensors().count).toBe(0)
      scope(() => {
        const td = recipe.build()
        expect(td.batchShape).toEqual(recipe.batchShape)
        expect(refine(spec, td, 'test')).toEqual(E.right(td))
        const tags = JSON.stringify(spec).match(/"_tag":"(Tensor|Ragged|Data|Meta)Spec"/g) ?? []
        expect(leafEntries(td)).toHaveLength(tags.length)
        return []
      })
    })
    fc.assert(law)
  })

  it('gives entries their types', () => {
    const spec = { query: dataSpec<string>('string'), next: { reward: tensorSpec('float32') } }
    const [recipe] = fc.sample(anyOfSpec(spec, fc.constant([2])), 1)
    scope(() => {
      const td = recipe!.build()
      const query: string | undefined = get(td, 'query').items.get(0)
      expect(typeof query).toBe('string')
      expect(get(td, 'next', 'reward').shape).toEqual([2])
      return []
    })
  })

  it('draws values by the name in the spec, the ones given first', () => {
    const spec = { n: dataSpec<number>('Even'), word: metaSpec<string>('string') }
    const values = { Even: fc.nat(50).map((n) => 2 * n), string: fc.constant('mine') }
    fc.assert(
      fc.property(anyOfSpec(spec, fc.constant([3]), values), (recipe) => {
        const td = recipe.build()
        expect(get(td, 'n').items.every((n) => n % 2 === 0)).toBe(true)
        expect(get(td, 'word').value).toBe('mine')
      }),
    )
  })

  it('refuses names without a generator, all of them with their paths', () => {
    const spec = { a: dataSpec('Odd'), next: { 'b.c': metaSpec('toString') }, fine: dataSpec('string') }
    expect(() => anyOfSpec(spec)).toThrow('no values are known for "a": \'Odd\'; "next" > "b.c": \'toString\'')
  })

  it('shrinks to a small counterexample', () => {
    const spec = { rows: raggedSpec('int32') }
    const failing = fc.property(anyOfSpec(spec, fc.constant([2])), (recipe) => {
      expect(Array.from(get(recipe.build(), 'rows').values).every((x) => x < 10)).toBe(true)
    })
    const { counterexample } = fc.check(failing)
    expect(Array.from(get(counterexample![0].build(), 'rows').values)).toEqual([10])
  })
})

describe('anySpec', () => {
  it('has all kinds of leaves, nodes, and names that trip up careless code', () => {
    const drawn = fc.sample(anySpec, 300).map((spec) => JSON.stringify(spec))
    for (const part of ['TensorSpec', 'RaggedSpec', 'DataSpec', 'MetaSpec', ':{"', '__proto__', '{}']) {
      expect(
        drawn.some((spec) => spec.includes(part)),
        part,
      ).toBe(true)
    }
  })

  it('gives specs that have what they need', () => {
    fc.assert(
      fc.property(anySpec, (spec) => {
        expect(requireSpec(spec, spec, 'test')).toEqual(E.right(spec))
      }),
    )
  })
})
