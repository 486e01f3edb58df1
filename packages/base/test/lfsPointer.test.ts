import { parquetInfo } from '@tandem-rl/parquet'
import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import { headerLength } from '../../../src/data/codecs/safetensorsHeader.js'
import { collectJson } from '../../../src/data/datasets/json.js'
import { leftOf } from '../../../test/kit/results.js'
import { memoryBytes } from '../src/byteSource.js'
import { parseJson } from '../src/json.js'
import { collectJsonLines } from '../src/jsonLines.js'
import { lfsProblem, lfsProblemOfBytes } from '../src/lfsPointer.js'

const POINTER = `version https://git-lfs.github.com/spec/v1\noid sha256:${'a'.repeat(64)}\nsize 269060552\n`
const REMEDY = "not the file itself: fetch it with 'git lfs pull'"
const bytes = new TextEncoder().encode(POINTER)

describe('a pointer of Git LFS', () => {
  it('is named with the size of its file and the remedy', () => {
    expect(lfsProblem(POINTER)).toBe(`it is a Git LFS pointer to 269060552 bytes, ${REMEDY}`)
    expect(lfsProblem(POINTER.split('\n')[0]!)).toBe(`it is a Git LFS pointer, ${REMEDY}`)
    expect([lfsProblem('{}'), lfsProblem(''), lfsProblemOfBytes(new Uint8Array(3))]).toEqual([
      undefined,
      undefined,
      undefined,
    ])
  })

  it('is the reason of the failure in every format of large files', async () => {
    const schema = z.unknown()
    const source = (name: string) => memoryBytes(bytes, name)
    expect(parseJson(POINTER)).toMatchObject({ left: expect.stringContaining(REMEDY) })
    expect(headerLength(bytes.slice(0, 8), bytes.length)).toMatchObject({
      left: { reason: expect.stringContaining(REMEDY) },
    })
    for (const failed of [
      await leftOf(parquetInfo(source('a.parquet'))),
      await leftOf(collectJson(source('a.json'), { schema })),
      await leftOf(collectJsonLines(source('a.jsonl'), { schema })),
    ])
      expect(JSON.stringify(failed)).toContain(REMEDY)
  })
})
