/** `tandem eval` as a process of its own. */
import { readFileSync, writeFileSync } from 'node:fs'
import { beforeAll, describe, expect, it, vi } from 'vitest'
import type { RunSummary } from '../../src/doors/run.js'
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
  ...['eval', 'wordProblems', '--model', 'model', '--max-new-tokens', '8', '--threads', '1', ...args],
]

describe('tandem eval', () => {
  it('--json gives every answer and the scores, the same in every process', async () => {
    const [first, second] = await Promise.all([
      tandemOk(evaluate('--eval-tasks', '6', '--json'), { cwd }),
      tandemOk(evaluate('--eval-tasks', '6', '--json'), { cwd }),
    ])
    const lines = parseJsonLines(first.stdout)
    expect(lines.map(({ type }) => type)).toEqual([...Array<string>(6).fill('result'), 'scores'])
    const right = lines.filter(({ score }) => score === 1).length
    expect(lines.at(-1)).toMatchObject({ name: 'held out', tasks: 6, scores: { accuracy: right / 6 } })
    expect(withoutSeconds(parseJsonLines(second.stdout))).toEqual(withoutSeconds(lines))
  })

  it('of a run plays what its recipe evaluates, by its best model: the score that the run has', async () => {
    const flags = ['--model', 'model', '--steps', '1', '--prompts', '2', '--group', '2', '--max-new-tokens', '8']
    await tandemOk(['train', '--out', 'run', ...flags, '--eval-tasks', '5', '--threads', '1'], { cwd })
    const summary = JSON.parse(readFileSync(path('run/summary.json'), 'utf8')) as RunSummary // written by the command
    const { stdout } = await tandemOk(['eval', 'run', '--threads', '1', '--json'], { cwd })
    expect(parseJsonLines(stdout).at(-1)).toMatchObject({ tasks: 5, scores: summary.evaluated[0]!.after })
  })

  it('evaluates the rows of a file, and prints one line', async () => {
    const { stdout } = await tandemOk(evaluate('--eval-dataset', 'rows.jsonl'), { cwd })
    expect(stdout).toMatch(/^held out, 5 tasks: accuracy [\d.]+ %, .*\n$/)
  })

  it('evaluates a .parquet file, and rows of the hub by their name', async () => {
    const golden = readFileSync('packages/parquet/test/golden/gsm8k.parquet')
    writeFileSync(path('rows.parquet'), golden)
    const server = await startHub({ 'main/train-00000-of-00001.parquet': new Uint8Array(golden) })
    vi.stubEnv('HF_ENDPOINT', server.url) // the command inherits the environment
    vi.stubEnv('HF_HUB_CACHE', path('hub'))
    const [file, hub] = await Promise.all([
      tandemOk(evaluate('--eval-dataset', 'rows.parquet'), { cwd }),
      tandemOk(evaluate('--eval-dataset', 'hub:owner/rows/main/train'), { cwd }),
    ])
    vi.unstubAllEnvs()
    await server.close()
    expect(file.stdout).toMatch(/^held out, 4 tasks: /)
    expect(hub.stdout).toBe(file.stdout.replace(/[\d.]+ s\n$/, hub.stdout.match(/[\d.]+ s\n$/)![0]))
  })
})

describe('tandem eval refuses', () => {
  it.each([
    ['a model that is not there', ['--model', 'nobody'], 'the model nobody cannot be used'],
    ['a dataset with a torn row', ['--eval-dataset', 'torn.jsonl'], `${path('torn.jsonl')}, line 6: `],
  ])('%s by name', async (_, args, culprit) => {
    writeFileSync(path('torn.jsonl'), `${gsm8kLines(5)}{"question": "Why?", "answer": "so"}\n`)
    const { code, stdout, stderr } = await tandem(evaluate(...args), { cwd })
    expect({ code, stdout }).toEqual({ code: 1, stdout: '' })
    expect(stderr).toContain(culprit)
    expect(stderr).not.toMatch(/^ +at /m) // no stack
  })
})
