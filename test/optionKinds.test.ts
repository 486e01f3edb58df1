/** Tables of options follow from the types of the options. */
import { join } from 'node:path'
import ts from 'typescript'
import { describe, expect, it } from 'vitest'
import { compilerOptions } from '../scripts/kit/compilerOptions.js'
import { optionKindsFiles } from '../scripts/kit/optionKinds.js'

const FIXTURE = join(process.cwd(), 'src/fixture/part/source.ts')

const options = compilerOptions()
const host = ts.createCompilerHost(options)

/** Files of the standard library, parsed once. */
const parsed = new Map<string, ts.SourceFile | undefined>()

/** Derives the tables of a source, which may call `checkOptions` and import any table. */
const derived = (source: string): ReadonlyMap<string, string> => {
  const text = `${source}\ndeclare const checkOptions: <O extends object>(name: string, options: O, table: string) => void`
  const getSourceFile: typeof host.getSourceFile = (path, ...rest) => {
    if (path === FIXTURE) return ts.createSourceFile(path, text, ts.ScriptTarget.ES2022, true)
    if (!parsed.has(path)) parsed.set(path, host.getSourceFile(path, ...rest))
    return parsed.get(path)
  }
  return optionKindsFiles(ts.createProgram([FIXTURE], options, { ...host, getSourceFile }))
}

/** The table of the options of one type. */
const tableOf = (type: string, declarations = ''): string | undefined => {
  const files = derived(
    `import { A } from '../optionKinds.js'\n${declarations}\nexport const f = (options: ${type}): void => checkOptions('f', options, A)`,
  )
  return /export const A = (.*)\n/.exec(files.get('src/fixture/optionKinds.ts') ?? '')?.[1]?.slice(1, -1)
}

describe('the table of a type', () => {
  it.each([
    ['{ readonly a?: number; b: string; c: boolean }', 'a: number, b: string, c: boolean'],
    ['{ a: () => void; b: new () => Date; c(x: number): void }', 'a: function, b: function, c: function'],
    ['{ a: readonly string[]; b: [string]; c: { d: number }; e: Map<1, 2> }', 'a: list, b: list, c: record, e: record'],
    ['{ a: number | readonly [number, number]; b: [number, number] }', 'a: number | pair, b: pair'],
    ["{ a: 'right' | 'left'; b: 'left' | 'right' }", "a: 'right' | 'left', b: 'left' | 'right'"],
    ["{ a: 'x' | (() => void) | null | string[] }", "a: 'x' | function | null | list"],
    [
      '{ a: unknown; b: any; c: {}; d: Iterable<string>; e: number | Iterable<number> }',
      'a: anything, b: anything, c: anything, d: anything, e: anything',
    ],
    [
      '{ a: string & { b: 1 }; c: { d: 1 } & { e: 2 }; f: (() => void) & { g: 1 } }',
      'a: string, c: record, f: function',
    ],
    ['{ a: number; b?: never } | { b: string }', 'a: number, b: string'],
    ['{}', ''],
  ])('%s', (type, table) => {
    expect(tableOf(type)).toBe(table)
  })

  it('lists words in the order of their declaration, wherever it is', () => {
    const declarations = `
      const SIDES = ['right', 'left'] as const
      type Side = (typeof SIDES)[number]
      const TABLE = { y: 1, x: 2 }
      interface Base { side: Side; axis: keyof typeof TABLE; word: 'b' | 'a' }
      interface Other<K extends 'd' | 'c'> extends Omit<Base, 'word'> { own: Base['word'] | 'z'; kind: K }`
    const words = "side: 'right' | 'left', axis: 'y' | 'x'"
    expect(tableOf('Base', declarations)).toBe(`${words}, word: 'b' | 'a'`)
    expect(tableOf("Other<'d' | 'c'>", declarations)).toBe(`${words}, own: 'b' | 'a' | 'z', kind: 'd' | 'c'`)
  })

  it('is that of an explicit type, and of a narrowed one', () => {
    const source = `
      import { A, B, C } from '../optionKinds.js'
      export const f = <T extends 'x' | { n: T[] }>(given: 'x' | { n: number }, all: { t: T; u: Set<T> }): void => {
        checkOptions<{ a?: string }>('f', {}, A)
        if (typeof given === 'object') checkOptions('f', given, B)
        else checkOptions('f', { given }, C)
        checkOptions('f', all, D)
      }`.replace('A, B, C', 'A, B, C, D')
    const [, ...lines] = derived(source).get('src/fixture/optionKinds.ts')!.trim().split('\n')
    expect(lines).toEqual([
      "export const A = 'a: string'",
      "export const B = 'n: number'",
      'export const C = "given: \'x\'"',
      'export const D = "t: \'x\' | record, u: record"',
    ])
  })

  it('is refused for two types of one name, for a table by hand, and for a word that it cannot hold', () => {
    const head = "import { A } from '../optionKinds.js'\n"
    const call = (options: string, table: string): string => `checkOptions('f', ${options}, ${table})\n`
    expect(() => derived(head + call('{ a: 1 }', 'A') + call('{ b: 1 }', 'A'))).toThrow(
      'A of src/fixture/optionKinds.ts',
    )
    expect(() => derived(call('{ a: 1 }', "'a: number'"))).toThrow('must be imported from the optionKinds.js')
    expect(() => tableOf("{ a: 'x, y' }")).toThrow("cannot hold 'x, y'")
  })
})
