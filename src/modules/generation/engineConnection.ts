/**
 * The owner's side of the protocol in engineMessages.ts: sends requests as messages and turns
 * messages into events and answers.
 */
import { errorMessage, errorNamed, FailureError, type ThreadPort } from '@tandem-rl/base'
import type { GenerationEvent, GenerationFailure, GenerationRequest } from '@tandem-rl/text'
import type { EngineAnswers, EngineCall, EngineMessage, EngineReply, StreamItem } from './engineMessages.js'
import { type EventQueue, eventQueue } from './eventQueue.js'

const failed = (failure: GenerationFailure): GenerationEvent => ({ _tag: 'Failed', failure })

interface Pending {
  readonly resolve: (value: unknown) => void
  readonly reject: (error: Error) => void
}

/** A stream that the engine has not ended. */
interface Receiving {
  readonly queue: EventQueue<GenerationEvent>
  /** Called when the engine has released the request. */
  readonly onEnd: () => void
}

/** Streams and calls in progress. Mutable; lives as long as the engine. */
export interface EngineConnection {
  /** Sends the request and returns its events, or a failure event. */
  readonly open: (request: GenerationRequest, signal: AbortSignal | undefined) => AsyncIterator<GenerationEvent>
  /** Calls a method. Rejects with its error, or with FailureError if the engine has ended. */
  readonly call: <M extends EngineCall['method']>(
    what: EngineCall & { readonly method: M },
    transfer?: readonly ArrayBuffer[],
  ) => Promise<EngineAnswers[M]>
  readonly receive: (message: EngineReply) => void
  /**
   * Ends all current and later streams and calls with the failure. Only the first call has an
   * effect.
   */
  readonly finish: (failure: GenerationFailure) => void
}

/**
 * Makes the connection. At most `window` events of a stream are in transit or unread.
 *
 * Effects  posts to the port. The owner of the port must pass incoming messages to `receive`.
 */
export const engineConnection = (port: Pick<ThreadPort, 'post'>, window: number): EngineConnection => {
  const streams = new Map<number, Receiving>()
  const calls = new Map<number, Pending>()
  let count = 0
  let over: GenerationFailure | null = null

  const post = (message: EngineMessage, transfer?: readonly ArrayBuffer[]): void => port.post(message, transfer)

  const endStream = (stream: number): void => {
    const receiving = streams.get(stream)
    streams.delete(stream)
    receiving?.queue.end()
    receiving?.onEnd()
  }

  const finish = (failure: GenerationFailure): void => {
    if (over !== null) return
    over = failure
    for (const [stream, { queue }] of streams) {
      queue.push(failed(failure))
      endStream(stream)
    }
    for (const { reject } of calls.values()) reject(new FailureError(failure))
    calls.clear()
  }

  const refused = (failure: GenerationFailure): AsyncIterator<GenerationEvent> => {
    const queue = eventQueue<GenerationEvent>()
    queue.push(failed(failure))
    queue.end()
    return queue
  }

  const open = (request: GenerationRequest, signal: AbortSignal | undefined): AsyncIterator<GenerationEvent> => {
    if (over !== null) return refused(over)
    const stream = count++
    try {
      post({ _tag: 'Generate', stream, request, credit: window, signal: signal?.aborted ? 'aborted' : 'open' })
    } catch (error) {
      const reason = `the request cannot be sent: ${errorMessage(error)}`
      return refused({ _tag: 'GenerationFailure', kind: 'invalid', reason })
    }
    return follow(stream, signal)
  }

  const follow = (stream: number, signal: AbortSignal | undefined): AsyncIterator<GenerationEvent> => {
    const onAbort = (): void => post({ _tag: 'Abort', stream })
    signal?.addEventListener('abort', onAbort, { once: true })
    let letGo = (): void => undefined
    const ended = new Promise<void>((resolve) => {
      letGo = resolve
    })
    let read = 0
    const queue = eventQueue<GenerationEvent>({
      onRead: () => {
        if (++read * 2 < window || !streams.has(stream)) return
        post({ _tag: 'Credit', stream, events: read })
        read = 0
      },
      onReturn: () => {
        post({ _tag: 'Return', stream })
        return ended
      },
    })
    streams.set(stream, {
      queue,
      onEnd: () => {
        signal?.removeEventListener('abort', onAbort)
        letGo()
      },
    })
    return queue
  }

  const take = ({ stream, event }: StreamItem): void => {
    if (event === null) endStream(stream)
    else streams.get(stream)?.queue.push(event)
  }

  const receive: EngineConnection['receive'] = (message) => {
    if (message._tag === 'Items') {
      for (const item of message.items) take(item)
      return
    }
    const pending = calls.get(message.call)
    calls.delete(message.call)
    if (message._tag === 'Answer') pending?.resolve(message.value)
    else pending?.reject(errorNamed(message.name, message.message))
  }

  const call: EngineConnection['call'] = async (what, transfer) => {
    if (over !== null) throw new FailureError(over)
    const number = count++
    post({ _tag: 'Call', call: number, what }, transfer)
    const value = await new Promise<unknown>((resolve, reject) => calls.set(number, { resolve, reject }))
    return value as never // the result type of the method
  }

  return { open, call, receive, finish }
}
