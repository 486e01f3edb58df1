/** Types of Parquet columns, and their form in the file's own schema. */
import type { SchemaElement } from 'hyparquet'

/** The type of a column or a part of it. Only `nullable` parts may be null. */
export type ParquetType =
  | 'bool'
  | 'int32'
  | 'int64'
  | 'float32'
  | 'float64'
  | 'string'
  | 'bytes'
  | { readonly list: ParquetType }
  | { readonly struct: Readonly<Record<string, ParquetType>> }
  | { readonly nullable: ParquetType }

type Primitive = Extract<ParquetType, string>

const PHYSICAL: Readonly<Record<Primitive, Pick<SchemaElement, 'type' | 'converted_type'>>> = {
  bool: { type: 'BOOLEAN' },
  int32: { type: 'INT32' },
  int64: { type: 'INT64' },
  float32: { type: 'FLOAT' },
  float64: { type: 'DOUBLE' },
  string: { type: 'BYTE_ARRAY', converted_type: 'UTF8' },
  bytes: { type: 'BYTE_ARRAY' },
}

/**
 * Returns the schema elements of a part, itself first. Lists have three levels, as the format
 * requires.
 *
 * @internal
 */
export const schemaElements = (
  name: string,
  type: ParquetType,
  repetition_type: 'REQUIRED' | 'OPTIONAL' = 'REQUIRED',
): readonly SchemaElement[] => {
  if (typeof type === 'string') return [{ name, repetition_type, ...PHYSICAL[type] }]
  if ('nullable' in type) return schemaElements(name, type.nullable, 'OPTIONAL')
  if ('list' in type) {
    return [
      { name, repetition_type, converted_type: 'LIST', logical_type: { type: 'LIST' }, num_children: 1 },
      { name: 'list', repetition_type: 'REPEATED', num_children: 1 },
      ...schemaElements('element', type.list),
    ]
  }
  const fields = Object.entries(type.struct)
  return [
    { name, repetition_type, num_children: fields.length },
    ...fields.flatMap(([field, inner]) => schemaElements(field, inner)),
  ]
}

/** A value for the writer, with its problems and their paths. */
export interface TypedValue {
  readonly value: unknown
  readonly problems: readonly string[]
}

const INT64_MAX = 2n ** 63n - 1n

const primitive = (value: unknown, type: Primitive): unknown => {
  switch (type) {
    case 'bool':
      return typeof value === 'boolean' ? value : undefined
    case 'int32':
      return typeof value === 'number' && Object.is(value | 0, value) ? value : undefined
    case 'int64': {
      const whole =
        typeof value === 'bigint' ? value : Number.isSafeInteger(value) ? BigInt(value as number) : undefined // an integer
      return whole !== undefined && whole <= INT64_MAX && whole >= -INT64_MAX - 1n ? whole : undefined
    }
    case 'float32':
      return typeof value === 'number' && Object.is(Math.fround(value), value) ? value : undefined
    case 'float64':
      return typeof value === 'number' ? value : undefined
    case 'string':
      return typeof value === 'string' && !/\p{Surrogate}/u.test(value) ? value : undefined
    case 'bytes':
      return value instanceof Uint8Array ? value : undefined
  }
}

const shown = (value: unknown): string =>
  typeof value === 'string'
    ? `'${value.slice(0, 20)}'`
    : Array.isArray(value)
      ? `a list of ${value.length}`
      : String(value)

/** Checks a value against a type, and converts it for the writer. */
export const toTyped = (value: unknown, type: ParquetType, path: string): TypedValue => {
  const wrong = (expected: string): TypedValue => ({
    value: null,
    problems: [`${path}: expected ${expected}, got ${shown(value)}`],
  })
  if (typeof type === 'string') {
    const found = primitive(value, type)
    return found === undefined ? wrong(type) : { value: found, problems: [] }
  }
  if ('nullable' in type) return value === null ? { value, problems: [] } : toTyped(value, type.nullable, path)
  if ('list' in type) {
    if (!Array.isArray(value)) return wrong('a list')
    const items = value.map((item, i) => toTyped(item, type.list, `${path}[${i}]`))
    return { value: items.map((item) => item.value), problems: items.flatMap(({ problems }) => problems) }
  }
  if (typeof value !== 'object' || value === null) return wrong('a record')
  const record = new Map<string, unknown>(Object.entries(value))
  const extra = [...record.keys()].filter((key) => !Object.hasOwn(type.struct, key))
  if (extra.length > 0) return wrong(`a record without the fields ${extra.join(', ')}`)
  const fields = Object.entries(type.struct).map(
    ([key, inner]) => [key, toTyped(record.get(key), inner, `${path}.${key}`)] as const,
  )
  return {
    value: Object.fromEntries(fields.map(([key, field]) => [key, field.value])),
    problems: fields.flatMap(([, field]) => field.problems),
  }
}

/** Lists names that the library cannot store inside a struct, and structs without fields. */
export const typeProblems = (type: ParquetType, path: string): readonly string[] => {
  if (typeof type === 'string') return []
  if ('nullable' in type) {
    return typeof type.nullable === 'object' && 'nullable' in type.nullable
      ? [`${path}: nullable twice`]
      : typeProblems(type.nullable, path)
  }
  if ('list' in type) return typeProblems(type.list, `${path}[]`)
  const fields = Object.entries(type.struct)
  return [
    ...(fields.length === 0 ? [`${path}: a record without fields`] : []),
    ...fields.flatMap(([key, inner]) => [
      ...(key === '' || key === '__proto__' || key.includes('.') ? [`${path}: a field cannot be named '${key}'`] : []),
      ...typeProblems(inner, `${path}.${key}`),
    ]),
  ]
}
