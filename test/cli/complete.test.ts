/** Completion of commands, options and values, asked as the scripts of the shells ask. */
import { execFileSync } from 'node:child_process'
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { tandem, tandemOk, useTemporaryFolder } from '../kit/runs.js'

const cwd = useTemporaryFolder()('.')

/** The words that can follow, where the last given word is unfinished. */
const completed = async (...words: readonly string[]): Promise<readonly string[]> => {
  const { stdout } = await tandemOk(['complete', '--', ...words], { cwd })
  return stdout
    .split('\n')
    .filter((line) => line.includes('\t'))
    .map((line) => line.split('\t')[0]!)
}

describe('tandem complete', () => {
  it('completes commands, and recipes that are commands', async () => {
    expect(await completed('s')).toEqual(['sample', 'serve', 'sft'])
  })

  it('completes the options of a recipe, also of one that is a command', async () => {
    expect(await completed('train', 'kuhnPoker', '--learning')).toEqual(['--learning-rate'])
    expect(await completed('sft', '--ba')).toEqual(await completed('train', 'sft', '--ba'))
  })

  it('completes choices, recipes, files and folders', async () => {
    mkdirSync(join(cwd, 'runs', 'first'), { recursive: true })
    writeFileSync(join(cwd, 'runs.json'), '{}')
    expect(await completed('train', '--backend', 'on')).toEqual(['onnxruntime'])
    expect(await completed('train', 'word')).toEqual(['wordProblems'])
    expect(await completed('view', 'ru')).toEqual(['runs/', 'runs.json'])
    expect(await completed('train', '--resume', 'runs/')).toEqual(['runs/first/'])
    expect(await completed('train', '--resume', 'missing/')).toEqual([])
  })

  it('prints scripts that bash accepts', async () => {
    const { stdout } = await tandemOk(['complete', 'bash'], { cwd })
    execFileSync('bash', ['-n'], { input: stdout })
    expect(stdout).toContain('complete -F')
  })

  it('refuses a shell that it does not know', async () => {
    expect((await tandem(['complete', 'fihs'], { cwd })).stderr).toContain("did you mean 'fish'?")
  })
})
