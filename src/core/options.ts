/** Checks of options: what a caller passes to a factory, from TypeScript, plain JavaScript or JSON. */

/** What the value of an option must be. */
export interface Kind {
  readonly expected: string
  readonly holds: (value: unknown) => boolean
}

const isNumber = (value: unknown): boolean => typeof value === 'number'

/** A number. Its range is for the factory to check. */
export const aNumber: Kind = { expected: 'a number', holds: isNumber }

/** One number, or two for a low and a high side. */
export const aNumberOrTwo: Kind = {
  expected: 'a number or two',
  holds: (value) => isNumber(value) || (Array.isArray(value) && value.length === 2 && value.every(isNumber)),
}

/** Two numbers. */
export const twoNumbers: Kind = {
  expected: 'two numbers',
  holds: (value) => Array.isArray(value) && value.length === 2 && value.every(isNumber),
}

/** A string. */
export const aText: Kind = { expected: 'a string', holds: (value) => typeof value === 'string' }

/** A function. */
export const aFunction: Kind = { expected: 'a function', holds: (value) => typeof value === 'function' }

/** A record, whose fields are checked where they are used. */
export const aRecord: Kind = {
  expected: 'a record',
  holds: (value) => typeof value === 'object' && value !== null && !Array.isArray(value),
}

/** `true` or `false`. */
export const aSwitch: Kind = { expected: 'true or false', holds: (value) => typeof value === 'boolean' }

/** A list, whose elements are checked where they are used. */
export const aList: Kind = { expected: 'a list', holds: Array.isArray }

/** Any value: it is checked where it is used. */
export const anything: Kind = { expected: 'anything', holds: () => true }

/** One of some words. */
export const oneOf = (...words: readonly string[]): Kind => ({
  expected: words.map((word) => `'${word}'`).join(' or '),
  holds: (value) => typeof value === 'string' && words.includes(value),
})

/** A value of one of several kinds. */
export const eitherOf = (...kinds: readonly Kind[]): Kind => ({
  expected: kinds.map(({ expected }) => expected).join(' or '),
  holds: (value) => kinds.some(({ holds }) => holds(value)),
})

/** Longest text that is quoted in an error, and longest name that is compared with the known ones. */
const LONGEST = 64

const shown = (value: unknown): string => {
  if (typeof value === 'function') return 'a function'
  const text = typeof value === 'object' || typeof value === 'string' ? safeJson(value) : String(value)
  return text.length > LONGEST ? `${text.slice(0, LONGEST)}...` : text
}

/** A value as JSON, or its type where JSON cannot hold it (a cycle, a BigInt). */
const safeJson = (value: unknown): string => {
  try {
    return JSON.stringify(value) ?? typeof value
  } catch {
    return Object.prototype.toString.call(value)
  }
}

/** The name without case and separators: `max_steps`, `max-steps` and `maxSteps` are one. */
const plain = (name: string): string => name.replace(/[_\-\s]/g, '').toLowerCase()

/** The number of insertions, deletions, substitutions and swaps of neighbours that lead from one word to the other. */
const editDistance = (a: string, b: string): number => {
  let [before, last]: readonly [number[], number[]] = [[], Array.from({ length: b.length + 1 }, (_, j) => j)]
  for (let i = 1; i <= a.length; i++) {
    const row = [i]
    for (let j = 1; j <= b.length; j++) {
      const isSame = a[i - 1] === b[j - 1]
      const isSwap = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]
      const edits = Math.min(last[j]! + 1, row[j - 1]! + 1, last[j - 1]! + (isSame ? 0 : 1))
      row.push(isSwap ? Math.min(edits, before[j - 2]! + 1) : edits)
    }
    ;[before, last] = [last, row]
  }
  return last[b.length]!
}

/**
 * Finds the known name that a misspelled one most likely means: at most one edit in three letters apart, where case, `_` and `-` do not
 * count. Undefined if none is near.
 *
 * Cost   the product of the lengths, for each known name; a name of more than 64 characters is near to none.
 *
 * @example
 * nearestName('repeat', ['prompts', 'repeats']) // 'repeats'
 */
export const nearestName = (name: string, known: readonly string[]): string | undefined => {
  if (name.length > LONGEST) return undefined
  const ranked = known
    .map((other) => ({ other, distance: editDistance(plain(name), plain(other)) }))
    .filter(({ other, distance }) => distance <= Math.max(1, Math.floor(Math.min(name.length, other.length) / 3)))
  return ranked.sort((a, b) => a.distance - b.distance)[0]?.other
}

/**
 * Describes a name that is not known, with the nearest one that is: `unknown option 'repeat': did you mean 'repeats'?`
 *
 * @example
 * unknownName('option', 'repeat', ['prompts', 'repeats']) // "unknown option 'repeat': did you mean 'repeats'?"
 */
export const unknownName = (what: string, name: string, known: readonly string[]): string => {
  const near = nearestName(name, known)
  const quoted = name.length > LONGEST ? `${name.slice(0, LONGEST)}...` : name
  return `unknown ${what} '${quoted}'${near === undefined ? '' : `: did you mean '${near}'?`}`
}

/** The names of a record, and of every member of a union of records. */
type NamesOf<O> = O extends unknown ? keyof O : never

/** One kind for each option of `O`. The compiler refuses a table that lacks one or has one too many. */
export type OptionKinds<O> = { readonly [K in NamesOf<O>]-?: Kind }

/**
 * Refuses options that a factory does not have, and values of the wrong kind. The types demand as much; options from plain JavaScript or
 * JSON have no types. An option that is `undefined` counts as not given.
 *
 * Errors   throws RangeError with the name of the factory, every wrong option, and the options that exist.
 *
 * @example
 * checkOptions('cispo', { clipEpsilon: 0.2 }, { clipEpsilon: aNumberOrTwo }) // undefined
 */
export const checkOptions = <O extends object>(name: string, options: O, kinds: OptionKinds<O>): void => {
  if (!aRecord.holds(options)) throw new RangeError(`${name}: the options must be a record, got ${shown(options)}`)
  const table: Readonly<Record<string, Kind>> = kinds
  const known: ReadonlyMap<string, Kind> = new Map(Object.entries(table))
  const names = [...known.keys()]
  const problems = Object.entries(options).flatMap(([option, value]: [string, unknown]) => {
    const kind = known.get(option)
    if (kind === undefined) return [unknownName('option', option, names)]
    return value === undefined || kind.holds(value) ? [] : [`${option} must be ${kind.expected}, got ${shown(value)}`]
  })
  if (problems.length === 0) return
  const list = names.length === 0 ? 'it has no options' : `the options are ${names.join(', ')}`
  throw new RangeError(`${name}: ${problems.join('; ')} (${list})`)
}

/**
 * Refuses options for all reasons at once. A reason that is `false` does not count.
 *
 * Errors   throws RangeError with the name of the function and the reasons.
 *
 * @example
 * refuse('dro', [false]) // undefined
 */
export const refuse = (name: string, reasons: readonly (string | false)[]): void => {
  const problems = reasons.filter((reason) => reason !== false)
  if (problems.length > 0) throw new RangeError(`${name}: ${problems.join('; ')}`)
}

/** Why a number cannot be a weight or a bound: it is NaN, infinite or negative. `false` if it can. */
export const notAWeight = (what: string, x: number): string | false =>
  !(x >= 0 && Number.isFinite(x)) && `${what} must not be negative, got ${x}`
