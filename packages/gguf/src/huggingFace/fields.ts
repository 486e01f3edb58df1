/** Reads the metadata of an architecture, and collects what is missing, ill-typed or not known. */
import type { GgufScalar, GgufValue } from '../header.js'

/**
 * Returns the shortest decimal number that is the same in float32: `1e-5` for 9.99999974e-6. Files
 * hold such numbers in float32, and config files in decimals.
 */
const shortest = (value: number): number => {
  for (let digits = 1; digits < 9; digits++) {
    const short = Number(value.toPrecision(digits))
    if (Math.fround(short) === value) return short
  }
  return value
}

/** The largest size in a config. No list of such a length is allocated here. */
const MAX_SIZE = 2 ** 31 - 1

/** The fields of one architecture. Each method notes what is wrong, and returns a stand-in then. */
export interface Fields {
  /** A positive integer. */
  readonly size: (name: string) => number
  readonly optionalSize: (name: string) => number | undefined
  readonly optionalNumber: (name: string) => number | undefined
  readonly optionalText: (name: string) => string | undefined
  /** Everything that is wrong, with the fields that nothing has read. */
  readonly problems: (harmless: readonly string[]) => readonly string[]
}

const shown = (value: GgufValue): string => {
  const text = Array.isArray(value) ? `a list of ${value.length}` : JSON.stringify(String(value))
  return text.length > 60 ? `${text.slice(0, 60)}...` : text
}

/** Reads fields below `prefix`, such as `llama.`. */
export const fieldsOf = (metadata: ReadonlyMap<string, GgufValue>, prefix: string): Fields => {
  const read = new Set<string>()
  const problems: string[] = []
  const given = <T extends GgufScalar>(
    name: string,
    fits: (value: GgufValue) => value is T,
    expected: string,
  ): T | undefined => {
    const key = `${prefix}${name}`
    read.add(key)
    const value = metadata.get(key)
    if (value === undefined) return undefined
    if (fits(value)) return value
    problems.push(`'${key}' is ${shown(value)}, not ${expected}`)
    return undefined
  }
  const isSize = (value: GgufValue): value is number =>
    typeof value === 'number' && Number.isInteger(value) && value > 0 && value <= MAX_SIZE
  const isNumber = (value: GgufValue): value is number => typeof value === 'number' && Number.isFinite(value)
  const isText = (value: GgufValue): value is string => typeof value === 'string'
  const optionalSize = (name: string) => given(name, isSize, `a positive integer up to ${MAX_SIZE}`)
  return {
    optionalSize,
    size: (name) => {
      if (!metadata.has(`${prefix}${name}`)) problems.push(`'${prefix}${name}' is missing`)
      return optionalSize(name) ?? 1
    },
    optionalNumber: (name) => {
      const value = given(name, isNumber, 'a finite number')
      return value === undefined ? undefined : shortest(value)
    },
    optionalText: (name) => given(name, isText, 'a text'),
    problems: (harmless) => {
      const others = [...metadata].filter(
        ([key]) => key.startsWith(prefix) && !read.has(key) && !harmless.includes(key.slice(prefix.length)),
      )
      return [...problems, ...others.map(([key, value]) => `'${key}' ${shown(value)} is not supported`)]
    },
  }
}
