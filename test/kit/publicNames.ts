/** The names that the package exports, and what they have: members, options and entries. */
import ts from 'typescript'
import { compilerOptions } from '../../scripts/kit/compilerOptions.js'
import { DOORS } from '../../scripts/kit/doors.js'

/** The public names of the package, read from the door files by the type checker. */
export interface PublicNames {
  /**
   * Returns why an expression names nothing that is public, or `undefined`. It takes `name`,
   * `name.member`, `name({ option: 'literal' })`, and the path of an entry, such as `tokens.prompt`.
   */
  readonly problem: (expression: string) => string | undefined
}

const MAX_DEPTH = 4

/** Declares the entries of collected rows, which depend on state and action. */
const ROWS = 'test/kit/collectedRow.ts'

/** Returns a type with its constraint, and the members of a union or an intersection. */
const expanded = (checker: ts.TypeChecker, type: ts.Type): readonly ts.Type[] => {
  const base = checker.getBaseConstraintOfType(type) ?? type
  return base.isUnionOrIntersection() ? [base, ...base.types.flatMap((each) => expanded(checker, each))] : [base]
}

/**
 * Returns the types that a path may continue from: a function continues with its result and its
 * parameters.
 */
const reachable = (checker: ts.TypeChecker, type: ts.Type, depth = 0): readonly ts.Type[] => {
  if (depth > MAX_DEPTH) return []
  return expanded(checker, type).flatMap((each) => [
    each,
    ...each
      .getCallSignatures()
      .flatMap((signature) => [
        ...reachable(checker, signature.getReturnType(), depth + 1),
        ...signature.getParameters().flatMap((parameter) => expanded(checker, checker.getTypeOfSymbol(parameter))),
      ]),
  ])
}

const memberTypes = (checker: ts.TypeChecker, types: readonly ts.Type[], name: string): readonly ts.Type[] =>
  types.flatMap((type) => {
    const found = type.getProperty(name)
    return found === undefined ? [] : [checker.getTypeOfSymbol(found)]
  })

/** Returns the schema of a TensorDict type. */
const schemaOf = (checker: ts.TypeChecker, type: ts.Type): readonly ts.Type[] =>
  type.symbol?.name === 'TensorDict' && (type as ts.ObjectType).objectFlags & ts.ObjectFlags.Reference
    ? checker.getTypeArguments(type as ts.TypeReference).flatMap((each) => expanded(checker, each)) // the flag says it is one
    : []

const LEAVES = new Set(['Data', 'Ragged', 'Tensor', 'TensorDict', 'Meta'])

const isEntry = (checker: ts.TypeChecker, type: ts.Type): boolean =>
  expanded(checker, type).some(
    (each) => LEAVES.has(each.aliasSymbol?.name ?? '') || LEAVES.has(each.symbol?.name ?? ''),
  )

/** The exports of the package. */
interface World {
  readonly checker: ts.TypeChecker
  readonly symbols: ReadonlyMap<string, readonly ts.Symbol[]>
  /** The types that exported type aliases and interfaces declare. */
  readonly declared: readonly ts.Type[]
}

const readWorld = (): World => {
  const program = ts.createProgram([...DOORS.values(), ROWS], compilerOptions())
  const checker = program.getTypeChecker()
  const symbols = new Map<string, ts.Symbol[]>()
  const exportsOf = (path: string): readonly ts.Symbol[] =>
    checker.getExportsOfModule(checker.getSymbolAtLocation(program.getSourceFile(path)!)!)
  for (const path of DOORS.values()) {
    for (const exported of exportsOf(path)) {
      const own = (exported.flags & ts.SymbolFlags.Alias) !== 0 ? checker.getAliasedSymbol(exported) : exported
      symbols.set(exported.name, [...(symbols.get(exported.name) ?? []), own])
    }
  }
  const types = [...[...symbols.values()].flat(), ...exportsOf(ROWS)].filter(
    ({ flags }) => (flags & ts.SymbolFlags.Type) !== 0,
  )
  return { checker, symbols, declared: types.map((symbol) => checker.getDeclaredTypeOfSymbol(symbol)) }
}

const typesOf = ({ checker, symbols }: World, name: string): readonly ts.Type[] =>
  (symbols.get(name) ?? []).flatMap((symbol) => [
    ...((symbol.flags & ts.SymbolFlags.Value) === 0 ? [] : [checker.getTypeOfSymbol(symbol)]),
    ...((symbol.flags & ts.SymbolFlags.Type) === 0 ? [] : [checker.getDeclaredTypeOfSymbol(symbol)]),
  ])

/**
 * Returns true if an exported type has an entry of this path. A leading `next` is the state after a
 * turn.
 */
const hasEntry = ({ checker, declared }: World, path: readonly string[]): boolean => {
  const [first, ...rest] = path[0] === 'next' ? path.slice(1) : path
  if (first === undefined) return false
  const begin = declared
    .flatMap((type) => expanded(checker, type))
    .flatMap((type) => [type, ...schemaOf(checker, type)])
  let types: readonly ts.Type[] = memberTypes(checker, begin, first).filter((type) => isEntry(checker, type))
  for (const name of rest)
    types = memberTypes(
      checker,
      types.flatMap((type) => schemaOf(checker, type)),
      name,
    )
  return types.length > 0
}

const propertyName = (node: ts.ObjectLiteralElementLike): string =>
  node.name !== undefined && (ts.isIdentifier(node.name) || ts.isStringLiteral(node.name)) ? node.name.text : ''

/**
 * Returns the first option of an object literal that the types do not have, or the first literal
 * that they refuse.
 */
const optionProblem = (
  checker: ts.TypeChecker,
  types: readonly ts.Type[],
  literal: ts.ObjectLiteralExpression,
): string | undefined => {
  for (const property of literal.properties) {
    const name = propertyName(property)
    const found = memberTypes(checker, types, name).flatMap((type) => expanded(checker, type))
    if (found.length === 0) return `there is no option '${name}'`
    if (!ts.isPropertyAssignment(property)) continue
    const { initializer } = property
    if (ts.isObjectLiteralExpression(initializer)) {
      const inner = optionProblem(checker, found, initializer)
      if (inner !== undefined) return inner
    }
    if (!ts.isStringLiteral(initializer)) continue
    const takes = found.some(
      (type) => (type.isStringLiteral() && type.value === initializer.text) || (type.flags & ts.TypeFlags.String) !== 0,
    )
    if (!takes) return `'${name}' does not take '${initializer.text}'`
  }
  return undefined
}

const parse = (text: string): ts.Expression | undefined => {
  const [statement] = ts.createSourceFile('name.ts', `(${text})`, ts.ScriptTarget.ES2022, true).statements
  return statement !== undefined &&
    ts.isExpressionStatement(statement) &&
    ts.isParenthesizedExpression(statement.expression)
    ? statement.expression.expression
    : undefined
}

/** Returns the types of an expression of names, or why it has none. */
const resolve = (world: World, node: ts.Expression): readonly ts.Type[] | string => {
  const { checker, symbols } = world
  if (ts.isIdentifier(node)) {
    return symbols.has(node.text) ? typesOf(world, node.text) : `'${node.text}' is not exported`
  }
  if (ts.isPropertyAccessExpression(node)) {
    const owner = resolve(world, node.expression)
    if (typeof owner === 'string') return owner
    const all = owner.flatMap((type) => reachable(checker, type))
    const found = memberTypes(checker, [...all, ...all.flatMap((type) => schemaOf(checker, type))], node.name.text)
    return found.length > 0 ? found : `'${node.expression.getText()}' has no '${node.name.text}'`
  }
  if (ts.isCallExpression(node)) {
    const called = resolve(world, node.expression)
    if (typeof called === 'string') return called
    const signatures = called.flatMap((type) => type.getCallSignatures())
    const parameters = signatures
      .flatMap((signature) => signature.getParameters())
      .flatMap((parameter) => expanded(checker, checker.getTypeOfSymbol(parameter)))
    for (const argument of node.arguments) {
      if (!ts.isObjectLiteralExpression(argument)) return `'${argument.getText()}' is not a record of options`
      const problem = optionProblem(checker, parameters, argument)
      if (problem !== undefined) return `${node.expression.getText()}: ${problem}`
    }
    return signatures.map((signature) => signature.getReturnType())
  }
  return `'${node.getText()}' is neither a name nor a call`
}

/** Reads the public names. Cost: about five seconds, since all sources are parsed. */
export const publicNames = (): PublicNames => {
  const world = readWorld()
  return {
    problem: (expression) => {
      const node = parse(expression)
      if (node === undefined) return `'${expression}' is not an expression`
      const found = resolve(world, node)
      if (typeof found !== 'string') return undefined
      const path = expression.split('.')
      return path.every((name) => /^[a-z]\w*$/i.test(name)) && hasEntry(world, path)
        ? undefined
        : `${found}, and no exported type has such an entry`
    },
  }
}
