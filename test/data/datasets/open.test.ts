import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs'
import * as E from 'fp-ts/lib/Either.js'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { orThrow, describe as sentence } from '../../../src/core/failure.js'
import type { Hub } from '../../../src/core/hub.js'
import { GSM8K } from '../../../src/data/datasets/gsm8k.js'
import { IFEVAL } from '../../../src/data/datasets/ifEval.js'
import { hubName, openDataset, parseHubName } from '../../../src/data/datasets/open.js'
import type { TaskSource } from '../../../src/data/task.js'
import { liveHub } from '../../../src/live/hub.js'
import { COMMIT, type HubServer, startHub } from '../../kit/hubServer.js'
import { leftOf, rightOf } from '../../kit/results.js'
import { gsm8kLines, useTemporaryFolder } from '../../kit/runs.js'

const path = useTemporaryFolder()
const golden = (name: string): Uint8Array => new Uint8Array(readFileSync(`test/golden/parquet/${name}.parquet`))
const lines = (count: number): Uint8Array => new TextEncoder().encode(gsm8kLines(count))

const queries = ({ size, at }: TaskSource): readonly string[] =>
  Array.from({ length: Number(size) }, (_, i) => orThrow(at(i)).query)

let server: HubServer
let hub: Hub

beforeAll(async () => {
  server = await startHub({
    'README.md': new Uint8Array(3),
    'main/train-00000-of-00002.parquet': golden('gsm8k'),
    'main/train-00001-of-00002.parquet': golden('gsm8k'),
    'main/test-00000-of-00001.parquet': golden('ifeval'),
    'socratic/train-00000-of-00001.parquet': golden('ifeval'),
    'train.jsonl': lines(3),
    'bad.jsonl': new TextEncoder().encode(`${gsm8kLines(1)}{"question":"Why?","answer":"so"}\n`),
  })
  hub = liveHub({ endpoint: server.url, cacheFolder: mkdtempSync(path('cache-')) })
})

afterAll(() => server.close())

describe('openDataset', () => {
  it('reads JSON Lines and Parquet into the same tasks', async () => {
    writeFileSync(path('rows.jsonl'), gsm8kLines(4))
    writeFileSync(path('rows.parquet'), golden('gsm8k'))
    const [a, b] = [
      await rightOf(openDataset(path('rows.jsonl'), GSM8K)),
      await rightOf(openDataset(path('rows.parquet'), GSM8K)),
    ]
    expect(queries(a)).toEqual(queries(b))
    expect(b.at(3)).toEqual(
      E.right({ id: `${path('rows.parquet')}-3`, query: 'What is 3 + 1?', answer: 'It is one more.\n#### 4' }),
    )
  })

  it('names the file, and the line or row that another format has', async () => {
    writeFileSync(path('other.parquet'), golden('ifeval'))
    expect(sentence(await leftOf(openDataset(path('other.parquet'), GSM8K)))).toMatch(
      /other.parquet, row 1: question: .*; answer: /,
    )
    writeFileSync(path('empty.jsonl'), '')
    expect(sentence(await leftOf(openDataset(path('empty.jsonl'), GSM8K)))).toMatch(/there are no rows/)
    expect(sentence(await leftOf(openDataset(path('none.parquet'), GSM8K)))).toMatch(
      /none.parquet: there is no such file/,
    )
  })

  it('reads all files of a split on the hub, in order, and reports progress', async () => {
    const seen = new Set<string>()
    const source = await rightOf(
      openDataset('hub:owner/rows/main/train', GSM8K, { hub, onProgress: ({ path }) => seen.add(path) }),
    )
    expect(source.name).toBe('hub:owner/rows/main/train')
    expect(queries(source)).toEqual([0, 1, 2, 3, 0, 1, 2, 3].map((n) => `What is ${n} + 1?`))
    expect([...seen]).toEqual(['main/train-00000-of-00002.parquet']) // the second has the same contents, so that it is there already
  })

  it('reads a file on the hub, at a commit, of any format', async () => {
    const source = await rightOf(openDataset(`hub:owner/rows@${COMMIT}/train.jsonl`, GSM8K, { hub }))
    expect(source.size).toBe(3)
    const other = await rightOf(openDataset('hub:owner/rows/socratic/train', IFEVAL, { hub }))
    expect(orThrow(other.at(0)).row.instructions).toHaveLength(2)
  })

  it('says which files there are where there is no such split, and passes on what the hub or a row says', async () => {
    expect(sentence(await leftOf(openDataset('hub:owner/rows/main/validation', GSM8K, { hub })))).toMatch(
      /does not have files of split validation of main: its files are main\/train-00000-of-00002.parquet, .*train.jsonl/,
    )
    expect(sentence(await leftOf(openDataset('hub:owner/gated/main/train', GSM8K, { hub })))).toMatch(/asked for/)
    expect(sentence(await leftOf(openDataset('hub:owner/rows/bad.jsonl', GSM8K, { hub })))).toMatch(
      /bad.jsonl, line 2: answer: /,
    )
  })
})

describe('parseHubName', () => {
  it.each([
    'hub:openai/gsm8k/main/train',
    'hub:openai/gsm8k@v1.0/main/test',
    'hub:google/IFEval/ifeval_input_data.jsonl',
    'hub:a/b@refs%2Fconvert/default/train/0000.parquet',
  ])('reads %s, and hubName writes it', (name) => {
    expect(hubName(orThrow(parseHubName(name)))).toBe(name)
  })

  it('knows revisions with slashes', () => {
    expect(orThrow(parseHubName('hub:a/b@refs%2Fconvert%2Fparquet/main/train')).revision).toBe('refs/convert/parquet')
  })

  it.each([
    'hub:',
    'hub:gsm8k',
    'hub:openai/gsm8k',
    'hub:openai/gsm8k/main',
    'hub:openai/gsm8k/a/b/c',
    'hub:openai/gsm8k//train',
    'gsm8k',
  ])('refuses %s', (name) => {
    expect(parseHubName(name)).toMatchObject({
      left: { reason: expect.stringMatching(/such as hub:openai\/gsm8k\/main\/train/) },
    })
  })
})
