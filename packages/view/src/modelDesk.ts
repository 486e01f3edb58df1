/** Requests that run checkpoints: one at a time, with limits, as streams of lines. */
import { ABORTED, cancellation, errorMessage, limiter, type Timers } from '@tandem-rl/base'
import type { ModelLine } from './modelProtocol.js'
import type { Changes, ModelSource, OpenModel } from './openModel.js'

import { ViewRefusal } from './refusal.js'
import type { ViewedRun } from './viewedRun.js'

/** The inputs of a request. */
export interface ModelWork {
  readonly source: ModelSource
  readonly run: ViewedRun
  readonly signal: AbortSignal
  /** Opens the run's model. It stays open for the next request with equal changes. */
  readonly open: (changes?: Changes) => Promise<OpenModel>
}

/** A request that was read: it yields the lines of its answer. */
export type ModelTask = (work: ModelWork) => AsyncGenerator<ModelLine>

/** Runs the requests of a server about checkpoints. */
export interface ModelDesk {
  /**
   * Answers with lines of JSON. The last one has the type `end`.
   *
   * Errors   throws ViewRefusal (429) while too many requests wait.
   */
  readonly ask: (run: ViewedRun, task: ModelTask, signal: AbortSignal) => ReadableStream<Uint8Array>
  readonly close: () => Promise<void>
}

interface DeskOptions extends ModelSource {
  readonly timers: Timers
  /** Time limit of a request in milliseconds, waiting included. Default 10 minutes. */
  readonly limitMs?: number
}

/** Requests that may wait for the one that runs. */
const WAITING = 4

/** Time after which an open model is closed, in milliseconds. */
const IDLE = 300_000

const encoder = new TextEncoder()

/** One open model, kept from request to request. */
const modelKeeper = (source: ModelSource, timers: Timers) => {
  let held: { readonly name: string; readonly model: OpenModel } | null = null
  let cancelTimer = (): void => {}
  const close = async (): Promise<void> => {
    cancelTimer()
    const before = held
    held = null
    await before?.model.close()
  }
  return {
    open: async (folder: string, changes: Changes): Promise<OpenModel> => {
      const name = JSON.stringify([folder, changes])
      if (held?.name === name) return held.model
      await close()
      const { openModel } = await import('./openModel.js') // loads the engine
      held = { name, model: await openModel(source, folder, changes) }
      return held.model
    },
    busy: () => cancelTimer(),
    idle: () => {
      cancelTimer = timers.after(IDLE, () => void close())
    },
    close,
  }
}

/** Makes the desk of a server. */
export const modelDesk = ({ timers, limitMs = 600_000, ...source }: DeskOptions): ModelDesk => {
  const places = limiter(1)
  const keeper = modelKeeper(source, timers)
  let present = 0
  const perform = async (work: ModelWork, task: ModelTask, send: (line: ModelLine) => void): Promise<void> => {
    keeper.busy()
    try {
      for await (const line of task(work)) {
        if (work.signal.aborted) return
        send(line)
      }
    } catch (error) {
      if (!(error instanceof RangeError)) await keeper.close() // a wrong request changes nothing
      throw error
    } finally {
      keeper.idle()
    }
  }
  return {
    ask: (run, task, caller) => {
      if (present > WAITING) throw new ViewRefusal(429, `${present} requests of models are waiting: try again later`)
      present++
      const limits = cancellation({ signal: caller, deadlineMs: limitMs })
      const { signal } = limits
      const answer = async (send: (line: ModelLine) => void): Promise<void> => {
        const work: ModelWork = {
          source,
          run,
          signal,
          open: (changes = {}) => keeper.open(run.folder, changes),
        }
        try {
          if (places.active() > 0) send({ type: 'progress', message: 'waiting for another request' })
          const done = await places.run(() => perform(work, task, send), signal)
          const isLate = done === ABORTED || limits.why() === 'deadline'
          send({ type: 'end', reason: isLate ? `stopped after ${limitMs / 1000} s` : null })
        } catch (error) {
          send({ type: 'end', reason: errorMessage(error) })
        } finally {
          present--
          limits.release()
        }
      }
      return new ReadableStream<Uint8Array>({
        start: (controller) => {
          const isOpen = (): boolean => !caller.aborted && limits.why() !== 'stopped'
          const send = (line: ModelLine): void => {
            if (isOpen()) controller.enqueue(encoder.encode(`${JSON.stringify(line)}\n`))
          }
          void answer(send).then(() => {
            if (isOpen()) controller.close()
          })
        },
        cancel: limits.stop,
      })
    },
    close: keeper.close,
  }
}
