/** The outgoing events of one request. */
import type { GeneratedToken, GenerationEvent } from '@tandem-rl/text'

interface PendingTokens {
  readonly index: number
  readonly tokens: GeneratedToken[]
  text: string
}

type Pending = { readonly event: GenerationEvent } | { readonly tokens: PendingTokens }

/** A stream of events with a writing and a reading end. */
export interface Outbox {
  readonly push: (event: GenerationEvent) => void
  /** Ends the stream. */
  readonly end: () => void
  readonly reader: AsyncIterator<GenerationEvent, undefined>
  /** Number of unread events. */
  readonly size: () => number
}

const DONE: IteratorReturnResult<undefined> = { done: true, value: undefined }

/**
 * Makes an empty stream. Without a reader, the tokens of a completion are combined into one event,
 * so at most two events per completion wait. `leave` is called when the reader stops before the
 * end.
 *
 * Effects  a mutable value.
 *
 * @example
 * makeOutbox(() => {}).size() // 0
 */
export const makeOutbox = (onEnd: () => void): Outbox => {
  const waiting: Pending[] = []
  const gathered = new Map<number, PendingTokens>()
  const readers: ((result: IteratorResult<GenerationEvent, undefined>) => void)[] = []
  let state: 'open' | 'ended' | 'left' = 'open'

  const push: Outbox['push'] = (event) => {
    if (state !== 'open') return
    const reader = readers.shift()
    if (reader !== undefined) {
      reader({ done: false, value: event })
      return
    }
    if (event._tag !== 'Tokens') {
      waiting.push({ event })
      return
    }
    const earlier = gathered.get(event.index)
    if (earlier !== undefined) {
      for (const token of event.tokens) earlier.tokens.push(token)
      earlier.text += event.text
      return
    }
    const tokens: PendingTokens = { index: event.index, tokens: [...event.tokens], text: event.text }
    gathered.set(event.index, tokens)
    waiting.push({ tokens })
  }

  const finish = (how: 'ended' | 'left'): void => {
    state = how
    for (const reader of readers.splice(0)) reader(DONE)
  }

  const eventOf = (pending: Pending): GenerationEvent => {
    if ('event' in pending) return pending.event
    gathered.delete(pending.tokens.index)
    return { _tag: 'Tokens', ...pending.tokens }
  }

  return {
    push,
    end: () => {
      if (state === 'open') finish('ended')
    },
    reader: {
      next: () => {
        const pending = waiting.shift()
        if (pending !== undefined) return Promise.resolve({ done: false, value: eventOf(pending) })
        if (state !== 'open') return Promise.resolve(DONE)
        return new Promise((go) => readers.push(go))
      },
      return: () => {
        waiting.length = 0
        gathered.clear()
        if (state === 'open') {
          finish('left')
          onEnd()
        }
        return Promise.resolve(DONE)
      },
    },
    size: () => waiting.length,
  }
}
