/** Laws 52 to 59: batch axes merged, split, moved, added and removed. */
import type { NumberedLaw, TensorDictRecipe } from '@tandem-rl/testing'
import type fc from 'fast-check'
import { require } from '../../../packages/testing/src/law.js'
import { index } from '../../../src/data/tensorDict/indexing.js'
import { nodePaths } from '../../../src/data/tensorDict/leaves.js'
import {
  expand,
  flattenAxes,
  permute,
  reshape,
  squeeze,
  transpose,
  unflattenAxis,
  unsqueeze,
} from '../../../src/data/tensorDict/shape.js'
import { batchSize, find, isTensorDict, TensorDict } from '../../../src/data/tensorDict/tensorDict.js'
import { refused, same, statesLaws, type TensorDictLawOptions } from './checking.js'
import { type Draw, drawAxis, drawOrder, inverseOrder, rowsOf, upTo } from './drawing.js'

/**
 * Without leaves, or with features that could be taken for batch axes: what is refused must not
 * depend on it.
 */
const bare = (td: TensorDict): TensorDict => TensorDict({}, td.batchShape)

const regroupingLaws = (
  samples: fc.Arbitrary<TensorDictRecipe>,
  options: TensorDictLawOptions,
): readonly NumberedLaw[] => {
  const law = statesLaws(samples, options)
  return [
    law(52, 'reshaping there and back changes nothing; one size may be computed', (td, draw) => {
      const size = batchSize(td.batchShape)
      const sizes = drawOrder(draw, td.batchShape.length).map((axis) => td.batchShape[axis]!)
      same(reshape(reshape(td, [...sizes, 1]), td.batchShape), td)
      require(reshape(td, td.batchShape) === td, () => 'another object')
      require(size === 0 || reshape(td, [1, -1]).batchShape.join() === `1,${size}`, () => 'a wrong size')
      for (const wrong of [[size + 1], [-1, -1], [-2], [0.5]]) refused(() => reshape(td, wrong), `shape ${wrong}`)
      refused(() => reshape(bare(td), [size + 1]), 'too many elements without leaves')
    }),
    law(
      53,
      'an axis that was merged can be split again; what is no batch axis is refused, whatever the leaves are',
      (td, draw) => {
        const rank = td.batchShape.length
        const first = draw(rank)
        const last = first + draw(rank - first)
        const flat = flattenAxes(td, first - rank, last)
        same(unflattenAxis(flat, first, td.batchShape.slice(first, last + 1)), td)
        for (const path of nodePaths(td)) {
          const [inside, node] = [find(flat, path), find(td, path)]
          if (!(isTensorDict(inside) && isTensorDict(node))) throw new Error('a node is lost')
          same(unflattenAxis(inside, first, td.batchShape.slice(first, last + 1)), node)
        }
        for (const each of [td, bare(td)]) {
          refused(() => flattenAxes(each, 0, rank), 'an axis too many')
          refused(() => unflattenAxis(each, -rank - 1, [1]), 'an axis that is not there')
          refused(() => unflattenAxis(each, 0, [rowsOf(td) + 1]), 'too many elements')
        }
      },
    ),
    law(54, 'elements are in row-major order', (td, draw) => {
      const two = unflattenAxis(index(flattenAxes(td), {}), 0, [1, batchSize(td.batchShape)])
      const flat = flattenAxes(two, 0, 1)
      const size = batchSize(td.batchShape)
      if (size > 0) {
        const i = draw(size)
        const place = td.batchShape.map((n, axis) => Math.floor(i / batchSize(td.batchShape.slice(axis + 1))) % n)
        same(index(flat, i), index(td, ...place))
      }
    }),
  ]
}

type Lifted = readonly [
  outside: (td: TensorDict) => TensorDict,
  inside: (node: TensorDict, behind: readonly number[]) => TensorDict,
]

/**
 * Operations on a TensorDict, each with what it is for a node that has the axes `behind` in
 * addition.
 */
const liftedOperations = (shape: readonly number[], draw: Draw): Readonly<Record<string, Lifted>> => {
  const rank = shape.length
  const order = drawOrder(draw, rank)
  const [first, second] = [draw(rank), draw(rank)]
  const last = first + draw(rank - first)
  const place = draw(rank + 1)
  const sizes = order.map((axis) => shape[axis]!)
  return {
    reshape: [(td) => reshape(td, sizes), (node, behind) => reshape(node, [...sizes, ...behind])],
    flattenAxes: [(td) => flattenAxes(td, first, last), (node) => flattenAxes(node, first, last)],
    unflattenAxis: [
      (td) => unflattenAxis(td, first, [1, shape[first]!]),
      (node) => unflattenAxis(node, first, [1, shape[first]!]),
    ],
    permute: [
      (td) => permute(td, order),
      (node, behind) => permute(node, [...order, ...behind.map((_, i) => rank + i)]),
    ],
    transpose: [(td) => transpose(td, first, second), (node) => transpose(node, first, second)],
    unsqueeze: [(td) => unsqueeze(td, place), (node) => unsqueeze(node, place)],
    squeeze: [(td) => squeeze(unsqueeze(td, place), place), (node) => node],
    expand: [(td) => expand(td, [2, ...shape]), (node, behind) => expand(node, [2, ...shape, ...behind])],
  }
}

const orderLaws = (samples: fc.Arbitrary<TensorDictRecipe>, options: TensorDictLawOptions): readonly NumberedLaw[] => {
  const law = statesLaws(samples, options)
  return [
    law(55, 'orders of axes compose, and the inverse order undoes one; what is no order is refused', (td, draw) => {
      const rank = td.batchShape.length
      const [first, second] = [drawOrder(draw, rank), drawOrder(draw, rank)]
      same(permute(permute(td, first), inverseOrder(first)), td)
      same(
        permute(permute(td, first), second),
        permute(
          td,
          second.map((axis) => first[axis]!),
        ),
      )
      for (const wrong of [[...first, 0], first.slice(1), first.map(() => 0).concat(rank > 1 ? [] : [0])]) {
        refused(() => permute(td, wrong), `order ${wrong}`)
        refused(() => permute(bare(td), wrong), `order ${wrong} without leaves`)
      }
    }),
    law(56, 'changing two axes twice changes nothing; a new axis can be removed; features never are', (td, draw) => {
      const rank = td.batchShape.length
      const [a, b] = [drawAxis(draw, rank), drawAxis(draw, rank)]
      same(transpose(transpose(td, a.given, b.axis), a.axis, b.given), td)
      for (const place of upTo(2 * rank + 2)) same(squeeze(unsqueeze(td, place - rank - 1), place - rank - 1), td)
      for (const wrong of [rank + 1, -rank - 2]) refused(() => unsqueeze(td, wrong), `a new axis at ${wrong}`)
      if (rowsOf(td) !== 1) refused(() => squeeze(td, 0), 'an axis of another size')
      const ones = squeeze(td).batchShape
      require(ones.join() === td.batchShape.filter((size) => size !== 1).join(), () => `[${ones}]`)
    }),
    law(57, 'every element of an expanded axis is the same; only axes of size 1 can be expanded', (td, draw) => {
      require(expand(td, td.batchShape) === td, () => 'another object')
      const count = 1 + draw(3)
      const wide = expand(unsqueeze(td, 1), [rowsOf(td), count, ...td.batchShape.slice(1)])
      for (const i of upTo(count)) same(index(wide, {}, i), td)
      for (const i of upTo(count)) same(index(expand(td, [count, ...td.batchShape]), i), td)
      const size = rowsOf(td) === 1 ? -1 : rowsOf(td) + 1
      for (const each of [td, bare(td)]) {
        refused(() => expand(each, [size, ...td.batchShape.slice(1)]), `size ${size}`)
        refused(() => expand(each, td.batchShape.slice(1)), 'fewer axes')
      }
    }),
    law(58, 'every node is changed along the axes of its parent, and keeps the ones behind', (td, draw) => {
      for (const [name, [outside, inside]] of Object.entries(liftedOperations(td.batchShape, draw))) {
        const changed = outside(td)
        for (const path of nodePaths(td)) {
          const [before, after] = [find(td, path), find(changed, path)]
          if (!(isTensorDict(before) && isTensorDict(after))) throw new Error(`${name}: a node is lost`)
          const behind = before.batchShape.slice(td.batchShape.length)
          same(after, inside(before, behind), `${name}: ${path.join(' > ')}`)
          require(after.batchShape.join() === [...changed.batchShape, ...behind].join(), () =>
            `${name}: [${after.batchShape}]`)
        }
      }
    }),
    law(
      59,
      'axes have no names that an operation could lose: a TensorDict is its batch shape and its entries',
      (td) => {
        for (const each of [
          td,
          unsqueeze(td, 0),
          flattenAxes(td),
          permute(td, upTo(td.batchShape.length).toReversed()),
        ]) {
          require(Object.keys(each).toSorted().join() === '_tag,batchShape,spine', () => Object.keys(each).join())
        }
      },
    ),
  ]
}

/** Laws 52 to 59 for the TensorDicts of `samples`. */
export const shapeLaws = (
  samples: fc.Arbitrary<TensorDictRecipe>,
  options: TensorDictLawOptions,
): readonly NumberedLaw[] => [...regroupingLaws(samples, options), ...orderLaws(samples, options)]
