/** The types of arguments from the schemas of tools, for formats whose text has no types. */

/** The arguments of a tool by its schema. */
export interface ArgumentSchemas {
  readonly has: (argument: string) => boolean
  /**
   * The JSON types that an argument may have, including those behind references and choices, and
   * Python's names of types (`float`, `dict`). Empty if the schema has no type.
   */
  readonly typesOf: (argument: string) => readonly string[]
}

const field = (value: unknown, name: string): unknown =>
  typeof value === 'object' && value !== null ? Object.getOwnPropertyDescriptor(value, name)?.value : undefined

const listOf = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : [])

const typeOfValue = (value: unknown): string => {
  if (value === null) return 'null'
  if (Array.isArray(value)) return 'array'
  return typeof value
}

const unescaped = (part: string): string => part.replaceAll('~1', '/').replaceAll('~0', '~')

/** Resolves a reference such as `#/$defs/Place`, or a name in `$defs`. */
const referenced = (root: unknown, reference: string): unknown => {
  const path = reference.split('/').map(unescaped)
  const inRoot = path.slice(1).reduce(field, root)
  if (path[0] === '#' && inRoot !== undefined) return inRoot
  const name = path.at(-1) ?? ''
  return field(field(root, '$defs'), name) ?? field(field(root, 'definitions'), name)
}

/** Maximum depth of references and choices. */
const MAX_SCHEMA_DEPTH = 32

/** A schema, the one that its references start from, and the schemas around it. */
interface Place {
  readonly root: unknown
  readonly visited: Set<unknown>
  readonly depth: number
}

/** Returns the types that the values of a schema without `type` have. */
const impliedTypes = (schema: unknown): readonly string[] => {
  const constant = field(schema, 'const')
  const values = [...listOf(field(schema, 'enum')), ...(constant === undefined ? [] : [constant])]
  const has = (...keys: readonly string[]): boolean => keys.some((key) => field(schema, key) !== undefined)
  return [
    ...values.map(typeOfValue),
    ...(has('properties', 'patternProperties', 'additionalProperties') ? ['object'] : []),
    ...(has('items', 'prefixItems') ? ['array'] : []),
  ]
}

/** Returns the types of a schema, of its references, and of its choices. */
const typesOf = (schema: unknown, { root, visited, depth }: Place): readonly string[] => {
  if (depth > MAX_SCHEMA_DEPTH || visited.has(schema)) return []
  visited.add(schema)
  const [type, reference] = [field(schema, 'type'), field(schema, '$ref')]
  const inner = [
    ...(typeof reference === 'string' ? [referenced(root, reference)] : []),
    ...['anyOf', 'oneOf', 'allOf'].flatMap((key) => listOf(field(schema, key))),
  ]
  return [
    ...(type === undefined ? impliedTypes(schema) : [type, ...listOf(type)].filter((each) => typeof each === 'string')),
    ...inner.flatMap((each) => typesOf(each, { root, visited, depth: depth + 1 })),
  ]
}

/** Names of JSON types in schemas of Python tools, including generic forms such as `list[int]`. */
const ALIASES: readonly (readonly [type: string, names: RegExp])[] = [
  ['string', /^(?:str|text|char|varchar)$/],
  ['integer', /^(?:u?int(?:eger)?\d*|long|short|unsigned)$/],
  ['number', /^(?:num|number|float\d*|double|decimal)$/],
  ['boolean', /^bool(?:ean)?$/],
  ['object', /^(?:dict|map|object)(?![a-z])/],
  ['array', /^(?:arr|array|list|tuple|set|sequence)(?![a-z])/],
  ['null', /^(?:none|nonetype|null)$/],
]

/** Returns the JSON type of a schema's type name, or the name itself if it is unknown. */
const jsonType = (name: string): string => {
  const lowered = name.toLowerCase()
  return ALIASES.find(([, names]) => names.test(lowered))?.[0] ?? name
}

/** Returns the descriptions of tools, with or without `function` around each. */
const functionsOf = (tools: readonly object[]): readonly unknown[] =>
  tools.map((tool) => field(tool, 'function') ?? tool)

/** Returns the names of the tools of a conversation. */
export const toolNames = (tools: readonly object[]): ReadonlySet<string> =>
  new Set(functionsOf(tools).flatMap((each) => [field(each, 'name')].filter((name) => typeof name === 'string')))

/** Looks up the arguments of a tool among the tools of a conversation. */
export const argumentSchemas = (tools: readonly object[]): ((tool: string) => ArgumentSchemas) => {
  const functions = functionsOf(tools)
  return (name) => {
    const root = field(
      functions.find((each) => field(each, 'name') === name),
      'parameters',
    )
    const properties = field(root, 'properties')
    return {
      has: (argument) => field(properties, argument) !== undefined,
      typesOf: (argument) => typesOf(field(properties, argument), { root, visited: new Set(), depth: 0 }).map(jsonType),
    }
  }
}
