/** Laws 26 to 31, and 33: functions over leaves. */
import type { NumberedLaw, TensorDictRecipe } from '@tandem-rl/testing'
import { liveTensors } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as tf from '@tensorflow/tfjs-core'
import type fc from 'fast-check'
import * as O from 'fp-ts/lib/Option.js'
import { require } from '../../../packages/testing/src/law.js'
import { add, mul } from '../../../src/data/tensorDict/arithmetic.js'
import { type Leaf, meta } from '../../../src/data/tensorDict/leaf.js'
import {
  filterMapLeaves,
  foldLeaves,
  leafEntries,
  leafPaths,
  mapLeaves,
  skeleton,
  zipLeaves,
} from '../../../src/data/tensorDict/leaves.js'
import { batchSize, type TensorDict } from '../../../src/data/tensorDict/tensorDict.js'
import { alikeTensorDicts, type NearMiss, nearMiss } from './alike.js'
import { identical, lawOf, refused, same, type TensorDictLawOptions, wellFormed } from './checking.js'

const f = (leaf: Leaf): Leaf => (leaf instanceof tf.Tensor ? tf.reshape(leaf, [...leaf.shape, 1]) : leaf)
const g = (leaf: Leaf): Leaf => (leaf instanceof tf.Tensor && leaf.dtype === 'float32' ? tf.neg(leaf) : meta('g'))

const refusesWhatDoesNotFit = (td: TensorDict): void => {
  if (batchSize(td.batchShape) === 1 || leafPaths(td).length === 0 || td.batchShape.length === 0) return
  const before = liveTensors().count
  const error = refused(() => mapLeaves(td, () => tf.zeros([11])), 'a leaf that does not fit')
  require(error.details.problems?.length === leafPaths(td).length, () => 'not every path is named')
  require(liveTensors().count === before, () => 'the refused leaves are alive')
}

const zips = (a: TensorDict, b: TensorDict): void => {
  same(wellFormed(zipLeaves(a, b, (left) => left)), a, 'the left leaves')
  same(
    zipLeaves(a, b, (_, right) => right),
    b,
    'the right leaves',
  )
  same(
    zipLeaves(a, b, (left, right) => meta([left, right].length)),
    zipLeaves(b, a, (left, right) => meta([right, left].length)),
    'flipped',
  )
}

const algebra = (a: TensorDict, b: TensorDict, c: TensorDict): void => {
  const numbers = (td: TensorDict): TensorDict =>
    filterMapLeaves(td, (leaf) => ('_tag' in leaf && leaf._tag !== 'Ragged' ? O.none : O.some(leaf)))
  const noBools = (td: TensorDict): TensorDict =>
    filterMapLeaves(numbers(td), (leaf) =>
      (leaf instanceof tf.Tensor ? leaf.dtype : 'type' in leaf ? leaf.type : '') === 'bool' ? O.none : O.some(leaf),
    )
  const dense = (td: TensorDict): TensorDict =>
    filterMapLeaves(noBools(td), (leaf) => (leaf instanceof tf.Tensor ? O.some(leaf) : O.none))
  const [x, y, z] = [dense(a), dense(b), dense(c)]
  same(wellFormed(add(x, y)), add(y, x), 'a + b and b + a')
  same(add(add(x, y), z), add(x, add(y, z)), 'grouped the other way')
  same(add(noBools(a), 0), noBools(a), 'nothing added')
  same(mul(noBools(a), 1), noBools(a), 'multiplied by one')
}

const refusesNearMisses = ({ left, right, difference }: NearMiss): void => {
  const [a, b] = [left.build(), right.build()]
  if (difference === 'key') {
    const { details } = refused(() => zipLeaves(a, b, (leaf) => leaf), 'zip of other keys')
    require(details.problems?.length === 2, () => 'not both keys are named')
  }
  refused(() => add(a, b), 'the sum of what is not alike')
}

/**
 * Laws 26 to 31 and 33, on TensorDicts drawn from `samples`; those of two or more TensorDicts on
 * alike ones.
 */
export const functorLaws = (
  samples: fc.Arbitrary<TensorDictRecipe>,
  options: TensorDictLawOptions,
): readonly NumberedLaw[] => {
  const law = (number: number, title: string, check: (td: TensorDict) => void): NumberedLaw =>
    lawOf([number, title], samples, {
      ...options,
      check: (recipe) => {
        check(recipe.build())
      },
    })
  return [
    law(26, 'mapping the identity gives the same object', (td) => {
      identical(
        mapLeaves(td, (leaf) => leaf),
        td,
        'mapped by the identity',
      )
    }),
    law(27, 'mapping two functions is mapping the one after the other', (td) => {
      same(wellFormed(mapLeaves(td, (leaf) => g(f(leaf)))), mapLeaves(mapLeaves(td, f), g), 'mapped twice')
    }),
    law(28, 'leaves are visited once, in the order of leafPaths', (td) => {
      const visited: string[] = []
      mapLeaves(td, (leaf, path) => {
        visited.push(JSON.stringify(path))
        return leaf
      })
      require(visited.join() ===
        leafPaths(td)
          .map((path) => JSON.stringify(path))
          .join(), () => visited.join())
      const folded = foldLeaves<readonly Leaf[]>(td, [], (leaves, leaf) => [...leaves, leaf])
      require(folded.length === visited.length && leafEntries(td).every(([, leaf], i) => folded[i] === leaf), () =>
        'not all leaves')
    }),
    law(29, 'a leaf that does not fit is refused with its path', refusesWhatDoesNotFit),
    lawOf([30, 'zipLeaves: wants the same keys, and is a pair of projections'], alikeTensorDicts(2), {
      ...options,
      check: ([a, b]) => {
        zips(a!.build(), b!.build())
      },
    }),
    lawOf([30, 'zipLeaves and arithmetic refuse what differs in one thing'], nearMiss(), {
      ...options,
      check: refusesNearMisses,
    }),
    law(31, 'filterMapLeaves: keeps all, or the skeleton, and composes', (td) => {
      identical(filterMapLeaves(td, O.some), td, 'all kept')
      same(
        filterMapLeaves(td, () => O.none),
        skeleton(td),
        'none kept',
      )
      const [p, q] = [
        (leaf: Leaf) => (leaf instanceof tf.Tensor ? O.none : O.some(leaf)),
        (leaf: Leaf) => ('_tag' in leaf && leaf._tag === 'Meta' ? O.none : O.some(leaf)),
      ]
      same(
        wellFormed(filterMapLeaves(filterMapLeaves(td, p), q)),
        filterMapLeaves(td, (leaf) => O.Monad.chain(p(leaf), q)),
        'filtered twice',
      )
    }),
    lawOf([33, 'sums and products have the algebra of numbers'], alikeTensorDicts(3, undefined, { numbers: 'whole' }), {
      ...options,
      check: ([a, b, c]) => {
        algebra(a!.build(), b!.build(), c!.build())
      },
    }),
  ]
}
