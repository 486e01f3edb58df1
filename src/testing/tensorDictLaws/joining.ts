/** Laws 45 to 51 and 64: several TensorDicts as one, and one as several. */
import fc from 'fast-check'
import { index } from '../../data/tensorDict/indexing.js'
import { concat, stack, where } from '../../data/tensorDict/joining.js'
import { flip, narrow, repeat, repeatInterleave, take } from '../../data/tensorDict/selecting.js'
import { expand, unsqueeze } from '../../data/tensorDict/shape.js'
import { splitEach, splitEvery, splitInto, splitSizes, unbind } from '../../data/tensorDict/splitting.js'
import { TensorDict } from '../../data/tensorDict/tensorDict.js'
import { scope } from '../../engine/scope.js'
import { nearMiss, type TensorDictRecipe } from '../arbitraries.js'
import { type NumberedLaw, numbered, require } from '../law.js'
import {
  type BatchLawOptions,
  type Draw,
  drawAxis,
  drawMask,
  drawOrder,
  negated,
  refused,
  rowsOf,
  same,
  sameAll,
  statesLaws,
  upTo,
} from './batchLaw.js'

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

const stackLaws = (samples: fc.Arbitrary<TensorDictRecipe>, options?: BatchLawOptions): readonly NumberedLaw[] => {
  const law = statesLaws(samples, options)
  return [
    law(45, 'unbinding a stack gives its parts, stacking them gives the stack', (td, draw) => {
      const parts = alike(td, draw)
      const { given, axis } = drawAxis(draw, td.batchShape.length + 1)
      const whole = stack(parts, given)
      sameAll(unbind(whole, given), parts)
      same(stack(unbind(whole, given), axis), whole)
      same(index(stack(parts), 1), parts[1]!)
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
      const [a, b, c] = parts as [TensorDict, TensorDict, TensorDict] // `alike` gives three
      const place = drawAxis(draw, td.batchShape.length + 1).given
      same(
        stack(parts, place),
        concat(
          parts.map((part) => unsqueeze(part, place)),
          place,
        ),
      )
      const { given } = drawAxis(draw, td.batchShape.length)
      same(concat([concat([a, b], given), c], given), concat([a, concat([b, c], given)], given))
      same(concat([a], given), a)
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
        const [a, b] = alike(td, draw) as [TensorDict, TensorDict] // `alike` gives three
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

const splitLaws = (samples: fc.Arbitrary<TensorDictRecipe>, options?: BatchLawOptions): readonly NumberedLaw[] => {
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

const problemsOf = (error: { readonly details: { readonly problems?: readonly unknown[] } }): number =>
  error.details.problems?.length ?? 0

/** Law 49 is about TensorDicts that nearly go together, which are drawn on their own. */
const nearMissLaw = ({ numRuns = 20 }: BatchLawOptions = {}): NumberedLaw =>
  numbered(49, 'parts that differ in one thing are refused, in any order, with every difference', () => {
    const shapes = fc.array(fc.integer({ min: 0, max: 2 }), { minLength: 1, maxLength: 2 })
    const law = fc.property(nearMiss(shapes), ({ left, right, path, difference }) => {
      scope(() => {
        const [a, b] = [left.build(), right.build()]
        const scalar = TensorDict({}, [])
        for (const join of [stack, concat]) {
          for (const parts of [
            [a, b],
            [b, a],
            [a, a, b],
            [b, a, a],
          ]) {
            const error = refused(() => join(parts), `${difference} by ${join.name}`)
            const named = error.details.problems?.some((problem) => problem.path.join() === path.join())
            require(named === true, () => `the error does not name ${path.join(' > ')}: ${error.message}`)
            require(problemsOf(error) === (difference === 'key' ? 2 : 1), () =>
              `not every difference: ${error.message}`)
          }
          refused(() => join([a, scalar]), 'a part of another rank')
          refused(() => join([]), 'nothing to join')
        }
        const rank = a.batchShape.length
        const keyless = (shape: readonly number[]): TensorDict => TensorDict({}, shape)
        refused(() => stack([keyless([2, 3]), keyless([2, 4])]), 'keyless parts of other shapes')
        refused(() => concat([keyless([2, 3]), keyless([2, 4])]), 'keyless parts of other shapes')
        for (const axis of [rank + 1, -rank - 2, 0.5]) refused(() => stack([a, a], axis), `a stack along ${axis}`)
        for (const axis of [rank, -rank - 1, Number.NaN]) refused(() => concat([a, a], axis), `joining along ${axis}`)
        return []
      })
    })
    fc.assert(law, { numRuns })
  })

/** Laws 45 to 51 and 64 for the TensorDicts of `samples`. */
export const joiningLaws = (
  samples: fc.Arbitrary<TensorDictRecipe>,
  options?: BatchLawOptions,
): readonly NumberedLaw[] => [...stackLaws(samples, options), ...splitLaws(samples, options), nearMissLaw(options)]
