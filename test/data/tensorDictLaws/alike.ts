/** TensorDicts that are alike except for their values, and pairs that differ in one thing. */
import type { TensorDictOptions, TensorDictRecipe } from '@tandem-rl/testing'
import * as tf from '@tensorflow/tfjs'
import fc from 'fast-check'
import { anyBatchShape, type NodeRecipe, recipeOf, rootPlan } from '../../../packages/testing/src/arbitraries.js'
import { set } from '../../../src/data/tensorDict/edit.js'
import { data, meta, type RaggedType, ragged } from '../../../src/data/tensorDict/leaf.js'
import { batchSize, type Entry, isTensorDict, TensorDict } from '../../../src/data/tensorDict/tensorDict.js'

/**
 * TensorDicts of one structure (names and their order, kinds, dtypes, feature shapes, the axes that
 * nodes add, equal Meta values) and different values: one for each of the drawn batch shapes.
 */
export const alikeOfShapes = (
  shapes: fc.Arbitrary<readonly (readonly number[])[]>,
  options: TensorDictOptions = {},
): fc.Arbitrary<readonly TensorDictRecipe[]> =>
  fc
    .tuple(shapes, rootPlan)
    .chain(([batchShapes, plan]) => fc.tuple(...batchShapes.map((shape) => recipeOf(plan, shape, options))))

/** `count` TensorDicts of one structure and one batch shape, with different values. */
export const alikeTensorDicts = (
  count: number,
  shapes: fc.Arbitrary<readonly number[]> = anyBatchShape,
  options: TensorDictOptions = {},
): fc.Arbitrary<readonly TensorDictRecipe[]> =>
  alikeOfShapes(
    shapes.map((shape) => Array.from({ length: count }, () => shape)),
    options,
  )

/** The one thing in which the two of a near miss differ. */
export type Difference = 'key' | 'dtype' | 'featureShape' | 'kind' | 'meta'

/**
 * Two TensorDicts that differ in one thing at one path; values, keys and shapes are equal
 * everywhere else.
 */
export interface NearMiss {
  readonly difference: Difference
  /**
   * The path in `left` of the entry that differs. For a difference of keys, `right` has it under
   * another name.
   */
  readonly path: readonly string[]
  readonly left: TensorDictRecipe
  readonly right: TensorDictRecipe
}

interface NodePlace {
  readonly path: readonly string[]
  readonly batchShape: readonly number[]
}

const nodesOf = (plan: NodeRecipe, place: NodePlace): readonly NodePlace[] => [
  place,
  ...plan.children.flatMap(([name, child]) =>
    child._tag === 'Node'
      ? nodesOf(child, { path: [...place.path, name], batchShape: [...place.batchShape, ...child.inner] })
      : [],
  ),
]

type EntryMaker = (batchShape: readonly number[]) => Entry

const someTensor: EntryMaker = (shape) => tf.zeros([...shape, 2])
const someRows =
  (type: RaggedType): EntryMaker =>
  (shape) =>
    ragged(
      type,
      Array.from({ length: batchSize(shape) }, () => [1]),
    )
const someData: EntryMaker = (shape) => data(Array.from({ length: batchSize(shape) }, () => 1))
const someNode: EntryMaker = (shape) => TensorDict({}, shape)

/**
 * Pairs of entries for one place that differ in one thing. For a difference of keys, they are
 * equal.
 */
const MISSES: { readonly [D in Difference]: readonly (readonly [EntryMaker, EntryMaker])[] } = {
  key: [
    [someTensor, someTensor],
    [someData, someData],
    [someNode, someNode],
  ],
  dtype: [
    [someTensor, (shape) => tf.zeros([...shape, 2], 'int32')],
    [(shape) => tf.zeros([...shape, 2], 'bool'), (shape) => tf.zeros([...shape, 2], 'int32')],
    [someRows('int32'), someRows('float32')],
  ],
  featureShape: [
    [someTensor, (shape) => tf.zeros([...shape, 3])],
    [someTensor, (shape) => tf.zeros([...shape, 2, 1])],
    [someTensor, (shape) => tf.zeros(shape.slice())],
  ],
  kind: [
    [someTensor, someRows('float32')],
    [someRows('int32'), someData],
    [someData, () => meta(1)],
    [() => meta(1), someNode],
    [someNode, someTensor],
  ],
  meta: [
    [() => meta('one'), () => meta('two')],
    [() => meta(1), () => meta('1')],
  ],
}

/** Sets what is new at a path whose node is there. */
const put = (td: TensorDict, [name, ...rest]: readonly string[], entry: Entry): TensorDict => {
  const child = td.entries.get(name!) // a path has at least one name
  return set(td, name!, rest.length > 0 && isTensorDict(child) ? put(child, rest, entry) : entry)
}

/**
 * Pairs of TensorDicts that differ in exactly one thing, and the name of it: for laws about what
 * must not pass for equal or alike.
 */
export const nearMiss = (
  shapes: fc.Arbitrary<readonly number[]> = anyBatchShape,
  differences: readonly Difference[] = ['key', 'dtype', 'featureShape', 'kind', 'meta'],
): fc.Arbitrary<NearMiss> =>
  fc.tuple(shapes, rootPlan, fc.constantFrom(...differences)).chain(([batchShape, plan, difference]) =>
    fc
      .tuple(
        recipeOf(plan, batchShape, {}),
        fc.constantFrom(...nodesOf(plan, { path: [], batchShape })),
        fc.constantFrom(...MISSES[difference]),
      )
      .map(([base, node, [left, right]]): NearMiss => {
        // longer than any name that is drawn
        const names = difference === 'key' ? ['left', 'right'] : ['left', 'left']
        const paths = names.map((name) => [...node.path, `${name} ${'miss '.repeat(60)}`])
        const recipe = (path: readonly string[], make: EntryMaker): TensorDictRecipe => ({
          batchShape,
          build: () => put(base.build(), path, make(node.batchShape)),
        })
        return { difference, path: paths[0]!, left: recipe(paths[0]!, left), right: recipe(paths[1]!, right) }
      }),
  )
