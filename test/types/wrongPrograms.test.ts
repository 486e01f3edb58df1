/** Wrong programs do not compile, with a helpful error; the cost of types is bounded. */
import { resolve } from 'node:path'
import ts from 'typescript'
import { describe, expect, it } from 'vitest'
import { compilerOptions } from '../../scripts/kit/compilerOptions.js'
import { PRELUDE, WRONG_PROGRAMS } from './wrongPrograms.js'

/** Compiles texts as files of this folder, which need not exist. */
const compile = (texts: ReadonlyMap<string, string>): ts.Program => {
  const options: ts.CompilerOptions = { ...compilerOptions(), noUnusedLocals: false, noEmit: true }
  const host = ts.createCompilerHost(options)
  const files = new Map([...texts].map(([name, text]) => [resolve('test/types', name), text]))
  return ts.createProgram({
    rootNames: [...files.keys()],
    options,
    host: {
      ...host,
      fileExists: (path) => files.has(path) || host.fileExists(path),
      readFile: (path) => files.get(path) ?? host.readFile(path),
      getSourceFile: (path, ...rest) => {
        const text = files.get(path)
        return text === undefined
          ? host.getSourceFile(path, ...rest)
          : ts.createSourceFile(path, text, ts.ScriptTarget.ES2022)
      },
    },
  })
}

const problemsOf = (program: ts.Program, name: string): readonly { readonly line: number; readonly text: string }[] => {
  const file = program.getSourceFile(resolve('test/types', name))!
  return [...program.getSyntacticDiagnostics(file), ...program.getSemanticDiagnostics(file)].map((each) => ({
    line: file.getLineAndCharacterOfPosition(each.start ?? 0).line,
    text: ts.flattenDiagnosticMessageText(each.messageText, '\n'),
  }))
}

const LINES_BEFORE = PRELUDE.split('\n').length - 1

/** The prelude, and each expression on a line of its own. */
const fileOf = (expressions: readonly string[]): string =>
  `${PRELUDE}${expressions.map((text, i) => `export const line${i} = () => ${text}\n`).join('')}`

const KEYS = Array.from({ length: 60 }, (_, i) => `key${i}`)

const operation = (i: number): string =>
  [
    `get(batch, 'key${i % 60}', 'key${(i + 7) % 60}')`,
    `set(batch, ['key${i % 60}', 'new${i}'], meta('x'))`,
    `merge(batch, TensorDict({ extra${i}: meta(1), key0: { other: meta(2) } }, []))`,
    `select(batch, 'key${i % 60}', ['key${(i + 1) % 60}', 'key3'])`,
  ][i % 4]!

/** A hundred calls on a schema of 60 nodes of 60 keys. */
const WIDE = `${PRELUDE}
const node = () => TensorDict({ ${KEYS.map((key) => `${key}: meta(1)`).join(', ')} }, [])
const batch = TensorDict({ ${KEYS.map((key) => `${key}: node()`).join(', ')} }, [])
${Array.from({ length: 100 }, (_, i) => `export const use${i} = ${operation(i)}`).join('\n')}`

const program = compile(
  new Map([
    ['wrong.ts', fileOf(WRONG_PROGRAMS.map(({ wrong }) => wrong))],
    ['right.ts', fileOf(WRONG_PROGRAMS.map(({ right }) => right))],
    ['wide.ts', WIDE],
  ]),
)
const found = problemsOf(program, 'wrong.ts')

describe('wrong programs', () => {
  it.each(WRONG_PROGRAMS.map((each, i) => [each.title, each, i] as const))('%s', (_, { message, firstLine }, i) => {
    const texts = found.filter(({ line }) => line === LINES_BEFORE + i).map(({ text }) => text)
    expect(texts).not.toEqual([])
    expect(texts.join('\n')).toContain(message)
    if (firstLine !== undefined) expect(texts[0]!.split('\n')[0]).toContain(firstLine)
  })

  it('have no errors elsewhere, and the right ones have none', () => {
    const expected = new Set(WRONG_PROGRAMS.map((_, i) => LINES_BEFORE + i))
    expect(found.filter(({ line }) => !expected.has(line))).toEqual([])
    expect(problemsOf(program, 'right.ts')).toEqual([])
  })
})

describe('the cost of types', () => {
  it('of 100 calls on a wide schema is within the budget of instantiations', () => {
    const [before, started] = [program.getInstantiationCount(), performance.now()]
    expect(problemsOf(program, 'wide.ts')).toEqual([])
    const spent = program.getInstantiationCount() - before
    console.log(`types: ${spent} instantiations, ${Math.round(performance.now() - started)} ms`)
    expect(spent).toBeGreaterThan(1000)
    expect(spent).toBeLessThan(40_000)
  })
})
