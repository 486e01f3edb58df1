/** Zip archives: methods of compression, and damaged archives. */
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { deflateRawSync } from 'node:zlib'
import { type ByteSource, crc32 } from '@tandem-rl/base'
import { isLeft } from 'fp-ts/lib/Either.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { describe, expect, it } from 'vitest'
import { leftOf, rightOf } from '../../../../test/kit/results.js'
import { readZipEntry, zipEntries } from '../../src/foreign/zip.js'

const INSPECT = readFileSync(fileURLToPath(new URL('../golden/foreign/inspect/sums.eval', import.meta.url)))

const sourceOf = (bytes: Uint8Array): ByteSource => ({
  name: 'a.zip',
  size: bytes.length,
  read: (start, end) => TE.right(bytes.slice(start, end)),
})

/** Makes an archive with one entry. */
const archive = (text: string, method: number, packed: Uint8Array): Uint8Array => {
  const [name, plain] = [Buffer.from('größe.txt'), Buffer.from(text)]
  const header = (signature: number, bytes: number, shift: number): Buffer => {
    const made = Buffer.alloc(bytes)
    made.writeUInt32LE(signature, 0)
    made.writeUInt16LE(method, 8 + shift)
    made.writeUInt32LE(crc32(plain), 14 + shift)
    made.writeUInt32LE(packed.length, 18 + shift)
    made.writeUInt32LE(plain.length, 22 + shift)
    made.writeUInt16LE(name.length, 26 + shift)
    return made
  }
  const local = Buffer.concat([header(0x04034b50, 30, 0), name, packed])
  const central = Buffer.concat([header(0x02014b50, 46, 2), name])
  const end = Buffer.alloc(22)
  end.writeUInt32LE(0x06054b50, 0)
  end.writeUInt16LE(1, 10)
  end.writeUInt32LE(central.length, 12)
  end.writeUInt32LE(local.length, 16)
  return Buffer.concat([local, central, end])
}

const readAll = async (bytes: Uint8Array): Promise<readonly string[]> => {
  const source = sourceOf(bytes)
  const entries = await rightOf(zipEntries(source))
  return Promise.all(entries.map(async (entry) => Buffer.from(await rightOf(readZipEntry(source, entry))).toString()))
}

describe('zip archives', () => {
  it('reads stored and deflated entries, and names in UTF-8', async () => {
    const text = 'abc '.repeat(1000)
    for (const [method, packed] of [
      [0, Buffer.from(text)],
      [8, deflateRawSync(text)],
    ] as const) {
      const bytes = archive(text, method, packed)
      expect((await rightOf(zipEntries(sourceOf(bytes)))).map(({ name }) => name)).toEqual(['größe.txt'])
      expect(await readAll(bytes)).toEqual([text])
    }
  })

  it('reads the Zstandard entries of Inspect', async () => {
    const texts = await readAll(INSPECT)
    expect(texts).toHaveLength(8)
    for (const text of texts) expect(() => JSON.parse(text) as unknown).not.toThrow()
  })

  it('refuses an entry that unpacks to more than it declares, another method and a wrong checksum', async () => {
    const bomb = archive('', 8, deflateRawSync(Buffer.alloc(1_000_000)))
    const source = sourceOf(bomb)
    const [entry] = await rightOf(zipEntries(source))
    expect(await leftOf(readZipEntry(source, entry!))).toMatchObject({ _tag: 'FormatFailure' })
    const wrong = { ...entry!, method: 12 }
    expect(JSON.stringify(await leftOf(readZipEntry(source, wrong)))).toContain(
      'compression method 12 is not supported',
    )
    const text = sourceOf(archive('abc', 0, Buffer.from('abd')))
    const [other] = await rightOf(zipEntries(text))
    expect(JSON.stringify(await leftOf(readZipEntry(text, other!)))).toContain('its checksum differs')
  })

  it('returns a failure for every archive that is cut off or has a changed byte, or the same texts', async () => {
    const whole = await readAll(archive('abc', 0, Buffer.from('abc')))
    const bytes = archive('abc', 0, Buffer.from('abc'))
    for (let i = 0; i < bytes.length; i++) {
      const flipped = bytes.slice()
      flipped[i] = flipped[i]! ^ 0xff
      for (const broken of [bytes.slice(0, i), flipped]) {
        const source = sourceOf(broken)
        const entries = await zipEntries(source)()
        if (isLeft(entries)) continue
        for (const entry of entries.right) {
          const read = await readZipEntry(source, entry)()
          if (!isLeft(read)) expect(Buffer.from(read.right).toString()).toBe(whole[0])
        }
      }
    }
  })
})
