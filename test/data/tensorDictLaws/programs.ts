/**
 * Laws 1, 67, 69, 72, 78 and 79: what holds for every batch operation, and for programs of them.
 */
import type { NumberedLaw, TensorDictRecipe } from '@tandem-rl/testing'
import { liveTensors, own, scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as tf from '@tensorflow/tfjs-core'
import fc from 'fast-check'
import { require } from '../../../packages/testing/src/law.js'
import { index, mask } from '../../../src/data/tensorDict/indexing.js'
import { toNested } from '../../../src/data/tensorDict/inspect.js'
import { concat, setAt, stack, where } from '../../../src/data/tensorDict/joining.js'
import { mapLeaves } from '../../../src/data/tensorDict/leaves.js'
import {
  crop,
  pad,
  padSequence,
  padToMultiple,
  unpadBatch,
  unpadSequence,
} from '../../../src/data/tensorDict/padding.js'
import { flip, narrow, repeat, repeatInterleave, roll, slice, take } from '../../../src/data/tensorDict/selecting.js'
import {
  expand,
  flattenAxes,
  permute,
  reshape,
  squeeze,
  unflattenAxis,
  unsqueeze,
} from '../../../src/data/tensorDict/shape.js'
import { splitEvery, splitInto, splitSizes, unbind } from '../../../src/data/tensorDict/splitting.js'
import type { TensorDict } from '../../../src/data/tensorDict/tensorDict.js'
import { refused, same, statesLaws, type TensorDictLawOptions, wellFormed } from './checking.js'
import { type Draw, drawMask, rowsOf, upTo } from './drawing.js'

const filler = { value: 0, item: null }

/** Every batch operation, with arguments that fit any TensorDict of at least one batch axis. */
const OPERATIONS: Readonly<Record<string, (td: TensorDict, draw: Draw) => TensorDict>> = {
  index: (td) => index(td, { step: -1 }),
  take: (td) => take(td, upTo(rowsOf(td)).toReversed()),
  mask: (td, draw) => mask(td, drawMask(draw, rowsOf(td))),
  narrow: (td, draw) => narrow(td, { axis: -1, start: 0, length: draw(td.batchShape.at(-1)! + 1) }),
  flip: (td) => flip(td, -1),
  roll: (td, draw) => roll(td, draw(5), -1),
  repeat: (td) => slice(repeat(td, 2), 0, rowsOf(td) + Math.min(1, rowsOf(td))),
  repeatInterleave: (td) => slice(repeatInterleave(td, 2), 0, rowsOf(td)),
  stack: (td, draw) => index(stack([td, flip(td)], -1), ...td.batchShape.map(() => ({})), draw(2)),
  concat: (td) => concat([td, slice(td, 0, Math.min(1, rowsOf(td)))]),
  unbind: (td) => (rowsOf(td) > 1 ? stack(unbind(td)) : td),
  splitting: (td) => concat([...splitInto(td, 2), ...splitEvery(td, 2), ...splitSizes(td, [rowsOf(td)])].slice(1)),
  where: (td, draw) => where(drawMask(draw, rowsOf(td)), td, flip(td)),
  setAt: (td, draw) => (rowsOf(td) > 0 ? setAt(td, [0], index(td, draw(rowsOf(td)))) : td),
  reshape: (td) => reshape(td, td.batchShape.toReversed()),
  flattenAxes: (td) => flattenAxes(td),
  unflattenAxis: (td) => squeeze(unflattenAxis(td, 0, [rowsOf(td), 1]), 1),
  permute: (td) => permute(td, upTo(td.batchShape.length).toReversed()),
  unsqueeze: (td) => flattenAxes(unsqueeze(td, -1), -2, -1),
  expand: (td) => index(expand(td, [2, ...td.batchShape]), 1),
  pad: (td, draw) => pad(td, [[draw(2), draw(2)]], filler),
  crop: (td, draw) => crop(pad(td, [[2, 1]], filler), [[draw(2), draw(2)]]),
  padSequence: (td) => unpadSequence(padSequence([td, slice(td, 0, 0)], { side: 'left', ...filler }))[0]!,
  padToMultiple: (td) => unpadBatch(padToMultiple(td, 3, filler)),
}

const NAMES = Object.keys(OPERATIONS)

/**
 * Calls that are refused for every TensorDict of at least one batch axis: what is made before the
 * call is an argument of it.
 */
const REFUSED: Readonly<Record<string, (td: TensorDict) => () => unknown>> = {
  index: (td) => () => index(td, rowsOf(td), {}, 0.5),
  take: (td) => () => take(td, [0, rowsOf(td)]),
  mask: (td) => () => mask(td, tooMany(td)),
  narrow: (td) => () => narrow(td, { start: 0, length: rowsOf(td) + 1 }),
  flip: (td) => () => flip(td, [0, 0]),
  roll: (td) => () => roll(td, 0.5),
  stack: (td) => {
    const other = unsqueeze(td, 0)
    return () => stack([td, other])
  },
  concat: (td) => {
    const other = unsqueeze(td, 0)
    return () => concat([td, other])
  },
  unbind: (td) => () => unbind(td, td.batchShape.length),
  where: (td) => () => where(tooMany(td), td, td),
  setAt: (td) => () => setAt(td, [rowsOf(td)], td),
  reshape: (td) => () => reshape(td, [...td.batchShape, 2, -3]),
  permute: (td) => () => permute(td, [0, 0]),
  squeeze: (td) => () => squeeze(td, td.batchShape.length),
  expand: (td) => () => expand(td, []),
  pad: (td) => () => pad(td, [[0, -1]], filler),
  padSequence: (td) => {
    const other = unsqueeze(td, 0)
    return () => padSequence([td, other], { side: 'left', ...filler })
  },
}

const tooMany = (td: TensorDict): readonly boolean[] => upTo(rowsOf(td) + 1).map(() => true)

/** Laws 1, 67, 69, 72, 78 and 79 for batch operations on the TensorDicts of `samples`. */
export const programLaws = (
  samples: fc.Arbitrary<TensorDictRecipe>,
  options: TensorDictLawOptions,
): readonly NumberedLaw[] => {
  const law = statesLaws(samples, options)
  return [
    law(1, 'every result of every batch operation fits, at every node', (td, draw) => {
      for (const operation of Object.values(OPERATIONS)) wellFormed(operation(td, draw))
    }),
    law(67, 'equal TensorDicts have equal results', (td, draw) => {
      const copy = mapLeaves(td, (leaf) => (leaf instanceof tf.Tensor ? tf.clone(leaf) : { ...leaf }))
      const numbers = upTo(8).map(() => draw(97))
      for (const [name, operation] of Object.entries(OPERATIONS)) {
        const sides = [td, copy].map((side) => {
          let used = 0
          return operation(side, (bound) => (bound === 0 ? 0 : numbers[used++ % 8]! % bound))
        })
        same(sides[0]!, sides[1]!, name)
      }
      same(stack([td, copy]), stack([td, td]))
    }),
    law(69, 'no operation changes its inputs, whether it succeeds or is refused', (td, draw) => {
      const before = JSON.stringify(toNested(td))
      for (const operation of Object.values(OPERATIONS)) operation(td, draw)
      for (const [name, prepare] of Object.entries(REFUSED)) refused(prepare(td), name)
      require(JSON.stringify(toNested(td)) === before, () => 'an input has changed')
    }),
    law(72, 'regrouping axes shares the buffers of tensors', (td) => {
      const before = tf.memory().numDataBuffers
      unsqueeze(td, 0)
      squeeze(unsqueeze(td, -1), -1)
      flattenAxes(td)
      unflattenAxis(td, 0, [rowsOf(td), 1])
      reshape(td, [...td.batchShape, 1])
      const made = tf.memory().numDataBuffers - before
      require(made === 0, () => `${made} buffers were made`)
    }),
    law(78, 'a refused call leaves no tensor', (td) => {
      for (const [name, prepare] of Object.entries(REFUSED)) refused(prepare(td), name)
    }),
    law(
      79,
      'a program of operations in a scope that returns nothing leaves no tensor, and frees none from outside',
      (td, draw) => {
        fc.pre(rowsOf(td) > 0)
        const held = own(td)
        const before = liveTensors().count
        scope(() => {
          upTo(6).reduce((state: TensorDict) => {
            const next = OPERATIONS[NAMES[draw(NAMES.length)]!]!(state, draw)
            return next.batchShape.length === 0 ? unsqueeze(next, 0) : next
          }, td)
          return []
        })
        const after = liveTensors().count
        held.release()
        require(after === before, () => `${after - before} tensors are alive after the program`)
      },
    ),
  ]
}
