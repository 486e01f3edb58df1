/** Recipe files that a run folder names: they run only with the user's consent. */
import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { beforeEach, describe, expect, it } from 'vitest'
import { type CommandResult, tandem, tandemOk, useTemporaryFolder } from '../kit/runs.js'

const path = useTemporaryFolder()

const write = (file: string, text: string): string => {
  mkdirSync(dirname(path(file)), { recursive: true })
  writeFileSync(path(file), text)
  return path(file)
}

/** A recipe that leaves a file behind when it is imported. */
const RECIPE = `
import { writeFileSync } from 'node:fs'
import * as T from 'tandem-rl'
import { z } from 'zod'
import { summary } from './words.mjs'
writeFileSync(${JSON.stringify(path('ran'))}, '')
export const recipe = T.defineRecipe({
  name: 'foreign',
  summary,
  settings: z.strictObject({ own: z.number().default(1).describe('A setting.') }),
  build: () => { throw new RangeError('the recipe was built') },
})
`

const writeRecipe = (file: string): string => {
  write(join(dirname(file), 'words.mjs'), "export const summary = 'Foreign.'\n")
  return write(file, RECIPE)
}

const writeRun = (run: string, recipe: { readonly name: string; readonly file: string | null }): void => {
  mkdirSync(path(`${run}/checkpoints`), { recursive: true })
  write(`${run}/config.json`, JSON.stringify({ format: 2, recipe, settings: {}, run: {} }))
}

/** The project is the working folder of every command. */
const inProject = (...args: readonly string[]): Promise<CommandResult> => tandem(args, { cwd: path('project') })

const hasRun = (): boolean => {
  const found = existsSync(path('ran'))
  rmSync(path('ran'), { force: true })
  return found
}

beforeEach(() => {
  for (const folder of ['project', 'elsewhere']) rmSync(path(folder), { recursive: true, force: true })
  write('project/package.json', '{}')
  hasRun()
})

const COMMANDS: readonly (readonly string[])[] = [
  ['train', '--resume', 'runs/foreign'],
  ['train', '--resume=runs/foreign', '--print-config'],
  ['eval', 'runs/foreign'],
  ['replay', 'runs/foreign', '1'],
  ['bench', 'runs/foreign'],
  ['worker', 'runs/foreign', '--queue', 'redis://127.0.0.1:1', '--on', 'http://127.0.0.1:1'],
  ['agent', 'run', 'runs/foreign'],
]

const CASES = COMMANDS.map((args) => [args.join(' '), args] as const)

describe('a command on a run folder', () => {
  it.each(CASES)('does not import the recipe inside it: tandem %s', async (_, args) => {
    writeRun('project/runs/foreign', { name: 'foreign', file: writeRecipe('project/runs/foreign/recipe.ts') })
    const { code, stderr } = await inProject(...args)
    expect(stderr).toContain('recipe.ts, which is inside a run folder and was not run on this machine yet')
    expect(stderr).toContain('--trust-recipe')
    expect(code).toBe(1)
    expect(hasRun()).toBe(false)
  })

  it.each(CASES)('imports no recipe for help: tandem %s', async (_, args) => {
    writeRun('project/runs/foreign', { name: 'foreign', file: writeRecipe('project/recipe.ts') })
    for (const flag of ['--help', '-h']) {
      const { code, stdout } = await inProject(...args, flag)
      expect(code).toBe(0)
      expect(stdout).toContain('Usage: tandem')
    }
    await inProject('complete', '--', ...args, '--s')
    expect(hasRun()).toBe(false)
  })

  it.each([
    ['outside of the project', () => writeRecipe('elsewhere/recipe.ts')],
    [
      'outside of the project behind a link inside it',
      () => {
        symlinkSync(writeRecipe('elsewhere/recipe.ts'), path('project/recipe.ts'))
        return path('project/recipe.ts')
      },
    ],
    [
      'in another run folder',
      () => {
        writeRun('project/runs/other', { name: 'wordProblems', file: null })
        return writeRecipe('project/runs/other/src/recipe.ts')
      },
    ],
  ])('does not import a recipe %s', async (_, recipe) => {
    const file = recipe()
    writeRun('project/runs/foreign', { name: 'foreign', file })
    expect((await inProject('eval', 'runs/foreign')).stderr).toContain('--trust-recipe')
    writeRun('project/runs/foreign', { name: file, file: null }) // a path in place of a name
    expect((await inProject('eval', 'runs/foreign')).stderr).toContain('--trust-recipe')
    expect(hasRun()).toBe(false)
  })

  it('does not import a recipe in the working folder if that is no project', async () => {
    rmSync(path('project/package.json'))
    writeRun('project/runs/foreign', { name: 'foreign', file: writeRecipe('project/recipe.ts') })
    expect((await inProject('eval', 'runs/foreign')).stderr).toContain('--trust-recipe')
    expect(hasRun()).toBe(false)
  })

  it('imports a recipe of the project', async () => {
    writeRun('project/runs/own', { name: 'foreign', file: writeRecipe('project/src/recipe.ts') })
    expect((await inProject('eval', 'runs/own')).stderr).toContain('the recipe was built')
    expect(hasRun()).toBe(true)
  })

  it.each([
    ['--trust-recipe', ['eval', 'runs/foreign', '--trust-recipe']],
    ['naming the file', ['train', '../elsewhere/recipe.ts', '--print-config']],
  ])('imports a recipe after %s, until it or an imported file changes', async (_, consent) => {
    const file = writeRecipe('elsewhere/recipe.ts')
    writeRun('project/runs/foreign', { name: 'foreign', file })
    await inProject(...consent)
    expect(hasRun()).toBe(true)
    expect((await inProject('eval', 'runs/foreign')).stderr).toContain('the recipe was built')
    expect(hasRun()).toBe(true)
    write('elsewhere/words.mjs', "export const summary = 'Changed.'\n")
    expect((await inProject('eval', 'runs/foreign')).stderr).toContain('has changed since it was run on this machine')
    expect(hasRun()).toBe(false)
  })

  it('does not import a copy of a known recipe', async () => {
    await inProject('train', writeRecipe('elsewhere/recipe.ts'), '--print-config')
    writeRun('project/runs/foreign', { name: 'foreign', file: writeRecipe('elsewhere/copy/recipe.ts') })
    hasRun()
    expect((await inProject('eval', 'runs/foreign')).stderr).toContain('was not run on this machine yet')
    expect(hasRun()).toBe(false)
  })
})

describe('the record of recipe files', () => {
  it('is one small file for each recipe, below XDG_STATE_HOME', async () => {
    const file = writeRecipe('project/recipe.ts')
    await tandemOk(['train', './recipe.ts', '--print-config'], { cwd: path('project') })
    const { stdout } = await tandemOk(['train', './recipe.ts', '--help'], { cwd: path('project') })
    expect(stdout).toContain('use --print-config')
    const folder = path('project/.state/tandem/recipes')
    const [name, ...others] = readdirSync(folder)
    expect(others).toEqual([])
    expect(JSON.parse(readFileSync(join(folder, name!), 'utf8'))).toMatchObject({ path: file })
  })

  it('that cannot be written is a warning, and the recipe runs', async () => {
    write('project/.state', 'a file in place of the folder')
    writeRecipe('project/recipe.ts')
    const { code, stderr } = await inProject('train', './recipe.ts', '--print-config')
    expect(stderr).toContain('warning: the recipe cannot be remembered')
    expect(code).toBe(0)
    expect(hasRun()).toBe(true)
  })
})
