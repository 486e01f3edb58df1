/**
 * The tables of option kinds for `checkOptions`, derived from the types of the options: `npm run
 * make -- options` writes them.
 */
import { join, relative } from 'node:path'
import ts from 'typescript'

/** A call that checks options against a generated table. */
interface OptionCheck {
  /** The folder whose generated file has the table. */
  readonly folder: string
  /** The constant that holds the table. */
  readonly table: string
  readonly kinds: string
}

/** Functions whose third argument is a table of kinds for the options in the second. */
const CHECKS = /^check(Options|Wrapper)$/

/** A kind of value in the notation of tables, such as `number` or `'left'`. */
type Atom = string

const ANYTHING: readonly Atom[] = ['anything']

const merged = (atoms: readonly Atom[]): readonly Atom[] =>
  atoms.includes('anything') ? ANYTHING : [...new Set(atoms)]

const isPair = (checker: ts.TypeChecker, type: ts.Type): boolean => {
  if (!checker.isTupleType(type)) return false
  const elements = checker.getTypeArguments(type as ts.TypeReference) // a tuple is one
  return elements.length === 2 && elements.every(({ flags }) => (flags & ts.TypeFlags.NumberLike) !== 0)
}

/** Types that lists fit, beside records. */
const LIKE_LISTS = /^(Async)?Iter(able|ator)\w*$|^ArrayLike$/

/** Returns the kinds of an object type, of a function or of a list. */
const objectAtoms = (checker: ts.TypeChecker, type: ts.Type): readonly Atom[] => {
  if (type.getCallSignatures().length > 0 || type.getConstructSignatures().length > 0) return ['function']
  if (isPair(checker, type)) return ['pair']
  if (checker.isArrayType(type) || checker.isTupleType(type)) return ['list']
  return LIKE_LISTS.test(type.symbol?.name ?? '') || checker.typeToString(type) === '{}' ? ANYTHING : ['record']
}

/** Returns the kinds of a type, in the order of the type checker. */
const atomsOf = (checker: ts.TypeChecker, given: ts.Type): readonly Atom[] => {
  const type = checker.getBaseConstraintOfType(given) ?? given
  const is = (flags: ts.TypeFlags): boolean => (type.flags & flags) !== 0
  if (is(ts.TypeFlags.BooleanLike)) return ['boolean']
  if (is(ts.TypeFlags.Undefined | ts.TypeFlags.Void | ts.TypeFlags.Never)) return []
  if (is(ts.TypeFlags.NumberLike)) return ['number']
  if (type.isStringLiteral()) return [`'${type.value}'`]
  if (is(ts.TypeFlags.StringLike)) return ['string']
  if (is(ts.TypeFlags.Null)) return ['null']
  if (type.isUnion()) return merged(type.types.flatMap((each) => atomsOf(checker, each)))
  if (type.isIntersection()) {
    const parts = merged(
      type.types.filter((each) => checker.typeToString(each) !== '{}').flatMap((each) => atomsOf(checker, each)),
    )
    return parts.find((atom) => atom !== 'record') === undefined
      ? ['record']
      : parts.filter((atom) => atom !== 'record')
  }
  return is(ts.TypeFlags.Object) ? objectAtoms(checker, type) : is(ts.TypeFlags.NonPrimitive) ? ['record'] : ANYTHING
}

/** Returns the kinds of a type in the order in which its declaration lists them. */
const declaredAtoms = (checker: ts.TypeChecker, node: ts.TypeNode | undefined): readonly Atom[] => {
  if (node === undefined) return []
  if (ts.isUnionTypeNode(node)) return node.types.flatMap((each) => declaredAtoms(checker, each))
  if (ts.isParenthesizedTypeNode(node)) return declaredAtoms(checker, node.type)
  const type = checker.getTypeFromTypeNode(node)
  if (ts.isIndexedAccessTypeNode(node)) {
    const object = checker.getTypeFromTypeNode(node.objectType)
    if (checker.isTupleType(object))
      return checker.getTypeArguments(object as ts.TypeReference).flatMap((each) => atomsOf(checker, each)) // a tuple is one
    const index = checker.getTypeFromTypeNode(node.indexType)
    const property = index.isStringLiteral() ? object.getProperty(index.value) : undefined
    if (property !== undefined) return declaredAtoms(checker, typeNodeOf(checker, property))
  }
  if (ts.isTypeOperatorNode(node) && node.operator === ts.SyntaxKind.KeyOfKeyword)
    return checker
      .getTypeFromTypeNode(node.type)
      .getProperties()
      .map(({ name }) => `'${name}'`)
  if (ts.isTypeReferenceNode(node)) {
    const symbol = checker.getSymbolAtLocation(node.typeName)
    const target =
      symbol !== undefined && (symbol.flags & ts.SymbolFlags.Alias) !== 0 ? checker.getAliasedSymbol(symbol) : symbol
    const declaration = target?.declarations?.[0]
    if (declaration !== undefined && ts.isTypeAliasDeclaration(declaration))
      return declaredAtoms(checker, declaration.type)
    if (declaration !== undefined && ts.isTypeParameterDeclaration(declaration))
      return declaredAtoms(checker, declaration.constraint)
  }
  return [...atomsOf(checker, type)].sort()
}

const typeNodeOf = (checker: ts.TypeChecker, property: ts.Symbol): ts.TypeNode | undefined => {
  const declaration = property.declarations?.[0]
  if (declaration === undefined) return undefined
  if (ts.isShorthandPropertyAssignment(declaration)) {
    const value = checker.getShorthandAssignmentValueSymbol(declaration)
    return value === undefined ? undefined : typeNodeOf(checker, value)
  }
  return ts.isPropertySignature(declaration) || ts.isParameter(declaration) ? declaration.type : undefined
}

/** Orders kinds as declared. The checker's own order depends on what it has seen before. */
const inOrder = (atoms: readonly Atom[], declared: readonly Atom[]): readonly Atom[] => {
  const rank = (atom: Atom): number => (declared.includes(atom) ? declared.indexOf(atom) : declared.length)
  return [...atoms].sort((a, b) => rank(a) - rank(b) || (a < b ? -1 : 1))
}

const membersOf = (checker: ts.TypeChecker, given: ts.Type): readonly ts.Type[] => {
  const type = checker.getBaseConstraintOfType(given) ?? given
  return type.isUnion() ? type.types.flatMap((each) => membersOf(checker, each)) : [type]
}

/** The file and the position of a declaration, as sortable text. Those of `home` come first. */
const placeOf = (property: ts.Symbol, home: ts.SourceFile): string => {
  const declaration = property.declarations?.[0]
  const file = declaration?.getSourceFile() ?? home
  return `${file === home ? '' : file.fileName} ${String(declaration?.pos ?? 0).padStart(9)}`
}

/** Names and words that the notation of tables can hold. */
const NOTATION = /^(\w+|'[^',:|"]+')$/

/** Formats the table of a call's options: `steps: number, side: 'left' | 'right'`. */
const kindsOf = (checker: ts.TypeChecker, { arguments: [, options], typeArguments }: ts.CallExpression): string => {
  const explicit = typeArguments?.[0]
  const whole = explicit === undefined ? checker.getTypeAtLocation(options!) : checker.getTypeFromTypeNode(explicit)
  const home = options!.getSourceFile()
  const properties = membersOf(checker, whole).flatMap((member) => checker.getPropertiesOfType(member))
  const kinds = new Map<string, readonly Atom[]>()
  for (const property of properties.sort((a, b) => (placeOf(a, home) < placeOf(b, home) ? -1 : 1))) {
    const atoms = atomsOf(checker, checker.getTypeOfSymbolAtLocation(property, options!))
    const known = inOrder(atoms, declaredAtoms(checker, typeNodeOf(checker, property)))
    kinds.set(property.name, merged([...(kinds.get(property.name) ?? []), ...known]))
  }
  const wrong = [...kinds].flat(2).find((each) => !NOTATION.test(each))
  if (wrong !== undefined) throw new RangeError(`optionKinds: a table cannot hold ${wrong}, in ${home.fileName}`)
  return [...kinds].map(([name, atoms]) => `${name}: ${atoms.join(' | ') || 'anything'}`).join(', ')
}

/** Returns the name of a generated table, or `undefined` for one that a function receives. */
const tableOf = (checker: ts.TypeChecker, table: ts.Expression): string | undefined => {
  const declarations = ts.isIdentifier(table) ? (checker.getSymbolAtLocation(table)?.declarations ?? []) : []
  if (declarations.some(ts.isParameter)) return undefined
  const specifier = declarations.find(ts.isImportSpecifier)
  if (specifier?.parent.parent.parent.moduleSpecifier.getText().endsWith("/optionKinds.js'")) return specifier.name.text
  throw new RangeError(
    `optionKinds: ${table.getText()} in ${table.getSourceFile().fileName} must be imported from the optionKinds.js of its folder`,
  )
}

/** Returns the folder of a source's table: its room in the kernel, or the `src` of its package. */
const homeOf = (path: string): string | undefined => /^(src\/[^/]+|packages\/[^/]+\/src)\//.exec(path)?.[1]

/** Lists the checks of a program's sources against generated tables. */
const optionChecks = (program: ts.Program): readonly OptionCheck[] => {
  const checker = program.getTypeChecker()
  const found: OptionCheck[] = []
  for (const file of program.getSourceFiles()) {
    const folder = homeOf(relative('.', file.fileName))
    if (folder === undefined) continue
    const visit = (node: ts.Node): void => {
      ts.forEachChild(node, visit)
      if (!ts.isCallExpression(node) || !ts.isIdentifier(node.expression) || !CHECKS.test(node.expression.text)) return
      const table = tableOf(checker, node.arguments[2]!)
      if (table !== undefined) found.push({ folder, table, kinds: kindsOf(checker, node) })
    }
    visit(file)
  }
  return found
}

/** Quotes a table like the formatter: with the quotes that it does not contain. */
const quoted = (kinds: string): string => (kinds.includes("'") ? `"${kinds}"` : `'${kinds}'`)

const HEADER = '/** Generated by `npm run make -- options` from the types of the options: do not edit. */\n'

/**
 * Returns the generated files of option kinds: path -> text.
 *
 * Errors   throws RangeError for a table that is used for options of different types.
 */
export const optionKindsFiles = (program: ts.Program): ReadonlyMap<string, string> => {
  const tables = new Map<string, Map<string, string>>()
  for (const { folder, table, kinds } of optionChecks(program)) {
    const path = join(folder, 'optionKinds.ts')
    const known = tables.get(path) ?? new Map<string, string>()
    if ((known.get(table) ?? kinds) !== kinds)
      throw new RangeError(`optionKinds: ${table} of ${path} is used for two types: name the second table differently`)
    tables.set(path, known.set(table, kinds))
  }
  return new Map(
    [...tables].map(([path, known]) => {
      const lines = [...known].sort(([a], [b]) => (a < b ? -1 : 1))
      return [path, HEADER + lines.map(([table, kinds]) => `export const ${table} = ${quoted(kinds)}\n`).join('')]
    }),
  )
}
