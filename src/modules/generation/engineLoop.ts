/** The engine's loop: runs step after step while there is work, and sleeps otherwise. */
import { type Clock, errorMessage } from '@tandem-rl/base'
import type { PauseMode } from '@tandem-rl/text'
import { isLeft, tryCatch } from 'fp-ts/lib/Either.js'
import type { Scheduler } from './scheduler.js'

/** The mutable loop of an engine. */
export interface EngineLoop {
  /** Wakes the loop when work may have arrived. */
  readonly wake: () => void
  /** Changes the scheduler between two steps. An error of `f` ends the engine. */
  readonly change: <T>(f: () => T) => T | undefined
  readonly pause: (options: { readonly mode: PauseMode; readonly cache: 'clear' | 'keep' }) => Promise<void>
  readonly resume: () => void
  readonly isPaused: () => boolean
  /** Returns the error that ended the engine, or `null`. */
  readonly error: () => string | null
  /** Stops the loop. Resolves when the last step has finished. */
  readonly stop: () => Promise<void>
}

/** The dependencies of the loop. */
export interface EngineLoopParts {
  readonly scheduler: Scheduler
  readonly clock: Clock
  /** Returns the arrival number of the next request. */
  readonly nextArrival: () => number
}

/**
 * The requests that may run: all, those that arrived before a barrier, or no requests.
 *
 * A pause that waits for running requests completes when the last of them has ended.
 */
type Activity =
  | { readonly _tag: 'Running' }
  | { readonly _tag: 'Draining'; readonly barrier: number }
  | { readonly _tag: 'Frozen' }

const barrierOf = (activity: Activity): number => {
  switch (activity._tag) {
    case 'Running':
      return Number.POSITIVE_INFINITY
    case 'Draining':
      return activity.barrier
    case 'Frozen':
      return Number.NEGATIVE_INFINITY
  }
}

/**
 * Starts the loop. It yields to the event loop between steps, and waits for `wake` without using
 * CPU time while there is no work.
 *
 * Effects  a mutable value that runs until `stop`.
 */
export const startEngineLoop = ({ scheduler, clock, nextArrival }: EngineLoopParts): EngineLoop => {
  let activity: Activity = { _tag: 'Running' }
  let error: string | null = null
  let isStopped = false
  let awaken: (() => void) | null = null
  let drained: (() => void)[] = []

  const wake = (): void => {
    awaken?.()
    awaken = null
  }

  const releaseWaiters = (): void => {
    for (const go of drained) go()
    drained = []
  }

  /** Resolves waiting pauses if no running request is left. */
  const settle = (): void => {
    const barrier = activity._tag === 'Draining' ? activity.barrier : Number.POSITIVE_INFINITY
    if (!scheduler.tickets().some(({ arrival }) => arrival < barrier)) releaseWaiters()
  }

  const change = <T>(f: () => T): T | undefined => {
    const result = tryCatch(f, errorMessage)
    if (isLeft(result)) {
      error ??= result.left
      scheduler.fail({ _tag: 'GenerationFailure', kind: 'internal', reason: `the engine failed: ${error}` })
    }
    settle()
    wake()
    return isLeft(result) ? undefined : result.right
  }

  const isActive = (): boolean => {
    if (activity._tag === 'Frozen' || error !== null) return false
    return scheduler.hasWork(barrierOf(activity))
  }

  const run = async (): Promise<void> => {
    while (!isStopped) {
      if (isActive()) {
        change(() => scheduler.step(barrierOf(activity)))
        await clock.breathe()
      } else {
        await new Promise<void>((go) => {
          awaken = go
        })
      }
    }
  }

  const running = run()

  return {
    wake,
    change,
    pause: async ({ mode, cache }) => {
      switch (mode) {
        case 'abort':
          activity = { _tag: 'Frozen' }
          change(() => scheduler.abort(() => true))
          break
        case 'wait':
          activity = { _tag: 'Draining', barrier: nextArrival() }
          await new Promise<void>((go) => {
            drained.push(go)
            settle()
          })
          break
        case 'keep':
          activity = { _tag: 'Frozen' }
          releaseWaiters()
          if (cache === 'clear') change(scheduler.recompute)
          break
      }
      if (cache === 'clear') scheduler.clearCache()
    },
    resume: () => {
      activity = { _tag: 'Running' }
      releaseWaiters()
      wake()
    },
    isPaused: () => activity._tag !== 'Running',
    error: () => error,
    stop: async () => {
      isStopped = true
      releaseWaiters()
      wake()
      await running
    },
  }
}
