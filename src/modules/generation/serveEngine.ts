/**
 * The engine's side of the protocol in engineMessages.ts: turns messages into calls, and events and
 * answers into messages.
 */
import { type Clock, errorMessage, type Failure, type ThreadPort } from '@tandem-rl/base'
import { liveClock } from '@tandem-rl/base/host'
import type { GenerationEvent, LLMEngine } from '@tandem-rl/text'
import {
  type EngineCall,
  type EngineGreeting,
  type EngineMessage,
  type EngineReply,
  privateArrays,
  type StreamItem,
} from './engineMessages.js'

/** A stream that is being sent. Mutable. */
interface Sending {
  readonly events: AsyncIterator<GenerationEvent>
  readonly controller: AbortController
  credit: number
  /** Wakes the sender, which waits for credit. */
  wake: () => void
  /** Settles when the engine has released the request of a reader that left, or `null`. */
  returned: Promise<unknown> | null
}

/** Calls a method of the engine. */
const perform = (engine: LLMEngine, call: EngineCall): Promise<unknown> => {
  switch (call.method) {
    case 'abort':
      return call.ids === null ? engine.abort() : engine.abort(call.ids)
    case 'pause':
      return engine.pause(call.options)
    case 'loadAdapter':
      return engine.loadAdapter(call.name, { ...call.adapter, tensors: privateArrays(call.adapter.tensors) })()
    case 'unloadAdapter':
      return engine.unloadAdapter(call.name)()
    case 'loadWeights': {
      const { weights, options } = call
      return engine.loadWeights(
        weights._tag === 'Arrays' ? { ...weights, arrays: privateArrays(weights.arrays) } : weights,
        options,
      )()
    }
    default:
      return engine[call.method]()
  }
}

/** A buffer of outgoing messages. All items of one turn of the event loop become one message. */
interface Outbox {
  readonly item: (item: StreamItem) => void
  /** Sends a message after all previous items. */
  readonly message: (message: EngineReply) => void
}

const makeOutbox = (port: ThreadPort, clock: Pick<Clock, 'breathe'>): Outbox => {
  let items: StreamItem[] = []
  const flush = (): void => {
    if (items.length === 0) return
    port.post({ _tag: 'Items', items } satisfies EngineReply)
    items = []
  }
  return {
    item: (item) => {
      if (items.push(item) === 1) void clock.breathe().then(flush)
    },
    message: (message) => {
      flush()
      port.post(message)
    },
  }
}

/** Sends the events of a stream as far as its credit allows, and its end. Resolves afterwards. */
const send = async (stream: number, sending: Sending, outbox: Outbox): Promise<void> => {
  try {
    while (sending.returned === null) {
      if (sending.credit === 0) {
        await new Promise<void>((resolve) => {
          sending.wake = resolve
        })
        continue
      }
      const next = await sending.events.next()
      if (next.done === true) break
      sending.credit--
      outbox.item({ stream, event: next.value })
    }
    await sending.returned
  } catch (error) {
    const reason = `the engine threw: ${errorMessage(error)}`
    outbox.item({
      stream,
      event: { _tag: 'Failed', failure: { _tag: 'GenerationFailure', kind: 'internal', reason } },
    })
  }
  outbox.item({ stream, event: null })
}

/**
 * Serves an engine to the owner at the other end of a port.
 *
 * Effects  listens from now on, and posts `Ready` first. A `close` call lets every stream finish,
 *          without regard to credit, and is answered afterwards.
 */
export const serveEngine = (
  port: ThreadPort,
  engine: LLMEngine,
  options: { readonly clock?: Pick<Clock, 'breathe'> } = {},
): void => {
  const outbox = makeOutbox(port, options.clock ?? liveClock)
  const streams = new Map<number, Sending>()
  const running = new Set<Promise<void>>()

  const giveCredit = (sending: Sending | undefined, events: number): void => {
    if (sending === undefined) return // it has already ended
    sending.credit += events
    sending.wake()
  }

  const begin = ({ stream, request, credit, signal }: Extract<EngineMessage, { readonly _tag: 'Generate' }>): void => {
    const controller = new AbortController()
    if (signal === 'aborted') controller.abort()
    const events = engine.generate(request, { signal: controller.signal })[Symbol.asyncIterator]()
    const sending: Sending = { events, controller, credit, wake: () => undefined, returned: null }
    streams.set(stream, sending)
    const sent = send(stream, sending, outbox).then(() => {
      streams.delete(stream)
      running.delete(sent)
    })
    running.add(sent)
  }

  const stopReading = (sending: Sending | undefined): void => {
    if (sending === undefined) return
    sending.controller.abort() // so that a pending request for the next event ends
    sending.returned = sending.events.return?.() ?? Promise.resolve()
    sending.wake()
  }

  const answer = async (call: number, what: EngineCall): Promise<void> => {
    try {
      const value = await perform(engine, what)
      if (what.method === 'close') {
        for (const sending of streams.values()) giveCredit(sending, Number.POSITIVE_INFINITY)
        await Promise.all(running)
      }
      outbox.message({ _tag: 'Answer', call, value })
    } catch (error) {
      const name = error instanceof Error ? error.name : 'Error'
      outbox.message({ _tag: 'Threw', call, name, message: errorMessage(error) })
    }
  }

  port.post({ _tag: 'Ready', info: engine.info } satisfies EngineGreeting)
  port.listen((received) => {
    const message = received as EngineMessage // from `remoteEngine`
    switch (message._tag) {
      case 'Generate':
        begin(message)
        break
      case 'Credit':
        giveCredit(streams.get(message.stream), message.events)
        break
      case 'Abort':
        streams.get(message.stream)?.controller.abort()
        break
      case 'Return':
        stopReading(streams.get(message.stream))
        break
      case 'Call':
        void answer(message.call, message.what)
        break
    }
  })
}

/** Reports to the owner that the engine could not start. */
export const refuseEngine = (port: ThreadPort, failure: Failure): void =>
  port.post({ _tag: 'Refused', failure } satisfies EngineGreeting)
