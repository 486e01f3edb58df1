/** Checks of options that callers pass from TypeScript, plain JavaScript or JSON. */

/** The required type of an option's value. */
export interface Kind {
  readonly expected: string
  readonly holds: (value: unknown) => boolean
}

const isNumber = (value: unknown): boolean => typeof value === 'number'

/** A number. Its range is checked by the factory. */
export const aNumber: Kind = { expected: 'a number', holds: isNumber }

/** One number, or two for a lower and an upper bound. */
export const aNumberOrTwo: Kind = {
  expected: 'a number or two',
  holds: (value) => isNumber(value) || (Array.isArray(value) && value.length === 2 && value.every(isNumber)),
}

/** Two numbers. */
const twoNumbers: Kind = {
  expected: 'two numbers',
  holds: (value) => Array.isArray(value) && value.length === 2 && value.every(isNumber),
}

/** A string. */
export const aText: Kind = { expected: 'a string', holds: (value) => typeof value === 'string' }

/** A function. */
export const aFunction: Kind = { expected: 'a function', holds: (value) => typeof value === 'function' }

/** A record. Its fields are checked when they are used. */
export const aRecord: Kind = {
  expected: 'a record',
  holds: (value) => typeof value === 'object' && value !== null && !Array.isArray(value),
}

/** `true` or `false`. */
export const aSwitch: Kind = { expected: 'true or false', holds: (value) => typeof value === 'boolean' }

/** A list. Its elements are checked when they are used. */
export const aList: Kind = { expected: 'a list', holds: Array.isArray }

/** Any value. It is checked when it is used. */
export const anything: Kind = { expected: 'anything', holds: () => true }

/** One of the given words. */
export const oneOf = (...words: readonly string[]): Kind => ({
  expected: words.map((word) => `'${word}'`).join(' or '),
  holds: (value) => typeof value === 'string' && words.includes(value),
})

/** A value of one of the given kinds. */
export const eitherOf = (...kinds: readonly Kind[]): Kind => ({
  expected: kinds.map(({ expected }) => expected).join(' or '),
  holds: (value) => kinds.some(({ holds }) => holds(value)),
})

/** Longest text quoted in an error, and longest name compared with known ones. */
const LONGEST = 64

const shown = (value: unknown): string => {
  if (typeof value === 'function') return 'a function'
  const text = typeof value === 'object' || typeof value === 'string' ? safeJson(value) : String(value)
  return text.length > LONGEST ? `${text.slice(0, LONGEST)}...` : text
}

/** Formats a value as JSON, or its type if JSON cannot represent it (a cycle, a BigInt). */
const safeJson = (value: unknown): string => {
  try {
    return JSON.stringify(value) ?? typeof value
  } catch {
    return Object.prototype.toString.call(value)
  }
}

/** Normalizes case and separators: `max_steps`, `max-steps` and `maxSteps` become equal. */
const plain = (name: string): string => name.replace(/[_\-\s]/g, '').toLowerCase()

/** Counts the insertions, deletions, substitutions and swaps of neighbors between two words. */
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
 * Finds the known name nearest to a misspelled one, with at most one edit per three letters. Case,
 * `_` and `-` are ignored. Returns `undefined` if no name is near.
 *
 * Cost     the product of the lengths, for each known name. Names above 64 characters are not
 *          compared.
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
 * Describes an unknown name and suggests the nearest known one.
 *
 * @example
 * unknownName('option', 'repeat', ['prompts', 'repeats']) // "unknown option 'repeat': did you mean 'repeats'?"
 */
export const unknownName = (what: string, name: string, known: readonly string[]): string => {
  const near = nearestName(name, known)
  const quoted = name.length > LONGEST ? `${name.slice(0, LONGEST)}...` : name
  return `unknown ${what} '${quoted}'${near === undefined ? '' : `: did you mean '${near}'?`}`
}

/** The keys of a record, or of every member of a union of records. */
type NamesOf<O> = O extends unknown ? keyof O : never

/** The kinds of values by their names in a table. */
const KINDS: ReadonlyMap<string, Kind> = new Map([
  ['number', aNumber],
  ['pair', twoNumbers],
  ['number | pair', aNumberOrTwo],
  ['string', aText],
  ['boolean', aSwitch],
  ['function', aFunction],
  ['record', aRecord],
  ['list', aList],
  ['null', { expected: 'null', holds: (value) => value === null }],
  ['anything', anything],
])

const kindOf = (text: string): Kind =>
  KINDS.get(text) ?? (text.includes(' | ') ? eitherOf(...text.split(' | ').map(kindOf)) : oneOf(text.slice(1, -1)))

/** Reads a table: `steps: number, side: 'left' | 'right'`. */
const kindsOf = (table: string): ReadonlyMap<string, Kind> =>
  new Map(
    table
      .split(', ')
      .filter(Boolean)
      .map((each) => each.split(': ') as [string, string]) // a name and a kind
      .map(([name, kind]) => [name, kindOf(kind)]),
  )

interface CheckOptions {
  (name: string, options: object, kinds: string): void
  <O extends object>(name: string, options: { readonly [K in NamesOf<O>]?: unknown }, kinds: OptionKinds<O>): void
}

/** One kind for each option of `O`. A missing or an extra entry does not compile. */
export type OptionKinds<O> = { readonly [K in NamesOf<O>]-?: Kind }

/**
 * Rejects unknown options and values of the wrong kind, for callers from plain JavaScript or JSON,
 * which are not type-checked. An option that is `undefined` counts as absent.
 *
 * Errors   throws RangeError with the name of the factory, every wrong option, and the valid
 *          options.
 *
 * @example
 * checkOptions('cispo', { clipEpsilon: 0.2 }, { clipEpsilon: aNumberOrTwo }) // undefined
 */
export const checkOptions: CheckOptions = (
  name: string,
  options: object,
  given: string | OptionKinds<object>,
): void => {
  if (!aRecord.holds(options)) throw new RangeError(`${name}: the options must be a record, got ${shown(options)}`)
  const known: ReadonlyMap<string, Kind> = typeof given === 'string' ? kindsOf(given) : new Map(Object.entries(given))
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
 * Throws one error for all given reasons. Reasons that are `false` are ignored.
 *
 * Errors   throws RangeError with the name of the function and the reasons, if there are any.
 *
 * @example
 * refuse('dro', [false]) // undefined
 */
export const refuse = (name: string, reasons: readonly (string | false)[]): void => {
  const problems = reasons.filter((reason) => reason !== false)
  if (problems.length > 0) throw new RangeError(`${name}: ${problems.join('; ')}`)
}

/** Returns a message if a number is NaN, infinite or negative, else `false`. */
export const notAWeight = (what: string, x: number): string | false =>
  !(x >= 0 && Number.isFinite(x)) && `${what} must not be negative, got ${x}`
