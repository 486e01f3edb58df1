import { appendFileSync, truncateSync, writeFileSync } from 'node:fs'
import { collectJsonLines, memoryBytes, parseJsonLines, readJsonLines } from '@tandem-rl/base'
import { fileBytes } from '@tandem-rl/host'
import fc from 'fast-check'
import * as E from 'fp-ts/lib/Either.js'
import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import { countingFiles } from '../../kit/countingFiles.js'
import { rightOf } from '../../kit/results.js'
import { useTemporaryFolder } from '../../kit/runs.js'

const path = useTemporaryFolder()
const schema = z.object({ question: z.string(), level: z.number().int() })
const row = (level: number): string => JSON.stringify({ question: 'How many?', level })
const bytes = (text: string) => memoryBytes(new TextEncoder().encode(text), 'a.jsonl')

const readAll = async (
  source: ReturnType<typeof bytes>,
  options: { chunkBytes?: number; maxLineBytes?: number } = {},
) => {
  const read = []
  for await (const each of readJsonLines(source, { schema, ...options })) read.push(each)
  return read
}

const anyRows = fc.array(fc.record({ question: fc.string({ unit: 'grapheme' }), level: fc.integer() }))

describe('readJsonLines', () => {
  it('reads what parseJsonLines reads, whatever the size of the chunks', async () => {
    const law = fc.asyncProperty(
      anyRows,
      fc.constantFrom('\n', '\r\n', '\n\n'),
      fc.boolean(),
      fc.integer({ min: 1, max: 40 }),
      async (rows, end, mark, chunkBytes) => {
        const text = `${mark ? '\uFEFF' : ''}${rows.map((value) => `${JSON.stringify(value)}${end}`).join('')}`
        const read = await collectJsonLines(bytes(text), { schema, chunkBytes })()
        expect(read).toEqual(parseJsonLines(text, { schema, source: 'a.jsonl' }))
        expect(read).toEqual(E.right(rows))
      },
    )
    await fc.assert(law)
  })

  it('numbers the rows by lines', async () => {
    const read = await readAll(bytes(`\n${row(1)}\r\n \t\n${row(2)}`))
    expect(read).toMatchObject([{ right: { line: 2 } }, { right: { line: 4, value: { level: 2 } } }])
  })

  it('gives a bad line in its place and goes on after it', async () => {
    const read = await readAll(bytes(`${row(1)}\n{"question":\n${row(3)}\n{"question":3}\n${row(5)}\n`))
    expect(read.map((each) => (E.isRight(each) ? each.right.line : each.left))).toMatchObject([
      1,
      { _tag: 'RowFailure', source: 'a.jsonl', row: 2, reason: expect.stringMatching(/^not JSON/) },
      3,
      { row: 4, reason: expect.stringMatching(/question: .*; level: /) },
      5,
    ])
  })

  it('of a file cut anywhere loses no whole line, and names the line that is cut', async () => {
    const text = Array.from({ length: 4 }, (_, i) => `${JSON.stringify({ question: `é${i}`, level: i })}\n`).join('')
    const whole = new TextEncoder().encode(text)
    const lineLength = whole.length / 4
    for (let cut = 0; cut <= whole.length; cut++) {
      const read = await readAll(memoryBytes(whole.subarray(0, cut), 'cut'), { chunkBytes: 7 })
      const [lines, rest] = [Math.floor(cut / lineLength), cut % lineLength]
      const isWholeRow = rest === lineLength - 1 // all but the line feed
      expect(read.filter(E.isRight)).toHaveLength(lines + (isWholeRow ? 1 : 0))
      const torn = read.filter(E.isLeft)
      expect(torn).toHaveLength(rest === 0 || isWholeRow ? 0 : 1)
      if (torn.length > 0)
        expect(torn[0]?.left).toMatchObject({ row: lines + 1, reason: expect.stringMatching(/cut off/) })
    }
  })

  it('refuses bytes that are no UTF-8, and lines above the limit, without keeping them', async () => {
    const bad = new Uint8Array([...new TextEncoder().encode(`${row(1)}\n`), 0x22, 0xff, 0x22, 0x0a])
    expect(await readAll(memoryBytes(bad, 'a'))).toMatchObject([
      { _tag: 'Right' },
      { left: { row: 2, reason: 'not UTF-8' } },
    ])
    const long = await readAll(bytes(`${'x'.repeat(500)}\n${row(2)}\n`), { maxLineBytes: 100, chunkBytes: 16 })
    expect(long).toMatchObject([
      { left: { row: 1, reason: 'the line has 500 bytes, more than the 100 that are allowed' } },
      { right: { line: 2 } },
    ])
  })

  it('throws for invalid limits', async () => {
    await expect(readAll(bytes(''), { chunkBytes: 0 })).rejects.toThrow(/chunkBytes must be a positive integer, got 0/)
    await expect(readAll(bytes(''), { maxLineBytes: 1.5 })).rejects.toThrow(/maxLineBytes/)
  })

  it('reads files in chunks, and reports a file that becomes shorter meanwhile', async () => {
    const file = path('rows.jsonl')
    writeFileSync(file, `${row(1)}\n${row(2)}\n`)
    const { files, seen } = countingFiles()
    const source = await rightOf(fileBytes(file, files))
    expect((await readAll(source, { chunkBytes: 10 })).filter(E.isRight)).toHaveLength(2)
    appendFileSync(file, `${row(3)}\n`) // rows added later are not part of the source
    expect((await readAll(source, { chunkBytes: 10 })).filter(E.isRight)).toHaveLength(2)
    truncateSync(file, row(1).length + 5)
    const read = await readAll(source, { chunkBytes: row(1).length + 1 })
    expect(read).toMatchObject([
      { right: { line: 1 } },
      { left: { _tag: 'FileFailure', path: file, reason: expect.stringMatching(/became shorter/) } },
    ])
    expect(seen.open).toBe(0)
  })

  it('of a missing file, or of a folder, is reported with its path', async () => {
    expect(await fileBytes(path('none'))()).toMatchObject({ left: { path: path('none'), code: 'ENOENT' } })
    expect(await fileBytes(path('.'))()).toMatchObject({ left: { code: 'EISDIR', reason: 'this is a folder' } })
  })
})

describe('collectJsonLines', () => {
  it('lists the bad lines, the first in front, and stops after a hundred', async () => {
    const few = await collectJsonLines(bytes(`1\n${row(1)}\n2\n3\n4\n5\n`), { schema })()
    expect(few).toMatchObject({ left: { row: 1, others: [{ row: 3 }, { row: 4 }, { row: 5 }, { row: 6 }] } })
    expect(few).toHaveProperty('left.reason', expect.stringMatching(/\(also line 3: .*, line 5: .*, and 1 more\)$/))
    const many = await collectJsonLines(bytes('1\n'.repeat(500)), { schema })()
    expect(many).toHaveProperty('left.others.length', 99)
  })
})
