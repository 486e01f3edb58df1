/** Archives in the format ustar. */
import { joinBytes } from './joinBytes.js'

const BLOCK = 512

const encoder = new TextEncoder()

const padding = (size: number): Uint8Array => new Uint8Array((BLOCK - (size % BLOCK)) % BLOCK)

/** The header of a regular file. Numbers are octal; the checksum counts its own place as spaces. */
const header = (name: string, size: number): Uint8Array => {
  const bytes = new Uint8Array(BLOCK)
  const put = (text: string, at: number): void => bytes.set(encoder.encode(text), at)
  const octal = (value: number, digits: number): string => `${value.toString(8).padStart(digits, '0')}\0`
  put(name, 0)
  put(octal(0o644, 7), 100)
  put(octal(0, 7), 108)
  put(octal(0, 7), 116)
  put(octal(size, 11), 124)
  put(octal(0, 11), 136)
  put(' '.repeat(8), 148)
  put('0', 156)
  put('ustar\x0000', 257)
  put(
    `${octal(
      bytes.reduce((sum, byte) => sum + byte, 0),
      6,
    )} `,
    148,
  )
  return bytes
}

/**
 * Writes files as an archive.
 *
 * Errors   throws RangeError for a name of more than 100 bytes.
 *
 * @example
 * tarArchive({ 'a.txt': 'hello' }).length // 2048
 */
export const tarArchive = (files: Readonly<Record<string, Uint8Array | string>>): Uint8Array => {
  const parts = Object.entries(files).flatMap(([name, contents]) => {
    if (encoder.encode(name).length > 100)
      throw new RangeError(`tarArchive: name must have at most 100 bytes, got ${name}`)
    const bytes = typeof contents === 'string' ? encoder.encode(contents) : contents
    return [header(name, bytes.length), bytes, padding(bytes.length)]
  })
  return joinBytes([...parts, new Uint8Array(2 * BLOCK)])
}
