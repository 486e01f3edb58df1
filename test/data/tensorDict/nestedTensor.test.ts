import { readFileSync } from 'node:fs'
import { scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as tf from '@tensorflow/tfjs-core'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { toNested } from '../../../src/data/tensorDict/inspect.js'
import { data, meta, ragged } from '../../../src/data/tensorDict/leaf.js'
import { asNestedTensor, asPaddedTensor } from '../../../src/data/tensorDict/nestedTensor.js'
import { padSequence } from '../../../src/data/tensorDict/padding.js'
import { find, TensorDict } from '../../../src/data/tensorDict/tensorDict.js'
import { useEngine } from '../../kit/engine.js'

useEngine()

type Row = readonly number[]

/** Runs in a scope that keeps nothing. */
const inScope = (f: () => void): void => {
  scope(() => {
    f()
    return []
  })
}

const rows = fc.array(fc.array(fc.integer({ min: -9, max: 9 }), { maxLength: 4 }), { minLength: 1, maxLength: 4 })

/** A row in all kinds of leaves; a TensorDict without batch axes has one element. */
const partOf = (row: Row, i: number) =>
  TensorDict(
    {
      ids: tf.tensor1d([...row], 'int32'),
      inside: { weights: tf.tensor1d([...row, 0.5]) },
      text: data([`${i}`]),
      kept: ragged('bool', [row.map(() => 1)]),
      size: tf.scalar(row.length, 'int32'),
      dataset: meta('sums'),
    },
    [],
  )

const golden = JSON.parse(readFileSync('test/golden/transforms.json', 'utf8')) as {
  readonly stacked: {
    readonly lengths: Row
    readonly padded: Readonly<Record<string, readonly Row[]>>
    readonly nested: Readonly<Record<string, readonly Row[]>>
  }
}

describe('asNestedTensor', () => {
  it('keeps every row as it is, each leaf with its own lengths, and stacks what has no axis of its own', () => {
    fc.assert(
      fc.property(rows, (all) => {
        inScope(() => {
          const nested = asNestedTensor(all.map(partOf))
          expect(nested.batchShape).toEqual([all.length])
          expect(toNested(nested)).toEqual({
            ids: all,
            inside: { weights: all.map((row) => [...row, 0.5]) },
            text: all.map((_, i) => `${i}`),
            kept: all.map((row) => row.map(() => 1)),
            size: all.map((row) => row.length),
            dataset: 'sums',
          })
        })
      }),
      { numRuns: 40 },
    )
  })

  it('has a row for each element of a batch', () => {
    inScope(() => {
      const parts = [2, 3].map((width) => TensorDict({ x: tf.fill([2, width], width) }, [2]))
      const nested = asNestedTensor(parts)
      expect(nested.batchShape).toEqual([2, 2])
      expect(toNested(nested)).toEqual({
        x: [
          [2, 2],
          [2, 2],
          [3, 3, 3],
          [3, 3, 3],
        ],
      })
    })
  })

  it('tells all tensors that are no rows, and all differences, at once', () => {
    inScope(() => {
      const wide = TensorDict({ a: tf.zeros([2, 2]), b: tf.zeros([1, 1]) }, [])
      expect(() => asNestedTensor([wide])).toThrow(/"a".*\[2, 2\].*"b".*\[1, 1\]/s)
      const [one, other] = [TensorDict({ a: tf.zeros([1]) }, []), TensorDict({ b: tf.zeros([2]) }, [])]
      expect(() => asNestedTensor([one, other] as never)).toThrow(/"a".*"b"/s) // a wrong call
      expect(() => asNestedTensor([])).toThrow('no parts to join')
    })
  })
})

describe('asPaddedTensor', () => {
  it.each(['left', 'right'] as const)('fills on the %s, and its masks give the rows back', (side) => {
    const some = rows.filter((all) => all.some((row) => row.length > 0))
    fc.assert(
      fc.property(some, (all) => {
        inScope(() => {
          const { td, masks } = asPaddedTensor(all.map(partOf), { side, value: 1 })
          for (const path of [['ids'], ['inside', 'weights'], ['kept']]) {
            const [values, mask] = [find(td, path), find(masks, path)].map(
              (leaf) => (leaf as tf.Tensor).arraySync() as number[][],
            ) // padded
            const expected =
              path[0] === 'kept'
                ? all.map((row) => row.map(() => 1))
                : path[0] === 'ids'
                  ? all
                  : all.map((row) => [...row, 0.5])
            expect(values!.map((row, i) => row.filter((_, t) => mask![i]![t] === 1))).toEqual(expected)
            const outside = mask!.map((row) => row.lastIndexOf(0) < row.indexOf(1) || row.indexOf(1) < 0)
            if (side === 'left') expect(outside.every(Boolean)).toBe(true)
            expect(values!.flatMap((row, i) => row.filter((_, t) => mask![i]![t] === 0)).every((x) => x === 1)).toBe(
              true,
            )
          }
        })
      }),
      { numRuns: 40 },
    )
  })

  it('both are what TorchRL makes of rows', () => {
    const { lengths, padded, nested } = golden.stacked
    inScope(() => {
      const parts = lengths.map((n) =>
        TensorDict(
          {
            ids: tf.tensor1d(
              Array.from({ length: n }, (_, i) => i + 1),
              'int32',
            ),
            weight: tf.fill([n], 0.5 * n),
          },
          [],
        ),
      )
      expect(toNested(asPaddedTensor(parts).td)).toEqual(padded)
      expect(toNested(asNestedTensor(parts))).toEqual(nested)
    })
  })

  it('is padSequence where time is an axis of the batch', () => {
    inScope(() => {
      const sequences = [2, 3].map((n) => tf.fill([n], n))
      const [flat, timed] = [
        sequences.map((x) => TensorDict({ x }, [])),
        sequences.map((x) => TensorDict({ x }, [x.size])),
      ]
      const [one, other] = [asPaddedTensor(flat), padSequence(timed, { side: 'left' })]
      expect(toNested(one.td)).toEqual(toNested(other.td))
      expect((find(one.masks, ['x']) as tf.Tensor).arraySync()).toEqual(other.mask.arraySync()) // a mask
    })
  })

  it('has rows without width where all are empty', () => {
    inScope(() => {
      const { td, masks } = asPaddedTensor([partOf([], 0), partOf([], 1)])
      expect([find(td, ['ids']), find(masks, ['ids'])].map((leaf) => (leaf as tf.Tensor).shape)).toEqual([
        [2, 0],
        [2, 0],
      ]) // padded
    })
  })

  it('refuses a filler that some rows cannot hold, naming all of them', () => {
    inScope(() => {
      expect(() => asPaddedTensor([partOf([1], 0)], { value: 0.5 })).toThrow(
        /"ids".*not a value of int32.*"kept".*not a value of bool/s,
      )
    })
  })
})
