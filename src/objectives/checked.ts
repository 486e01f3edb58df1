/** Checks of what a loss or an estimator is given: settings, which may come from JSON, and tensors. */
import type * as tf from '@tensorflow/tfjs'

/** What a setting must be. */
export interface Kind {
  readonly expected: string
  readonly holds: (value: unknown) => boolean
}

const isNumber = (value: unknown): boolean => typeof value === 'number'

/** A number. Whether it makes sense is for the one who takes it to say. */
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

/** A function. */
export const aFunction: Kind = { expected: 'a function', holds: (value) => typeof value === 'function' }

/** A record, whose parts are checked where they are used. */
export const aRecord: Kind = {
  expected: 'a record',
  holds: (value) => typeof value === 'object' && value !== null && !Array.isArray(value),
}

/** A list, whose elements are checked where they are used. */
export const aList: Kind = { expected: 'a list', holds: Array.isArray }

/** One of some words. */
export const oneOf = (...words: readonly string[]): Kind => ({
  expected: words.map((word) => `'${word}'`).join(' or '),
  holds: (value) => typeof value === 'string' && words.includes(value),
})

const shown = (value: unknown): string =>
  typeof value === 'object' || typeof value === 'string' ? JSON.stringify(value) : String(value)

/**
 * Refuses settings that are none: a field that nobody reads, or a value of another kind than it must have. The types say as much; records
 * that were read from JSON have no types.
 *
 * Errors   throws RangeError with the name of the function and all fields that are wrong.
 *
 * @example
 * checkSettings('cispo', { clipEpsilon: 0.2 }, { clipEpsilon: aNumberOrTwo }) // undefined
 */
export const checkSettings = <O extends object>(
  name: string,
  options: O,
  kinds: { readonly [K in keyof O]-?: Kind },
): void => {
  const known: ReadonlyMap<string, Kind> = new Map(Object.entries(kinds))
  const problems = Object.entries(options).flatMap(([field, value]: [string, unknown]) => {
    const kind = known.get(field)
    if (kind === undefined) return [`there is no setting ${field}`]
    return value === undefined || kind.holds(value) ? [] : [`${field} must be ${kind.expected}, got ${shown(value)}`]
  })
  if (problems.length > 0)
    throw new RangeError(`${name}: ${problems.join('; ')} (the settings are ${[...known.keys()].join(', ')})`)
}

/**
 * Refuses settings for all reasons at once; `false` is none.
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

/**
 * Refuses tensors of tokens that do not fit each other.
 *
 * Shapes   all `[B, T]`; those that are undefined are not looked at.
 * Errors   throws RangeError with the name of the function and all shapes.
 */
export const checkTokenShapes = (name: string, tensors: Readonly<Record<string, tf.Tensor | undefined>>): void => {
  const given = Object.entries(tensors).flatMap(([field, x]) => (x === undefined ? [] : [[field, x.shape] as const]))
  const first = given[0]?.[1] ?? []
  if (first.length !== 2 || given.some(([, shape]) => shape.join() !== first.join())) {
    const all = given.map(([field, shape]) => `${field} [${shape.join()}]`).join(', ')
    throw new RangeError(`${name}: expected one shape [B, T] for all, got ${all}`)
  }
}
