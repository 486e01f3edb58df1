/** Joining the modules of the page into one script. */
import { describe, expect, it } from 'vitest'
import { oneScript } from '../src/oneScript.js'

const run = (modules: Readonly<Record<string, string>>): unknown =>
  new Function(`${oneScript(modules, 'main.js')}; return globalThis.joined`)()

describe('oneScript', () => {
  it('runs modules once, after those they import, with names, other names and defaults', () => {
    const joined = run({
      'main.js':
        "import whole from './whole.js'\nimport {\n  a as b,\n  c,\n} from './parts.js'\nglobalThis.joined = [whole, b, c]\n",
      'whole.js': "import { c } from './parts.js'\nconst x = c + 1\nexport { x as default };\n",
      'parts.js': '/*\nexport function old() {}\n*/\nexport const a = 1\nexport const c = 2\n',
    })
    expect(joined).toEqual([3, 1, 2])
  })

  it('keeps text that would end the script element harmless and equal', () => {
    const text = "'<!--<script></script></SCRIPT>'"
    const modules = { 'main.js': `globalThis.joined = ${text}\n` }
    expect(oneScript(modules, 'main.js')).not.toMatch(/<(!--|\/?script)/i)
    expect(run(modules)).toBe('<!--<script></script></SCRIPT>')
  })

  it('refuses missing modules, circles and other forms', () => {
    const joined = (modules: Readonly<Record<string, string>>) => () => oneScript(modules, 'main.js')
    const main = "import { a } from './a.js'\n"
    expect(joined({ 'main.js': main })).toThrow("expected a file 'a.js'")
    expect(joined({ 'main.js': main, 'a.js': "import { b } from './main.js'\nexport const a = b\n" })).toThrow(
      'main.js imports a.js imports main.js',
    )
    expect(joined({ 'main.js': "export * from './a.js'\n" })).toThrow("cannot join 'export *")
  })
})
