/** The interface of samplers, which choose the rows of a sample, and the uniform samplers. */
import { checkOptions, type Key, permutation, uniformInteger } from '@tandem-rl/base'
import * as E from 'fp-ts/lib/Either.js'
import { SAMPLER_WITHOUT_REPLACEMENT_OPTIONS } from '../optionKinds.js'
import type { TensorDict } from '../tensorDict/tensorDict.js'

/** Rows by slot. */
export interface StoredRows {
  /** One row in each slot, of batch shape `[1]`. */
  readonly rows: readonly TensorDict[]
  /** The number of rows written before each row: larger is newer. */
  readonly writes: readonly number[]
}

/** The choice of a sampler. */
export interface Drawn {
  readonly slots: readonly number[]
  /**
   * Importance weights, one for each slot, at most 1. Present for samplers that do not draw
   * uniformly.
   */
  readonly weights?: readonly number[]
  /** The number of repeated rows, if there were too few. */
  readonly repeated?: number
}

/** The number of rows to draw, and the random key. */
export interface DrawRequest {
  readonly count: number
  readonly key: Key
}

/**
 * A strategy for choosing rows. Its state is an argument and a result. `P` consists of plain
 * values, or `plain` converts it.
 */
export interface Sampler<P> {
  readonly initial: P
  /** Returns the state after rows were written to slots. */
  readonly written: (state: P, slots: readonly number[], stored: StoredRows) => P
  /** Draws slots of a buffer that has rows. */
  readonly draw: (state: P, stored: StoredRows, request: DrawRequest) => readonly [Drawn, P]
  /** Converts the state to plain values, for files. */
  readonly plain: (state: P) => unknown
  /** Restores the state from plain values, for a buffer with `size` rows. `Left` is the problem. */
  readonly fromPlain: (value: unknown, size: number) => E.Either<string, P>
}

/** The members of a sampler without state. */
export const STATELESS: Pick<Sampler<null>, 'initial' | 'written' | 'plain' | 'fromPlain'> = {
  initial: null,
  written: () => null,
  plain: () => null,
  fromPlain: (value) => (value === null ? E.right(null) : E.left('the sampler has no state')),
}

/**
 * Draws each row with the same probability, with replacement.
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

/** The slots that have not been drawn in this pass, ascending. */
export interface PassState {
  readonly left: readonly number[]
}

export interface WithoutReplacementOptions {
  /**
   * The treatment of the last rows of a pass, if they are fewer than `count`. `keep`: returns a
   * smaller sample. `drop`: begins the next pass. Default `keep`.
   */
  readonly last?: 'keep' | 'drop'
}

const isSlotList = (value: unknown, size: number): value is readonly number[] =>
  Array.isArray(value) &&
  value.every((slot, i) => Number.isInteger(slot) && slot < size && slot > (i === 0 ? -1 : value[i - 1]))

/**
 * Draws each row once before any is repeated: in passes over the buffer, each in a random order.
 * Rows that are written during a pass join it.
 *
 * Source   TorchRL `SamplerWithoutReplacement`, which begins a new pass with each write.
 *
 * @example
 * SamplerWithoutReplacement().initial // { left: [] }
 */
export const SamplerWithoutReplacement = (options: WithoutReplacementOptions = {}): Sampler<PassState> => {
  checkOptions('SamplerWithoutReplacement', options, SAMPLER_WITHOUT_REPLACEMENT_OPTIONS)
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
