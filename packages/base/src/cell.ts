/**
 * A mutable cell for an immutable value. It marks explicitly where functions of a module share
 * state.
 */

export interface Cell<T> {
  readonly get: () => T
  readonly set: (value: T) => void
  /** Replaces the value by `f` of it. */
  readonly update: (f: (value: T) => T) => void
}

/**
 * Creates a cell that holds `initial`.
 *
 * Effects  a mutable value.
 *
 * @example
 * cell('open').get() // 'open'
 */
export const cell = <T>(initial: T): Cell<T> => {
  let value = initial
  return {
    get: () => value,
    set: (next) => {
      value = next
    },
    update: (f) => {
      value = f(value)
    },
  }
}
