/** Laws 63 and 65: reductions of batch axes and features. */
import type { NumberedLaw, TensorDictRecipe } from '@tandem-rl/testing'
import * as tf from '@tensorflow/tfjs-core'
import fc from 'fast-check'
import { none, some } from 'fp-ts/lib/Option.js'
import { require } from '../../../packages/testing/src/law.js'
import { concat } from '../../../src/data/tensorDict/joining.js'
import type { Leaf } from '../../../src/data/tensorDict/leaf.js'
import { filterMapLeaves, leafEntries } from '../../../src/data/tensorDict/leaves.js'
import { padSequence } from '../../../src/data/tensorDict/padding.js'
import { reduce, reduceMasked } from '../../../src/data/tensorDict/reduce.js'
import { slice } from '../../../src/data/tensorDict/selecting.js'
import { type Entry, find, isTensorDict, nodeOf, type TensorDict } from '../../../src/data/tensorDict/tensorDict.js'
import { refused, same, statesLaws, type TensorDictLawOptions } from './checking.js'
import { drawOrder, isFloat, rowsOf, upTo } from './drawing.js'

/**
 * The leaves that can be reduced, their values made small whole numbers, with which float32 is
 * exact.
 */
const reducible = (td: TensorDict): TensorDict =>
  nodeOf(
    td.entries
      .filter((entry) => isTensorDict(entry) || entry instanceof tf.Tensor || entry._tag === 'Meta')
      .map((entry): Entry => {
        if (isTensorDict(entry)) return reducible(entry)
        if (!(entry instanceof tf.Tensor) || entry.dtype !== 'float32') return entry
        const whole = tf.where(tf.isFinite(entry), tf.clipByValue(entry, -4, 4), tf.zerosLike(entry))
        return tf.round(whole)
      }),
    td.batchShape,
  )

const numbersOf = (entry: Entry | Leaf | undefined): readonly number[] =>
  entry instanceof tf.Tensor ? [...entry.dataSync()] : []

/** Refuses tensors that are further apart than rounding explains. */
const close = (actual: TensorDict, expected: TensorDict): void => {
  for (const [path, leaf] of leafEntries(actual)) {
    const [found, wanted] = [numbersOf(leaf), numbersOf(find(expected, path))]
    const near = found.every((x, i) => Math.abs(x - wanted[i]!) <= 1e-5 * Math.max(1, Math.abs(wanted[i]!)))
    require(found.length === wanted.length && near, () => `${path.join(' > ')}: ${found} instead of ${wanted}`)
  }
}

/** Laws 63 and 65 for the TensorDicts of `samples`, without their ragged and data leaves. */
export const reductionLaws = (
  samples: fc.Arbitrary<TensorDictRecipe>,
  options: TensorDictLawOptions,
): readonly NumberedLaw[] => {
  const law = statesLaws(samples, options)
  return [
    law(63, 'masked reductions ignore padding, whatever it is, NaN and infinity too', (td, draw) => {
      const whole = reducible(td)
      const ends = upTo(1 + draw(3)).map(() => draw(rowsOf(td) + 1))
      fc.pre(ends.some((end) => end > 0))
      const side = draw(2) === 0 ? 'left' : 'right'
      const floats = filterMapLeaves(whole, (leaf) => (isFloat(leaf) ? some(leaf) : none))
      for (const [from, values] of [
        [whole, [0, 1]],
        [floats, [7, Number.NaN, Number.POSITIVE_INFINITY]],
      ] as const) {
        const parts = ends.map((end) => slice(from, 0, end))
        const all = concat(parts)
        for (const value of values) {
          const { td: padded, mask } = padSequence(parts, { side, value })
          for (const kind of ['mean', 'sum'] as const) close(reduceMasked(padded, kind, mask), reduce(all, kind, 0))
        }
      }
    }),
    law(65, 'a sum over all batch axes is the sums axis by axis, in any order', (td, draw) => {
      const whole = reducible(td)
      const rank = td.batchShape.length
      const order = drawOrder(draw, rank)
      const left = upTo(rank)
      const oneByOne = order.reduce(
        (state: { readonly sum: TensorDict; readonly axes: readonly number[] }, axis) => ({
          sum: reduce(state.sum, 'sum', state.axes.indexOf(axis)),
          axes: state.axes.filter((other) => other !== axis),
        }),
        { sum: whole, axes: left },
      )
      same(oneByOne.sum, reduce(whole, 'sum', order))
      require(reduce(whole, 'mean', [0]).batchShape.join() === td.batchShape.slice(1).join(), () =>
        'a wrong batch shape')
      require(reduce(whole, 'sum', 'features').batchShape.join() === td.batchShape.join(), () => 'a wrong batch shape')
      same(reduce(reduce(whole, 'sum', 'features'), 'sum', 'all'), reduce(whole, 'sum', 'all'))
      for (const wrong of [rank, -rank - 1, [0, 0]]) refused(() => reduce(whole, 'sum', wrong), `axes ${wrong}`)
    }),
  ]
}
