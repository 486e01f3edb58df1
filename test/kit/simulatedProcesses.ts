/** Processes and the server of a queue in simulated time, which can be paused and killed. */
import type { Timers } from '@tandem-rl/base'
import { memoryQueueLog, type QueueFailure, type QueueLog } from '@tandem-rl/cluster'
import type * as E from 'fp-ts/lib/Either.js'
import { queueFailure } from '../../packages/cluster/src/queues/queueLog.js'

/** Time that passes when nothing else is left to do. */
export interface World extends Timers {
  readonly now: () => number
  /** Lets time pass until the condition holds. Returns false if it does not hold in time. */
  readonly until: (holds: () => boolean, limitMs: number) => Promise<boolean>
}

interface Due {
  readonly atMs: number
  readonly fire: () => void
}

export const world = (): World => {
  let now = 0
  const due = new Set<Due>()
  const next = (): Due | undefined => {
    let first: Due | undefined
    for (const each of due) if (first === undefined || each.atMs < first.atMs) first = each
    return first
  }
  return {
    now: () => now,
    after: (ms, fire) => {
      const each = { atMs: now + ms, fire }
      due.add(each)
      return () => void due.delete(each)
    },
    until: async (holds, limitMs) => {
      const endMs = now + limitMs
      while (true) {
        await new Promise((go) => setImmediate(go)) // all that needs no time
        if (holds()) return true
        const first = next()
        if (first === undefined || first.atMs > endMs) {
          now = endMs
          return false
        }
        due.delete(first)
        now = first.atMs
        first.fire()
      }
    },
  }
}

type Outage = 'killed' | 'paused'

export type ServerState = 'runs' | Outage

/** The state of a process: what it waits for continues only while it runs. */
export interface Life {
  readonly timers: Timers
  readonly sleep: (ms: number) => Promise<void>
  /** Sends a call, and receives its answer. */
  readonly call: <T>(answer: () => Promise<T>) => Promise<T>
  readonly pause: () => void
  readonly resume: () => void
  /** Nothing of it ever continues. */
  readonly kill: () => void
}

export const lifeIn = ({ after }: World): Life => {
  let state: 'runs' | Outage = 'runs'
  let held: (() => void)[] = []
  const continued = (go: () => void): void => {
    if (state === 'runs') go()
    else if (state === 'paused') held.push(go)
  }
  const timers: Timers = { after: (ms, fire) => after(ms, () => continued(fire)) }
  return {
    timers,
    sleep: (ms) => new Promise((go) => void timers.after(ms, go)),
    call: (answer) =>
      new Promise((resolve) => continued(() => void answer().then((value) => continued(() => resolve(value))))),
    pause: () => {
      state = 'paused'
    },
    resume: () => {
      if (state === 'killed') return
      state = 'runs'
      const all = held
      held = []
      for (const go of all) continued(go)
    },
    kill: () => {
      state = 'killed'
      held = []
    },
  }
}

/** The longest wait of a client for an answer of the server. */
const ANSWER_MS = 30_000

type Answer<T> = E.Either<QueueFailure, T>

/** The server of the queue. What it has answered is on its disk. */
export interface QueueServer {
  readonly set: (state: ServerState) => void
  /** A connection of a process. */
  readonly connect: (life: Life) => QueueLog
}

export const serverIn = (space: World, first: ServerState): QueueServer => {
  const log = memoryQueueLog({ clock: { now: space.now }, timers: space })
  const lost = queueFailure('unreachable', 'the server does not answer')
  let state = first
  let watchers = new Set<() => void>()

  /** Resolves when the state changes, or after the time. */
  const change = (ms: number): Promise<void> =>
    new Promise((go) => {
      const end = (): void => {
        cancel()
        watchers.delete(end)
        go()
      }
      const cancel = space.after(ms, end)
      watchers.add(end)
    })

  const ask = async <T>(call: () => Promise<Answer<T>>): Promise<Answer<T>> => {
    const endMs = space.now() + ANSWER_MS
    while (state === 'paused' && space.now() < endMs) await change(endMs - space.now())
    if (state === 'paused') {
      void change(Number.MAX_SAFE_INTEGER).then(() => (state === 'runs' ? call() : undefined)) // it was received
      return lost
    }
    return state === 'runs' ? call() : lost
  }

  return {
    set: (next) => {
      state = next
      const all = watchers
      watchers = new Set()
      for (const end of all) end()
    },
    connect: (life) => {
      const through =
        <A extends readonly unknown[], T>(method: (...args: A) => () => Promise<Answer<T>>) =>
        (...args: A) =>
        () =>
          life.call(() => ask(method(...args)))
      return {
        create: through(log.create),
        read: through(log.read),
        append: through(log.append),
        compact: through(log.compact),
        rollouts: through(log.rollouts),
        rolloutNames: () => life.call(() => ask(log.rolloutNames)),
        forget: through(log.forget),
        changed: through((after, limitMs: number) => async () => {
          const answered = await Promise.race([log.changed(after, limitMs)(), change(limitMs)])
          return answered ?? (await ask(log.changed(after, 0)))
        }),
        close: () => Promise.resolve(),
      }
    },
  }
}
