/** The types of arguments from the schemas of tools, for formats whose text has no types. */

/**
 * The JSON types that an argument of a tool may have, including schemas with Python's names
 * (`float`, `dict`). Empty if the schema has no type.
 */
export type ArgumentTypes = (tool: string, argument: string) => readonly string[]

const field = (value: unknown, name: string): unknown =>
  typeof value === 'object' && value !== null ? Object.getOwnPropertyDescriptor(value, name)?.value : undefined

const listOf = (value: unknown): readonly unknown[] => (Array.isArray(value) ? value : [])

const typeOfValue = (value: unknown): string => {
  if (value === null) return 'null'
  if (Array.isArray(value)) return 'array'
  return typeof value
}

/** Returns the types of a schema, and of the schemas that it is a choice of. */
const typesOf = (schema: unknown): readonly string[] => {
  const type = field(schema, 'type')
  const values = [...listOf(field(schema, 'enum')), ...[field(schema, 'const')].filter((value) => value !== undefined)]
  const choices = [...listOf(field(schema, 'anyOf')), ...listOf(field(schema, 'oneOf'))]
  return [
    ...(typeof type === 'string' ? [type] : listOf(type).filter((each) => typeof each === 'string')),
    ...(type === undefined ? values.map(typeOfValue) : []),
    ...choices.flatMap((choice) => {
      const one = field(choice, 'type')
      return typeof one === 'string' ? [one] : []
    }),
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

/**
 * Looks up the types of arguments in the tools of a conversation, with or without `function` around
 * each, as in chat templates.
 */
export const argumentTypes = (tools: readonly object[]): ArgumentTypes => {
  const functions = functionsOf(tools)
  return (name, argument) => {
    const tool = functions.find((each) => field(each, 'name') === name)
    return typesOf(field(field(field(tool, 'parameters'), 'properties'), argument)).map(jsonType)
  }
}
