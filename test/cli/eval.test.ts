/** `tandem eval` as a process of its own. */
import { readFileSync, writeFileSync } from 'node:fs'
import { beforeAll, describe, expect, it, vi } from 'vitest'
import { startHub } from '../kit/hubServer.js'
import {
  gsm8kLines,
  parseJsonLines,
  tandem,
  tandemOk,
  useTemporaryFolder,
  withoutSeconds,
  writeAnsweringModel,
} from '../kit/runs.js'

const path = useTemporaryFolder()
const cwd = path('.')

beforeAll(async () => {
  await writeAnsweringModel(path('model'))
  writeFileSync(path('rows.jsonl'), gsm8kLines(5))
})

const evaluate = (...args: readonly string[]): readonly string[] => [
  ...['eval', '--model', 'model', '--max-new-tokens', '8', '--threads', '1', ...args],
]

describe('tandem eval', () => {
  it('--json gives every answer and the scores, the same in every process, whatever the batch', async () => {
    const [first, second] = await Promise.all([
      tandemOk(evaluate('--problems', '6', '--json'), { cwd }),
      tandemOk(evaluate('--problems', '6', '--json', '--batch', '4'), { cwd }),
    ])
    const lines = parseJsonLines(first.stdout)
    expect(lines.map(({ type }) => type)).toEqual([...Array<string>(6).fill('problem'), 'scores'])
    const right = lines.filter(({ isRight }) => isRight === true).length
    expect(lines.at(-1)).toMatchObject({ problems: 6, accuracy: right / 6 })
    expect(withoutSeconds(parseJsonLines(second.stdout))).toEqual(withoutSeconds(lines))
  })

  it('evaluates the rows of a file, and says it in one line', async () => {
    const { stdout } = await tandemOk(evaluate('--dataset', 'rows.jsonl'), { cwd })
    expect(stdout).toMatch(/^5 problems of .*rows\.jsonl: [\d.]+ % right, .*\n$/)
  })

  it('evaluates a .parquet file, and rows of the hub by their name', async () => {
    const golden = readFileSync('test/golden/parquet/gsm8k.parquet')
    writeFileSync(path('rows.parquet'), golden)
    const server = await startHub({ 'main/train-00000-of-00001.parquet': new Uint8Array(golden) })
    vi.stubEnv('HF_ENDPOINT', server.url) // the command inherits the environment
    vi.stubEnv('HF_HUB_CACHE', path('hub'))
    const [file, hub] = await Promise.all([
      tandemOk(evaluate('--dataset', 'rows.parquet'), { cwd }),
      tandemOk(evaluate('--dataset', 'hub:owner/rows/main/train'), { cwd }),
    ])
    vi.unstubAllEnvs()
    await server.close()
    expect(file.stdout).toMatch(/^4 problems of .*rows\.parquet: /)
    expect(hub.stdout).toMatch(/^4 problems of hub:owner\/rows\/main\/train: /)
  })
})

describe('tandem eval refuses', () => {
  it.each([
    ['a model that is not there', ['--model', 'nobody'], 'the model nobody cannot be used'],
    ['a dataset with a torn row', ['--dataset', 'torn.jsonl'], `${path('torn.jsonl')}, line 6: `],
  ])('%s by name', async (_, args, culprit) => {
    writeFileSync(path('torn.jsonl'), `${gsm8kLines(5)}{"question": "Why?", "answer": "so"}\n`)
    const { code, stdout, stderr } = await tandem(evaluate(...args), { cwd })
    expect({ code, stdout }).toEqual({ code: 1, stdout: '' })
    expect(stderr).toContain(culprit)
    expect(stderr).not.toMatch(/^ +at /m) // no stack
  })
})
