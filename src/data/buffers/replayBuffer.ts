/**
 * Replay buffers, which keep rows for several updates: a writer puts them into slots, a sampler
 * draws from them.
 */
import { checkOptions } from '@tandem-rl/base'
import { REPLAY_BUFFER_OPTIONS } from '../optionKinds.js'
import { concat } from '../tensorDict/joining.js'
import { splitEach } from '../tensorDict/splitting.js'
import { type TensorDict, TensorDictError } from '../tensorDict/tensorDict.js'
import { groupReward } from './promptGroupSampler.js'
import type { Drawn, DrawRequest, Sampler, StoredRows } from './sampler.js'

/** Chooses the slot of a row, or drops the row. The rows so far fill slots 0 .. n - 1. */
export type Writer = (stored: StoredRows, row: TensorDict, place: WritePlace) => number | undefined

/** The state of the buffer that a writer receives besides the rows. */
export interface WritePlace {
  readonly capacity: number
  /** The number of rows that were kept before this one, including those that were replaced. */
  readonly written: number
}

/**
 * Writes slots in order and starts over at the first: a ring buffer, in which a new row replaces
 * the oldest.
 *
 * Source   TorchRL `RoundRobinWriter`.
 */
export const RoundRobinWriter: Writer = (_, __, { capacity, written }) => written % capacity

/**
 * Keeps the rows with the highest rewards: in a full buffer, a row replaces the one with the lowest
 * reward if its own is higher.
 *
 * Errors   throws RangeError for rows without a reward.
 * Effects  reads the rewards.
 * Cost     O(rows) for each row written to a full buffer.
 * Source   TorchRL `TensorDictMaxValueWriter`.
 */
export const maxValueWriter =
  (rewardKey: string | readonly string[] = ['next', 'reward']): Writer =>
  ({ rows }, row, { capacity }) => {
    if (rows.length < capacity) return rows.length
    const rewards = rows.map((each) => groupReward('maxValueWriter', each, rewardKey))
    const worst = rewards.reduce((least, reward, slot) => (reward < rewards[least]! ? slot : least), 0)
    return groupReward('maxValueWriter', row, rewardKey) > rewards[worst]! ? worst : undefined
  }

/**
 * The contents of a buffer, as an immutable value. `S` is the schema of the rows, `P` the sampler's
 * state.
 */
export interface ReplayBufferState<S, P> extends StoredRows {
  readonly rows: readonly TensorDict<S>[]
  /** The number of rows that were kept so far, including replaced ones. */
  readonly written: number
  readonly sampler: P
}

/** Rows drawn from a buffer. */
export interface Sampled<S> extends Drawn {
  /** `[count]`, or fewer if the sampler returns fewer, in the order of `slots`. */
  readonly rows: TensorDict<S>
}

export interface ReplayBufferOptions<P> {
  /** The maximum number of rows. */
  readonly capacity: number
  readonly sampler: Sampler<P>
  /** Default `RoundRobinWriter`. */
  readonly writer?: Writer
}

/** Operations on the state of a buffer. */
export interface ReplayBuffer<P> extends Required<ReplayBufferOptions<P>> {
  /** The empty buffer. */
  readonly initial: <S>() => ReplayBufferState<S, P>
  /**
   * Writes the rows of a batch. Returns the slot of each row (undefined for a row that was not
   * kept) and the new state.
   *
   * Shapes   `[B]`.
   * Errors   throws TensorDictError unless there is exactly one batch axis, RangeError where the
   *          writer does.
   * Effects  creates tensors, for rows with tensors, that belong to the enclosing scope: `own` the
   *          state to keep it.
   */
  readonly extend: <S>(
    state: ReplayBufferState<S, P>,
    rows: TensorDict<S>,
  ) => readonly [slots: readonly (number | undefined)[], next: ReplayBufferState<S, P>]
  /**
   * Draws rows with the sampler. They stay in the buffer.
   *
   * Errors   throws RangeError for a count below 1 and for an empty buffer; TensorDictError if rows
   *          differ in keys, kinds or shapes.
   * Effects  creates tensors that belong to the enclosing scope.
   */
  readonly sample: <S>(
    state: ReplayBufferState<S, P>,
    request: DrawRequest,
  ) => readonly [sampled: Sampled<S>, next: ReplayBufferState<S, P>]
}

const put = <X>(list: readonly X[], slot: number, item: X): readonly X[] =>
  slot === list.length ? [...list, item] : list.with(slot, item)

/**
 * Creates a replay buffer: rows of TensorDicts in slots, a writer that chooses the slots, a sampler
 * that draws rows.
 *
 * The contents are an explicit state that `extend` and `sample` take and return; randomness is a
 * key. `encodeReplayBuffer` saves the state.
 *
 * Errors   throws RangeError unless the capacity is a natural number from 1.
 * Cost     `extend` copies the list of slots for each row it keeps; rows are shared.
 * Source   TorchRL `ReplayBuffer` with storage, sampler and writer.
 *
 * @example
 * ReplayBuffer({ capacity: 100, sampler: RandomSampler() }).initial().rows.length // 0
 */
export const ReplayBuffer = <P>(options: ReplayBufferOptions<P>): ReplayBuffer<P> => {
  checkOptions('ReplayBuffer', options, REPLAY_BUFFER_OPTIONS)
  const { capacity, sampler, writer = RoundRobinWriter } = options
  if (!Number.isSafeInteger(capacity) || capacity < 1)
    throw new RangeError(`ReplayBuffer: capacity must be a natural number from 1, got ${capacity}`)
  return {
    capacity,
    sampler,
    writer,
    initial: () => ({ rows: [], writes: [], written: 0, sampler: sampler.initial }),
    extend: <S>(state: ReplayBufferState<S, P>, batch: TensorDict<S>) => {
      if (batch.batchShape.length !== 1)
        throw new TensorDictError('extend', [], `expected one batch axis, got [${batch.batchShape.join(', ')}]`)
      const [slots, next] = splitEach(batch).reduce<
        readonly [readonly (number | undefined)[], ReplayBufferState<S, P>]
      >(
        ([before, stored], row) => {
          const slot = writer(stored, row, { capacity, written: stored.written })
          if (slot === undefined) return [[...before, slot], stored]
          const rows = put(stored.rows, slot, row)
          const writes = put(stored.writes, slot, stored.written)
          return [[...before, slot], { ...stored, rows, writes, written: stored.written + 1 }]
        },
        [[], state],
      )
      const kept = slots.filter((slot) => slot !== undefined)
      return [slots, { ...next, sampler: sampler.written(next.sampler, [...new Set(kept)], next) }]
    },
    sample: <S>(state: ReplayBufferState<S, P>, request: DrawRequest) => {
      const { count } = request
      if (!Number.isSafeInteger(count) || count < 1)
        throw new RangeError(`sample: count must be a natural number from 1, got ${count}`)
      if (state.rows.length === 0) throw new RangeError('sample: the buffer is empty')
      const [drawn, next] = sampler.draw(state.sampler, state, request)
      return [
        { ...drawn, rows: concat(drawn.slots.map((slot) => state.rows[slot]!)) },
        { ...state, sampler: next },
      ]
    },
  }
}
