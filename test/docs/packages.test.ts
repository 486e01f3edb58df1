/** The README of each package: its program compiles, and runs in a process of its own. */
import { execFileSync } from 'node:child_process'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join, posix } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import { PACKAGES } from '../../scripts/kit/workspace.js'

mkdirSync('runs', { recursive: true }) // git ignores it, and programs in it find the packages of this checkout
const folder = mkdtempSync(join('runs', 'readme-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const GUESTS = PACKAGES.filter((each) => each.folder !== '')

const readmeOf = (path: string): string => readFileSync(posix.join(path, 'README.md'), 'utf8')

const programOf = (path: string): string => /```ts\n([\s\S]*?)```/.exec(readmeOf(path))?.[1] ?? ''

describe.each(GUESTS.map((each) => [each.manifest.name, each] as const))(
  'the README of %s',
  (name, { folder: path }) => {
    it('has the name as its title, a command that installs it, and a license beside it', () => {
      expect(readmeOf(path)).toMatch(new RegExp(`^# ${name}\n`))
      expect(readmeOf(path)).toMatch(new RegExp(`npm install .*${name}`))
      expect(existsSync(posix.join(path, 'LICENSE'))).toBe(true)
    })

    it('has a program that runs, and prints what it computes', () => {
      const file = join(folder, `${posix.basename(path)}.ts`)
      writeFileSync(file, programOf(path))
      const printed = execFileSync(process.execPath, ['--import', 'tsx', file], { encoding: 'utf8' })
      expect(printed.trim()).not.toBe('')
    })
  },
)

it('programs of READMEs compile', () => {
  const files = GUESTS.map(({ folder: path }) => {
    const file = join(folder, `${posix.basename(path)}Typed.ts`)
    writeFileSync(file, `${programOf(path)}\nexport {}\n`)
    return file
  })
  const config = { extends: '../../tsconfig.json', files: files.map((file) => posix.basename(file)), include: [] }
  writeFileSync(join(folder, 'tsconfig.json'), JSON.stringify(config))
  const compiler = ['node_modules/typescript-7/bin/tsc', '-p', folder, '--pretty', 'false']
  expect(() => execFileSync(process.execPath, compiler, { encoding: 'utf8', stdio: 'pipe' })).not.toThrow()
})
