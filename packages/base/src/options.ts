/** Checks of options that callers pass from TypeScript, plain JavaScript or JSON. */

/** The required type of an option's value. */
interface Kind {
  readonly expected: string
  readonly holds: (value: unknown) => boolean
}

const isNumber = (value: unknown): boolean => typeof value === 'number'

const isPair = (value: unknown): boolean => Array.isArray(value) && value.length === 2 && value.every(isNumber)

const isRecord = (value: unknown): boolean => typeof value === 'object' && value !== null && !Array.isArray(value)

/** The kinds by their names in a table. What is inside a value is checked when it is used. */
const KINDS: ReadonlyMap<string, Kind> = new Map([
  ['number', { expected: 'a number', holds: isNumber }],
  ['pair', { expected: 'two numbers', holds: isPair }],
  ['number | pair', { expected: 'a number or two', holds: (value) => isNumber(value) || isPair(value) }],
  ['string', { expected: 'a string', holds: (value) => typeof value === 'string' }],
  ['boolean', { expected: 'true or false', holds: (value) => typeof value === 'boolean' }],
  ['function', { expected: 'a function', holds: (value) => typeof value === 'function' }],
  ['record', { expected: 'a record', holds: isRecord }],
  ['list', { expected: 'a list', holds: Array.isArray }],
  ['null', { expected: 'null', holds: (value) => value === null }],
  ['anything', { expected: 'anything', holds: () => true }],
])

/** Reads a kind: a name of `KINDS`, a word in quotes, or several of them. */
const kindOf = (text: string): Kind => {
  const known = KINDS.get(text)
  if (known !== undefined) return known
  if (!text.includes(' | '))
    return { expected: text, holds: (value) => typeof value === 'string' && `'${value}'` === text }
  const kinds = text.split(' | ').map(kindOf)
  return {
    expected: kinds.map(({ expected }) => expected).join(' or '),
    holds: (value) => kinds.some(({ holds }) => holds(value)),
  }
}

/** Reads a table, `steps: number, side: 'left' | 'right'`: the text of each option's kind. */
const kindTexts = (table: string): ReadonlyMap<string, string> =>
  new Map(table === '' ? [] : table.split(', ').map((each) => each.split(': ') as [string, string])) // a name and a kind

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

/**
 * Rejects unknown options and values of the wrong kind, for callers from plain JavaScript or JSON,
 * which are not type-checked. An option that is `undefined` counts as absent.
 *
 * The table lists the options and their kinds. `npm run make -- options` writes it to the
 * `optionKinds.ts` of the folder, from the type `O`: import it from there, under a name of your
 * choice.
 *
 * Errors   throws RangeError with the name of the factory, every wrong option, and the valid
 *          options.
 *
 * @example
 * checkOptions('dppo', { divergence: 'kl' }, "divergence: 'tv' | 'kl', epsilon: number | pair") // undefined
 */
export const checkOptions = <O extends object>(name: string, options: O, table: string): void => {
  if (!isRecord(options)) throw new RangeError(`${name}: the options must be a record, got ${shown(options)}`)
  const known = kindTexts(table)
  const names = [...known.keys()]
  const problems = Object.entries(options).flatMap(([option, value]: [string, unknown]) => {
    const text = known.get(option)
    if (text === undefined) return [unknownName('option', option, names)]
    const kind = kindOf(text)
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
