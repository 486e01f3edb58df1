import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  type Attribute,
  collect,
  encodeModel,
  graphKey,
  makeOperation,
  sameShape,
  sizeOf,
  type Value,
} from '../../src/onnxruntime/graph.js'
import type { OnnxArray, OnnxType } from '../../src/onnxruntime/library.js'
import { copyArray, leaf } from '../../src/onnxruntime/storage.js'

const feed = (
  shape: readonly number[],
  type: OnnxType = 'float32',
  data: OnnxArray = new Float32Array(sizeOf(shape)),
): Value => leaf(data, shape, type, { isConstant: false, trace: 0 })

const constant = (values: readonly number[], type: OnnxType = 'float32'): Value =>
  leaf(copyArray(values, type), [values.length], type, { isConstant: true, trace: 0 })

const apply = (
  name: string,
  inputs: readonly (Value | null)[],
  attributes: Readonly<Record<string, Attribute>> = {},
): Value => makeOperation(name, inputs, [{ shape: [2], type: 'float32' }], { attributes, trace: 0 }).outputs[0]!

const keyOf = (...roots: readonly Value[]): string => graphKey(collect(roots))

/** A graph in a form that can be compared: leaves by index, then operations on earlier values. */
interface Recipe {
  readonly feeds: readonly number[]
  readonly constants: readonly number[]
  readonly steps: readonly {
    readonly name: string
    readonly axis: number
    readonly left: number
    readonly right: number
  }[]
}

const recipes: fc.Arbitrary<Recipe> = fc.record({
  feeds: fc.array(fc.integer({ min: 1, max: 2 }), { minLength: 1, maxLength: 2 }),
  constants: fc.array(fc.constantFrom(0, -0, 1), { maxLength: 2 }),
  steps: fc.array(
    fc.record({ name: fc.constantFrom('Add', 'Mul'), axis: fc.nat(1), left: fc.nat(5), right: fc.nat(5) }),
    { minLength: 1, maxLength: 4 },
  ),
})

/** Builds a recipe; the values of feeds are drawn, since they must not matter. */
const build = ({ feeds, constants, steps }: Recipe, fill: number): Value => {
  const values: Value[] = [
    ...feeds.map((n) => feed([n], 'float32', new Float32Array(n).fill(fill))),
    ...constants.map((x) => constant([x])),
  ]
  for (const { name, axis, left, right } of steps) {
    values.push(apply(name, [values[left % values.length]!, values[right % values.length]!], { axis }))
  }
  return values.at(-1)!
}

/**
 * The expression that a root stands for, written out in full; feeds are numbered in the order of
 * first use, as in a key.
 */
const expression = (root: Value): string => {
  const numbers = new Map<Value, number>()
  for (const value of collect([root]).feeds) numbers.set(value, numbers.size)
  const print = (value: Value): string => {
    if (value.operation === null) {
      return value.isConstant
        ? `${value.type}${[...value.data!].map((x) => (Object.is(x, -0) ? '-0' : x))}`
        : `feed${numbers.get(value)}[${value.shape}]`
    }
    const { name, attributes, inputs } = value.operation
    return `${name}${JSON.stringify(attributes)}(${inputs.map((input) => print(input!)).join()})`
  }
  return print(root)
}

describe('collect', () => {
  it('has every operation once, after the operations it depends on', () => {
    const law = fc.property(recipes, (recipe) => {
      const { operations } = collect([build(recipe, 0)])
      expect(new Set(operations).size).toBe(operations.length)
      for (const [i, { inputs }] of operations.entries()) {
        for (const input of inputs) {
          if (input?.operation) expect(operations.slice(0, i)).toContain(input.operation)
        }
      }
    })
    fc.assert(law)
  })

  it('has every leaf that is reached once: feeds and constants apart, and none that is not reached', () => {
    const [a, b, unused, c] = [feed([2]), feed([2]), feed([2]), constant([1])]
    apply('Neg', [unused])
    const sum = apply('Add', [a, b])
    const graph = collect([apply('Mul', [sum, a]), apply('Add', [sum, c])])
    expect(graph.feeds).toEqual([a, b])
    expect(graph.constants).toEqual([c])
  })

  it('stops at values that have been computed', () => {
    const inner = apply('Neg', [feed([2])])
    inner.data = new Float32Array(2)
    inner.operation = null
    expect(collect([apply('Abs', [inner])])).toMatchObject({ feeds: [inner], operations: [{ name: 'Abs' }] })
  })

  it('takes a chain of 100,000 operations without running out of stack', () => {
    let value = feed([2])
    for (let i = 0; i < 100_000; i++) value = apply('Neg', [value])
    expect(collect([value]).operations).toHaveLength(100_000)
  })
})

describe('graphKey', () => {
  it('is equal for graphs built alike, whatever the values of their feeds', () => {
    const law = fc.property(recipes, (recipe) => {
      expect(keyOf(build(recipe, 1))).toBe(keyOf(build(recipe, 2)))
    })
    fc.assert(law)
  })

  it('is different for different expressions', () => {
    const law = fc.property(recipes, recipes, (a, b) => {
      const [x, y] = [build(a, 0), build(b, 0)]
      expect(keyOf(x) !== keyOf(y) || expression(x) === expression(y)).toBe(true)
    })
    fc.assert(law, { numRuns: 1000 })
  })

  const x = feed([2])
  const y = feed([2])
  it.each<[string, readonly Value[], readonly Value[]]>([
    ['operations', [apply('Add', [x, y])], [apply('Sub', [x, y])]],
    ['the order of roots', [apply('Neg', [x]), apply('Abs', [x])], [apply('Abs', [x]), apply('Neg', [x])]],
    ['one feed or two of the same kind', [apply('Add', [x, x])], [apply('Add', [x, y])]],
    ['feed types', [apply('Neg', [feed([2])])], [apply('Neg', [feed([2], 'int32', new Int32Array(2))])]],
    ['feed shapes', [apply('Neg', [feed([2])])], [apply('Neg', [feed([2, 1])])]],
    ['a feed and a constant', [apply('Neg', [feed([1])])], [apply('Neg', [constant([0])])]],
    ['constants', [apply('Neg', [constant([1])])], [apply('Neg', [constant([2])])]],
    ['0 and -0', [apply('Neg', [constant([0])])], [apply('Neg', [constant([-0])])]],
    ['a float and an int32', [apply('Neg', [constant([1])])], [apply('Neg', [constant([1], 'int32')])]],
    ['a missing input', [apply('Clip', [x, null, y])], [apply('Clip', [x, y, null])]],
    ['attributes', [apply('Sum', [x], { axis: 0 })], [apply('Sum', [x], { axis: 1 })]],
    ['an integer and a float', [apply('Sum', [x], { a: 1 })], [apply('Sum', [x], { a: { float: 1 } })]],
    ['a number and a text', [apply('Sum', [x], { a: 1 })], [apply('Sum', [x], { a: '1' })]],
    ['a number and a list of it', [apply('Sum', [x], { a: 1 })], [apply('Sum', [x], { a: [1] })]],
    [
      'infinity and NaN',
      [apply('Sum', [x], { a: { float: Number.NaN } })],
      [apply('Sum', [x], { a: { float: Number.POSITIVE_INFINITY } })],
    ],
    ['floats 0 and -0', [apply('Sum', [x], { a: { float: 0 } })], [apply('Sum', [x], { a: { float: -0 } })]],
    [
      'lists of floats',
      [apply('Sum', [x], { a: { floats: [Number.NaN] } })],
      [apply('Sum', [x], { a: { floats: [Number.POSITIVE_INFINITY] } })],
    ],
  ])('tells apart: %s', (_what, a, b) => {
    expect(keyOf(...a)).not.toBe(keyOf(...b))
  })

  it('tells the outputs of one operation apart, and the domains of two', () => {
    const outputs = [
      { shape: [1], type: 'float32' },
      { shape: [1], type: 'float32' },
    ] as const
    const [first, second] = makeOperation('Split', [x], outputs, { trace: 0 }).outputs
    expect(keyOf(first!)).not.toBe(keyOf(second!))
    const [other] = makeOperation('Split', [x], outputs, { domain: 'com.microsoft', trace: 0 }).outputs
    expect(keyOf(first!)).not.toBe(keyOf(other!))
  })
})

describe('encodeModel', () => {
  it('gives equal bytes for graphs built alike, and names for every feed and root', () => {
    const law = fc.property(recipes, (recipe) => {
      const graphs = [collect([build(recipe, 1)]), collect([build(recipe, 2)])]
      const [first, second] = graphs.map((graph) => encodeModel(graph))
      expect(first!.model).toEqual(second!.model)
      expect(first!.feedNames).toHaveLength(graphs[0]!.feeds.length)
      expect(new Set([...first!.feedNames, ...first!.rootNames]).size).toBe(first!.feedNames.length + 1)
    })
    fc.assert(law)
  })
})

describe('large constants', () => {
  it('are beside the model where that is wanted, and small ones in it', () => {
    const [large, small] = [constant(Array.from({ length: 20_000 }, (_, i) => i)), constant([1, 2])]
    const graph = collect([apply('Add', [large, small])])
    const [inside, external] = [encodeModel(graph), encodeModel(graph, { largeConstants: 'external' })]
    expect(inside.externalData).toEqual([])
    expect(inside.model.byteLength).toBeGreaterThan(80_000)
    expect(external.model.byteLength).toBeLessThan(1_000)
    expect(external.externalData.map(({ data }) => data.byteLength)).toEqual([80_000])
  })
})

describe('shapes', () => {
  it('sizeOf is the product, 1 for a scalar, 0 as soon as an axis is empty', () => {
    expect([sizeOf([]), sizeOf([3]), sizeOf([2, 3, 4]), sizeOf([2, 0, 4])]).toEqual([1, 3, 24, 0])
  })

  it('sameShape compares rank and every size', () => {
    expect([sameShape([2, 3], [2, 3]), sameShape([2, 3], [3, 2]), sameShape([2], [2, 1]), sameShape([], [])]).toEqual([
      true,
      false,
      false,
      true,
    ])
  })
})
