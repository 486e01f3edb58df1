/** Collects the regular expressions in the sources of all packages. */
import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import ts from 'typescript'
import { SOURCE_FOLDERS, typeScriptBelow } from '../../scripts/kit/workspace.js'

/** A regular expression and its file. */
export interface Expression {
  readonly file: string
  readonly source: string
  readonly flags: string
}

/** Formats an expression as a literal. */
export const written = ({ source, flags }: Omit<Expression, 'file'>): string => `/${source}/${flags}`

/** Expressions that do not run in linear time, with the reason why that is safe. */
export const ALLOWED: ReadonlyMap<string, string> = new Map([
  [String.raw`/\/+$/`, 'the address of a weight receiver, from the settings of the program itself'],
  [String.raw`/[*+?]|\{(\d+)(,?)(\d*)\}/y`, 'sticky: it is tried at one place, not at every one'],
  [String.raw`/\(?((?:file:\/\/|node:|\/|[A-Za-z]:[\\/])[^()]*:\d+:\d+)\)?$/`, 'a line of the stack of this process'],
])

/** Parses all source files. */
export const parsedSources = (): readonly ts.SourceFile[] =>
  SOURCE_FOLDERS.flatMap(typeScriptBelow)
    .map((path) => resolve(path))
    .map((path) => ts.createSourceFile(path, readFileSync(path, 'utf8'), ts.ScriptTarget.ES2022, true))

/** Calls `f` for every node of a file. */
export const eachNode = (file: ts.SourceFile, f: (node: ts.Node) => void): void => {
  const visit = (node: ts.Node): void => {
    f(node)
    ts.forEachChild(node, visit)
  }
  visit(file)
}

/** Returns the regular expression literals of a file. */
export const literalsIn = (file: ts.SourceFile): readonly Expression[] => {
  const found: Expression[] = []
  eachNode(file, (node) => {
    if (!ts.isRegularExpressionLiteral(node)) return
    const end = node.text.lastIndexOf('/')
    found.push({ file: file.fileName, source: node.text.slice(1, end), flags: node.text.slice(end + 1) })
  })
  return found
}
