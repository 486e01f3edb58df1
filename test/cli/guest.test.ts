/** Parts of commands in other packages: where they are found, and the error if one is missing. */
import { mkdirSync, writeFileSync } from 'node:fs'
import { afterEach, describe, expect, it, vi } from 'vitest'
import { importGuest } from '../../src/cli/guest.js'
import { useTemporaryFolder } from '../kit/runs.js'

const path = useTemporaryFolder()
const NAME = '@tandem-rl/made-for-a-test'

afterEach(() => void vi.restoreAllMocks())

describe('importGuest', () => {
  it('imports a module of a package beside this one', async () => {
    expect(await importGuest('@tandem-rl/tracking/command', '--otel')).toHaveProperty('openTrackers')
  })

  it('names the package that is missing, what needs it, and the command that installs it', async () => {
    await expect(importGuest(`${NAME}/command`, '--flag')).rejects.toMatchObject({
      name: 'CommandError',
      message: `--flag needs the package ${NAME}, which is not installed: npm i -D ${NAME}`,
    })
  })

  it('finds a package of the project of the current folder, and rejects as it does', async () => {
    const own = `project/node_modules/${NAME}`
    mkdirSync(path(own), { recursive: true })
    mkdirSync(path('project/deep'))
    writeFileSync(path('project/package.json'), '{}')
    const modules = { './command': './command.js', './broken': './broken.js' }
    writeFileSync(path(`${own}/package.json`), JSON.stringify({ name: NAME, type: 'module', exports: modules }))
    writeFileSync(path(`${own}/command.js`), 'export const answer = 42')
    writeFileSync(path(`${own}/broken.js`), "throw new Error('out of order')")
    vi.spyOn(process, 'cwd').mockReturnValue(path('project/deep'))
    expect(await importGuest(`${NAME}/command`, '--flag')).toMatchObject({ answer: 42 })
    await expect(importGuest(`${NAME}/broken`, '--flag')).rejects.toThrow('out of order')
  })
})
