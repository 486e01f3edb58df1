import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { orThrow, describe as sentence } from '@tandem-rl/base'
import { liveFiles } from '@tandem-rl/host'
import fc from 'fast-check'
import { left } from 'fp-ts/lib/Either.js'
import type * as TE from 'fp-ts/lib/TaskEither.js'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { encodeSafetensors, type WritableArray } from '../../../src/data/codecs/safetensors.js'
import { openSafetensors, readSafetensors, writeSafetensors } from '../../../src/data/codecs/safetensorsFile.js'
import { openCheckpoint, shardedSafetensors } from '../../../src/data/codecs/safetensorsShards.js'
import { elementCount, type StoredArray } from '../../../src/data/codecs/storage.js'
import { countingFiles } from '../../kit/countingFiles.js'
import { anyStoredArrays, bitsOf, contentsOf, fileOf } from '../../kit/storedArrays.js'

let folder = ''
const at = (...names: readonly string[]): string => join(folder, ...names)

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'tandem-safetensors-'))
})

afterEach(async () => {
  await rm(folder, { recursive: true, force: true })
})

const done = async <T>(result: TE.TaskEither<{ readonly _tag: string; readonly reason: string }, T>): Promise<T> =>
  orThrow(await result())

/** Rows of an array in memory: the oracle. */
const rowsOf = ({ shape, data }: StoredArray, start: number, end: number): readonly number[] => {
  const stride = elementCount(shape.slice(1))!
  return bitsOf(data.subarray(start * stride, end * stride))
}

describe('a file on disk', () => {
  it('holds the bytes of encodeSafetensors, and is read back whole', async () => {
    const law = fc.asyncProperty(anyStoredArrays, async (arrays) => {
      await done(writeSafetensors(at('x.safetensors'), arrays, { metadata: { format: 'pt' } }))
      const bytes = await done(liveFiles.readBytes(at('x.safetensors')))
      expect(bytes).toEqual(Buffer.from(encodeSafetensors(arrays, { metadata: { format: 'pt' } })))
      const { files, seen } = countingFiles()
      const back = await done(readSafetensors(at('x.safetensors'), files))
      expect(contentsOf(back.arrays)).toEqual(contentsOf(arrays))
      expect(back.metadata).toEqual({ format: 'pt' })
      expect(seen).toEqual({ bytes: bytes.length, open: 0 })
    })
    await fc.assert(law, { numRuns: 10 })
    expect(await readdir(folder)).toEqual(['x.safetensors'])
  })

  it('is opened by its header alone, and gives single tensors and rows by reading their bytes alone', async () => {
    const law = fc.asyncProperty(anyStoredArrays, fc.nat(), fc.nat(), async (arrays, a, b) => {
      await writeFile(at('x'), encodeSafetensors(arrays))
      const { files, seen } = countingFiles()
      const opened = await done(openSafetensors(at('x'), files))
      const [first] = opened.entries.values()
      expect(seen.bytes).toBe(first?.begin ?? 16)
      for (const [name, array] of arrays) {
        const { begin, end } = opened.entries.get(name)!
        seen.bytes = 0
        const whole = await done(opened.read(name))
        expect([whole.type, whole.shape, bitsOf(whole.data)]).toEqual([array.type, array.shape, bitsOf(array.data)])
        expect(seen.bytes).toBe(end - begin)
        const [size] = array.shape
        if (size === undefined) continue
        const [start, stop] = [a % (size + 1), b % (size + 1)].sort((x, y) => x - y) as [number, number]
        seen.bytes = 0
        const rows = await done(opened.read(name, { start, end: stop }))
        expect(rows.shape).toEqual([stop - start, ...array.shape.slice(1)])
        expect(bitsOf(rows.data)).toEqual(rowsOf(array, start, stop))
        expect(seen.bytes).toBe(size === 0 ? 0 : ((end - begin) / size) * (stop - start))
      }
      await done(opened.close)
      expect(seen.open).toBe(0)
    })
    await fc.assert(law, { numRuns: 40 })
  })

  it('reads 16-bit floats of more than one slice', async () => {
    const data = Float32Array.from({ length: 2 ** 21 + 3 }, (_, i) => i % 2048)
    await done(writeSafetensors(at('x'), new Map([['h', { type: 'F16', shape: [data.length], data }]])))
    const back = (await done(readSafetensors(at('x')))).arrays.get('h')!.data
    expect(Buffer.compare(new Uint8Array(back.buffer), new Uint8Array(data.buffer))).toBe(0)
  })

  it('throws for an unknown name and for missing rows, and lists the known ones', async () => {
    await writeFile(
      at('x'),
      encodeSafetensors(
        new Map([
          ['a', { shape: [2, 1], data: new Float32Array(2) }],
          ['s', { shape: [], data: new Float32Array(1) }],
        ]),
      ),
    )
    const opened = await done(openSafetensors(at('x')))
    expect(() => opened.read('b')).toThrow(new RangeError('read: no tensor "b" among 2: "a", "s"'))
    for (const [start, end] of [
      [0, 3],
      [-1, 1],
      [2, 1],
      [0, 0.5],
      [Number.NaN, 1],
    ] as const) {
      expect(() => opened.read('a', { start, end })).toThrow(
        `read: rows ${start} to ${end} of "a" are out of range, its shape is [2,1]`,
      )
    }
    expect(() => opened.read('s', { start: 0, end: 1 })).toThrow('its shape is []')
    await done(opened.close)
  })

  it('that is malformed is a failure with its path, and is closed', async () => {
    const { files, seen } = countingFiles()
    for (const bytes of [new Uint8Array(3), fileOf('{'), fileOf('{}').fill(0xff, 0, 8)]) {
      await writeFile(at('x'), bytes)
      const result = await openSafetensors(at('x'), files)()
      expect(result).toMatchObject({ left: { _tag: 'FormatFailure', format: 'safetensors', where: at('x') } })
      if (result._tag === 'Left') expect(sentence(result.left)).toContain(`${at('x')}: the `)
    }
    expect(seen.open).toBe(0)
  })

  it('with a header of four gigabytes is refused before anything is allocated for it', async () => {
    await writeFile(at('x'), Buffer.from([0, 0, 0, 0, 1, 0, 0, 0, 0x7b]))
    const { files, seen } = countingFiles()
    expect(await openSafetensors(at('x'), files)()).toMatchObject({
      left: { reason: expect.stringContaining('4294967296') },
    })
    expect(seen.bytes).toBe(8)
  })

  it('that is missing, or is a folder, is a failure of the system', async () => {
    expect(await openSafetensors(at('none'))()).toMatchObject({ left: { operation: 'open', code: 'ENOENT' } })
    expect(await openSafetensors(folder)()).toMatchObject({ left: { operation: 'open', code: 'EISDIR' } })
  })

  it('that is replaced while it is open is read as it was', async () => {
    const of = (n: number) => new Map([['x', { shape: [1], data: Float32Array.of(n) }]])
    await done(writeSafetensors(at('x'), of(1)))
    const opened = await done(openSafetensors(at('x')))
    await done(writeSafetensors(at('x'), of(2)))
    expect((await done(opened.read('x'))).data[0]).toBe(1)
    await done(opened.close)
    expect((await done(readSafetensors(at('x')))).arrays.get('x')!.data[0]).toBe(2)
  })

  it('that is cut off while it is open gives a failure, and no numbers', async () => {
    await done(writeSafetensors(at('x'), new Map([['x', { shape: [100], data: new Float32Array(100) }]])))
    const opened = await done(openSafetensors(at('x')))
    await done(liveFiles.truncate(at('x'), 200))
    expect(await opened.read('x')()).toMatchObject({
      left: {
        _tag: 'FileFailure',
        operation: 'read',
        reason: expect.stringMatching(/the file ends at byte 200, before/),
      },
    })
    await done(opened.close)
  })
})

describe('a checkpoint in shards', () => {
  /** Without waiting for the disk. */
  const save = async (arrays: ReadonlyMap<string, WritableArray>, maxShardBytes: number): Promise<void> => {
    for (const name of await readdir(folder)) await rm(at(name))
    const files = shardedSafetensors(arrays, { maxShardBytes, metadata: { format: 'pt' } })
    for (const [name, contents] of Object.entries(files)) {
      await writeFile(at(name), typeof contents === 'string' ? contents : Buffer.concat([...contents]))
    }
  }

  it('is read back whole, whatever the size of the shards', async () => {
    const law = fc.asyncProperty(anyStoredArrays, fc.integer({ min: 1, max: 300 }), async (arrays, maxShardBytes) => {
      await save(arrays, maxShardBytes)
      const { files, seen } = countingFiles()
      const opened = await done(openCheckpoint(folder, files))
      const back = new Map<string, StoredArray>()
      for (const name of opened.entries.keys()) back.set(name, await done(opened.read(name)))
      expect(contentsOf(back)).toEqual(contentsOf(arrays))
      expect(opened.metadata).toEqual({ format: 'pt' })
      await done(opened.close)
      expect(seen.open).toBe(0)
      for (const name of (await readdir(folder)).filter((file) => file.endsWith('.safetensors'))) {
        const shard = await done(readSafetensors(at(name)))
        const sizes = [...shard.arrays.values()].map(
          (array) => array.data.byteLength / (/^B?F16$/.test(array.type) ? 2 : 1),
        )
        if (sizes.filter((n) => n > 0).length > 1)
          expect(sizes.reduce((a, b) => a + b, 0)).toBeLessThanOrEqual(maxShardBytes)
      }
    })
    await fc.assert(law, { numRuns: 30 })
  })

  const two = new Map(['a', 'b'].map((name) => [name, { shape: [2], data: Float32Array.of(1, 2) }]))

  it('is written by writeFolder, which replaces the folder whole', async () => {
    await done(liveFiles.writeFolder(at('model'), shardedSafetensors(two, { maxShardBytes: 8 })))
    await done(liveFiles.writeFolder(at('model'), shardedSafetensors(two, { maxShardBytes: 16 })))
    expect(await readdir(at('model'))).toEqual(['model.safetensors'])
    const opened = await done(openCheckpoint(at('model')))
    expect([...(await done(opened.read('b'))).data]).toEqual([1, 2])
    await done(opened.close)
  })

  it('has the names and the index of Transformers', () => {
    const files = shardedSafetensors(two, { maxShardBytes: 8 })
    const names = ['model-00001-of-00002.safetensors', 'model-00002-of-00002.safetensors']
    expect(Object.keys(files)).toEqual([...names, 'model.safetensors.index.json'])
    expect(JSON.parse(String(files['model.safetensors.index.json']))).toEqual({
      metadata: { total_size: 16 },
      weight_map: { a: names[0], b: names[1] },
    })
    expect(Object.keys(shardedSafetensors(two, { maxShardBytes: 16 }))).toEqual(['model.safetensors'])
    expect(() => shardedSafetensors(two, { maxShardBytes: 0 })).toThrow(RangeError)
  })

  const index = (map: unknown): string => JSON.stringify({ weight_map: map })
  const [first, second] = ['model-00001-of-00002.safetensors', 'model-00002-of-00002.safetensors']

  it.each([
    ['that is not JSON', '{', /not JSON/],
    ['without a map', '{}', /'weight_map' is not an object/],
    ['with a name twice', `{"weight_map":{"a":"${first}","a":"${second}"}}`, /duplicate key/],
    ['that points out of the folder', index({ a: '../x.safetensors' }), /is not a file name/],
    ['whose file is no text', index({ a: 1 }), /is not a text/],
    ['that names a tensor its shard does not have', index({ a: first, b: first, c: first }), /"b" should be in/],
    ['that names the wrong shard', index({ a: second, b: second }), /"a" should be in/],
  ])('with an index %s is refused, and no file stays open', async (_, text, reason) => {
    await save(two, 8)
    await writeFile(at('model.safetensors.index.json'), text)
    const { files, seen } = countingFiles()
    const result = await openCheckpoint(folder, files)()
    const path = at('model.safetensors.index.json')
    expect(result).toMatchObject({
      left: { format: 'safetensors index', where: path, reason: expect.stringMatching(reason) },
    })
    expect(seen.open).toBe(0)
  })

  it('with a tensor that the index forgot is refused', async () => {
    await done(writeSafetensors(at('one.safetensors'), two))
    await writeFile(at('model.safetensors.index.json'), index({ a: 'one.safetensors' }))
    expect(await openCheckpoint(folder)()).toMatchObject({
      left: { reason: '"b" is in one.safetensors, but the index does not name it' },
    })
  })

  it('with a shard that is missing names it, and closes the others', async () => {
    await save(two, 8)
    await rm(at(second))
    const { files, seen } = countingFiles()
    expect(await openCheckpoint(folder, files)()).toMatchObject({ left: { code: 'ENOENT', path: at(second) } })
    expect(seen.open).toBe(0)
  })

  it('can be a single file', async () => {
    await save(two, 1000)
    const opened = await done(openCheckpoint(folder))
    expect([...opened.entries.keys()]).toEqual(['a', 'b'])
    await done(opened.close)
  })

  it('that is missing is a failure', async () => {
    expect(await openCheckpoint(folder)()).toEqual(
      left(expect.objectContaining({ _tag: 'FileFailure', code: 'ENOENT', path: at('model.safetensors') })),
    )
  })
})
