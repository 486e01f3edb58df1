/**
 * One decoding step's attention, against attention over a cache with the new position at its end.
 */
import * as tf from '@tensorflow/tfjs-core'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { take, useEngine } from '../../../../test/kit/engine.js'
import { floatsIn, type HostTensor, hostTensor, toTensor } from '../../../../test/kit/hostTensor.js'
import { MASKED } from '../../src/ops/attention.js'
import { cachedAttention } from '../../src/ops/cachedAttention.js'
import { type DecodeLane, decodeAttention } from '../../src/ops/decodeAttention.js'
import { scope } from '../../src/scope.js'

useEngine()

const small = fc.integer({ min: 1, max: 4 })
const values = floatsIn(-3, 3)

/** Makes position 0 of every row and head zero. */
const withFreePlace = (x: HostTensor): HostTensor => {
  const [, , , c, h] = x.shape as [number, number, number, number, number]
  return { ...x, data: x.data.map((n, i) => (Math.floor(i / h) % c === 0 ? 0 : n)) }
}

interface LaneCase {
  readonly keys: HostTensor
  readonly values: HostTensor
  /** For each position whether it is visible; position 0 is the new one's. */
  readonly visible: readonly boolean[]
}

interface Case {
  readonly queries: HostTensor
  readonly keys: HostTensor
  readonly values: HostTensor
  readonly lanes: readonly LaneCase[]
  readonly softCap: number | null
}

const laneCase = (rows: number, { k, h }: { readonly k: number; readonly h: number }): fc.Arbitrary<LaneCase> =>
  small.chain((c) =>
    fc.record({
      keys: hostTensor(values, [rows, k, 1, c, h]).map(withFreePlace),
      values: hostTensor(values, [rows, k, 1, c, h]).map(withFreePlace),
      visible: fc
        .array(fc.boolean(), { minLength: c, maxLength: c })
        .map((line) => line.map((isSeen, i) => i === 0 || isSeen)),
    }),
  )

const steps: fc.Arbitrary<Case> = fc
  .record({ k: small, r: small, h: small, rows: fc.array(small, { minLength: 1, maxLength: 3 }) })
  .chain(({ k, r, h, rows }) => {
    const n = rows.reduce((sum, count) => sum + count, 0)
    return fc.record({
      queries: hostTensor(values, [n, k, r, 1, h]),
      keys: hostTensor(values, [n, k, 1, 1, h]),
      values: hostTensor(values, [n, k, 1, 1, h]),
      lanes: fc.tuple(...rows.map((count) => laneCase(count, { k, h }))),
      softCap: fc.constantFrom(null, 2),
    })
  })

const mask = (visible: readonly boolean[]): readonly number[] => visible.map((isSeen) => (isSeen ? 0 : MASKED))

const rowsOf = ({ keys }: LaneCase): number => keys.shape[0]!

/** Makes a lane of the rows from `start` on. */
const laneOf = (lane: LaneCase, start: number, count: number): DecodeLane => {
  const [rows, c] = [rowsOf(lane), lane.visible.length]
  return {
    ...(count > 1 && { rows: tf.range(start, start + rows, 1, 'int32') }),
    keys: toTensor(lane.keys),
    values: toTensor(lane.values),
    bias: tf.tensor(Array.from({ length: rows }, () => mask(lane.visible)).flat(), [rows, 1, 1, 1, c]),
    self: tf.tensor([1, ...Array<number>(c - 1).fill(0)], [1, 1, 1, 1, c]),
  }
}

describe('decodeAttention', () => {
  it('gives what attention over a cache with the new position at its end gives, in one lane or several', () => {
    const law = fc.property(steps, ({ softCap, ...given }) => {
      const [queries, keys, own] = [given.queries, given.keys, given.values].map(toTensor) as [
        tf.Tensor,
        tf.Tensor,
        tf.Tensor,
      ] // three
      const [, k, r, , h] = queries.shape as [number, number, number, number, number]
      const starts = given.lanes.map((_, i) => given.lanes.slice(0, i).reduce((sum, lane) => sum + rowsOf(lane), 0))
      const step = scope(() =>
        decodeAttention(
          {
            ...{ queries: tf.mul(queries, 0.5), keys, values: own },
            lanes: given.lanes.map((lane, i) => laneOf(lane, starts[i]!, given.lanes.length)),
          },
          softCap,
        ),
      )
      const long = scope(() =>
        tf.concat(
          given.lanes.map((lane, i) => {
            const [rows, c] = [rowsOf(lane), lane.visible.length]
            const part = (x: tf.Tensor, heads: number): tf.Tensor =>
              tf.reshape(tf.slice(x, starts[i]!, rows), [rows, heads, 1, h])
            // Position 0 is hidden, and the new one comes last.
            const line = [MASKED, ...mask(lane.visible).slice(1), 0]
            const past = {
              keys: tf.reshape(toTensor(lane.keys), [rows, k, c, h]),
              values: tf.reshape(toTensor(lane.values), [rows, k, c, h]),
            }
            const bias = tf.tensor(Array.from({ length: rows }, () => line).flat(), [rows, 1, 1, c + 1])
            const input = { queries: part(queries, k * r), keys: part(keys, k), values: part(own, k), bias, past }
            return cachedAttention(input, { scale: 0.5, softCap })
          }),
        ),
      )
      expect(step.shape).toEqual(queries.shape)
      const [actual, expected] = take(step, long)
      for (const [i, x] of expected!.entries()) expect(actual![i]).toBeCloseTo(x, 4)
      take(queries, keys, own)
    })
    fc.assert(law)
  })

  it('names tensors whose shapes do not fit', () => {
    const [a, b] = [tf.zeros([1, 1, 2, 1, 2]), tf.zeros([1])]
    const lane = { keys: b, values: b, bias: b, self: b }
    expect(() => decodeAttention({ queries: a, keys: a, values: a, lanes: [lane] }, null)).toThrow(
      'decodeAttention: queries, keys and values [1,1,2,1,2] [1,1,2,1,2] [1,1,2,1,2] and lane 0 with [1] [1] [1] [1] do not fit',
    )
    tf.dispose([a, b])
  })
})
