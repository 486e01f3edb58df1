import { keyFromSeed, orThrow } from '@tandem-rl/base'
import { own, scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as tf from '@tensorflow/tfjs-core'
import fc from 'fast-check'
import * as E from 'fp-ts/lib/Either.js'
import { describe, expect, it } from 'vitest'
import { PrioritizedSampler } from '../../../src/data/buffers/prioritizedSampler.js'
import { maxValueWriter, ReplayBuffer, type ReplayBufferState } from '../../../src/data/buffers/replayBuffer.js'
import { decodeReplayBuffer, encodeReplayBuffer } from '../../../src/data/buffers/replayBufferFile.js'
import { RandomSampler, SamplerWithoutReplacement } from '../../../src/data/buffers/sampler.js'
import { encodeTensorDict } from '../../../src/data/codecs/tensorDictFileWrite.js'
import { toNested } from '../../../src/data/tensorDict/inspect.js'
import { data, meta, ragged } from '../../../src/data/tensorDict/leaf.js'
import { get, TensorDict } from '../../../src/data/tensorDict/tensorDict.js'
import { useEngine } from '../../kit/engine.js'

useEngine()

const key = keyFromSeed(5)

/** Rows that carry a number: as data and as ragged tokens. */
const rowsOf = (ids: readonly number[]) =>
  TensorDict(
    {
      id: data(ids),
      tokens: ragged(
        'int32',
        ids.map((id) => [id, id]),
      ),
      next: { reward: data(ids) },
    },
    [ids.length],
  )

type Row = ReturnType<typeof rowsOf> extends TensorDict<infer S> ? S : never

describe('a replay buffer', () => {
  it('law: a ring holds the last rows written, each in the slot of its turn', () => {
    const batches = fc.array(fc.array(fc.nat(99), { maxLength: 6 }), { maxLength: 8 })
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 7 }), batches, (capacity, written) => {
        const buffer = ReplayBuffer({ capacity, sampler: RandomSampler() })
        const state = written.reduce((before, ids) => buffer.extend(before, rowsOf(ids))[1], buffer.initial<Row>())
        const all = written.flat()
        const kept = all.map((id, turn) => ({ id, turn })).slice(-capacity)
        const model = [...kept].sort((a, b) => (a.turn % capacity) - (b.turn % capacity))
        expect(state.rows.map((row) => get(row, 'id').items.first())).toEqual(model.map(({ id }) => id))
        expect(state.writes).toEqual(model.map(({ turn }) => turn))
        expect(state.written).toBe(all.length)
        if (all.length === 0) return
        const [{ rows, slots }] = buffer.sample(state, { count: 9, key })
        expect(toNested(rows).id).toEqual(slots.map((slot) => model[slot]!.id))
        expect(toNested(rows).tokens).toEqual(slots.map((slot) => [model[slot]!.id, model[slot]!.id]))
      }),
    )
  })

  it('returns the slot of each row, and does not change its input', () => {
    const buffer = ReplayBuffer({ capacity: 3, sampler: SamplerWithoutReplacement() })
    const [, first] = buffer.extend(buffer.initial(), rowsOf([1, 2]))
    const before = structuredClone({ writes: first.writes, written: first.written, sampler: first.sampler })
    const [slots, second] = buffer.extend(first, rowsOf([3, 4]))
    expect(slots).toEqual([2, 0])
    expect({ writes: first.writes, written: first.written, sampler: first.sampler }).toEqual(before)
    expect(first.rows).toHaveLength(2)
    expect(second.sampler.left).toEqual([0, 1, 2])
  })

  it('keeps the rows of the highest reward with maxValueWriter, as TorchRL does', () => {
    const buffer = ReplayBuffer({ capacity: 2, sampler: RandomSampler(), writer: maxValueWriter() })
    const [slots, state] = buffer.extend(buffer.initial(), rowsOf([5, 1, 0, 7, 7, 6]))
    expect(slots).toEqual([0, 1, undefined, 1, 0, undefined])
    expect(state.rows.map((row) => toNested(row).id)).toEqual([[7], [7]])
    expect(state.written).toBe(4)
    const [none, same] = buffer.extend(state, rowsOf([3]))
    expect(none).toEqual([undefined])
    expect(same).toEqual(state)
  })

  it('gives importance weights with the rows, and follows new priorities', () => {
    const sampler = PrioritizedSampler({ alpha: 1, beta: 1 })
    const buffer = ReplayBuffer({ capacity: 4, sampler })
    const [, state] = buffer.extend(buffer.initial(), rowsOf([10, 11, 12]))
    const raised = {
      ...state,
      sampler: sampler.updatePriority(state.sampler, { slots: [0, 1, 2], priorities: [1e-9, 1, 1e-9] }),
    }
    const [{ rows, slots, weights }] = buffer.sample(raised, { count: 5, key })
    expect(slots).toEqual([1, 1, 1, 1, 1])
    expect(toNested(rows).id).toEqual([11, 11, 11, 11, 11])
    expect(weights!.every((weight) => weight > 0 && weight < 1e-7)).toBe(true)
  })

  it('keeps tensors beyond their scope when its state is owned', () => {
    const buffer = ReplayBuffer({ capacity: 2, sampler: RandomSampler() })
    using kept = own(
      scope(
        () =>
          buffer.extend(
            buffer.initial<{ readonly x: tf.Tensor2D }>(),
            TensorDict({ x: tf.tensor2d([[1], [2], [3]]) }, [3]),
          )[1],
      ),
    )
    const drawn = scope(() => {
      const [{ rows, slots }] = buffer.sample(kept.value, { count: 4, key })
      return { slots, values: get(rows, 'x').arraySync() }
    })
    expect(drawn.values).toEqual(drawn.slots.map((slot) => [slot === 0 ? 3 : 2]))
  })

  it('refuses a capacity, a batch and a sample that cannot be', () => {
    const buffer = ReplayBuffer({ capacity: 2, sampler: RandomSampler() })
    expect(() => ReplayBuffer({ capacity: 0.5, sampler: RandomSampler() })).toThrow(
      'capacity must be a natural number from 1, got 0.5',
    )
    expect(() => buffer.extend(buffer.initial(), TensorDict({ x: meta(1) }, []))).toThrow(
      'expected one batch axis, got []',
    )
    expect(() => buffer.sample(buffer.initial(), { count: 1, key })).toThrow('the buffer is empty')
    const [, state] = buffer.extend(buffer.initial(), rowsOf([1]))
    expect(() => buffer.sample(state, { count: 0, key })).toThrow('count must be a natural number from 1, got 0')
  })
})

describe('the file of a replay buffer', () => {
  const buffers = {
    random: () => ReplayBuffer<unknown>({ capacity: 5, sampler: RandomSampler() as never }), // a sampler that is asked for nothing but its own state
    passes: () => ReplayBuffer<unknown>({ capacity: 5, sampler: SamplerWithoutReplacement() as never }), // likewise
    priorities: () =>
      ReplayBuffer<unknown>({ capacity: 5, sampler: PrioritizedSampler({ alpha: 0.5, beta: 0.5 }) as never }),
  }

  it.each(Object.entries(buffers))(
    'law: a buffer that was read back gives the same samples for the same keys: %s',
    (_, make) => {
      const batches = fc.array(fc.array(fc.nat(99), { minLength: 1, maxLength: 4 }), { maxLength: 4 })
      fc.assert(
        fc.property(batches, fc.nat(), (written, seed) => {
          const buffer = make()
          const state = written.reduce((before, ids) => {
            const [, next] = buffer.extend(before, rowsOf(ids))
            return buffer.sample(next, { count: 2, key: keyFromSeed(seed) })[1]
          }, buffer.initial<Row>())
          const read = orThrow(decodeReplayBuffer(buffer, encodeReplayBuffer(buffer, state)))
          expect(read.writes).toEqual(state.writes)
          expect(read.written).toBe(state.written)
          expect(read.sampler).toEqual(state.sampler)
          if (state.rows.length === 0) return
          const sampled = (from: ReplayBufferState<unknown, unknown>) => {
            const [{ rows, ...drawn }] = buffer.sample(from, { count: 4, key: keyFromSeed(seed + 1) })
            return { ...drawn, rows: toNested(rows) }
          }
          expect(sampled(read)).toEqual(sampled(state))
        }),
        { numRuns: 40 },
      )
    },
  )

  const buffer = ReplayBuffer({ capacity: 2, sampler: SamplerWithoutReplacement() })
  const [, full] = buffer.extend(buffer.initial(), rowsOf([1, 2]))
  const about = { format: 'tandem replay buffer 1', writes: [0], written: 1, sampler: [0] }

  it.each([
    ['another format', { ...about, format: 'x' }, "expected the format 'tandem replay buffer 1', got x"],
    ['writes of other rows', { ...about, writes: [0, 1] }, 'expected 1 different numbers of writes below 1'],
    ['writes of the future', { ...about, writes: [1] }, 'expected 1 different numbers of writes below 1'],
    ['a state of another sampler', { ...about, sampler: null }, 'sampler: expected ascending slots below 1'],
    ['nothing', null, "expected the format 'tandem replay buffer 1', got undefined"],
  ])('is refused with %s', (_, changed, reason) => {
    const bytes = encodeTensorDict(TensorDict({ about: meta(changed), rows: rowsOf([1]) }, []))
    expect(decodeReplayBuffer(buffer, bytes)).toMatchObject({ left: { _tag: 'FormatFailure', reason } })
  })

  it('is refused if it has more rows than the buffer holds, and if it is damaged or cut off anywhere', () => {
    const bytes = encodeReplayBuffer(buffer, full)
    const small = ReplayBuffer({ capacity: 1, sampler: SamplerWithoutReplacement() })
    expect(decodeReplayBuffer(small, bytes)).toMatchObject({ left: { reason: '2 rows, more than the capacity of 1' } })
    fc.assert(
      fc.property(fc.nat({ max: bytes.length - 1 }), (end) => {
        expect(E.isLeft(decodeReplayBuffer(buffer, bytes.slice(0, end)))).toBe(true)
      }),
    )
  })
})
