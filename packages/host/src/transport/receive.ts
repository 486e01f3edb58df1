/** One attempt: a request on a connection, and its complete answer. */
import { excerpt, type HttpRequest } from '@tandem-rl/base'
import { type Either, left, right } from 'fp-ts/lib/Either.js'
import type { ConnectionMessage, Connections } from './connections.js'
import type { Life } from './life.js'
import { retryAfterMs, type Trouble } from './retry.js'
import type { TransportSettings } from './settings.js'

/** The parts of an attempt. */
export interface Attempt {
  readonly connections: Connections
  readonly message: ConnectionMessage
  readonly life: Life
  readonly settings: Pick<TransportSettings, 'idleMs' | 'maxBytes' | 'timing' | 'secrets'>
  readonly statusIn?: HttpRequest['statusIn']
}

/** The start of an answer. */
export interface Begun {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly pause: () => void
  readonly resume: () => void
  /** Closes the connection, because the rest is not needed. */
  readonly drop: () => void
  /** Call when actual data arrives, not for keep-alive comments: resets the silence timer. */
  readonly heard: () => void
}

/** The destination of an answer's bytes. No callback follows after `end` or `broken`. */
export interface ByteReceiver {
  readonly data: (bytes: Uint8Array) => void
  readonly end: () => void
  readonly broken: (trouble: Trouble) => void
}

/** Watches for silence, and calls `ring` after `silenceMs` without data. */
const watchIdle = (
  { idleMs: silenceMs, timing }: Attempt['settings'],
  ring: () => void,
): { readonly heard: () => void; readonly stop: () => void; readonly hold: (how: 'held' | 'going') => void } => {
  let heardMs = timing.now()
  let held: 'held' | 'going' = 'going'
  let cancel: () => void = () => undefined
  const check = (): void => {
    const leftMs = heardMs + silenceMs - timing.now()
    if (held === 'held') cancel = timing.after(silenceMs, check)
    else if (leftMs > 0) cancel = timing.after(leftMs, check)
    else ring()
  }
  if (silenceMs > 0) cancel = timing.after(silenceMs, check)
  const heard = (): void => {
    heardMs = timing.now()
  }
  return {
    heard,
    stop: () => cancel(),
    hold: (how) => {
      held = how
      heard()
    },
  }
}

/**
 * Sends a request. `open` is called when a response with status 2xx starts, and returns the
 * destination of its bytes. `failed` is called once for all other outcomes.
 */
export const receive = (
  attempt: Attempt,
  open: (begun: Begun) => ByteReceiver,
  failed: (trouble: Trouble) => void,
): void => {
  const { connections, message, life, settings } = attempt
  const { idleMs: silenceMs } = settings
  let sink: ByteReceiver = { data: () => undefined, end: () => undefined, broken: failed }
  let isOver = false
  const over = (then: () => void): void => {
    if (isOver) return
    isOver = true
    timer.stop()
    then()
  }
  const timer = watchIdle(settings, () =>
    cut({ kind: 'timeout', reason: `the server was silent for ${silenceMs} ms`, acted: 'perhaps' }),
  )
  const exchange = connections.exchange(message, {
    start: (status, headers) => {
      timer.heard()
      const begun: Begun = {
        status,
        headers,
        pause: () => {
          timer.hold('held')
          exchange.pause()
        },
        resume: () => {
          timer.hold('going')
          exchange.resume()
        },
        drop: () => over(exchange.drop),
        heard: timer.heard,
      }
      sink = status >= 200 && status < 300 ? open(begun) : refusal(begun, settings, failed)
    },
    data: (bytes) => {
      if (!isOver) sink.data(bytes)
    },
    end: () => over(() => sink.end()),
    broken: (trouble) => over(() => sink.broken(trouble)),
  })
  const cut = (why: Trouble): void =>
    over(() => {
      const acted = exchange.isSent() ? 'perhaps' : 'no'
      exchange.drop()
      sink.broken({ ...why, acted })
    })
  life.during(cut)
}

/** Collects bytes up to a limit, and decodes them at the end. */
const gather = (): {
  readonly add: (bytes: Uint8Array) => number
  readonly text: () => Either<Trouble, string>
  readonly start: () => string
} => {
  const parts: Uint8Array[] = []
  let length = 0
  return {
    add: (bytes) => {
      parts.push(bytes)
      length += bytes.length
      return length
    },
    text: () => {
      try {
        const all = parts.length === 1 ? parts[0]! : Buffer.concat(parts)
        return right(new TextDecoder('utf-8', { fatal: true }).decode(all))
      } catch {
        return left({ kind: 'malformed', reason: 'the answer is not UTF-8', acted: 'perhaps' })
      }
    },
    start: () => Buffer.concat(parts).toString('utf8'),
  }
}

/** Maximum number of bytes to read of an answer other than 2xx. */
const REFUSAL_BYTES = 2 ** 16
const EXCERPT = 2000

/** Returns the failure of an answer with a status other than 2xx, with its beginning. */
const statusTrouble = (
  { status, headers }: Pick<Begun, 'status' | 'headers'>,
  start: string,
  { timing, secrets }: Attempt['settings'],
): Trouble => {
  const waitMs = retryAfterMs(headers['retry-after'], timing.wall())
  const body = excerpt(start, EXCERPT, secrets)
  const shown = body.replaceAll(/\s+/g, ' ').slice(0, 200)
  return {
    kind: 'status',
    reason: `the server answered ${status}${shown === '' ? '' : `: ${shown}`}`,
    acted: status < 500 || status === 501 ? 'no' : 'perhaps',
    status,
    body,
    ...(waitMs !== undefined && { waitMs }),
  }
}

/** Reads an answer other than 2xx, and keeps its beginning for the error message. */
const refusal = (begun: Begun, settings: Attempt['settings'], failed: (trouble: Trouble) => void): ByteReceiver => {
  const { drop, heard } = begun
  const gathered = gather()
  const tell = (): void => failed(statusTrouble(begun, gathered.start(), settings))
  return {
    data: (bytes) => {
      heard()
      if (gathered.add(bytes) <= REFUSAL_BYTES) return
      drop()
      tell()
    },
    end: tell,
    // The status matters more than how its explanation ended.
    broken: tell,
  }
}

/** A complete answer with a status of 2xx. */
export interface Whole {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly text: string
}

const tooLarge = (maxBytes: number): Trouble => ({
  kind: 'too-large',
  reason: `the answer has more than ${maxBytes} bytes, the limit (maxBytes)`,
  acted: 'perhaps',
})

/** Reads the rest of an answer with a status of 2xx, and calls `done` with the whole. */
export const receiverOfWhole = (
  { settings, statusIn }: Attempt,
  { status, headers, drop, heard }: Begun,
  done: (whole: Either<Trouble, Whole>) => void,
): ByteReceiver => {
  const { maxBytes } = settings
  const gathered = gather()
  return {
    data: (bytes) => {
      heard()
      if (gathered.add(bytes) <= maxBytes) return
      drop()
      done(left(tooLarge(maxBytes)))
    },
    end: () => {
      const text = gathered.text()
      if (text._tag === 'Left') return done(text)
      const reported = statusIn?.(text.right)
      if (reported === undefined) done(right({ status, headers, text: text.right }))
      else done(left(statusTrouble({ status: reported, headers }, text.right, settings)))
    },
    broken: (trouble) => done(left(trouble)),
  }
}

/** Sends a request and reads the whole answer. */
export const receiveWhole = (attempt: Attempt): Promise<Either<Trouble, Whole>> =>
  new Promise((resolve) => {
    receive(
      attempt,
      (begun) => receiverOfWhole(attempt, begun, resolve),
      (trouble) => resolve(left(trouble)),
    )
  })
