/** Wrong programs do not compile, with a helpful error; the cost of types is bounded. */
import { resolve } from 'node:path'
import ts from 'typescript'
import { describe, expect, it } from 'vitest'
import { compilerOptions } from '../../scripts/kit/compilerOptions.js'
import { PRELUDE, WRONG_PROGRAMS } from './wrongPrograms.js'
import { WIRING_PRELUDE, WRONG_WIRING } from './wrongWiring.js'

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

/** The prelude, and each expression on a line of its own. */
const fileOf = (prelude: string, expressions: readonly string[]): string =>
  `${prelude}${expressions.map((text, i) => `export const line${i} = () => ${text}\n`).join('')}`

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
    [
      'wrong.ts',
      fileOf(
        PRELUDE,
        WRONG_PROGRAMS.map(({ wrong }) => wrong),
      ),
    ],
    [
      'right.ts',
      fileOf(
        PRELUDE,
        WRONG_PROGRAMS.map(({ right }) => right),
      ),
    ],
    [
      'wrongWiring.ts',
      fileOf(
        WIRING_PRELUDE,
        WRONG_WIRING.map(({ wrong }) => wrong),
      ),
    ],
    [
      'rightWiring.ts',
      fileOf(
        WIRING_PRELUDE,
        WRONG_WIRING.map(({ right }) => right),
      ),
    ],
    ['wide.ts', WIDE],
  ]),
)

/** Returns the messages of each expression of a file, and those of other lines. */
const messagesIn = (name: string, prelude: string, count: number) => {
  const [found, before] = [problemsOf(program, name), prelude.split('\n').length - 1]
  const lines = Array.from({ length: count }, (_, i) => before + i)
  return {
    of: lines.map((line) => found.filter((problem) => problem.line === line).map(({ text }) => text)),
    elsewhere: found.filter(({ line }) => !lines.includes(line)),
  }
}

describe('wrong programs', () => {
  const found = messagesIn('wrong.ts', PRELUDE, WRONG_PROGRAMS.length)

  it.each(WRONG_PROGRAMS.map((each, i) => [each.title, each, i] as const))('%s', (_, { message }, i) => {
    expect(found.of[i]).not.toEqual([])
    expect(found.of[i]!.join('\n')).toContain(message)
  })

  it('have no errors elsewhere, and the right ones have none', () => {
    expect(found.elsewhere).toEqual([])
    expect(problemsOf(program, 'right.ts')).toEqual([])
  })
})

/** The longest first line, in characters. */
const LONGEST = 400

describe('the first line of the message of wrong wiring names the fault', () => {
  const found = messagesIn('wrongWiring.ts', WIRING_PRELUDE, WRONG_WIRING.length)

  it.each(WRONG_WIRING.map((each, i) => [each.title, each, i] as const))('%s', (_, { firstLine }, i) => {
    const [line = ''] = (found.of[i]![0] ?? '').split('\n')
    expect(line).toContain(firstLine)
    expect(line.length).toBeLessThanOrEqual(LONGEST)
  })

  it('and there are no errors elsewhere, and none in the right programs', () => {
    expect(found.elsewhere).toEqual([])
    expect(problemsOf(program, 'rightWiring.ts')).toEqual([])
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
