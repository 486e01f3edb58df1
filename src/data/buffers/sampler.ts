/** Which rows of a buffer a sample has: uniform samplers, and what all samplers are. */
import * as E from 'fp-ts/lib/Either.js'
import { type Key, permutation, uniformInteger } from '../../core/key.js'
import { checkOptions, oneOf } from '../../core/options.js'
import type { TensorDict } from '../tensorDict/tensorDict.js'

/** Rows by slot. */
export interface StoredRows {
  /** One row each, of batch shape `[1]`. */
  readonly rows: readonly TensorDict[]
  /** How many rows had been written when each was: larger is newer. */
  readonly writes: readonly number[]
}

/** What a sampler chose. */
export interface Drawn {
  readonly slots: readonly number[]
  /** Importance weights, one for each slot, at most 1; for samplers that do not draw uniformly. */
  readonly weights?: readonly number[]
  /** How many rows come another time because there were too few. */
  readonly repeated?: number
}

/** How many rows are wanted, and where the randomness comes from. */
export interface DrawRequest {
  readonly count: number
  readonly key: Key
}

/** A way to choose rows. Its state is an argument and a result; `P` is made of plain values, or `plain` makes it so. */
export interface Sampler<P> {
  readonly initial: P
  /** The state after rows were written to slots. */
  readonly written: (state: P, slots: readonly number[], stored: StoredRows) => P
  /** Slots of a buffer that has rows. */
  readonly draw: (state: P, stored: StoredRows, request: DrawRequest) => readonly [Drawn, P]
  /** The state as plain values, for files. */
  readonly plain: (state: P) => unknown
  /** The state that plain values stand for, with so many rows; `Left` with what is wrong. */
  readonly fromPlain: (value: unknown, size: number) => E.Either<string, P>
}

/** The parts of a sampler that has no state. */
export const STATELESS: Pick<Sampler<null>, 'initial' | 'written' | 'plain' | 'fromPlain'> = {
  initial: null,
  written: () => null,
  plain: () => null,
  fromPlain: (value) => (value === null ? E.right(null) : E.left('the sampler has no state')),
}

/**
 * Draws each row with the same probability, again and again.
 *
 * Source   TorchRL `RandomSampler`.
 *
 * @example
 * RandomSampler().initial // null
 */
export const RandomSampler = (): Sampler<null> => ({
  ...STATELESS,
  draw: (_, { rows }, { count, key }) => [
    { slots: Array.from({ length: count }, (_, i) => uniformInteger(key, rows.length, i)) },
    null,
  ],
})

/** Slots that have not been drawn in this pass, ascending. */
export interface PassState {
  readonly left: readonly number[]
}

export interface WithoutReplacementOptions {
  /** What becomes of the last rows of a pass, if they are fewer than wanted. `keep`: a smaller sample. `drop`: the next pass begins. Default `keep`. */
  readonly last?: 'keep' | 'drop'
}

const isSlotList = (value: unknown, size: number): value is readonly number[] =>
  Array.isArray(value) &&
  value.every((slot, i) => Number.isInteger(slot) && slot < size && slot > (i === 0 ? -1 : value[i - 1]))

/**
 * Draws each row once before any comes again: in passes over the buffer, each in an order of its own. What is written during a pass joins it.
 *
 * Source   TorchRL `SamplerWithoutReplacement`, which begins a new pass with each write.
 *
 * @example
 * SamplerWithoutReplacement().initial // { left: [] }
 */
export const SamplerWithoutReplacement = (options: WithoutReplacementOptions = {}): Sampler<PassState> => {
  checkOptions('SamplerWithoutReplacement', options, { last: oneOf('keep', 'drop') })
  const { last = 'keep' } = options
  return {
    initial: { left: [] },
    written: ({ left }, slots) => ({ left: [...new Set([...left, ...slots])].sort((a, b) => a - b) }),
    draw: ({ left }, { rows }, { count, key }) => {
      const isOver = left.length === 0 || (last === 'drop' && left.length < count)
      const pass = isOver ? rows.map((_, slot) => slot) : left
      const slots = Array.from(permutation(key, pass.length).subarray(0, count), (i) => pass[i]!)
      const drawn = new Set(slots)
      return [{ slots }, { left: pass.filter((slot) => !drawn.has(slot)) }]
    },
    plain: ({ left }) => [...left],
    fromPlain: (value, size) =>
      isSlotList(value, size) ? E.right({ left: value }) : E.left(`expected ascending slots below ${size}`),
  }
}
