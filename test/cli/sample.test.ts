/** `tandem sample` as a process of its own. */
import { writeFileSync } from 'node:fs'
import { beforeAll, describe, expect, it } from 'vitest'
import { parseJsonLines, tandem, tandemOk, useTemporaryFolder, writeAnsweringModel } from '../kit/runs.js'

const path = useTemporaryFolder()
const cwd = path('.')

beforeAll(async () => {
  await writeAnsweringModel(path('model'))
})

const QUESTION = 'How many legs have two cats?'

const sample = (...args: readonly string[]): readonly string[] => [
  ...['sample', '--model', 'model', '--max-new-tokens', '8', '--threads', '1', ...args],
]

describe('tandem sample', () => {
  it('--json --seed gives the same completions in every process', async () => {
    const args = sample(QUESTION, '--json', '--count', '8', '--seed', '3')
    const [first, second] = await Promise.all([tandemOk(args, { cwd }), tandemOk(args, { cwd })])
    expect(parseJsonLines(first.stdout)).toHaveLength(8)
    for (const line of parseJsonLines(first.stdout)) {
      expect(Object.keys(line)).toEqual(['question', 'text', 'logProb', 'stopReason', 'tokens'])
      expect(line.question).toBe(QUESTION)
    }
    expect(second.stdout).toBe(first.stdout)
  })

  it('samples by generation_config.json, unless a flag replaces it', async () => {
    await writeAnsweringModel(path('talking'))
    writeFileSync(path('talking/generation_config.json'), '{"temperature": 0.2, "top_p": 0.9, "top_k": 0}')
    const talking = sample(QUESTION, '--model', 'talking', '--json', '--count', '3')
    const byFile = await tandemOk(talking, { cwd })
    expect(byFile.stderr).toContain('from generation_config.json: temperature 0.2, topP 0.9\n')
    const byFlags = await tandemOk(
      sample(QUESTION, '--json', '--count', '3', '--temperature', '0.2', '--top-p', '0.9'),
      { cwd },
    )
    expect(byFlags.stdout).toBe(byFile.stdout)
    const one = await tandemOk([...talking, '--temperature', '1'], { cwd })
    expect(one.stderr).toContain('from generation_config.json: topP 0.9\n')
    expect(one.stdout).not.toBe(byFile.stdout)
  })

  it('without a question asks a word problem of its own, and shows it above the completions', async () => {
    const { stdout } = await tandemOk(['sample', '--count', '2', '--max-new-tokens', '8'], { cwd })
    const [question, blank] = stdout.split('\n')
    expect(question).toMatch(/\?$/)
    expect(blank).toBe('')
    expect(stdout.match(/^ {2}log-probability -?\d+\.\d\d$/gm)).toHaveLength(2)
  })

  it('plays the environment of a recipe', async () => {
    const { stdout } = await tandemOk(
      ['sample', '--recipe', 'wordProblems', '--model', 'model', '--count', '2', '--json'],
      {
        cwd,
      },
    )
    const lines = parseJsonLines(stdout)
    expect(lines).toHaveLength(2)
    for (const line of lines)
      expect(line).toMatchObject({ query: expect.stringMatching(/\?$/), reward: expect.any(Number) })
  })

  it('refuses a model that is not there by name', async () => {
    const { code, stdout, stderr } = await tandem(sample(QUESTION, '--model', 'nobody'), { cwd })
    expect({ code, stdout }).toEqual({ code: 1, stdout: '' })
    expect(stderr).toMatch(/^tandem: the model .*nobody/)
  })
})
