/** Laws 60 to 62: padding and its inverses. */
import type { NumberedLaw, TensorDictRecipe } from '@tandem-rl/testing'
import * as tf from '@tensorflow/tfjs-core'
import type fc from 'fast-check'
import { require } from '../../../packages/testing/src/law.js'
import { set } from '../../../src/data/tensorDict/edit.js'
import { data } from '../../../src/data/tensorDict/leaf.js'
import {
  crop,
  pad,
  padSequence,
  padToMultiple,
  unpadBatch,
  unpadSequence,
} from '../../../src/data/tensorDict/padding.js'
import { slice } from '../../../src/data/tensorDict/selecting.js'
import { batchSize, type TensorDict } from '../../../src/data/tensorDict/tensorDict.js'
import { refused, same, sameAll, statesLaws, type TensorDictLawOptions } from './checking.js'
import { type Draw, rowsOf, upTo } from './drawing.js'

const filler = { value: 1, item: null }

const drawWidths = (draw: Draw, rank: number): readonly (readonly [number, number])[] =>
  upTo(rank).map(() => [draw(3), draw(3)] as const)

/** Beginnings of a TensorDict, of several lengths. */
const beginnings = (td: TensorDict, draw: Draw): readonly TensorDict[] =>
  upTo(1 + draw(3)).map(() => slice(td, 0, draw(rowsOf(td) + 1)))

/** Laws 60 to 62 for the TensorDicts of `samples`. */
export const paddingLaws = (
  samples: fc.Arbitrary<TensorDictRecipe>,
  options: TensorDictLawOptions,
): readonly NumberedLaw[] => {
  const law = statesLaws(samples, options)
  return [
    law(60, 'cropping undoes padding; paddings add up; a value that a leaf cannot hold is refused', (td, draw) => {
      const [first, second] = [drawWidths(draw, td.batchShape.length), drawWidths(draw, td.batchShape.length)]
      same(crop(pad(td, first, filler), first), td)
      require(pad(td, []) === td && pad(td, [[0, 0]]) === td && crop(td, [[0, 0]]) === td, () => 'another object')
      const sum = first.map(([before, behind], axis) => [before + second[axis]![0], behind + second[axis]![1]] as const)
      same(pad(pad(td, first, filler), second, filler), pad(td, sum, filler))
      const int = set(td, 'int', tf.zeros([...td.batchShape], 'int32')) as TensorDict
      refused(() => pad(int, [[1, 0]], { value: 1.5, item: null }), '1.5 in int32')
      const bool = set(td, 'bool', tf.zeros([...td.batchShape], 'bool')) as TensorDict
      refused(() => pad(bool, [[1, 0]], { value: 2, item: null }), '2 in bool')
      const values = set(td, 'data', data(upTo(batchSize(td.batchShape)))) as TensorDict
      refused(() => pad(values, [[1, 0]], { value: 1 }), 'data without an item')
      refused(
        () => pad(td, [...td.batchShape.map(() => [0, 0] as const), [1, 1]], filler),
        'a width for a feature axis',
      )
      refused(() => crop(td, [[rowsOf(td) + 1, 0]]), 'more than there is')
    }),
    law(
      61,
      'sequences come back as they were padded, from both sides, also one, also of one length; the mask says what is in them',
      (td, draw) => {
        for (const [parts, side] of [beginnings(td, draw), [td], [td, td]].flatMap((each) => [
          [each, 'left'] as const,
          [each, 'right'] as const,
        ])) {
          const padded = padSequence(parts, { side, ...filler })
          sameAll(unpadSequence(padded), parts)
          const lengths = parts.map(rowsOf)
          const longest = Math.max(...lengths)
          require(padded.lengths.join() === lengths.join(), () => `lengths ${padded.lengths}`)
          const inside = lengths.flatMap((n) =>
            upTo(longest).map((t) => Number(side === 'left' ? t >= longest - n : t < n)),
          )
          require([...padded.mask.dataSync()].map(Number).join() === inside.join(), () => 'the mask is wrong')
          const shape = [parts.length, longest, ...td.batchShape.slice(1)]
          require(padded.td.batchShape.join() === shape.join(), () => `[${padded.td.batchShape}]`)
          refused(() => unpadSequence({ ...padded, lengths: lengths.map(() => longest + 1) }), 'lengths beyond the end')
        }
        refused(() => padSequence([], { side: 'left' }), 'no sequence')
      },
    ),
    law(62, 'a batch padded to a multiple comes back as it was', (td, draw) => {
      const multiple = 1 + draw(4)
      const padded = padToMultiple(td, multiple, filler)
      same(unpadBatch(padded), td)
      const added = rowsOf(padded.td) - rowsOf(td)
      require(rowsOf(padded.td) % multiple === 0 && added >= 0 && added < multiple, () => `${added} added`)
      refused(() => padToMultiple(td, 0, filler), 'a multiple of 0')
    }),
  ]
}
