/** Server-sent events as they arrive. */
import type { HttpEventItem, HttpEvents, HttpFailure } from '@tandem-rl/base'
import { createParser, ParseError } from 'eventsource-parser'
import { type Either, isRight, left, right } from 'fp-ts/lib/Either.js'
import { type Attempt, type Begun, type ByteReceiver, receive, receiverOfWhole } from './receive.js'
import type { Trouble } from './retry.js'

/** The start of an answer with events. */
export interface Streamed {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly events: HttpEvents['events']
}

/** The callbacks of the owner of a stream. */
export interface StreamOwner {
  readonly tell: (trouble: Trouble) => HttpFailure
  /** Called once when the stream has ended, failed, or lost its reader. */
  readonly over: (trouble: Trouble | undefined) => void
}

const malformed = (reason: string): Trouble => ({ kind: 'malformed', reason, acted: 'perhaps' })

/**
 * Decodes bytes that arrive in arbitrary pieces, and writes all line ends of the standard (CR, LF
 * and CRLF) as LF. Throws for invalid UTF-8.
 */
const decoder = (): ((bytes?: Uint8Array) => string) => {
  const decode = new TextDecoder('utf-8', { fatal: true })
  let isAfterReturn = false
  return (bytes) => {
    const text = bytes === undefined ? decode.decode() : decode.decode(bytes, { stream: true })
    if (text === '') return ''
    const rest = isAfterReturn && text.startsWith('\n') ? text.slice(1) : text
    isAfterReturn = text.endsWith('\r')
    return rest.replaceAll(/\r\n?/g, '\n')
  }
}

interface Parser {
  /** Returns the problem with the bytes, if any. */
  readonly feed: (bytes: Uint8Array) => Trouble | undefined
  /** Returns the problem if the stream must not end here. */
  readonly end: () => Trouble | undefined
}

/** A field name. Unknown fields are ignored, as the standard requires. */
const FIELD_NAME = /^[A-Za-z][\w-]{0,63}$/

/**
 * Parses events. A line that is neither a field nor a comment is an error: the text is no event
 * stream.
 */
const eventParser = (maxChars: number, onItem: (item: Exclude<HttpEventItem, HttpFailure>) => void): Parser => {
  const decode = decoder()
  let trouble: Trouble | undefined
  let isEnding = false
  const parser = createParser({
    maxBufferSize: maxChars,
    onEvent: ({ event, data }) => {
      if (isEnding) {
        onItem({ _tag: 'Unfinished', event: { event, data } })
        trouble ??= malformed('the stream ends in the middle of an event')
      } else if (trouble === undefined) onItem({ _tag: 'Event', event: { event, data } })
    },
    onError: ({ type, line, field }) => {
      if (type === 'invalid-retry' || (type === 'unknown-field' && line?.includes(':') && FIELD_NAME.test(field ?? '')))
        return
      const reason = isEnding
        ? 'the stream ends in the middle of an event'
        : `a line of the stream is not an event: ${JSON.stringify((line ?? '').slice(0, 80))}`
      trouble ??=
        type === 'max-buffer-size-exceeded'
          ? {
              kind: 'too-large',
              reason: `an event has more than ${maxChars} characters, the limit (maxBytes)`,
              acted: 'perhaps',
            }
          : malformed(reason)
    },
  })
  const guarded = (feed: () => void): Trouble | undefined => {
    try {
      if (trouble === undefined) feed()
    } catch (error) {
      // The decoder throws for bytes that are not UTF-8; the parser throws after it has reported
      // its error.
      trouble ??= malformed(error instanceof ParseError ? error.message : 'the stream of events is not UTF-8')
    }
    return trouble
  }
  return {
    feed: (bytes) => guarded(() => parser.feed(decode(bytes))),
    end: () =>
      guarded(() => {
        const rest = decode()
        isEnding = true
        parser.feed(`${rest}\n\n`)
      }),
  }
}

/** Makes a queue of unread items. While it is not empty, reading from the connection is paused. */
const itemQueue = (
  begun: Begun,
  maxChars: number,
  owner: StreamOwner,
): { readonly events: HttpEvents['events']; readonly sink: ByteReceiver } => {
  const items: HttpEventItem[] = []
  let state: 'going' | 'paused' | 'over' = 'going'
  let reader: ((result: IteratorResult<HttpEventItem, undefined>) => void) | undefined
  let isRead = false

  const push = (item: HttpEventItem): void => {
    if (reader === undefined) {
      items.push(item)
      return
    }
    reader({ value: item, done: false })
    reader = undefined
  }
  const finish = (trouble: Trouble | undefined): void => {
    if (state === 'over') return
    state = 'over'
    if (trouble !== undefined) push(owner.tell(trouble))
    else reader?.({ value: undefined, done: true })
    reader = undefined
    owner.over(trouble)
  }
  const next = (): Promise<IteratorResult<HttpEventItem, undefined>> => {
    const item = items.shift()
    if (item !== undefined) return Promise.resolve({ value: item, done: false })
    if (state === 'over') return Promise.resolve({ value: undefined, done: true })
    return new Promise((resolve) => {
      reader = resolve
      if (state === 'paused') {
        state = 'going'
        begun.resume()
      }
    })
  }
  const parser = eventParser(maxChars, (item) => {
    begun.heard() // keep-alive comments do not count as data
    push(item)
  })
  const fail = (trouble: Trouble): void => {
    begun.drop()
    finish(trouble)
  }
  return {
    sink: {
      data: (bytes) => {
        const trouble = parser.feed(bytes)
        if (trouble !== undefined) fail(trouble)
        else if (items.length > 0 && state === 'going') {
          state = 'paused'
          begun.pause()
        }
      },
      end: () => finish(parser.end()),
      broken: finish,
    },
    events: {
      [Symbol.asyncIterator]: () => {
        if (isRead) throw new TypeError('events: a stream can be read once')
        isRead = true
        return {
          next,
          return: () => {
            if (state !== 'over') begun.drop()
            items.length = 0
            finish(undefined)
            return Promise.resolve({ value: undefined, done: true })
          },
        }
      },
    },
  }
}

async function* onlyEvent(data: string): AsyncGenerator<HttpEventItem> {
  yield { _tag: 'Event', event: { event: undefined, data } }
}

const JSON_TYPE = /^application\/([\w.-]+\+)?json\b/i

/**
 * Sends a request and reads events as they arrive. Resolves when the answer starts. An answer of
 * JSON is one event; other types fail, and are not requested again.
 */
export const receiveEvents = (attempt: Attempt, owner: StreamOwner): Promise<Either<Trouble, Streamed>> =>
  new Promise((resolve) => {
    const failed = (trouble: Trouble): void => resolve(left(trouble))
    const open = (begun: Begun): ByteReceiver => {
      const { status, headers } = begun
      const type = headers['content-type'] ?? 'nothing'
      if (JSON_TYPE.test(type))
        return receiverOfWhole(attempt, begun, (whole) => {
          if (isRight(whole)) owner.over(undefined)
          resolve(isRight(whole) ? right({ status, headers, events: onlyEvent(whole.right.text) }) : whole)
        })
      if (!/^text\/event-stream\b/i.test(type)) {
        begun.drop()
        failed({ ...malformed(`the server answered with ${type} instead of a stream of events`), passing: 'no' })
        return { data: () => undefined, end: () => undefined, broken: () => undefined }
      }
      const { events, sink } = itemQueue(begun, attempt.settings.maxBytes, owner)
      resolve(right({ status, headers, events }))
      return sink
    }
    receive(attempt, open, failed)
  })
