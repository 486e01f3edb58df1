/** The output of a program, of which a bounded part is kept. */
import type { Readable } from 'node:stream'
import type { SandboxText } from '@tandem-rl/base'

/**
 * Multiple of the limit that is read and discarded before the output counts as excessive. Some
 * programs only write too much once and then continue.
 */
const PATIENCE = 64

/** A stream that is being read. */
export interface Gathered {
  /** Returns the output since the last mark. */
  readonly text: () => SandboxText
  /**
   * Resolves with the output before `mark`, which is removed, and then stops reading, unless `flow`
   * was called. Never settles if the stream ends before the mark.
   */
  readonly until: (mark: string) => Promise<SandboxText>
  /** Reads the stream to its end from now on. A mark in the rest is still found. */
  readonly flow: () => void
}

interface Kept {
  readonly chunks: readonly Buffer[]
  readonly bytes: number
  readonly total: number
}

const NOTHING: Kept = { chunks: [], bytes: 0, total: 0 }

const keeping = ({ chunks, bytes, total }: Kept, more: Buffer, limitBytes: number): Kept => {
  const part = more.subarray(0, limitBytes - bytes)
  return {
    chunks: part.length === 0 ? chunks : [...chunks, Buffer.from(part)], // a copy, so that `more` can be freed
    bytes: bytes + part.length,
    total: total + more.length,
  }
}

const textOf = ({ chunks, bytes, total }: Kept): SandboxText => {
  const isCut = total > bytes
  // A partial character at the cut is left out. Elsewhere invalid UTF-8 is replaced.
  const text = new TextDecoder('utf-8', { ignoreBOM: true }).decode(Buffer.concat(chunks), { stream: isCut })
  return { text, dropped: total - bytes }
}

/** Joins small chunks, so that output in single bytes does not become a long list. */
const compacted = (kept: Kept): Kept =>
  kept.chunks.length < 64 ? kept : { ...kept, chunks: [Buffer.concat(kept.chunks)] }

/**
 * Reads a stream. Keeps `limitBytes`, counts the rest, and calls `tooMuch` once if it is excessive.
 *
 * Effects  listens to the stream, and pauses it after a mark.
 * Cost     O(limitBytes) memory for any amount of output.
 */
export const gathered = (
  stream: Readable,
  options: { readonly limitBytes: number; readonly tooMuch: () => void },
): Gathered => {
  const { limitBytes, tooMuch } = options
  let kept = NOTHING
  let rest = Buffer.alloc(0) // data after the last mark, or a possible start of the next
  let mark: Buffer | undefined
  let isFlowing = false
  let found: (reply: SandboxText) => void = () => {}

  const add = (more: Buffer): void => {
    const before = kept.total
    kept = compacted(keeping(kept, more, limitBytes))
    const most = limitBytes * PATIENCE
    if (before <= most && kept.total > most) tooMuch()
  }

  const search = (more: Buffer): void => {
    const whole = rest.length === 0 ? more : Buffer.concat([rest, more])
    const at = mark === undefined ? -1 : whole.indexOf(mark)
    if (mark === undefined || at < 0) {
      const held = mark === undefined ? 0 : Math.min(mark.length - 1, whole.length)
      add(whole.subarray(0, whole.length - held))
      rest = Buffer.from(whole.subarray(whole.length - held))
      return
    }
    add(whole.subarray(0, at))
    rest = Buffer.from(whole.subarray(at + mark.length))
    mark = undefined
    if (!isFlowing) stream.pause()
    found(textOf(kept))
    kept = NOTHING
  }

  stream.on('data', search)
  stream.on('error', () => {}) // the end of the program reports it
  return {
    text: () => textOf(rest.length === 0 ? kept : keeping(kept, rest, limitBytes)),
    until: (wanted) =>
      new Promise((resolve) => {
        mark = Buffer.from(wanted)
        found = resolve
        stream.resume()
        const before = rest
        rest = Buffer.alloc(0)
        search(before)
      }),
    flow: () => {
      isFlowing = true
      stream.resume()
    },
  }
}
