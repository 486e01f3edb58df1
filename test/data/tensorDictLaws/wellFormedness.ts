/** Laws 1 to 5: what a TensorDict is, and its batch shape. */
import type { NumberedLaw, TensorDictRecipe } from '@tandem-rl/testing'
import * as tf from '@tensorflow/tfjs-core'
import type fc from 'fast-check'
import { none, some } from 'fp-ts/lib/Option.js'
import { require } from '../../../packages/testing/src/law.js'
import { autoBatch, withBatchShape } from '../../../src/data/tensorDict/batchShape.js'
import { meta } from '../../../src/data/tensorDict/leaf.js'
import { filterMapLeaves, leafEntries } from '../../../src/data/tensorDict/leaves.js'
import { batchSize, type Entries, find, isTensorDict, TensorDict } from '../../../src/data/tensorDict/tensorDict.js'
import { identical, lawOf, refused, same, type TensorDictLawOptions, wellFormed } from './checking.js'
import { FRESH, withChoices } from './drawing.js'

const entriesOf = (td: TensorDict): Entries => Object.fromEntries(td.entries)

const onlyTensors = (td: TensorDict): TensorDict =>
  filterMapLeaves(td, (leaf) => (leaf instanceof tf.Tensor || leaf._tag === 'Meta' ? some(leaf) : none))

/** A batch shape that a leaf of this one does not begin with. */
const otherShape = (shape: readonly number[]): readonly number[] => shape.map((n) => n + 5) // of another size too, also where there are no elements

const isMadeOrRefused = (td: TensorDict): void => {
  wellFormed(TensorDict(entriesOf(td), td.batchShape))
  const other = otherShape(td.batchShape)
  const unfit = [...td.entries].filter(([, entry]) => !('_tag' in entry && entry._tag === 'Meta')).map(([name]) => name)
  if (unfit.length === 0 || td.batchShape.length === 0) return
  const error = refused(() => TensorDict(entriesOf(td), other), 'entries of another batch shape')
  const named = (error.details.problems ?? []).map(({ path }) => path[0])
  require(unfit.every((name) => named.includes(name)), () => `not all of ${unfit.join()} are named: ${named.join()}`)
  for (const { path, reason } of error.details.problems ?? []) {
    const entry = td.entries.get(path[0]!)
    const actual = entry instanceof tf.Tensor ? entry.shape : isTensorDict(entry) ? entry.batchShape : undefined
    require(path.length > 1 || reason.includes(`[${other.join(', ')}]`), () => `no expected shape: ${reason}`)
    require(path.length > 1 || actual === undefined || reason.includes(`[${actual.join(', ')}]`), () =>
      `no actual shape: ${reason}`)
  }
  wellFormed(td)
}

const batchIsMaximal = (td: TensorDict): void => {
  const tensors = onlyTensors(td)
  const grown = wellFormed(autoBatch(tensors))
  identical(autoBatch(grown), grown, 'autoBatch of its own result')
  const shapes = leafEntries(tensors).flatMap(([, leaf]) => (leaf instanceof tf.Tensor ? [leaf.shape] : []))
  const axes = grown.batchShape.length
  const next = shapes[0]?.[axes]
  const longer = next !== undefined && shapes.every((shape) => shape[axes] === next)
  require(!longer, () => `a longer batch shape than [${grown.batchShape.join()}] fits`)
  require(autoBatch(tensors, 1).batchShape.length <= 1, () => 'more axes than asked for')
}

const batchCanBeChosen = (td: TensorDict, axes: number, more: number): void => {
  identical(withBatchShape(td, td.batchShape), td, 'its own batch shape')
  const tensors = onlyTensors(td)
  const none = wellFormed(withBatchShape(tensors, []))
  same(withBatchShape(none, td.batchShape), tensors, 'no batch axes and back')
  const fewer = td.batchShape.slice(0, axes % (td.batchShape.length + 1))
  require(wellFormed(withBatchShape(tensors, fewer)).batchShape.join() === fewer.join(), () =>
    'another batch shape than asked for')
  const second = td.batchShape.slice(0, more % (td.batchShape.length + 1))
  same(withBatchShape(withBatchShape(tensors, fewer), second), withBatchShape(tensors, second), 'one after the other')
  for (const [path, leaf] of leafEntries(tensors)) identical(find(none, path), leaf, 'a leaf')
  const root = [...tensors.entries.values()].find((entry) => !isTensorDict(entry) && entry instanceof tf.Tensor)
  if (root !== undefined && td.batchShape.length > 0)
    refused(() => withBatchShape(tensors, otherShape(td.batchShape)), 'a shape that no leaf has')
}

/** Laws 1 to 5, on TensorDicts drawn from `samples`. */
export const wellFormednessLaws = (
  samples: fc.Arbitrary<TensorDictRecipe>,
  options: TensorDictLawOptions,
): readonly NumberedLaw[] => [
  lawOf([1, 'every leaf and node fits the node that it is in'], samples, {
    ...options,
    check: (recipe) => {
      const td = wellFormed(recipe.build())
      require(td.batchShape.every((n) => Number.isInteger(n) && n >= 0), () => 'a size is no natural number')
      require(batchSize(td.batchShape) >= 0, () => 'no number of elements')
    },
  }),
  lawOf([2, 'what fits is made, what does not is refused, with every place'], samples, {
    ...options,
    check: (recipe) => {
      isMadeOrRefused(recipe.build())
    },
  }),
  lawOf([3, 'a TensorDict made of its own entries is equal'], samples, {
    ...options,
    check: (recipe) => {
      const td = recipe.build()
      same(
        TensorDict({ ...entriesOf(td), [FRESH]: meta(1) }, td.batchShape),
        TensorDict({ [FRESH]: meta(1), ...entriesOf(td) }, td.batchShape),
        'made of entries',
      )
      same(TensorDict(entriesOf(td), td.batchShape), td, 'made of its own entries')
    },
  }),
  lawOf([4, 'autoBatch is idempotent, and no longer batch shape fits'], samples, {
    ...options,
    check: (recipe) => {
      batchIsMaximal(recipe.build())
    },
  }),
  lawOf(
    [5, 'withBatchShape: its own gives the same object, none always fits tensors, there and back is equal'],
    withChoices(samples),
    {
      ...options,
      check: ([recipe, axes, more]) => {
        batchCanBeChosen(recipe.build(), axes, more)
      },
    },
  ),
]
