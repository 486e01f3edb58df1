/** Laws 45 to 51 and 64: several TensorDicts as one, and one as several. */
import type { NumberedLaw, TensorDictRecipe } from '@tandem-rl/testing'
import fc from 'fast-check'
import { require } from '../../../packages/testing/src/law.js'
import { set } from '../../../src/data/tensorDict/edit.js'
import { index } from '../../../src/data/tensorDict/indexing.js'
import { concat, stack, where } from '../../../src/data/tensorDict/joining.js'
import { meta } from '../../../src/data/tensorDict/leaf.js'
import { flip, narrow, repeat, repeatInterleave, take } from '../../../src/data/tensorDict/selecting.js'
import { expand, unsqueeze } from '../../../src/data/tensorDict/shape.js'
import { splitEach, splitEvery, splitInto, splitSizes, unbind } from '../../../src/data/tensorDict/splitting.js'
import { TensorDict } from '../../../src/data/tensorDict/tensorDict.js'
import { type NearMiss, nearMiss } from './alike.js'
import { identical, lawOf, refused, same, sameAll, statesLaws, type TensorDictLawOptions } from './checking.js'
import { type Draw, drawAxis, drawMask, drawOrder, FRESH, negated, rowsOf, unsigned, upTo } from './drawing.js'

/** Alike TensorDicts: the elements in several orders. */
const alike = (td: TensorDict, draw: Draw): readonly TensorDict[] => [
  td,
  flip(td),
  take(td, drawOrder(draw, rowsOf(td))),
]

/** Natural numbers, 0 among them, with a given sum. */
const drawSizes = (draw: Draw, total: number): readonly number[] => {
  const first = draw(total + 1)
  return [first, 0, total - first]
}

const stackLaws = (samples: fc.Arbitrary<TensorDictRecipe>, options: TensorDictLawOptions): readonly NumberedLaw[] => {
  const law = statesLaws(samples, options)
  return [
    law(45, 'unbinding a stack gives its parts, stacking them gives the stack', (td, draw) => {
      const parts = alike(td, draw)
      const { given, axis } = drawAxis(draw, td.batchShape.length + 1)
      const whole = stack(parts, given)
      sameAll(unbind(whole, given), parts)
      same(stack(unbind(whole, given), axis), whole)
      same(index(stack(parts), 1), parts[1]!)
      const old = drawAxis(draw, td.batchShape.length)
      if (td.batchShape[old.axis]! > 0) same(stack(unbind(td, old.given), old.given), td)
    }),
    law(46, 'splitting and joining undo one another, along any axis', (td, draw) => {
      const { given, axis } = drawAxis(draw, td.batchShape.length)
      const sizes = drawSizes(draw, td.batchShape[axis]!)
      same(concat(splitSizes(td, sizes, given), given), td)
      const parts = [...alike(td, draw), narrow(td, { axis, start: 0, length: sizes[0]! })]
      sameAll(
        splitSizes(
          concat(parts, given),
          parts.map((part) => part.batchShape[axis]!),
          given,
        ),
        parts,
      )
    }),
    law(47, 'a stack joins what got a new axis; joining is associative; empty pieces are neutral', (td, draw) => {
      const parts = alike(td, draw)
      const place = drawAxis(draw, td.batchShape.length + 1).given
      same(
        stack(parts, place),
        concat(
          parts.map((part) => unsqueeze(part, place)),
          place,
        ),
      )
      const { given, axis } = drawAxis(draw, td.batchShape.length)
      const pieces = parts.map((part) => narrow(part, { axis, start: 0, length: draw(td.batchShape[axis]! + 1) }))
      const [a, b, c] = pieces as [TensorDict, TensorDict, TensorDict] // `alike` gives three
      same(concat([concat([a, b], given), c], given), concat([a, concat([b, c], given)], given))
      same(concat([a, b, c], given), concat([a, concat([b, c], given)], given))
      identical(concat([a], given), a, 'one part')
      const none = narrow(td, { axis: given, start: 0, length: 0 })
      same(concat([none, td], given), td)
      same(concat([td, none], given), td)
    }),
    law(50, 'functions of each leaf commute with stacking, joining and splitting', (td, draw) => {
      const parts = alike(td, draw)
      const { given } = drawAxis(draw, td.batchShape.length)
      same(negated(stack(parts, given)), stack(parts.map(negated), given))
      same(negated(concat(parts, given)), concat(parts.map(negated), given))
      sameAll(splitInto(td, 2, { axis: given }).map(negated), splitInto(negated(td), 2, { axis: given }))
      sameAll(unbind(td, given).map(negated), unbind(negated(td), given))
    }),
    law(
      64,
      'where chooses: between equals nothing, with the opposite condition the other; it commutes with indexing',
      (td, draw) => {
        // `alike` gives three. onnxruntime's Where makes 0 of -0, so -0 is left out.
        const [a, b] = alike(unsigned(td), draw) as [TensorDict, TensorDict]
        const flags = drawMask(draw, rowsOf(td))
        const chosen = where(flags, a, b)
        same(where(flags, a, a), a)
        same(
          where(
            flags.map((flag) => !flag),
            b,
            a,
          ),
          chosen,
        )
        for (const i of upTo(rowsOf(td))) same(index(chosen, i), index(flags[i] ? a : b, i))
      },
    ),
  ]
}

const splitLaws = (samples: fc.Arbitrary<TensorDictRecipe>, options: TensorDictLawOptions): readonly NumberedLaw[] => {
  const law = statesLaws(samples, options)
  return [
    law(
      48,
      'sizes must sum up; all but the last piece have the size asked for; exactly as many pieces as asked for',
      (td, draw) => {
        const { given, axis } = drawAxis(draw, td.batchShape.length)
        const size = td.batchShape[axis]!
        for (const wrong of [[size + 1], [-1, size + 1], [size, 0.5], size === 0 ? [1] : []]) {
          refused(() => splitSizes(td, wrong, given), `sizes ${wrong}`)
        }
        const every = splitEvery(td, 2, given).map((part) => part.batchShape[axis]!)
        require(every.slice(0, -1).every((n) => n === 2) && every.reduce((a, b) => a + b, 0) === size, () => `${every}`)
        const count = 1 + draw(4)
        const sizes = splitInto(td, count, { axis: given }).map((part) => part.batchShape[axis]!)
        require(sizes.length === count && Math.max(...sizes) - Math.min(...sizes) <= 1, () => `${sizes}`)
        const even = (): unknown => splitInto(td, count, { axis: given, uneven: 'refused' })
        if (size % count === 0) even()
        else refused(even, 'an uneven split')
        for (const none of [0, -1, 1.5]) {
          refused(() => splitEvery(td, none), `pieces of ${none}`)
          refused(() => splitInto(td, none), `${none} pieces`)
        }
        sameAll(splitEach(td), splitEvery(td, 1))
      },
    ),
    law(51, 'equals stacked are one expanded; repeated elements are where they should be', (td, draw) => {
      const count = 1 + draw(3)
      same(stack(upTo(count).map(() => td)), expand(unsqueeze(td, 0), [count, ...td.batchShape]))
      const { given, axis } = drawAxis(draw, td.batchShape.length)
      const size = td.batchShape[axis]!
      const [inner, outer] = [unbind(repeatInterleave(td, count, given), axis), unbind(repeat(td, count, given), axis)]
      const parts = unbind(td, axis)
      sameAll(
        inner,
        upTo(size * count).map((i) => parts[Math.floor(i / count)]!),
      )
      sameAll(
        outer,
        upTo(size * count).map((i) => parts[i % size]!),
      )
    }),
  ]
}

type Problem = { readonly path: readonly string[] }

const placesOf = (error: { readonly details: { readonly problems?: readonly Problem[] } }): string =>
  (error.details.problems ?? [])
    .map(({ path }) => JSON.stringify(path))
    .sort()
    .join()

/**
 * One difference, and the same with another one beside it: refused in every order, with all of them
 * named, and no other.
 */
const refusesTheDifference = (join: (parts: readonly TensorDict[]) => TensorDict, miss: NearMiss): void => {
  const { path, difference } = miss
  const [a, b] = [miss.left.build(), miss.right.build()]
  const more = set(b, FRESH, meta(1)) as TensorDict
  const count = difference === 'key' ? 2 : 1
  for (const [parts, problems] of [
    [[a, b], count],
    [[a, more], count + 1],
    [[a, a, b], count],
  ] as const) {
    const orders = [parts, parts.toReversed(), [...parts.slice(1), parts[0]]]
    const found = orders.map((order) => placesOf(refused(() => join(order), `${difference} by ${join.name}`)))
    require(new Set(found).size === 1, () => `the order of the list counts: ${found.join(' | ')}`)
    require(found[0]!.includes(JSON.stringify(path)), () => `the error does not name ${path.join(' > ')}: ${found[0]}`)
    const named = refused(() => join(parts), difference).details.problems?.length
    require(named === problems, () => `${named} differences are named, there are ${problems}`)
  }
}

/** Law 49 is about TensorDicts that nearly go together, which are drawn on their own. */
const nearMissLaws = (
  samples: fc.Arbitrary<TensorDictRecipe>,
  options: TensorDictLawOptions,
): readonly NumberedLaw[] => {
  const shapes = fc.array(fc.integer({ min: 0, max: 2 }), { minLength: 1, maxLength: 2 })
  return [
    lawOf([49, 'parts that differ are refused, in any order, with every difference'], nearMiss(shapes), {
      ...options,
      check: (miss) => {
        for (const join of [stack, concat]) refusesTheDifference(join, miss)
      },
    }),
    statesLaws(samples, options)(
      49,
      'parts of other batch shapes, no parts, and axes that are not there are refused, whatever the leaves are',
      (td, draw) => {
        const rank = td.batchShape.length
        const { axis } = drawAxis(draw, rank)
        for (const each of [td, TensorDict({}, td.batchShape)]) {
          const longer = concat([each, each], axis)
          const higher = unsqueeze(each, 0)
          for (const join of [stack, concat]) {
            const others = join === stack ? [longer, higher] : [higher]
            for (const other of others.filter(({ batchShape }) => batchShape.join() !== each.batchShape.join())) {
              refused(() => join([each, other]), 'another batch shape')
              refused(() => join([other, each]), 'another batch shape, in the other order')
            }
            refused(() => join([]), 'nothing to join')
          }
          for (const across of upTo(rank).filter((other) => other !== axis && td.batchShape[axis] !== 0)) {
            refused(() => concat([each, longer], across), 'another size on another axis')
            refused(() => concat([longer, each], across), 'another size on another axis, in the other order')
          }
          for (const wrong of [rank + 1, -rank - 2, 0.5]) refused(() => stack([each, each], wrong), `at ${wrong}`)
          for (const wrong of [rank, -rank - 1, Number.NaN])
            refused(() => concat([each, each], wrong), `along ${wrong}`)
        }
      },
    ),
  ]
}

/** Laws 45 to 51 and 64 for the TensorDicts of `samples`. */
export const joiningLaws = (
  samples: fc.Arbitrary<TensorDictRecipe>,
  options: TensorDictLawOptions,
): readonly NumberedLaw[] => [
  ...stackLaws(samples, options),
  ...splitLaws(samples, options),
  ...nearMissLaws(samples, options),
]
