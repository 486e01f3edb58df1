/** `tandem train` as a process of its own: what it prints, what it writes, what it refuses. */
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { beforeAll, describe, expect, it } from 'vitest'
import {
  contentsOf,
  gsm8kLines,
  parseJsonLines,
  SMALL_FLAGS,
  tandem,
  tandemOk,
  useTemporaryFolder,
  writeAnsweringModel,
} from '../kit/runs.js'

const path = useTemporaryFolder()
const cwd = path('.')

beforeAll(async () => {
  await writeAnsweringModel(path('model'))
})

const train = (...args: readonly string[]): readonly string[] => ['train', '--model', 'model', ...SMALL_FLAGS, ...args]

/** Fails with one line on stderr and code 1. */
const expectRefusal = async (args: readonly string[]): Promise<string> => {
  const { code, stdout, stderr } = await tandem(args, { cwd })
  expect({ code, stdout }).toEqual({ code: 1, stdout: '' })
  expect(stderr).toMatch(/^tandem: /m)
  expect(stderr).not.toMatch(/^ +at /m) // no stack
  return stderr
}

/** The output of the first run. */
let printed: ReturnType<typeof parseJsonLines> = []

describe('tandem train', () => {
  it('prints every event as a line of JSON, in order, and fills the run folder', async () => {
    const { stdout, stderr } = await tandemOk(train('--out', 'run', '--json'), { cwd })
    printed = parseJsonLines(stdout)
    const shown = printed.filter(({ type }) => type !== 'samples')
    expect(shown.map(({ type, step }) => (step === undefined ? type : `${String(type)} ${String(step)}`))).toEqual([
      ...['start', 'evaluating 0', 'evaluation 0', 'step 1', 'step 2', 'checkpoint 2', 'step 3', 'step 4'],
      ...['evaluating 4', 'evaluation 4', 'checkpoint 4', 'end'],
    ])
    expect(readdirSync(path('run'))).toEqual([
      ...[
        'checkpoints',
        'config.json',
        'machine.json',
        'metrics.jsonl',
        'report.html',
        'summary.json',
        'trajectories.jsonl',
      ],
    ])
    expect(JSON.parse(readFileSync(path('run/summary.json'), 'utf8'))).toEqual(printed.at(-1)?.summary)
    expect(stderr).toContain(`report: ${path('run/report.html')}`)
  })

  it('divides the default threads among the workers', async () => {
    const isThreads = (flag: string | undefined): boolean => flag === '--threads'
    const flags = SMALL_FLAGS.filter((flag, i) => !isThreads(flag) && !isThreads(SMALL_FLAGS[i - 1]))
    await tandemOk(['train', '--model', 'model', ...flags, '--out', 'shared', '--steps', '1', '--workers', '2'], {
      cwd,
    })
    expect(JSON.parse(readFileSync(path('shared/machine.json'), 'utf8'))).toMatchObject({ threads: '1' })
    expect((await tandemOk(['replay', 'shared', '1'], { cwd })).stdout).toContain('step 1 is bit-identical')
  })

  it('names a server that is down and the way to resume, and resumes the folder later', async () => {
    writeFileSync(path('served.jsonl'), gsm8kLines(20))
    const { code, stderr } = await tandem(
      [
        'train',
        'gsm8k',
        '--model',
        'model',
        '--dataset',
        'served.jsonl',
        '--engine',
        'http://127.0.0.1:9',
        '--out',
        'down',
      ],
      { cwd },
    )
    expect(code).toBe(1)
    expect(stderr).toMatch(/vllm at http:\/\/127\.0\.0\.1:9 did not take the first weights of the run/)
    expect(stderr).toContain(`resume with: tandem train --resume ${path('down')}`)
  })

  it('records in metrics.jsonl what it printed', () => {
    const shown = printed.filter(({ type }) => type === 'step' || type === 'evaluation')
    expect(shown).toHaveLength(6)
    expect(parseJsonLines(readFileSync(path('run/metrics.jsonl'), 'utf8'))).toEqual(shown)
  })

  it('prints lines to read, trains its own model in runs/, and learns from the rows of a file', async () => {
    writeFileSync(path('rows.jsonl'), gsm8kLines(20))
    const { stdout } = await tandemOk(['train', ...SMALL_FLAGS, '--steps', '1', '--dataset', 'rows.jsonl'], { cwd })
    expect(stdout).toMatch(/^steps 1 to 1$/m)
    expect(stdout).toMatch(/^step 1 {2}reward \d/m)
    const [name] = readdirSync(path('runs'))
    expect(readdirSync(path(`runs/${name}/checkpoints`))).toEqual(['step-000001'])
    const [first] = parseJsonLines(readFileSync(path(`runs/${name}/trajectories.jsonl`), 'utf8'))
    expect(first?.query).toMatch(/^What is \d+ \+ 1\?$/)
  })
})

describe('tandem replay', () => {
  it('repeats a step of a run and reports that it is the same', async () => {
    const before = contentsOf(path('run'))
    const { stdout, stderr } = await tandemOk(['replay', 'run', '3', '--threads', '1'], { cwd })
    expect(stderr).toContain('replaying step 3 from the checkpoint after 2 steps, with its batch sampled again')
    expect(stdout).toMatch(/^step 3 is bit-identical: loss /)
    expect(contentsOf(path('run'))).toEqual(before)
  })

  it('refuses a step beyond the end, and a folder without a run', async () => {
    expect(await expectRefusal(['replay', 'run', '9'])).toContain('the run has 4 steps: there is no step 9')
    expect(await expectRefusal(['replay', 'model', '3'])).toContain('model is not a run folder')
  })
})

describe('tandem train refuses', () => {
  it('a folder that holds a run, and leaves its files as they were', async () => {
    const before = contentsOf(path('run'))
    const message = await expectRefusal(train('--out', 'run'))
    expect(message).toContain('the folder already holds a run')
    expect(message).not.toContain('backend') // before the engine starts and the recipe builds
    expect(contentsOf(path('run'))).toEqual(before)
  })

  it('to resume with another seed, with the reason, and leaves the files as they were', async () => {
    const before = contentsOf(path('run'))
    expect(await expectRefusal(['train', '--resume', 'run', '--seed', '2'])).toContain('seed is 1, not 2')
    expect(contentsOf(path('run'))).toEqual(before)
  })

  it('a model that is not there, and makes no folder', async () => {
    expect(await expectRefusal(['train', '--model', 'nobody', '--out', 'never'])).toContain(
      'the model nobody cannot be used: there is no such folder, and it is not a name on the hub (OWNER/NAME)',
    )
    expect(existsSync(path('never'))).toBe(false)
  })

  it('a recipe that does not come first: its options are those of the recipe', async () => {
    expect(await expectRefusal(['train', '--steps', '1', './model.ts', '--out', 'never'])).toContain(
      'give the recipe before its options',
    )
  })

  it('a dataset with a torn row by file and line, and makes no folder', async () => {
    writeFileSync(path('torn.jsonl'), `${gsm8kLines(2)}{"question":\n`)
    expect(await expectRefusal(train('--dataset', 'torn.jsonl', '--out', 'never'))).toContain(
      `${path('torn.jsonl')}, line 3: `,
    )
    expect(existsSync(path('never'))).toBe(false)
  })
})
