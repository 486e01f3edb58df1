/** Figures of the house: how much there is to learn, and whether it can be found. */
import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join, normalize } from 'node:path'
import ts from 'typescript'
import { DOORS } from './doors.js'
import type { PublicName } from './publicSurface.js'
import { isSource } from './workspace.js'

/** A source file and its syntax tree. */
export interface Source {
  readonly path: string
  readonly tree: ts.SourceFile
}

const doorFiles = new Set(DOORS.values())

/** Returns true for files that list the names of an import path. */
const isDoor = (path: string): boolean => doorFiles.has(path)

/** Parses all TypeScript files below some folders. */
export const readSources = (folders: readonly string[]): readonly Source[] =>
  folders.flatMap((folder) =>
    readdirSync(folder, { recursive: true, encoding: 'utf8' })
      .filter((path) => path.endsWith('.ts'))
      .map((path) => join(folder, path))
      .map((path) => ({
        path,
        tree: ts.createSourceFile(path, readFileSync(path, 'utf8'), ts.ScriptTarget.ES2022, true),
      })),
  )

/** An import or re-export of a file of this project, and the names that it takes. */
interface Link {
  readonly from: string
  readonly to: string
  readonly names: readonly string[]
}

const takenNames = (statement: ts.ImportDeclaration | ts.ExportDeclaration): readonly string[] => {
  const clause = ts.isImportDeclaration(statement) ? statement.importClause?.namedBindings : statement.exportClause
  if (clause === undefined || ts.isNamespaceImport(clause) || ts.isNamespaceExport(clause)) return ['*']
  return clause.elements.map(({ name, propertyName }) => (propertyName ?? name).text)
}

/** The imports and re-exports of a file, with the files that they lead to. */
export const linksOf = ({ path, tree }: Source): readonly Link[] =>
  tree.statements.flatMap((statement) => {
    if (!(ts.isImportDeclaration(statement) || ts.isExportDeclaration(statement))) return []
    const target = statement.moduleSpecifier
    if (target === undefined || !ts.isStringLiteral(target)) return []
    const to = target.text.startsWith('.')
      ? normalize(join(dirname(path), target.text.replace(/\.js$/, '.ts')))
      : DOORS.get(target.text)
    return to === undefined ? [] : [{ from: path, to, names: takenNames(statement) }]
  })

/** Returns true for generated tables of options. They import nothing, so no cycle passes them. */
const isTable = (path: string): boolean => path.endsWith('/optionKinds.ts')

/** Finds the pairs of folders of which each imports the other. */
export const twoWayFolders = (sources: readonly Source[]): readonly string[] => {
  const pairs = new Set(
    sources
      .filter(({ path }) => isSource(path) && !isDoor(path))
      .flatMap(linksOf)
      .filter(({ to }) => !isTable(to) && !isDoor(to))
      .map(({ from, to }) => [dirname(from), dirname(to)] as const)
      .filter(([from, to]) => from !== to)
      .map(([from, to]) => `${from} ${to}`),
  )
  return [...pairs].filter((pair) => {
    const [from, to] = pair.split(' ') as [string, string] // as joined above
    return from < to && pairs.has(`${to} ${from}`)
  })
}

const declaredNames = (statement: ts.Statement): readonly string[] => {
  const isExported = ts.canHaveModifiers(statement)
    ? ts.getModifiers(statement)?.some(({ kind }) => kind === ts.SyntaxKind.ExportKeyword)
    : false
  if (isExported !== true) return []
  if (ts.isVariableStatement(statement)) return statement.declarationList.declarations.map(({ name }) => name.getText())
  const isNamed =
    ts.isInterfaceDeclaration(statement) ||
    ts.isTypeAliasDeclaration(statement) ||
    ts.isFunctionDeclaration(statement) ||
    ts.isClassDeclaration(statement)
  return isNamed && statement.name !== undefined ? [statement.name.text] : []
}

/**
 * Finds the names that two files of `src` or more export: name -> files. Files in folders named
 * `browser` export the names of the files that they replace, and `commands.ts` of each package its
 * `commands`.
 */
export const namesExportedTwice = (sources: readonly Source[]): ReadonlyMap<string, readonly string[]> => {
  const files = new Map<string, Set<string>>()
  for (const { path, tree } of sources.filter(
    (each) => isSource(each.path) && !/\/browser\/|\/src\/commands\.ts$/.test(each.path),
  ))
    for (const name of tree.statements.flatMap(declaredNames)) files.set(name, (files.get(name) ?? new Set()).add(path))
  return new Map([...files].filter(([, paths]) => paths.size > 1).map(([name, paths]) => [name, [...paths].sort()]))
}

/**
 * Finds the public values that no other file of `sources` imports from the file that declares them.
 */
export const valuesWithoutCaller = (
  sources: readonly Source[],
  surface: ReadonlyMap<string, readonly PublicName[]>,
): readonly string[] => {
  const links = sources.filter(({ path }) => !isDoor(path)).flatMap(linksOf)
  const taken = new Set(links.flatMap(({ to, names }) => names.map((name) => `${to} ${name}`)))
  const doorsTaken = new Set(links.filter(({ to }) => isDoor(to)).flatMap(({ names }) => names))
  const texts = sources.filter(({ path }) => !isSource(path)).map(({ tree }) => tree.text)
  const named = new Map([...surface.values()].flat().map((each) => [`${each.file} ${each.name}`, each]))
  return [...named.values()]
    .filter(({ kind, file }) => kind === 'value' && isSource(file))
    .filter(({ name, file }) => !taken.has(`${file} ${name}`) && !doorsTaken.has(name))
    .filter(({ name }) => !texts.some((text) => new RegExp(`\\b${name}\\b`).test(text)))
    .map(({ name }) => name)
    .sort()
}

const lineOf = (tree: ts.SourceFile, position: number): number => tree.getLineAndCharacterOfPosition(position).line + 1

/** A place in the sources and a count there. */
export interface Counted {
  readonly place: string
  readonly count: number
}

const walk = (node: ts.Node, visit: (node: ts.Node) => void): void => {
  visit(node)
  ts.forEachChild(node, (child) => walk(child, visit))
}

const inOrder = (counts: readonly Counted[]): readonly Counted[] => [...counts].sort((a, b) => b.count - a.count)

/** A line without code. */
const IS_COMMENT = /^\s*(\/\/|\/\*|\*|$)/

/** Counts the lines of every function, with those of its closures, the longest first. */
export const functionLengths = (sources: readonly Source[]): readonly Counted[] =>
  inOrder(
    sources.flatMap(({ path, tree }) => {
      const found: Counted[] = []
      walk(tree, (node) => {
        if (!(ts.isArrowFunction(node) || ts.isFunctionDeclaration(node) || ts.isMethodDeclaration(node))) return
        if (node.body === undefined) return
        const [first, last] = [lineOf(tree, node.getStart()), lineOf(tree, node.getEnd())]
        const lines = tree.text.split('\n').slice(first - 1, last)
        found.push({ place: `${path}:${first}`, count: lines.filter((line) => !IS_COMMENT.test(line)).length })
      })
      return found
    }),
  )

/**
 * Counts the fields of every options record: types named `...Options`, and objects of zod schemas.
 */
export const optionFields = (sources: readonly Source[]): readonly Counted[] =>
  inOrder(
    sources.flatMap(({ path, tree }) => {
      const found: Counted[] = []
      walk(tree, (node) => {
        const place = `${path}:${lineOf(tree, node.getStart())}`
        if (ts.isInterfaceDeclaration(node) && node.name.text.endsWith('Options'))
          found.push({ place: `${place} ${node.name.text}`, count: node.members.length })
        if (!ts.isCallExpression(node) || !/^z\.(strict|loose)?[oO]bject$/.test(node.expression.getText())) return
        const [fields] = node.arguments
        if (fields !== undefined && ts.isObjectLiteralExpression(fields))
          found.push({ place: `${place} schema`, count: fields.properties.length })
      })
      return found
    }),
  )

/** Counts the lines of each package, and of each folder of the kernel's `src`. */
export const linesOfFolders = (sources: readonly Source[]): ReadonlyMap<string, number> => {
  const lines = new Map<string, number>()
  for (const { path, tree } of sources.filter((each) => isSource(each.path))) {
    const folder = roomOf(path)
    lines.set(folder, (lines.get(folder) ?? 0) + lineOf(tree, tree.end))
  }
  return new Map([...lines].sort(([a], [b]) => (a < b ? -1 : 1)))
}

/** The room of a source: its package, or its folder of the kernel. */
const roomOf = (path: string): string =>
  path
    .split('/')
    .slice(0, path.split('/').length > 2 ? 2 : 1)
    .join('/')

/** Lists the pairs of rooms of which the first imports the second. */
export const arrowsOf = (sources: readonly Source[]): readonly (readonly [from: string, to: string])[] => {
  const pairs = sources
    .filter(({ path }) => !path.startsWith('src/doors/') && path !== 'src/index.ts')
    .flatMap(linksOf)
    .map(({ from, to }) => [roomOf(from), roomOf(to)] as const)
    .filter(([from, to]) => from !== to && to !== 'src' && to !== 'src/doors')
  return [...new Map(pairs.map((pair) => [pair.join(' '), pair])).values()]
}

/** Returns the floor of each room: one above the highest room that it imports. */
export const floorsOf = (arrows: readonly (readonly [from: string, to: string])[]): ReadonlyMap<string, number> => {
  const floors = new Map<string, number>()
  const floorOf = (room: string, above: readonly string[]): number => {
    const known = floors.get(room)
    if (known !== undefined) return known
    if (above.includes(room)) return 0 // a circle, which the layers refuse
    const below = arrows.filter(([from]) => from === room).map(([, to]) => floorOf(to, [...above, room]) + 1)
    const floor = Math.max(0, ...below)
    floors.set(room, floor)
    return floor
  }
  for (const room of new Set(arrows.flat())) floorOf(room, [])
  return floors
}
