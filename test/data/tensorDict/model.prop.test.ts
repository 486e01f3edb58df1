/**
 * Law 79: random programs of batch operations give what the same programs give on nested arrays, by
 * definition.
 */
import { anyTensorDict } from '@tandem-rl/testing'
import { liveTensors, scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as tf from '@tensorflow/tfjs-core'
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { index, mask, newAxis } from '../../../src/data/tensorDict/indexing.js'
import { concat, setAt, stack, where } from '../../../src/data/tensorDict/joining.js'
import { crop, pad, padSequence } from '../../../src/data/tensorDict/padding.js'
import { flip, narrow, repeat, repeatInterleave, roll, take } from '../../../src/data/tensorDict/selecting.js'
import { expand, flattenAxes, permute, reshape, squeeze, unsqueeze } from '../../../src/data/tensorDict/shape.js'
import { splitInto, unbind } from '../../../src/data/tensorDict/splitting.js'
import { batchSize, type TensorDict } from '../../../src/data/tensorDict/tensorDict.js'
import { useEngine } from '../../kit/engine.js'
import { type Coordinates, coordinates, modelOf, type NodeModel, rearranged } from '../../kit/nestedModel.js'

useEngine()

/** A TensorDict and what it should be. */
interface Pair {
  readonly td: TensorDict
  readonly model: NodeModel
}

/** Draws numbers below a bound, one after the other. */
type Draw = (bound: number) => number

/**
 * An operation on a batch shape of at least one axis without an axis of size 0; drawn arguments fit
 * the shape.
 */
type Operation = (pair: Pair, draw: Draw) => Pair

const filling = { value: 1, item: 'nothing' }

const upTo = (size: number): number[] => Array.from({ length: size }, (_, i) => i)

/** One part's elements in new places. */
const moved = (model: NodeModel, to: readonly number[], at: (at: Coordinates) => Coordinates): NodeModel =>
  rearranged([model], to, { source: (c) => ({ part: 0, at: at(c) }) })

const replaced = <T>(list: readonly T[], i: number, value: T): T[] => list.map((x, k) => (k === i ? value : x))

const without = <T>(list: readonly T[], i: number): T[] => list.filter((_, k) => k !== i)

const inserted = <T>(list: readonly T[], i: number, value: T): T[] => [...list.slice(0, i), value, ...list.slice(i)]

/** The axis drawn, possibly counted from the end, and its number. */
const drawAxis = (rank: number, draw: Draw): readonly [given: number, axis: number] => {
  const given = draw(2 * rank) - rank
  return [given, given < 0 ? given + rank : given]
}

const picked = (model: NodeModel, axis: number, positions: readonly number[]): NodeModel =>
  moved(model, replaced(model.batch, axis, positions.length), (c) => replaced(c, axis, positions[c[axis]!]!))

const regrouped = (model: NodeModel, to: readonly number[]): NodeModel => {
  const [old, fresh] = [coordinates(model.batch), coordinates(to)]
  const places = new Map(fresh.map((c, i) => [c.join(), old[i]!]))
  return moved(model, to, (c) => places.get(c.join())!)
}

const OPERATIONS: Readonly<Record<string, Operation>> = {
  'index by an integer': ({ td, model }, draw) => {
    const [, axis] = drawAxis(model.batch.length, draw)
    const position = draw(2 * model.batch[axis]!) - model.batch[axis]!
    const from = position < 0 ? position + model.batch[axis]! : position
    return {
      td: index(td, ...upTo(axis).map(() => ({})), position),
      model: moved(model, without(model.batch, axis), (c) => inserted(c, axis, from)),
    }
  },
  'index by a range with a step and a new axis': ({ td, model }, draw) => {
    const size = model.batch[0]!
    const [start, step] = [draw(size), draw(2) + 1]
    const positions = upTo(size).filter((i) => i >= start && (i - start) % step === 0)
    const taken = picked(model, 0, positions)
    return {
      td: index(td, { start, step }, newAxis),
      model: moved(taken, inserted(taken.batch, 1, 1), (c) => without(c, 1)),
    }
  },
  'index backwards': ({ td, model }) => ({
    td: index(td, { step: -1 }),
    model: picked(model, 0, upTo(model.batch[0]!).reverse()),
  }),
  'index by a list behind an integer': ({ td, model }, draw) => {
    const [first, last] = [model.batch[0]!, model.batch.length - 1]
    const row = draw(first)
    if (last === 0) return { td: index(td, [row, -1]), model: picked(model, 0, [row, first - 1]) }
    const list = [draw(model.batch[1]!), draw(model.batch[1]!)]
    const one = moved(model, model.batch.slice(1), (c) => [row, ...c])
    return { td: index(td, row, list), model: picked(one, 0, list) }
  },
  take: ({ td, model }, draw) => {
    const [given, axis] = drawAxis(model.batch.length, draw)
    const positions = upTo(draw(4)).map(() => draw(model.batch[axis]!))
    return { td: take(td, positions, given), model: picked(model, axis, positions) }
  },
  mask: ({ td, model }, draw) => {
    const axes = model.batch.slice(0, draw(model.batch.length) + 1)
    const bits = coordinates(axes).map(() => draw(2))
    const kept = coordinates(axes).filter((_, i) => bits[i] === 1)
    return {
      td: mask(td, tf.tensor(bits, axes, 'bool')),
      model: moved(model, [kept.length, ...model.batch.slice(axes.length)], ([i, ...rest]) => [...kept[i!]!, ...rest]),
    }
  },
  flip: ({ td, model }, draw) => {
    const [given, axis] = drawAxis(model.batch.length, draw)
    return { td: flip(td, given), model: picked(model, axis, upTo(model.batch[axis]!).reverse()) }
  },
  roll: ({ td, model }, draw) => {
    const [given, axis] = drawAxis(model.batch.length, draw)
    const [size, shift] = [model.batch[axis]!, draw(5)]
    const positions = upTo(size).map((i) => (i + shift) % size)
    return { td: roll(td, -shift, given), model: picked(model, axis, positions) }
  },
  narrow: ({ td, model }, draw) => {
    const [given, axis] = drawAxis(model.batch.length, draw)
    const start = draw(model.batch[axis]!)
    const length = draw(model.batch[axis]! - start + 1)
    const positions = upTo(length).map((i) => i + start)
    return { td: narrow(td, { axis: given, start, length }), model: picked(model, axis, positions) }
  },
  repeat: ({ td, model }, draw) => {
    const [given, axis] = drawAxis(model.batch.length, draw)
    const positions = [...upTo(model.batch[axis]!), ...upTo(model.batch[axis]!)]
    return { td: repeat(td, 2, given), model: picked(model, axis, positions) }
  },
  repeatInterleave: ({ td, model }, draw) => {
    const [given, axis] = drawAxis(model.batch.length, draw)
    const positions = upTo(model.batch[axis]!).flatMap((i) => [i, i])
    return { td: repeatInterleave(td, 2, given), model: picked(model, axis, positions) }
  },
  stack: ({ td, model }, draw) => {
    const [given, axis] = drawAxis(model.batch.length + 1, draw)
    const other = picked(model, 0, upTo(model.batch[0]!).reverse())
    return {
      td: stack([td, flip(td)], given),
      model: rearranged([model, other], inserted(model.batch, axis, 2), {
        source: (c) => ({ part: c[axis]!, at: without(c, axis) }),
      }),
    }
  },
  concat: ({ td, model }, draw) => {
    const [given, axis] = drawAxis(model.batch.length, draw)
    const size = model.batch[axis]!
    const keep = draw(size + 1)
    return {
      td: concat([narrow(td, { axis: given, start: 0, length: keep }), td], given),
      model: rearranged([picked(model, axis, upTo(keep)), model], replaced(model.batch, axis, keep + size), {
        source: (c) => (c[axis]! < keep ? { part: 0, at: c } : { part: 1, at: replaced(c, axis, c[axis]! - keep) }),
      }),
    }
  },
  'split and join': ({ td, model }, draw) => {
    const [given, axis] = drawAxis(model.batch.length, draw)
    const parts = splitInto(td, 2, { axis: given })
    const first = Math.ceil(model.batch[axis]! / 2)
    const positions = [...upTo(model.batch[axis]!).slice(first), ...upTo(first)]
    return { td: concat([parts[1]!, parts[0]!], given), model: picked(model, axis, positions) }
  },
  unbind: ({ td, model }, draw) => {
    const [given, axis] = drawAxis(model.batch.length, draw)
    const i = draw(model.batch[axis]!)
    const part = unbind(td, given)[i]!
    return { td: part, model: moved(model, without(model.batch, axis), (c) => inserted(c, axis, i)) }
  },
  where: ({ td, model }, draw) => {
    const axes = model.batch.slice(0, draw(model.batch.length) + 1)
    const bits = new Map(coordinates(axes).map((c) => [c.join(), draw(2)]))
    const other = picked(model, 0, upTo(model.batch[0]!).reverse())
    return {
      td: where(tf.tensor([...bits.values()], axes, 'bool'), td, flip(td)),
      model: rearranged([model, other], model.batch, {
        source: (c) => ({ part: bits.get(c.slice(0, axes.length).join()) === 1 ? 0 : 1, at: c }),
      }),
    }
  },
  setAt: ({ td, model }, draw) => {
    const [to, from] = [draw(model.batch[0]!), draw(model.batch[0]!)]
    return {
      td: setAt(td, [to], index(td, from)),
      model: moved(model, model.batch, ([i, ...rest]) => [i === to ? from : i!, ...rest]),
    }
  },
  reshape: ({ td, model }, draw) => {
    const sizes = [...model.batch].sort(() => draw(2) - 0.5)
    return { td: reshape(td, [...sizes.slice(0, -1), -1]), model: regrouped(model, sizes) }
  },
  flattenAxes: ({ td, model }, draw) => {
    const first = draw(model.batch.length)
    const to = [...model.batch.slice(0, first), batchSize(model.batch.slice(first))]
    return { td: flattenAxes(td, first), model: regrouped(model, to) }
  },
  permute: ({ td, model }, draw) => {
    const axes = upTo(model.batch.length)
    for (const i of axes) {
      const j = draw(axes.length)
      const kept = axes[i]!
      axes[i] = axes[j]!
      axes[j] = kept
    }
    return {
      td: permute(td, axes),
      model: moved(
        model,
        axes.map((axis) => model.batch[axis]!),
        (c) => upTo(axes.length).map((axis) => c[axes.indexOf(axis)]!),
      ),
    }
  },
  'squeeze and unsqueeze': ({ td, model }, draw) => {
    const ones = model.batch.filter((size) => size !== 1)
    const [given, axis] = drawAxis(ones.length + 1, draw)
    return { td: unsqueeze(squeeze(td), given), model: regrouped(model, inserted(ones, axis, 1)) }
  },
  expand: ({ td, model }, draw) => {
    const sizes = model.batch.map((size) => (size === 1 ? 1 + draw(3) : size))
    return {
      td: expand(td, [2, ...sizes]),
      model: moved(model, [2, ...sizes], ([, ...c]) => c.map((i, axis) => (model.batch[axis] === 1 ? 0 : i))),
    }
  },
  'pad and crop': ({ td, model }, draw) => {
    const widths = model.batch.map((): [number, number] => [draw(2), draw(2)])
    const padded = pad(td, widths, filling)
    const to = model.batch.map((size, axis) => size + widths[axis]![0] + widths[axis]![1])
    const larger = rearranged([model], to, {
      source: (c) => {
        const at = c.map((i, axis) => i - widths[axis]![0])
        return at.every((i, axis) => i >= 0 && i < model.batch[axis]!) ? { part: 0, at } : undefined
      },
      filling,
    })
    const cut = draw(2)
    return {
      td: crop(padded, [[cut, 0]]),
      model: moved(larger, [to[0]! - Math.min(cut, to[0]!), ...to.slice(1)], ([i, ...c]) => [i! + cut, ...c]),
    }
  },
  padSequence: ({ td, model }, draw) => {
    const size = model.batch[0]!
    const [keep, side] = [draw(size + 1), draw(2) === 0 ? ('left' as const) : ('right' as const)]
    const shift = side === 'left' ? size - keep : 0
    return {
      td: padSequence([narrow(td, { start: 0, length: keep }), td], { side, ...filling }).td,
      model: rearranged([model, model], [2, ...model.batch], {
        source: ([part, t, ...c]) => {
          if (part === 1) return { part, at: [t!, ...c] }
          return t! >= shift && t! < shift + keep ? { part: 0, at: [t! - shift, ...c] } : undefined
        },
        filling,
      }),
    }
  },
}

const NAMES = Object.keys(OPERATIONS)

/**
 * Programs as lists of drawn numbers: the first of each step says which operation, the others are
 * its arguments.
 */
const programs = fc.array(fc.tuple(fc.nat(NAMES.length - 1), fc.array(fc.nat(999), { minLength: 6, maxLength: 6 })), {
  minLength: 1,
  maxLength: 5,
})

const shapes = fc.array(fc.integer({ min: 1, max: 3 }), { minLength: 1, maxLength: 3 })

const LARGEST = 48

/**
 * Runs one step, or none where the batch has become too large, or has an axis of size 0 or no axis.
 */
const run = (pair: Pair, name: string, numbers: readonly number[]): Pair => {
  const { batch } = pair.model
  if (batch.length === 0 || batch.length > 4 || batch.includes(0) || batchSize(batch) > LARGEST) return pair
  let used = 0
  return OPERATIONS[name]!(pair, (bound) => numbers[used++ % numbers.length]! % bound)
}

it('random programs of batch operations give what they give on nested arrays; no tensor is left, no input changes', () => {
  const law = fc.property(anyTensorDict(shapes), programs, (recipe, program) => {
    const before = liveTensors().count
    scope(() => {
      const td = recipe.build()
      const model = modelOf(td)
      let pair: Pair = { td, model }
      for (const [which, numbers] of program) {
        const input = pair
        pair = run(input, NAMES[which]!, numbers)
        expect(modelOf(pair.td), NAMES[which]).toEqual(pair.model)
        expect(modelOf(input.td), `the input of ${NAMES[which]}`).toEqual(input.model)
      }
      expect(modelOf(td)).toEqual(model)
      return []
    })
    expect(liveTensors().count).toBe(before)
  })
  fc.assert(law, { numRuns: 150 })
})

it.each(NAMES)('%s gives what it gives on nested arrays', (name) => {
  const law = fc.property(
    anyTensorDict(shapes),
    fc.array(fc.nat(999), { minLength: 6, maxLength: 6 }),
    (recipe, numbers) => {
      scope(() => {
        const td = recipe.build()
        const { td: actual, model } = run({ td, model: modelOf(td) }, name, numbers)
        expect(modelOf(actual)).toEqual(model)
        return []
      })
    },
  )
  fc.assert(law, { numRuns: 30 })
})
