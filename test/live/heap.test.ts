import { execFileSync } from 'node:child_process'
import { expect, it } from 'vitest'
import { compiled } from '../kit/compiled.js'

/** The growing factors that V8 reports after a full collection. */
const factors = (preparation: string): readonly string[] => {
  const program = `
    import { letHeapGrow } from ${JSON.stringify(compiled('src/live/heap.ts'))}
    ${preparation}
    globalThis.gc()
  `
  const args = ['--trace-gc', '--trace-gc-verbose', '--expose-gc', '--input-type=module', '-e', program]
  return execFileSync(process.execPath, args, { encoding: 'utf8' }).match(/new limit: \d+ KB \(\d+\.\d\)/g) ?? []
}

it('the heap may grow to three times its size, and by default by a factor that V8 chooses', () => {
  const [set, chosen] = [factors('letHeapGrow()'), factors('')]
  expect(set.length * chosen.length).toBeGreaterThan(0)
  for (const each of set) expect(each).toContain('(3.0)')
  for (const each of chosen) expect(each).not.toContain('(3.0)')
})
