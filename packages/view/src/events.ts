/** Streams of events: what changed, so that an open page gets it again. */
import type { Timers } from '@tandem-rl/base'
import type { EventName } from './protocol.js'
import type { ViewedRun } from './viewedRun.js'

/** Time between looks at the files of a run, in milliseconds. */
const PERIOD = 1000

const encoder = new TextEncoder()

const eventText = (name: EventName, data: object): Uint8Array =>
  encoder.encode(`event: ${name}\ndata: ${JSON.stringify(data)}\n\n`)

/** Sends events to a page. */
type Send = (name: EventName, data: object) => void

const sizesOf = async (run: ViewedRun) => {
  const { steps, evaluations, trajectoryBytes, state } = await run.log()
  return { metrics: steps.length + evaluations.length, rollouts: trajectoryBytes, state }
}

/** Sends what changed in the files of a run since the last look. Returns a function that stops. */
const watch = (run: ViewedRun, timers: Timers, send: Send, failed: (error: unknown) => void): (() => void) => {
  let before: Awaited<ReturnType<typeof sizesOf>> | null = null
  let isStopped = false
  let cancel = (): void => {}
  const look = async (): Promise<void> => {
    const now = await sizesOf(run)
    if (isStopped) return
    if (before !== null && now.metrics !== before.metrics) send('metrics', { step: now.metrics })
    if (before !== null && now.rollouts !== before.rollouts) send('rollouts', {})
    if (before !== null && now.state !== before.state) send('state', { state: now.state })
    before = now
    cancel = timers.after(PERIOD, () => void look().catch(failed))
  }
  look().catch(failed)
  return () => {
    isStopped = true
    cancel()
  }
}

/** The open streams of a viewer. */
export interface EventHub {
  /** Opens a stream about a run, or about the viewer itself. It ends with the signal. */
  readonly open: (run: ViewedRun | null, signal: AbortSignal) => ReadableStream<Uint8Array>
  /** Sends an event to every open stream. */
  readonly send: Send
}

/** Makes the streams of a viewer. */
export const eventHub = (timers: Timers): EventHub => {
  const open = new Set<Send>()
  return {
    send: (name, data) => {
      for (const send of open) send(name, data)
    },
    open: (run, signal) => {
      let stop = (): void => {}
      const end = (controller: ReadableStreamDefaultController<Uint8Array>, send: Send): void => {
        if (!open.delete(send)) return
        stop()
        controller.close()
      }
      return new ReadableStream<Uint8Array>({
        start: (controller) => {
          const send: Send = (name, data) => controller.enqueue(eventText(name, data))
          open.add(send)
          controller.enqueue(encoder.encode(': open\n\n'))
          signal.addEventListener('abort', () => end(controller, send), { once: true })
          if (run !== null) stop = watch(run, timers, send, () => end(controller, send))
        },
        cancel: () => stop(),
      })
    },
  }
}
