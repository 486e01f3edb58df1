/** A condition variable: a loop waits until something that it depends on has changed. */
export interface Condition {
  /** Ends the waits of all that wait now. */
  readonly notify: () => void
  /** Resolves at the next `notify`. Callers check again afterwards, and before they wait. */
  readonly wait: () => Promise<void>
}

/**
 * Makes a condition variable.
 *
 * @example
 * const changed = condition()
 * void changed.wait().then(() => {})
 * changed.notify() // undefined
 */
export const condition = (): Condition => {
  let waiting: (() => void)[] = []
  return {
    notify: () => {
      const ended = waiting
      waiting = []
      for (const end of ended) end()
    },
    wait: () =>
      new Promise<void>((resolve) => {
        waiting.push(resolve)
      }),
  }
}
