/**
 * The public surface of the package: what each door exports, with the declarations that users
 * compile against.
 */
import { join, resolve } from 'node:path'
import ts from 'typescript'
import { compilerOptions } from './compilerOptions.js'
import { DOORS } from './doors.js'

/** A name that a door exports. */
export interface PublicName {
  readonly name: string
  readonly kind: 'value' | 'type'
  /** The file that declares it, or a path in node_modules. */
  readonly file: string
  /** Its declarations as in the published `.d.ts` file, without comments. */
  readonly declaration: string
}

/** Declarations only. Types are not checked here: `npm run typecheck` does it. */
const DECLARATIONS: ts.CompilerOptions = {
  ...{ noEmit: false, declaration: true, emitDeclarationOnly: true, removeComments: true },
  noCheck: true, // for speed
}

/** Emits the declarations of all source files, in memory: source file -> text of its `.d.ts`. */
const declarationsOf = (program: ts.Program): ReadonlyMap<string, ts.SourceFile> => {
  const emitted = new Map<string, ts.SourceFile>()
  program.emit(undefined, (path, text, ...[, , sources]) => {
    for (const { fileName } of sources ?? [])
      emitted.set(fileName, ts.createSourceFile(path, text, ts.ScriptTarget.ES2022, true))
  })
  return emitted
}

const declares = (statement: ts.Statement, name: string): boolean =>
  ts.isVariableStatement(statement)
    ? statement.declarationList.declarations.some((each) => each.name.getText() === name)
    : (ts.isInterfaceDeclaration(statement) ||
        ts.isTypeAliasDeclaration(statement) ||
        ts.isFunctionDeclaration(statement) ||
        ts.isClassDeclaration(statement)) &&
      statement.name?.text === name

const declarationOf = (file: ts.SourceFile | undefined, name: string): string =>
  (file?.statements ?? [])
    .filter((statement) => declares(statement, name))
    .map((statement) => statement.getText().replace(/^export (declare )?/, ''))
    .join('\n')

/** Parses the sources that the doors load. Cost: about three seconds. */
export const publicProgram = (): ts.Program =>
  ts.createProgram(
    [...DOORS.values()].map((file) => resolve(file)),
    { ...compilerOptions(), ...DECLARATIONS },
  )

/** Reads the public surface: import path of a door -> its names in alphabetical order. */
export const publicSurface = (program: ts.Program): ReadonlyMap<string, readonly PublicName[]> => {
  const checker = program.getTypeChecker()
  const emitted = declarationsOf(program)
  const root = `${process.cwd()}/`
  const read = (symbol: ts.Symbol): PublicName => {
    const target = (symbol.flags & ts.SymbolFlags.Alias) !== 0 ? checker.getAliasedSymbol(symbol) : symbol
    const file = target.declarations?.[0]?.getSourceFile().fileName ?? ''
    return {
      name: symbol.name,
      kind: (target.flags & ts.SymbolFlags.Value) !== 0 ? 'value' : 'type',
      file: file.replace(root, '').replace(/^.*node_modules\//, 'node_modules/'),
      declaration: declarationOf(emitted.get(file), target.name),
    }
  }
  return new Map(
    [...DOORS].map(([door, file]) => {
      const module = checker.getSymbolAtLocation(program.getSourceFile(resolve(file))!)!
      const names = checker.getExportsOfModule(module).map(read)
      return [door, names.sort((a, b) => (a.name < b.name ? -1 : 1))] as const
    }),
  )
}

/** The folder of the API report. */
export const REPORT = 'docs/api'

/** The file of the report of a door. */
export const reportFile = (door: string): string =>
  join(REPORT, `${door.replace(/^(@tandem-rl|tandem-rl)\/?/, '').replaceAll('/', '.') || 'index'}.txt`)

/** Formats the report of a door: one entry for each name. */
export const reportOf = (door: string, names: readonly PublicName[]): string => {
  const values = names.filter(({ kind }) => kind === 'value').length
  const entries = names.map(({ name, file, declaration }) => {
    const from = file.startsWith('node_modules/') || declaration === '' ? ` (${file})` : ''
    return declaration === '' ? `export ${name}${from}` : declaration
  })
  return `${door}: ${values} values, ${names.length - values} types\n\n${entries.join('\n\n')}\n`
}
