import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { flatten, formatShape, type Tree, type TreeShape, unflatten } from '../src/tree.js'

const isNumber = (value: unknown): value is number => typeof value === 'number'

const keys = fc.oneof(
  fc.string(),
  fc.constantFrom('__proto__', 'constructor', 'toString', '0', '10', '', '"', ':', '*', '{', ',', ']'),
)

/** Records without a prototype, so that every key is an own one. */
const recordOf = (value: fc.Arbitrary<Tree<number>>): fc.Arbitrary<Tree<number>> =>
  fc.dictionary(keys, value, { maxKeys: 4 })

const trees: fc.Arbitrary<Tree<number>> = fc.letrec<{ tree: Tree<number> }>((tie) => ({
  tree: fc.oneof(
    { maxDepth: 4, withCrossShrink: true },
    fc.integer(),
    fc.array(tie('tree'), { maxLength: 4 }),
    recordOf(tie('tree')),
  ),
})).tree

/** A slow and obvious equality of shapes, for comparison with `formatShape`. */
const sameShape = (a: TreeShape, b: TreeShape): boolean => {
  if (a._tag === 'Leaf' || b._tag === 'Leaf') return a._tag === b._tag
  if (a._tag === 'Record' && b._tag === 'Record' && a.keys.join('\0') !== b.keys.join('\0')) return false
  return (
    a._tag === b._tag &&
    a.children.length === b.children.length &&
    a.children.every((part, i) => sameShape(part, b.children[i]!))
  )
}

describe('flatten and unflatten', () => {
  it('round trip', () => {
    const law = fc.property(trees, (tree) => {
      const { shape, leaves } = flatten(tree, isNumber)
      expect(unflatten(shape, leaves)).toEqual(JSON.parse(JSON.stringify(tree)))
    })
    fc.assert(law)
  })

  it('round trip of leaves: flattening what unflatten built gives the same leaves and the same shape', () => {
    const law = fc.property(trees, fc.infiniteStream(fc.integer()), (tree, stream) => {
      const { shape, leaves } = flatten(tree, isNumber)
      const others = [...stream.take(leaves.length)]
      expect(flatten(unflatten(shape, others), isNumber)).toEqual({ shape, leaves: others })
    })
    fc.assert(law)
  })

  it('walks records in the order of their keys, arrays in the order of their items', () => {
    expect(flatten({ b: [1, { z: 2, a: 3 }], a: 4 }, isNumber).leaves).toEqual([1, 2, 3, 4])
  })

  it('keeps a key named __proto__ an ordinary key', () => {
    const tree = JSON.parse('{"__proto__": 1, "a": {"__proto__": [2]}}') as Tree<number> // JSON makes own keys
    const { shape, leaves } = flatten(tree, isNumber)
    const built = unflatten(shape, leaves) as object
    expect(leaves).toEqual([1, 2])
    expect(Object.keys(built)).toEqual(['__proto__', 'a'])
    expect(Object.getPrototypeOf(built)).toBe(Object.prototype)
  })

  it('takes a leaf that is itself an array or a record for a leaf', () => {
    const isPair = (value: unknown): value is readonly [number, number] => Array.isArray(value) && value.length === 2
    expect(flatten<readonly [number, number]>({ a: [1, 2], b: [[3, 4]] }, isPair).leaves).toEqual([
      [1, 2],
      [3, 4],
    ])
  })

  it.each([
    [null, 'tree.a[1] is null'],
    [undefined, 'tree.a[1] is undefined'],
    ['text', 'tree.a[1] is String'],
    [true, 'tree.a[1] is Boolean'],
    [new Map([['x', 1]]), 'tree.a[1] is Map'],
    [Promise.resolve(1), 'tree.a[1] is Promise'],
    [new Float32Array(2), 'tree.a[1] is Float32Array'],
    [() => 1, 'tree.a[1] is Function'],
  ])('flatten throws at %s, naming its place', (value, message) => {
    const tree = { a: [1, value] } as unknown as Tree<number> // an argument that only untyped callers pass
    expect(() => flatten(tree, isNumber)).toThrow(
      new TypeError(`flatten: ${message}, expected a leaf, record or array`),
    )
  })

  it('unflatten throws unless there is one leaf for each place', () => {
    const law = fc.property(trees, fc.nat(5), (tree, wrong) => {
      const { shape, leaves } = flatten(tree, isNumber)
      fc.pre(wrong !== leaves.length)
      const given = Array.from({ length: wrong }, (_, i) => i)
      expect(() => unflatten(shape, given)).toThrow(RangeError)
    })
    fc.assert(law)
  })
})

describe('formatShape', () => {
  it('does not depend on the leaves', () => {
    const law = fc.property(trees, (tree) => {
      const { shape, leaves } = flatten(tree, isNumber)
      const other = unflatten(
        shape,
        leaves.map((n) => n + 1),
      )
      expect(formatShape(flatten(other, isNumber).shape)).toBe(formatShape(shape))
    })
    fc.assert(law)
  })

  it('equal exactly for equal shapes', () => {
    // Small trees, so that some of the pairs are equal.
    const small: fc.Arbitrary<Tree<number>> = fc.letrec<{ tree: Tree<number> }>((tie) => ({
      tree: fc.oneof(
        { maxDepth: 2 },
        fc.constant(0),
        fc.array(tie('tree'), { maxLength: 2 }),
        fc.dictionary(fc.constantFrom('a', '', '*', ',', '":*'), tie('tree'), { maxKeys: 2 }),
      ),
    })).tree
    const law = fc.property(small, small, (a, b) => {
      const [s, t] = [flatten(a, isNumber).shape, flatten(b, isNumber).shape]
      expect(formatShape(s) === formatShape(t)).toBe(sameShape(s, t))
    })
    fc.assert(law, { numRuns: 1000 })
  })

  it.each<[Tree<number>, Tree<number>]>([
    [[], {}],
    [[0], { 0: 0 }],
    [0, [0]],
    [
      { a: 0, b: 0 },
      { b: 0, a: 0 },
    ],
    [{ 'a":*,"b': 0 }, { a: 0, b: 0 }],
    [{ 'a:*,b': 0 }, { a: 0, b: 0 }],
    [
      [[], 0],
      [0, []],
    ],
  ])('tells %j from %j', (a, b) => {
    expect(formatShape(flatten(a, isNumber).shape)).not.toBe(formatShape(flatten(b, isNumber).shape))
  })
})
