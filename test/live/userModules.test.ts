/** Modules of the user share this instance of the package, whatever door they import. */
import { writeFileSync } from 'node:fs'
import { pathToFileURL } from 'node:url'
import { describe, expect, it } from 'vitest'
import { DOORS } from '../../scripts/kit/doors.js'
import { importUserModule, isUserModule } from '../../src/live/userModules.js'
import { makePipe } from '../kit/pipes.js'
import { useTemporaryFolder } from '../kit/runs.js'

const path = useTemporaryFolder()

describe('importUserModule', () => {
  it('gives a TypeScript file the modules of this program, by all names but the one for tests', async () => {
    const names = [...DOORS.keys()].filter((name) => name !== '@tandem-rl/testing')
    const imports = names.map((name, i) => `import * as door${i} from '${name}'`).join('\n')
    const file = path('own.ts')
    writeFileSync(file, `${imports}\nexport const doors: readonly object[] = [${names.map((_, i) => `door${i}`)}]\n`)
    for (const place of [file, pathToFileURL(file).href]) {
      const { doors } = (await importUserModule(place)) as { readonly doors: readonly Record<string, unknown>[] } // as written
      const root = doors[names.indexOf('tandem-rl')]!
      expect(doors).toHaveLength(names.length)
      expect(root.defineLoss).toBe((await import('../../src/objectives/loss.js')).defineLoss)
    }
  })

  it('rejects with the error of the file', async () => {
    const file = path('broken.ts')
    writeFileSync(file, 'export const x: number = missing\n')
    await expect(importUserModule(file)).rejects.toThrow('missing is not defined')
  })

  it('refuses a named pipe at once', async () => {
    makePipe(path('pipe.ts'))
    await expect(importUserModule(path('pipe.ts'))).rejects.toThrow()
  })
})

describe('isUserModule', () => {
  it('is true for files that are no source of this package', () => {
    expect(isUserModule(new URL('../../src/index.ts', import.meta.url).href)).toBe(false)
    expect(isUserModule(new URL('../../recipes/sft.ts', import.meta.url).href)).toBe(true)
    expect(isUserModule('file:///home/me/loss.ts')).toBe(true)
    expect(isUserModule('node:fs')).toBe(false)
  })
})
