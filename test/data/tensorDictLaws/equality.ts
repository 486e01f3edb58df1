/** Laws 66 to 68, and 87: equality, specs, hashes, differences, plain values. */
import type { NumberedLaw, TensorDictRecipe } from '@tandem-rl/testing'
import * as tf from '@tensorflow/tfjs-core'
import type fc from 'fast-check'
import * as E from 'fp-ts/lib/Either.js'
import * as O from 'fp-ts/lib/Option.js'
import { require } from '../../../packages/testing/src/law.js'
import { fromNested } from '../../../src/data/nested.js'
import { sameSpec, specOf } from '../../../src/data/spec.js'
import { allClose, diff, equals, hash } from '../../../src/data/tensorDict/compare.js'
import { toNested } from '../../../src/data/tensorDict/inspect.js'
import { meta } from '../../../src/data/tensorDict/leaf.js'
import { filterMapLeaves, mapLeaves, skeleton } from '../../../src/data/tensorDict/leaves.js'
import { merge } from '../../../src/data/tensorDict/merge.js'
import { isTensorDict, nodeOf, type TensorDict } from '../../../src/data/tensorDict/tensorDict.js'
import { alikeTensorDicts, type NearMiss, nearMiss } from './alike.js'
import { lawOf, same, type TensorDictLawOptions } from './checking.js'
import { withOther } from './drawing.js'

/** The same TensorDict with its keys in reverse, at every depth. */
const reversed = (td: TensorDict): TensorDict =>
  nodeOf(td.entries.map((entry) => (isTensorDict(entry) ? reversed(entry) : entry)).reverse(), td.batchShape)

const isEquivalence = (td: TensorDict, again: TensorDict, other: TensorDict): void => {
  require(equals(td, again) && equals(again, td), () => 'two of one recipe are not equal')
  require(equals(td, other) === equals(other, td), () => 'equal one way, and not the other')
  require(equals(reversed(td), td) && equals(again, reversed(td)), () => 'the order of keys counts')
}

const isCongruence = (td: TensorDict, again: TensorDict, other: TensorDict): void => {
  require(hash(td) === hash(again) && hash(td) === hash(reversed(td)), () => 'equal, with other hashes')
  require(sameSpec(td, again) && sameSpec(td, reversed(td)), () => 'equal, with other specs')
  require(sameSpec(td, other) === sameSpec(other, td), () => 'one spec one way, and not the other')
  same(skeleton(td), skeleton(again), 'the nodes of equals')
  const reciprocal = (x: TensorDict): TensorDict =>
    mapLeaves(x, (leaf) => (leaf instanceof tf.Tensor && leaf.dtype === 'float32' ? tf.div(1, leaf) : leaf))
  same(reciprocal(td), reciprocal(reversed(again)), 'one divided by equals')
  same(merge(td, again) as TensorDict, td, 'merged with an equal')
}

const namesTheDifference = ({ left, right, path, difference }: NearMiss): void => {
  const [a, b] = [left.build(), right.build()]
  const found = diff(a, b)
  require(!equals(a, b) && !equals(b, a), () => `a difference of ${difference} is not seen`)
  require(found.length === (difference === 'key' ? 2 : 1), () => JSON.stringify(found))
  require(JSON.stringify(found[0]!.path) === JSON.stringify(path) && found[0]!.reason !== '', () =>
    JSON.stringify(found))
  require(JSON.stringify(allClose(a, b)) === JSON.stringify(found), () => 'allClose sees something else')
}

/** Data holds nothing that JSON changes, and no number is infinite or NaN: what law 87 is about. */
const finite = (td: TensorDict): TensorDict =>
  filterMapLeaves(td, (leaf) => {
    const numbers = leaf instanceof tf.Tensor ? leaf.dataSync() : leaf._tag === 'Ragged' ? Array.from(leaf.values) : []
    return Array.from(numbers).every(Number.isFinite) ? O.some(leaf) : O.none
  })

/**
 * Laws 66 to 68 and 87, on TensorDicts drawn from `samples`; what differs in one thing, on near
 * misses.
 */
export const equalityLaws = (
  samples: fc.Arbitrary<TensorDictRecipe>,
  options: TensorDictLawOptions,
): readonly NumberedLaw[] => [
  lawOf([66, 'equals is reflexive, symmetric, and blind to the order of keys'], withOther(samples), {
    ...options,
    check: ([recipe, other]) => {
      isEquivalence(recipe.build(), recipe.build(), other.build())
    },
  }),
  lawOf([66, 'equals is transitive'], alikeTensorDicts(3), {
    ...options,
    check: (recipes) => {
      const [a, b, c] = recipes.map((recipe) => recipe.build()) as [TensorDict, TensorDict, TensorDict] // three were asked for
      require(!(equals(a, b) && equals(b, c)) || equals(a, c), () => 'not transitive')
      require(sameSpec(a, b) && sameSpec(b, c), () => 'alike, with other specs')
    },
  }),
  lawOf([67, 'equal TensorDicts have equal hashes, specs and images'], withOther(samples), {
    ...options,
    check: ([recipe, other]) => {
      isCongruence(recipe.build(), recipe.build(), other.build())
    },
  }),
  lawOf([67, 'sameSpec is blind to values alone'], nearMiss(), {
    ...options,
    check: ({ left, right, difference }) => {
      require(sameSpec(left.build(), right.build()) === (difference === 'meta'), () => difference)
    },
  }),
  lawOf([68, 'diff is empty for equals'], samples, {
    ...options,
    check: (recipe) => {
      const found = diff(recipe.build(), reversed(recipe.build()))
      require(found.length === 0, () => JSON.stringify(found))
    },
  }),
  lawOf([68, 'diff names no path twice, always with a reason, and nothing only for equals'], withOther(samples), {
    ...options,
    check: ([recipe, other]) => {
      const [a, b] = [recipe.build(), other.build()]
      const found = diff(a, b)
      const paths = found.map(({ path }) => JSON.stringify(path))
      require(new Set(paths).size === paths.length, () => `a path is named twice: ${paths.join(' ')}`)
      require(found.every(({ reason }) => reason !== ''), () => 'there is no reason')
      require((found.length === 0) === equals(a, b), () => 'diff and equals disagree')
    },
  }),
  lawOf([68, 'diff names what differs in one thing'], nearMiss(), { ...options, check: namesTheDifference }),
  lawOf([87, 'fromNested of toNested, by the spec, is equal'], samples, {
    ...options,
    check: (recipe) => {
      const td = finite(recipe.build())
      const read = fromNested(specOf(td), toNested(td), td.batchShape)
      require(E.isRight(read), () => (E.isLeft(read) ? read.left.reason : ''))
      if (E.isRight(read)) same(read.right as TensorDict, td, 'read')
      const extra = fromNested(specOf(td), { ...toNested(td), extra: meta(1) }, td.batchShape)
      require(td.entries.has('extra') || E.isLeft(extra), () => 'a key that the spec does not name was lost')
    },
  }),
]
