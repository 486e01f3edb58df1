/** Lines of a stream of bytes. */

/** Takes the bytes of a stream, and its end. */
export interface LineReader {
  readonly add: (bytes: Uint8Array) => void
  /** Emits the last line if no line feed ends it. */
  readonly end: () => void
}

/** The longest line that is read, in UTF-16 units. */
const MAX_LINE = 64 * 2 ** 20

/**
 * Splits UTF-8 bytes into lines at line feeds only: `node:readline` also splits at U+2028, which
 * JSON texts may contain. A longer line than `maxLine` is emitted in parts, so memory is bounded.
 */
export const lineReader = (onLine: (line: string) => void, maxLine = MAX_LINE): LineReader => {
  const decoder = new TextDecoder()
  let pieces: string[] = []
  let size = 0
  const emit = (last: string): void => {
    const line = pieces.join('') + last
    pieces = []
    size = 0
    onLine(line)
  }
  return {
    add: (bytes) => {
      const parts = decoder.decode(bytes, { stream: true }).split('\n')
      for (const part of parts.slice(0, -1)) emit(part)
      const rest = parts.at(-1) ?? ''
      pieces.push(rest)
      size += rest.length
      if (size > maxLine) emit('')
    },
    end: () => {
      const rest = decoder.decode()
      if (size > 0 || rest !== '') emit(rest)
    },
  }
}
