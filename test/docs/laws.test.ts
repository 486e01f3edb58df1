/**
 * `docs/laws.md` is what the kits and the tests say: `npx vitest run test/docs/laws.test.ts -u`
 * writes its tables.
 */
import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import { codecLaws, type NumberedLaw } from '@tandem-rl/testing'
import fc from 'fast-check'
import * as E from 'fp-ts/lib/Either.js'
import { describe, expect, it } from 'vitest'
import { TEST_FOLDERS, typeScriptBelow } from '../../scripts/kit/workspace.js'
import { tensorDictLaws } from '../data/tensorDictLaws/tensorDictLaws.js'

const PAGE = 'docs/laws.md'

/** A codec of nothing: only the names of its laws are read. */
const codec = {
  encode: () => new Uint8Array(),
  decode: () => E.right(''),
  equals: Object.is,
  damage: 'detected',
} as const
const parts = { names: () => [], get: () => '', decodeAt: () => E.right(''), equals: Object.is }

const kits: Readonly<Record<string, readonly NumberedLaw[]>> = {
  tensorDictLaws: tensorDictLaws(),
  codecLaws: codecLaws<string>({ ...codec, parts }, fc.constant({ build: () => '' })),
}

const tests = TEST_FOLDERS.flatMap(typeScriptBelow)
  .filter((path) => path.endsWith('.test.ts'))
  .map((path) => ({ path, text: readFileSync(path, 'utf8') }))

/** The test files that run a kit. */
const runnersOf = (kit: string): readonly string[] =>
  tests.flatMap(({ path, text }) => (new RegExp(`checkLaws\\(\\s*it,\\s*${kit}\\(`).test(text) ? [path] : []))

interface Stated {
  readonly numbers: readonly number[]
  readonly title: string
  readonly where: string
  readonly files: readonly string[]
}

/** The tests whose titles begin with numbers: `law 1: ...`, `items 2 and 3: ...`. */
const named = (word: 'law' | 'item'): readonly Stated[] =>
  tests.flatMap(({ path, text }) =>
    [
      ...text.matchAll(
        new RegExp(`\\bit(?:\\.each\\([^\\n]*\\))?\\('${word}s? (\\d[\\d, and]*): ((?:[^'\\\\]|\\\\.)*)'`, 'g'),
      ),
    ].map(([, numbers, title]) => ({
      numbers: numbers!.match(/\d+/g)!.map(Number),
      title: title!,
      where: 'a test',
      files: [path],
    })),
  )

const laws: readonly Stated[] = [
  ...Object.entries(kits).flatMap(([kit, stated]) =>
    stated.map(({ number, name }) => ({
      numbers: [number],
      title: name.slice(`law ${number}: `.length),
      where: `\`${kit}\``,
      files: runnersOf(kit),
    })),
  ),
  ...named('law'),
]

const distinct = (items: readonly string[]): string => [...new Set(items)].join('<br>')
const row = (...cells: readonly (string | number)[]): string =>
  `| ${cells.map((cell) => String(cell).replaceAll('|', '\\|')).join(' | ')} |`
const linked = (path: string): string => `[${path.slice(path.lastIndexOf('/') + 1)}](../${path})`

const lawTable = [
  row('Law', 'What holds', 'In', 'Run by'),
  '| --: | --- | --- | --- |',
  ...[...new Set(laws.flatMap(({ numbers }) => numbers))]
    .sort((a, b) => a - b)
    .map((number) => {
      const stated = laws.filter(({ numbers }) => numbers.includes(number))
      const files = stated.flatMap((each) => each.files).map(linked)
      return row(
        number,
        distinct(stated.map(({ title }) => title)),
        distinct(stated.map(({ where }) => where)),
        distinct(files),
      )
    }),
]

interface Defect {
  readonly item: number
  readonly expression: string
  readonly shows: boolean
  readonly seen: string
}

const golden = JSON.parse(readFileSync('test/golden/tensordictDefects.json', 'utf8')) as {
  readonly tensordict: string
  readonly cases: readonly Defect[]
} // written by the generator beside it

const items = named('item')
const upTo = (size: number): readonly number[] => Array.from({ length: size }, (_, i) => i + 1)

const defectTable = [
  row('Item', 'What it does', 'Shows', 'Our test', 'In'),
  '| --: | --- | --- | --- | --- |',
  ...upTo(17).map((item) => {
    const cases = golden.cases.filter((each) => each.item === item)
    const ours = items.filter(({ numbers }) => numbers.includes(item))
    return row(
      item,
      cases.map(({ expression, seen }) => `\`${expression}\`: ${seen}`).join('<br>'),
      distinct(cases.map(({ shows }) => (shows ? 'yes' : `not in ${golden.tensordict}`))),
      distinct(ours.map(({ title }) => title)),
      distinct(ours.flatMap(({ files }) => files).map(linked)),
    )
  }),
]

/** The tests of queues and buffers whose titles begin with `law: `. */
const structureTable = [
  row('What holds', 'In'),
  '| --- | --- |',
  ...tests
    .filter(({ path }) => /^(packages\/cluster\/test\/queues|test\/data\/buffers)\//.test(path))
    .flatMap(({ path, text }) =>
      [...text.matchAll(/\bit(?:\.each\([^\n]*\))?\('law: ((?:[^'\\]|\\.)*)'/g)].map(([, title]) =>
        row(title!, linked(path)),
      ),
    ),
]

const filled = (page: string, mark: string, table: readonly string[]): string =>
  page.replace(new RegExp(`<!-- ${mark} -->\\n[\\s\\S]*?<!-- end -->`), () =>
    [`<!-- ${mark} -->`, '', ...table, '', '<!-- end -->'].join('\n'),
  )

describe('docs/laws.md', () => {
  it('has the titles of the kits and tests, and the files that run them', async () => {
    const numbered = filled(filled(readFileSync(PAGE, 'utf8'), 'laws', lawTable), 'defects', defectTable)
    const page = filled(numbered, 'structures', structureTable)
    await expect(page).toMatchFileSnapshot(resolve(PAGE))
  })

  it('has each of the 87 laws', () => {
    expect([...new Set(laws.flatMap(({ numbers }) => numbers))].sort((a, b) => a - b)).toEqual(upTo(87))
  })

  it.each(Object.keys(kits))('names tests that run %s', (kit) => {
    expect(runnersOf(kit)).not.toEqual([])
  })

  it('has a test of ours for each defect of tensordict, of which 0.14.3 has repaired four', () => {
    expect(golden.tensordict).toBe('0.14.3')
    expect(golden.cases.filter(({ shows }) => !shows).map(({ item }) => item)).toEqual([1, 2, 3, 14])
    expect([...new Set(golden.cases.map(({ item }) => item))]).toEqual(upTo(17))
    expect([...new Set(items.flatMap(({ numbers }) => numbers))].sort((a, b) => a - b)).toEqual(upTo(17))
  })
})
