/** Resources of a command, which are closed however it ends. */

/** Opened resources, such as runs, policies and queues. */
interface Resources {
  /** Waits for a resource, and closes it at the end of the work, before those that came first. */
  readonly hold: <T>(opening: T | Promise<T>, close: (opened: T) => unknown) => Promise<T>
}

/**
 * Runs the work of a command with resources, and closes them in reverse order.
 *
 * Errors   rejects as `work` does, else with the first error of closing.
 * Effects  those of the work. Every resource is closed, also after an error of another one.
 */
export const withResources = async <T>(work: (resources: Resources) => Promise<T>): Promise<T> => {
  const closers: (() => unknown)[] = []
  const hold: Resources['hold'] = async (opening, close) => {
    const opened = await opening
    closers.push(() => close(opened))
    return opened
  }
  const [worked] = await Promise.allSettled([work({ hold })])
  const failures: unknown[] = worked.status === 'rejected' ? [worked.reason] : []
  for (const close of closers.reverse()) {
    const [closed] = await Promise.allSettled([Promise.resolve().then(close)])
    if (closed.status === 'rejected') failures.push(closed.reason)
  }
  if (worked.status === 'rejected' || failures.length > 0) throw failures[0]
  return worked.value
}
