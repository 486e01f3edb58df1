/** `tandem bench` in a child process. */
import { readFileSync, writeFileSync } from 'node:fs'
import { beforeAll, describe, expect, it } from 'vitest'
import { parseJsonLines, tandem, tandemOk, useTemporaryFolder, writeAnsweringModel } from '../../../test/kit/runs.js'
import { processesWith } from '../../../test/kit/sandboxes.js'
import type { Comparison } from '../src/benchmark.js'

const path = useTemporaryFolder()
const cwd = path('.')

const FLAGS = ['--model', 'model', '--prompts', '2', '--group', '2', '--max-new-tokens', '8', '--threads', '1']

beforeAll(async () => {
  await writeAnsweringModel(path('model'))
})

describe('tandem bench RECIPE', () => {
  it('measures the given number of steps, prints one line of JSON, and draws a picture', async () => {
    const args = ['bench', 'wordProblems', ...FLAGS, '--measured', '3', '--picture', 'steps.svg']
    const { stdout, stderr } = await tandemOk(args, { cwd })
    const [line, ...rest] = parseJsonLines(stdout)
    expect(rest).toEqual([])
    expect(line).toMatchObject({ recipe: 'wordProblems', steps: 3, cpu: expect.any(String) })
    const { median, least, most } = line!.secondsPerStep as Readonly<Record<string, number>> // as the command writes it
    expect([least! > 0, least! <= median!, median! <= most!]).toEqual([true, true, true])
    expect(line!.benchmark).toMatchObject({ _tag: 'Benchmark', unit: 'steps', rounds: [{ units: 1 }, {}, {}] })
    expect(stderr).toMatch(/steps per second +[\d.]+ \([\d.]+ to [\d.]+\)/)
    expect(readFileSync(path('steps.svg'), 'utf8')).toMatch(/^<svg /)
  })
})

/** A recipe file with the settings of another recipe. */
const OTHER = `
import { recipe as wordProblems } from 'WORD_PROBLEMS'
export const recipe = { ...wordProblems, name: 'other' }
`

describe('tandem bench RECIPE --against OTHER', () => {
  const short = [...FLAGS, '--measured', '2', '--rounds', '2']

  it('runs both in alternating processes, and prints the ratio with its interval and the phases', async () => {
    writeFileSync(path('other.ts'), OTHER.replace('WORD_PROBLEMS', `${process.cwd()}/recipes/wordProblems.ts`))
    const args = ['bench', 'wordProblems', ...short, '--against', './other.ts', '--picture=both.svg']
    const { stdout, stderr } = await tandemOk(args, { cwd })
    const [line, ...rest] = parseJsonLines(stdout)
    expect(rest).toEqual([])
    expect(line).toMatchObject({ recipe: 'wordProblems', against: './other.ts' })
    const comparison = line!.comparison as Comparison // as the command writes it
    expect(comparison.baseline).toMatchObject({
      name: './other.ts',
      unit: 'steps',
      rounds: [{ units: 2 }, { units: 2 }],
    })
    expect(comparison.candidate).toMatchObject({ name: 'wordProblems', rounds: [{ units: 2 }, { units: 2 }] })
    const { low, estimate, high } = comparison.ratio
    expect([low > 0, low <= estimate, estimate <= high]).toEqual([true, true, true])
    expect(Object.keys(line!.phases as object)).toEqual(['generation', 'environment', 'training', 'weightSync'])
    const order = [...stderr.matchAll(/^round (\d) of 2: (\S+) /gm)].map(([, round, name]) => `${round} ${name}`)
    expect(order).toEqual(['1 ./other.ts', '1 wordProblems', '2 wordProblems', '2 ./other.ts'])
    expect(stderr).toMatch(/95 % confidence interval [\d.]+ to [\d.]+\)\n$/)
    expect(readFileSync(path('both.svg'), 'utf8')).toContain('wordProblems over ./other.ts')
  })

  it('reports why a process failed, such as for a flag that the other recipe does not have', async () => {
    const { code, stdout, stderr } = await tandem(['bench', 'wordProblems', ...short, '--against', 'sft'], { cwd })
    expect([code, stdout]).toEqual([1, ''])
    expect(stderr).toMatch(/tandem: tandem bench sft .* ended with 1: error: unknown option '--prompts'/)
    const missing = await tandem(['bench', ...short, '--against', './none.ts'], { cwd })
    expect(missing.stderr).toContain('there is no recipe file')
  })

  it('rejects --rounds without --against, a single round, and a picture in a missing folder', async () => {
    const messageOf = async (...args: readonly string[]): Promise<string> => {
      const { code, stderr } = await tandem(['bench', ...args], { cwd })
      expect(code).toBe(1)
      return stderr
    }
    expect(await messageOf('--rounds', '3')).toContain('add --against')
    expect(await messageOf('--against', 'sft', '--rounds', '1')).toContain('expected an integer of at least 2')
    expect(await messageOf('--picture', 'none/a.svg')).toContain('--picture: there is no folder')
  })

  it('ends its processes on Ctrl-C', async () => {
    const model = path('model') // a path that no other process has in its arguments
    const flags = [...FLAGS, '--model', model, '--measured', '100000']
    const args = ['bench', 'wordProblems', ...flags, '--against', 'wordProblems']
    let running: readonly string[] = []
    const onSaid = (stderr: string): NodeJS.Signals | undefined => {
      if (!stderr.includes('round 1 of 5: wordProblems (against) ... ') || running.length > 0) return undefined
      running = processesWith(model)
      return 'SIGINT'
    }
    const { signal, stdout } = await tandem(args, { cwd, onSaid })
    expect([signal, stdout, running.length]).toEqual(['SIGINT', '', 2])
    await expect.poll(() => processesWith(model)).toEqual([])
  })
})
