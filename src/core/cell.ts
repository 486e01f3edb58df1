/** One mutable place for an immutable value: where state is shared by the functions of a module, and said to be. */

export interface Cell<T> {
  readonly get: () => T
  readonly set: (value: T) => void
  /** Puts `f` of the value in its place. */
  readonly update: (f: (value: T) => T) => void
}

/**
 * A cell that holds `initial`.
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
