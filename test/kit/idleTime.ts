/** Idle time of a process: a measure of waiting that a busy machine does not lengthen. */
import { readdirSync, readFileSync } from 'node:fs'

/** Nanoseconds in which each thread of a process ran or waited for a processor. */
const activeTimes = (pid: number): ReadonlyMap<string, number> => {
  try {
    return new Map(
      readdirSync(`/proc/${pid}/task`).map((thread) => {
        const [ran = 0, waited = 0] = readFileSync(`/proc/${pid}/task/${thread}/schedstat`, 'utf8')
          .split(' ')
          .map(Number)
        return [thread, ran + waited] as const
      }),
    )
  } catch {
    return new Map() // it has ended
  }
}

const LOOK_MS = 50

/**
 * Calls `onIdle` once all threads of a process together have done nothing for `limitMs` in all.
 * Returns the function that ends this.
 */
export const watchIdle = (pid: number, limitMs: number, onIdle: () => void): (() => void) => {
  let idleMs = 0
  let before = activeTimes(pid)
  let at = performance.now()
  const timer = setInterval(() => {
    const [now, next] = [performance.now(), activeTimes(pid)]
    const active = [...next].map(([thread, time]) => time - (before.get(thread) ?? 0))
    idleMs += Math.max(0, now - at - Math.max(0, ...active) / 1e6)
    before = next
    at = now
    if (idleMs < limitMs) return
    clearInterval(timer)
    onIdle()
  }, LOOK_MS)
  return () => clearInterval(timer)
}
