/** The README shows the example programs, its links resolve, and its map lists every folder. */
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { describe, expect, it } from 'vitest'

const readme = readFileSync('README.md', 'utf8')
const contributing = readFileSync('CONTRIBUTING.md', 'utf8')

const documents = [
  'README.md',
  'CONTRIBUTING.md',
  ...readdirSync('docs', { recursive: true, encoding: 'utf8' }).map((path) => join('docs', path)),
].filter((path) => path.endsWith('.md'))

const links = documents.flatMap((path) =>
  [...readFileSync(path, 'utf8').matchAll(/\]\(([^)#]+)[^)]*\)/g)]
    .map(([, target]) => target!)
    .filter((target) => !/^[a-z]+:/.test(target))
    .map((target) => ({ path, target })),
)

describe('README', () => {
  it('shows the programs of examples, whole', () => {
    const programs = [...readme.matchAll(/```ts\n([\s\S]*?)```/g)].map(([, program]) => program)
    expect(programs).toEqual(
      ['ownReward', 'multiTurn', 'ownLoss', 'ownAgent', 'run', 'grpo'].map((name) =>
        readFileSync(`examples/${name}.ts`, 'utf8'),
      ),
    )
  })

  it('lists every page of the guide, in reading order', () => {
    const listed = readme.split('\n').find((line) => line.startsWith('| [Guide]')) ?? ''
    const linked = [...listed.matchAll(/docs\/guide\/([\w-]+\.md)/g)].map(([, page]) => page!).slice(1) // the first is the title's
    const pages = readdirSync('docs/guide').filter((file) => file.endsWith('.md'))
    expect(linked).toEqual(pages.sort())
  })
})

describe('documents', () => {
  it.each(links)('$path: the link to $target leads to a file', ({ path, target }) => {
    expect(existsSync(join(dirname(path), target))).toBe(true)
  })
})

describe('CONTRIBUTING', () => {
  it('has a file map whose folders exist, and a picture with every folder of src', () => {
    const map = contributing.slice(contributing.indexOf('## File map'))
    const named = [...map.matchAll(/^\| (.+?) \|/gm)].flatMap(([, cell]) =>
      [...cell!.matchAll(/`([^`]+)`/g)].map(([, name]) => name!),
    )
    expect(named.filter((name) => !existsSync(name))).toEqual([])
    const picture = map.slice(map.indexOf('```text'), map.indexOf('```', map.indexOf('```text') + 3))
    const drawn = picture.split('\n').flatMap((line) => line.split(/ {2,}/)[0]!.split(' · '))
    const folders = readdirSync('src', { withFileTypes: true }).flatMap((entry) =>
      entry.isDirectory() ? [entry.name] : [],
    )
    expect(folders.filter((folder) => !drawn.includes(folder))).toEqual([])
  })
})
