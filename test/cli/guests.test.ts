/** Commands of other packages: found in the project, listed, run, and refused. */
import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { beforeAll, describe, expect, it } from 'vitest'
import { GUESTS } from '../../src/cli/guests.js'
import { compiledFolder } from '../kit/compiled.js'
import { tandem, tandemOk, useTemporaryFolder } from '../kit/runs.js'

const path = useTemporaryFolder()

const write = (name: string, text: string): void => {
  mkdirSync(dirname(path(name)), { recursive: true })
  writeFileSync(path(name), text)
}

/** Writes a package with a module of commands. */
const writePackage = (name: string, commands: string): void => {
  const manifest = {
    ...{ name, version: '1.0.0', type: 'module', tandem: { commands: './commands' } },
    exports: { './commands': './commands.js', './package.json': './package.json' },
  }
  write(`project/node_modules/${name}/package.json`, JSON.stringify(manifest))
  write(`project/node_modules/${name}/commands.js`, commands)
}

const entry = (name: string, load: string): string =>
  `{ name: '${name}', summary: 'Count letters.', group: 'Play:', examples: ['tandem ${name} abc'], load: async () => ${load} }`

beforeAll(() => {
  write(
    'project/package.json',
    JSON.stringify({ devDependencies: { '@me/tandem-letters': '1', 'tandem-broken': '1', other: '1' } }),
  )
  const letters = `new Command('letters').argument('<text>').action((text) => console.log(text.length))`
  writePackage(
    '@me/tandem-letters',
    `import { Command, CommandError } from 'tandem-rl/command'
    export const commands = [
      ${entry('letters', letters)},
      ${entry('refuse', `new Command('refuse').action(() => { throw new CommandError('not today') })`)},
      ${entry('train', letters)},
    ]`,
  )
  writePackage('tandem-broken', 'export const commands = [{ name: 1 }]')
  writePackage('other', `throw new Error('a package without tandem in its name is never loaded')`)
  symlinkSync(compiledFolder(), path('project/node_modules/tandem-rl'))
})

describe('commands of packages of the project', () => {
  it('are listed with the others, and one package that is broken is a warning', async () => {
    const { stdout, stderr } = await tandemOk(['--help'], { cwd: path('project') })
    expect(stdout).toMatch(/^Play:\n(.*\n)* {2}letters .*Count letters\./m)
    expect(stderr).toBe(
      "tandem: the commands of tandem-broken could not be loaded: its export ./commands must have 'commands', a list of CommandEntry\n",
    )
  })

  it('run with their arguments, from any folder of the project, and have their examples in their help', async () => {
    write('project/deep/file', '')
    expect((await tandemOk(['letters', 'abcd'], { cwd: path('project/deep') })).stdout).toBe('4\n')
    expect((await tandemOk(['letters', '--help'], { cwd: path('project') })).stdout).toContain('tandem letters abc')
  })

  it('fail like the others: one line, and code 1', async () => {
    const { code, stderr } = await tandem(['refuse'], { cwd: path('project') })
    expect(code).toBe(1)
    expect(stderr).toContain('tandem: not today\n')
  })

  it('do not replace a command of Tandem', async () => {
    const { stdout } = await tandemOk(['train', '--print-config'], { cwd: path('project') })
    expect(JSON.parse(stdout)).toHaveProperty('model')
  })

  it('are not there in another folder, which suggests what is near', async () => {
    const { code, stderr } = await tandem(['lettrs'], { cwd: path('.') })
    expect(code).not.toBe(0)
    expect(stderr).toContain("unknown command 'lettrs'")
  })
})

describe('tandem init --with', () => {
  it('adds packages, and refuses one that does not exist', async () => {
    await tandemOk(['init', 'new', '--with', 'testing,games'], { cwd: path('.') })
    const { devDependencies } = JSON.parse(readFileSync(path('new/package.json'), 'utf8')) as {
      readonly devDependencies: Readonly<Record<string, string>>
    } // written by the command
    expect(devDependencies).toMatchObject({
      '@tandem-rl/testing': expect.stringMatching(/^\^\d/),
      '@tandem-rl/games': expect.any(String),
    })
    const { code, stderr } = await tandem(['init', 'newer', '--with', 'gamse'], { cwd: path('.') })
    expect(code).toBe(1)
    expect(stderr).toContain("There is no package 'gamse': did you mean 'games'?")
    expect(Object.keys(GUESTS).length).toBeGreaterThan(0)
  })
})
