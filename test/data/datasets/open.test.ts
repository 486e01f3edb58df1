import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs'
import { fileFailure, type Hub, orThrow, describe as sentence } from '@tandem-rl/base'
import { liveHub } from '@tandem-rl/host'
import * as E from 'fp-ts/lib/Either.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { z } from 'zod'
import { GSM8K } from '../../../src/data/datasets/gsm8k.js'
import { IFEVAL } from '../../../src/data/datasets/ifEval.js'
import { hubName, openDataset, openRows, parseHubName } from '../../../src/data/datasets/open.js'
import type { TaskSource } from '../../../src/data/task.js'
import { COMMIT, type HubServer, startHub } from '../../kit/hubServer.js'
import { leftOf, rightOf } from '../../kit/results.js'
import { gsm8kLines, useTemporaryFolder } from '../../kit/runs.js'

const path = useTemporaryFolder()
const golden = (name: string): Uint8Array =>
  new Uint8Array(readFileSync(`packages/parquet/test/golden/${name}.parquet`))
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
    'socratic/validation-00000-of-00001.parquet': golden('ifeval'),
    'other/validation-00000-of-00001.parquet': golden('ifeval'),
    'train.jsonl': lines(3),
    'list.json': new TextEncoder().encode(`[${gsm8kLines(2).trim().replace('\n', ',')}]`),
    'dataset_infos.json': new TextEncoder().encode('{}'),
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
    expect(sentence(await leftOf(openDataset(path('empty.jsonl'), GSM8K)))).toMatch(/no rows/)
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
    expect(sentence(await leftOf(openDataset('hub:owner/gated/main/train', GSM8K, { hub })))).toMatch(/request access/)
    expect(sentence(await leftOf(openDataset('hub:owner/rows/bad.jsonl', GSM8K, { hub })))).toMatch(
      /bad.jsonl, line 2: answer: /,
    )
  })
})

describe('a plain name of the hub', () => {
  const names = (name: string, access = { hub }) => rightOf(openDataset(name, GSM8K, access))

  it('is the default configuration and the split train, under the same name as with both', async () => {
    // `train.jsonl` has no folder, so that it is the default configuration; `main` and `socratic`
    // have to be named.
    expect((await names('owner/rows')).name).toBe('hub:owner/rows/default/train')
    expect(queries(await names('owner/rows'))).toHaveLength(3)
    const main = await names('owner/rows/main')
    expect(main.name).toBe('hub:owner/rows/main/train')
    expect(main.at(1)).toEqual((await names('hub:owner/rows/main/train')).at(1))
    expect((await names(`owner/rows@${COMMIT}/main/train`)).name).toBe(`hub:owner/rows@${COMMIT}/main/train`)
  })

  it('reads a list of rows in a file of the repository', async () => {
    expect(queries(await names('hub:owner/rows/list.json'))).toEqual(['What is 0 + 1?', 'What is 1 + 1?'])
  })

  it('lists the configurations where there are several and none is named', async () => {
    const failure = await leftOf(openDataset('hub:owner/rows/default/validation', IFEVAL, { hub }))
    expect(sentence(failure)).toMatch(
      /owner\/rows has several configurations: other, socratic. Name one, such as owner\/rows\/other\/validation/,
    )
  })

  it('is a file if there is one of that name, unless hub: is before it', async () => {
    const files = {
      exists: () => TE.right(true),
      open: () => TE.left(fileFailure('open', 'owner/rows', { code: 'ENOENT', reason: 'here' })),
    }
    expect(await leftOf(openDataset('owner/rows', GSM8K, { hub, files }))).toMatchObject({ reason: 'here' })
  })

  it('that is neither a file nor on the hub is refused with what was tried', async () => {
    expect(sentence(await leftOf(openDataset('owner/missing', GSM8K, { hub })))).toMatch(
      /no file 'owner\/missing', and on the hub: .*owner\/missing/,
    )
    // A path of rows is not looked up on the hub: the folder is misspelt more often.
    expect(await leftOf(openDataset('owner/rows.jsonl', GSM8K, { hub }))).toMatchObject({ _tag: 'FileFailure' })
  })

  it('that is not in the cache is refused with the command that downloads it, and read from the cache once it is there', async () => {
    const cacheFolder = mkdtempSync(path('empty-'))
    const offline = liveHub({ endpoint: server.url, cacheFolder, network: 'cache-only' })
    const failure = await leftOf(openDataset('owner/rows', GSM8K, { hub: offline }))
    expect(sentence(failure)).toMatch(
      /the cache .* has no files of revision main\. Download it once .*`hf download owner\/rows --repo-type dataset`.*, or name a file of rows/,
    )
    await names('owner/rows', { hub: liveHub({ endpoint: server.url, cacheFolder }) })
    expect(queries(await names('owner/rows', { hub: offline }))).toHaveLength(3)
  })
})

describe('openRows', () => {
  it('reads rows of any columns, such as token ids', async () => {
    writeFileSync(path('ids.json'), '[{"input_ids":[1,2]},{"input_ids":[3]}]')
    const schema = z.object({ input_ids: z.array(z.number().int()) })
    expect(await rightOf(openRows(path('ids.json'), schema))).toEqual([{ input_ids: [1, 2] }, { input_ids: [3] }])
  })
})

describe('parseHubName', () => {
  it.each([
    'hub:openai/gsm8k/main/train',
    'hub:openai/gsm8k@v1.0/main/test',
    'hub:google/IFEval/ifeval_input_data.jsonl',
    'hub:openai/gsm8k',
    'hub:openai/gsm8k/main',
    'hub:owner/rows/list.json',
    'hub:a/b@refs%2Fconvert/default/train/0000.parquet',
  ])('reads %s, and hubName writes it', (name) => {
    expect(hubName(orThrow(parseHubName(name)))).toBe(name)
  })

  it('knows revisions with slashes', () => {
    expect(orThrow(parseHubName('hub:a/b@refs%2Fconvert%2Fparquet/main/train')).revision).toBe('refs/convert/parquet')
  })

  it.each(['hub:', 'hub:gsm8k', 'hub:../gsm8k', 'hub:openai/gsm8k/a/b/c', 'hub:openai/gsm8k//train', 'gsm8k'])(
    'refuses %s',
    (name) => {
      expect(parseHubName(name)).toMatchObject({
        left: { reason: expect.stringMatching(/such as hub:openai\/gsm8k\/main\/train/) },
      })
    },
  )
})
