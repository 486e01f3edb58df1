import { anyTensorDict } from '@tandem-rl/testing'
import { scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as tf from '@tensorflow/tfjs-core'
import fc from 'fast-check'
import * as E from 'fp-ts/lib/Either.js'
import { describe, expect, it } from 'vitest'
import { anyName } from '../../packages/testing/src/arbitraries.js'
import {
  dataSpec,
  leafOrNode,
  mergeSpecs,
  metaSpec,
  nodeSpec,
  raggedSpec,
  refine,
  requireSpec,
  type Spec,
  specOf,
  tensorSpec,
} from '../../src/data/spec.js'
import { exclude } from '../../src/data/tensorDict/edit.js'
import { data, meta, ragged } from '../../src/data/tensorDict/leaf.js'
import { TensorDict } from '../../src/data/tensorDict/tensorDict.js'
import { useEngine } from '../kit/engine.js'

useEngine()

const leafSpec = fc.oneof(
  fc
    .tuple(
      fc.constantFrom('float32' as const, 'int32' as const, 'bool' as const),
      fc.array(fc.nat(3), { maxLength: 2 }),
    )
    .map(([dtype, shape]) => tensorSpec(dtype, shape)),
  fc.constantFrom('int32' as const, 'float32' as const, 'bool' as const).map(raggedSpec),
  fc.constantFrom('string', 'History').map((of) => dataSpec(of)),
  fc.constantFrom('string', 'number').map((of) => metaSpec(of)),
)

const names = fc.oneof(anyName, fc.constant('_tag'))

const specWith = (part: (name: string, deeper: fc.Arbitrary<Spec>) => fc.Arbitrary<Spec[string]>): fc.Arbitrary<Spec> =>
  fc.letrec<{ spec: Spec }>((tie) => ({
    spec: fc
      .array(
        names.chain((name) => part(name, tie('spec')).map((value): [string, Spec[string]] => [name, value])),
        { depthIdentifier: 'spec', maxLength: 4 },
      )
      .map((entries) => Object.fromEntries(entries)),
  })).spec

const mixed = { maxDepth: 2, depthIdentifier: 'spec', depthSize: 'small' } as const

const anySpec = specWith((_, deeper) => fc.oneof(mixed, leafSpec, deeper))

/** Specs in which no name is a leaf here and a node there. */
const anyAgreeingSpec = specWith((name, deeper) =>
  name.length % 2 === 0 ? leafSpec : fc.oneof(mixed, fc.constant({}), deeper),
)

const problems = (result: E.Either<{ readonly problems: readonly string[] }, unknown>): readonly string[] =>
  E.isLeft(result) ? result.left.problems : []

describe('refine', () => {
  it('accepts a TensorDict by the spec read off it, and returns the same one', () => {
    const law = fc.property(anyTensorDict(), (recipe) => {
      scope(() => {
        const td = recipe.build()
        const refined = refine(specOf(td), td, 'test')
        expect(problems(refined)).toEqual([])
        expect(E.isRight(refined) && refined.right).toBe(td)
        return []
      })
    })
    fc.assert(law, { numRuns: 60 })
  })

  it('entries that the spec does not name are allowed, and a missing one is named', () => {
    const law = fc.property(anyTensorDict(), names, (recipe, name) => {
      scope(() => {
        const td = recipe.build()
        const without = exclude(td, name) as TensorDict // of whatever keys
        expect(problems(refine(specOf(without), td, 'test'))).toEqual([])
        const found = problems(refine({ [name]: metaSpec('x') }, without, 'test'))
        expect(found).toEqual([`${name}: missing`])
        return []
      })
    })
    fc.assert(law, { numRuns: 60 })
  })

  it('lists every entry, to a TensorDict that has none of them', () => {
    const law = fc.property(anyTensorDict(), (recipe) => {
      scope(() => {
        const td = recipe.build()
        const spec = specOf(td)
        expect(problems(refine(spec, TensorDict({}, td.batchShape), 'test'))).toEqual(
          Object.keys(spec).map((key) => `${key}: missing`),
        )
        return []
      })
    })
    fc.assert(law, { numRuns: 40 })
  })

  it('reports the expected and the actual value, at every place at once', () => {
    scope(() => {
      const td = TensorDict(
        {
          dtype: tf.zeros([2], 'int32'),
          shape: tf.zeros([2, 3]),
          kind: data(['a', 'b']),
          type: ragged('float32', [[], []]),
          leaf: meta(1),
          node: { deep: tf.zeros([2]) },
        },
        [2],
      )
      const spec = {
        dtype: tensorSpec('float32'),
        shape: tensorSpec('float32', [4]),
        kind: raggedSpec('int32'),
        type: raggedSpec('int32'),
        leaf: { inside: metaSpec('number') },
        node: { deep: metaSpec('number'), deeper: { gone: metaSpec('number') } },
        none: tensorSpec('bool'),
      }
      expect(refine(spec, td, 'Here')).toEqual(
        E.left({
          _tag: 'SpecMismatch',
          where: 'Here',
          problems: [
            'dtype: expected float32 [2], got int32 [2]',
            'shape: expected float32 [2, 4], got float32 [2, 3]',
            'kind: expected Ragged, got Data',
            'type: expected ragged int32, got float32',
            'leaf: expected a node',
            'node.deep: expected Meta, got Tensor',
            'node.deeper: missing',
            'none: missing',
          ],
        }),
      )
      return []
    })
  })

  it('a node where a leaf was promised, and a value where a tensor was', () => {
    const td = TensorDict({ node: {}, text: data(['a']) }, [1])
    expect(problems(refine({ node: metaSpec('x'), text: tensorSpec('float32') }, td, 'test'))).toEqual([
      'node: expected Meta, got TensorDict',
      'text: expected a float32 tensor',
    ])
  })
})

describe('requireSpec', () => {
  it('every spec has what it has itself, and no spec needs nothing', () => {
    const law = fc.property(anySpec, (spec) => {
      expect(requireSpec(spec, spec, 'test')).toEqual(E.right(spec))
      expect(requireSpec({}, spec, 'test')).toEqual(E.right(spec))
      expect(problems(requireSpec(spec, {}, 'test'))).toHaveLength(Object.keys(spec).length)
    })
    fc.assert(law)
  })

  it('the merge of two specs has all that the right one has', () => {
    const law = fc.property(anySpec, anySpec, (left, right) => {
      expect(problems(requireSpec(right, mergeSpecs(left, right), 'test'))).toEqual([])
    })
    fc.assert(law)
  })

  it('names what is missing, what is a node instead of a leaf, and what is another leaf', () => {
    const needed = { a: tensorSpec('float32'), b: { c: dataSpec('string') }, d: { e: metaSpec('x') }, f: dataSpec('x') }
    const offered = { a: tensorSpec('int32'), b: { c: dataSpec('History') }, d: metaSpec('x') }
    expect(requireSpec(needed, offered, 'Tokenizer')).toEqual(
      E.left({
        _tag: 'SpecMismatch',
        where: 'Tokenizer',
        problems: [
          'a: {"_tag":"TensorSpec","dtype":"int32","shape":[]} is not {"_tag":"TensorSpec","dtype":"float32","shape":[]}',
          'b.c: {"_tag":"DataSpec","of":"History"} is not {"_tag":"DataSpec","of":"string"}',
          'd: a leaf and a node',
          'f: missing',
        ],
      }),
    )
  })

  it('a name that every object has is missing all the same', () => {
    expect(problems(requireSpec({ toString: { x: metaSpec('x') } }, {}, 'test'))).toEqual(['toString: missing'])
  })
})

describe('leafOrNode', () => {
  it('returns leaves and nodes as they are, and a record as a node, also one with an entry `_tag`', () => {
    const leaf = tensorSpec('float32')
    expect(leafOrNode(leaf)).toBe(leaf)
    const node = nodeSpec([2], { leaf })
    expect(leafOrNode(node)).toBe(node)
    for (const entries of [{}, { leaf }, { _tag: leaf }])
      expect(leafOrNode(entries)).toEqual({ _tag: 'NodeSpec', axes: [], entries })
  })
})

describe('mergeSpecs', () => {
  it('is associative where no name is a leaf here and a node there', () => {
    const law = fc.property(anyAgreeingSpec, anyAgreeingSpec, anyAgreeingSpec, (a, b, c) => {
      expect(mergeSpecs(mergeSpecs(a, b), c)).toEqual(mergeSpecs(a, mergeSpecs(b, c)))
    })
    fc.assert(law)
  })

  it('is idempotent, and has the empty spec as its unit', () => {
    const law = fc.property(anySpec, (a) => {
      expect(mergeSpecs(a, a)).toEqual(a)
      expect(mergeSpecs(a, {})).toEqual(a)
      expect(mergeSpecs({}, a)).toEqual(a)
    })
    fc.assert(law)
  })

  it('merges nodes, and otherwise takes the right one', () => {
    const left = { node: { a: metaSpec('1'), b: metaSpec('1') }, leaf: metaSpec('1'), other: { c: metaSpec('1') } }
    const right = { node: { b: metaSpec('2') }, leaf: { d: metaSpec('2') }, other: metaSpec('2') }
    expect(mergeSpecs(left, right)).toEqual({
      node: { a: metaSpec('1'), b: metaSpec('2') },
      leaf: { d: metaSpec('2') },
      other: metaSpec('2'),
    })
  })

  it('changes neither of the two', () => {
    const law = fc.property(anySpec, anySpec, (a, b) => {
      const before = JSON.stringify([a, b])
      mergeSpecs(a, b)
      expect(JSON.stringify([a, b])).toBe(before)
    })
    fc.assert(law)
  })
})
