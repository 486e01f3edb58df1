/** Laws 34 to 44: choosing batch elements. */
import type { NumberedLaw, TensorDictRecipe } from '@tandem-rl/testing'
import { scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as tf from '@tensorflow/tfjs-core'
import fc from 'fast-check'
import { require } from '../../../packages/testing/src/law.js'
import { select, set } from '../../../src/data/tensorDict/edit.js'
import { ellipsis, type IndexPart, index, mask, newAxis } from '../../../src/data/tensorDict/indexing.js'
import { concat, setAt } from '../../../src/data/tensorDict/joining.js'
import { data } from '../../../src/data/tensorDict/leaf.js'
import { leafEntries, nodePaths } from '../../../src/data/tensorDict/leaves.js'
import { merge } from '../../../src/data/tensorDict/merge.js'
import { flip, repeat, roll, slice, take } from '../../../src/data/tensorDict/selecting.js'
import { expand, flattenAxes, permute, squeeze, unsqueeze } from '../../../src/data/tensorDict/shape.js'
import { batchSize, find, isTensorDict, TensorDict } from '../../../src/data/tensorDict/tensorDict.js'
import { refused, same, statesLaws, type TensorDictLawOptions } from './checking.js'
import { type Draw, drawList, drawMask, drawOrder, inverseOrder, negated, rowsOf, upTo } from './drawing.js'

/** Parts that fit a batch shape, with the batch shape that they give. */
const drawParts = (
  draw: Draw,
  shape: readonly number[],
): { readonly parts: readonly IndexPart[]; readonly to: readonly number[] } => {
  const drawn = shape.map((size): { readonly parts: readonly IndexPart[]; readonly to: readonly number[] } => {
    switch (draw(size === 0 ? 3 : 4)) {
      case 0:
        return { parts: [{}], to: [size] }
      case 1:
        return { parts: [newAxis, { step: -1 }], to: [1, size] }
      case 2: {
        const start = draw(size + 1)
        return { parts: [{ start }], to: [size - start] }
      }
      default:
        return { parts: [draw(2 * size) - size], to: [] }
    }
  })
  return { parts: drawn.flatMap((each) => each.parts), to: drawn.flatMap((each) => each.to) }
}

/** A TensorDict whose one leaf has the number of each batch element, in the order of its rows. */
const numbersOf = (shape: readonly number[]): TensorDict => TensorDict({ number: data(upTo(batchSize(shape))) }, shape)

/** Operations that only move elements. */
const moves = (draw: Draw, rows: number): readonly ((td: TensorDict) => TensorDict)[] => {
  const list = drawList(draw, rows)
  const flags = drawMask(draw, rows)
  return [
    (td) => take(td, list),
    (td) => mask(td, flags),
    (td) => flip(td, -1),
    (td) => roll(td, 1, -1),
    (td) => repeat(td, 2, -1),
    (td) => index(td, { step: -1 }, newAxis),
    (td) => flattenAxes(td),
    (td) => permute(td, upTo(td.batchShape.length).toReversed()),
    (td) => expand(td, [2, ...td.batchShape]),
    (td) => concat([td, flip(td)]),
  ]
}

/** Laws 34 to 38: one index for each axis. */
const partLaws = (samples: fc.Arbitrary<TensorDictRecipe>, options: TensorDictLawOptions): readonly NumberedLaw[] => {
  const law = statesLaws(samples, options)
  return [
    law(34, 'an index changes batch axes alone, and every leaf as the batch shape', (td, draw) => {
      const { parts, to } = drawParts(draw, td.batchShape)
      const indexed = index(td, ...parts)
      require(indexed.batchShape.join() === to.join(), () => `[${indexed.batchShape}] instead of [${to}]`)
      for (const [path, leaf] of leafEntries(td)) {
        const found = find(indexed, path)
        if (!(leaf instanceof tf.Tensor)) continue
        const shape = [...to, ...leaf.shape.slice(td.batchShape.length)]
        require(found instanceof tf.Tensor && found.shape.join() === shape.join(), () =>
          `${path.join('.')}: not [${shape}]`)
      }
    }),
    law(35, 'more indices than batch axes are refused, whatever the leaves are', (td) => {
      const parts = [...td.batchShape.map(() => ({})), 0]
      refused(() => index(td, ...parts), 'one index too many')
      refused(() => index(TensorDict({}, td.batchShape), ...parts), 'one index too many without leaves')
    }),
    law(36, 'whole axes give the same object', (td) => {
      require(index(td) === td && index(td, {}) === td && index(td, ellipsis) === td, () => 'another object')
      require(slice(td, 0, rowsOf(td)) === td, () => 'another object from slice')
    }),
    law(37, 'a slice of a slice is one slice', (td, draw) => {
      const start = draw(rowsOf(td) + 1)
      const end = start + draw(rowsOf(td) - start + 1)
      const [c, d] = [draw(end - start + 1), end - start]
      same(
        index(index(td, { start, end }), { start: c, end: d }),
        index(td, { start: start + c, end: Math.min(end, start + d) }),
      )
      same(slice(slice(td, start, end), c, d), slice(td, start + c, end))
    }),
    law(
      38,
      'an integer is a slice of one without its axis; negative ones count from the end; others are refused',
      (td, draw) => {
        const size = rowsOf(td)
        for (const wrong of [size, -size - 1, 0.5]) {
          const error = refused(() => index(td, wrong), `index ${wrong}`)
          require(error.message.includes(`${wrong}`) && error.message.includes(`size ${size}`), () => error.message)
        }
        fc.pre(size > 0)
        const i = draw(size)
        same(index(td, i), squeeze(slice(td, i, i + 1), 0))
        same(index(td, i - size), index(td, i))
      },
    ),
  ]
}

/** Laws 39 to 44: lists, masks and what does not depend on them. */
const listLaws = (samples: fc.Arbitrary<TensorDictRecipe>, options: TensorDictLawOptions): readonly NumberedLaw[] => {
  const law = statesLaws(samples, options)
  return [
    law(39, 'taking twice is taking once; taking all gives the same object', (td, draw) => {
      const first = drawList(draw, rowsOf(td))
      const second = drawList(draw, first.length)
      same(
        take(take(td, first), second),
        take(
          td,
          second.map((i) => first[i]!),
        ),
      )
      require(take(td, upTo(rowsOf(td))) === td, () => 'another object')
    }),
    law(40, 'a shuffle is undone by the inverse order', (td, draw) => {
      const order = drawOrder(draw, rowsOf(td))
      same(take(take(td, order), inverseOrder(order)), td)
    }),
    law(41, 'a mask takes what it chooses; with what it leaves out, it gives the whole', (td, draw) => {
      const flags = drawMask(draw, rowsOf(td))
      const [inside, outside] = [true, false].map((flag) => upTo(rowsOf(td)).filter((i) => flags[i] === flag))
      same(mask(td, flags), take(td, inside!))
      same(
        scope(() => mask(td, tf.tensor1d([...flags], 'bool'))),
        take(td, inside!),
      )
      const opposite = flags.map((flag) => !flag)
      same(take(concat([mask(td, flags), mask(td, opposite)]), inverseOrder([...inside!, ...outside!])), td)
    }),
    law(
      42,
      'indexing commutes with getting, choosing and merging keys, and with functions of each leaf',
      (td, draw) => {
        const list = drawList(draw, rowsOf(td))
        const keys = [...td.entries.keys()].filter(() => draw(2) === 1)
        const kept = select(td as TensorDict<Record<string, unknown>>, ...keys) as TensorDict // keys that are there
        const rest = set(kept, 'added', data(upTo(batchSize(td.batchShape)))) as TensorDict
        same(take(kept, list), select(take(td, list) as TensorDict<Record<string, unknown>>, ...keys) as TensorDict) // the same keys
        same(take(merge(td, rest) as TensorDict, list), merge(take(td, list), take(rest, list)) as TensorDict)
        same(take(negated(td), list), negated(take(td, list)))
        for (const path of nodePaths(td)) {
          const [node, taken] = [find(td, path), find(take(td, list), path)]
          if (!(isTensorDict(node) && isTensorDict(taken))) throw new Error('a node is lost')
          same(take(node, list), taken)
        }
      },
    ),
    law(43, 'what is set is found, setting what is there changes nothing, and no element is set twice', (td, draw) => {
      const list = drawOrder(draw, rowsOf(td)).slice(0, 2)
      const values = take(flip(td), list)
      same(index(setAt(td, [list], values), list), values)
      same(setAt(td, [list], take(td, list)), td)
      fc.pre(rowsOf(td) > 0)
      const [twice, row] = [take(td, [0, 0]), index(td, 0)]
      refused(() => setAt(td, [[0, 0]], twice), 'an element set twice')
      refused(() => setAt(td, [[0]], row), 'values of another batch shape')
    }),
    law(44, 'values on the host move with the tensors', (td, draw) => {
      const numbers = numbersOf(td.batchShape)
      const both = merge(td, numbers) as TensorDict
      for (const move of moves(draw, rowsOf(td))) {
        const moved = move(
          set(
            both,
            'tensor',
            tf.tensor(upTo(batchSize(td.batchShape)) as number[], [...td.batchShape], 'int32'),
          ) as TensorDict,
        )
        const [host, tensor] = [find(moved, ['number']), find(moved, ['tensor'])]
        require(host !== undefined && '_tag' in host && host._tag === 'Data' && tensor instanceof tf.Tensor, () =>
          'a leaf is lost')
        same(move(numbers), select(moved as TensorDict<{ readonly number: unknown }>, 'number') as TensorDict) // set above
        require(host !== undefined &&
          'items' in host &&
          tensor instanceof tf.Tensor &&
          host.items.join() === [...tensor.dataSync()].join(), () => 'the values moved otherwise than the tensor')
      }
      same(squeeze(unsqueeze(td, 0), 0), td)
    }),
  ]
}

/** Laws 34 to 44 for the TensorDicts of `samples`. */
export const indexingLaws = (
  samples: fc.Arbitrary<TensorDictRecipe>,
  options: TensorDictLawOptions,
): readonly NumberedLaw[] => [...partLaws(samples, options), ...listLaws(samples, options)]
