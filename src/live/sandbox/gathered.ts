/** What a program writes, of which a bounded part is kept. */
import type { Readable } from 'node:stream'
import type { SandboxText } from '../../core/sandbox.js'

/** So many times the limit is read and thrown away before it is too much: some programs say too much once, and have more to do. */
const PATIENCE = 64

/** A stream that is being read. */
export interface Gathered {
  /** What has come since the last mark. */
  readonly text: () => SandboxText
  /** Gives what comes before `mark`, which is taken out, and then reads no further. Never settles if the stream ends before. */
  readonly until: (mark: string) => Promise<SandboxText>
  /** Reads the rest, whatever it is. */
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
    chunks: part.length === 0 ? chunks : [...chunks, Buffer.from(part)], // a copy: the whole of `more` is not held
    bytes: bytes + part.length,
    total: total + more.length,
  }
}

const textOf = ({ chunks, bytes, total }: Kept): SandboxText => {
  const isCut = total > bytes
  // Half a character at the cut is left out; elsewhere it is replaced like all that is not UTF-8.
  const text = new TextDecoder('utf-8', { ignoreBOM: true }).decode(Buffer.concat(chunks), { stream: isCut })
  return { text, dropped: total - bytes }
}

/** Small chunks are joined, so that a program that writes byte by byte costs no list of bytes. */
const compacted = (kept: Kept): Kept =>
  kept.chunks.length < 64 ? kept : { ...kept, chunks: [Buffer.concat(kept.chunks)] }

/**
 * Reads a stream: keeps `limitBytes`, counts the rest, and says once when it is far too much.
 *
 * Effects  listens to the stream, and pauses it behind a mark.
 * Cost     O(limitBytes) memory, whatever comes.
 */
export const gathered = (
  stream: Readable,
  options: { readonly limitBytes: number; readonly tooMuch: () => void },
): Gathered => {
  const { limitBytes, tooMuch } = options
  let kept = NOTHING
  let rest = Buffer.alloc(0) // behind the last mark, or what may be the beginning of the next
  let mark: Buffer | undefined
  let found: (said: SandboxText) => void = () => {}

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
    stream.pause()
    found(textOf(kept))
    kept = NOTHING
  }

  stream.on('data', search)
  stream.on('error', () => {}) // the end of the program tells
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
      mark = undefined
      stream.resume()
    },
  }
}
