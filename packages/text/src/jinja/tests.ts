/** Jinja's tests: the names that may follow `is`. */
import { isIn } from './operators.js'
import { TemplateError } from './templateError.js'
import {
  compare,
  isCallable,
  isDict,
  isEqual,
  isFloatValue,
  isLargeInteger,
  isList,
  isTuple,
  numberOf,
  type TemplateValue,
  typeName,
} from './value.js'

type Test = (value: TemplateValue, other: TemplateValue) => boolean

const remainder = (value: TemplateValue, divisor: TemplateValue): number => {
  const [a, b] = [numberOf(value), numberOf(divisor)]
  if (a === undefined || b === undefined) throw new TemplateError(`'${typeName(value)}' is not divisible`)
  return a - b * Math.floor(a / b)
}

const isSequence = (value: TemplateValue): boolean =>
  typeof value === 'string' || isList(value) || isTuple(value) || isDict(value)

const TESTS: Readonly<Record<string, Test>> = {
  defined: (value) => value !== undefined,
  undefined: (value) => value === undefined,
  none: (value) => value === null,
  boolean: (value) => typeof value === 'boolean',
  true: (value) => value === true,
  false: (value) => value === false,
  string: (value) => typeof value === 'string',
  number: (value) => numberOf(value) !== undefined,
  integer: (value) => isLargeInteger(value) || (typeof value === 'number' && !isFloatValue(value)),
  float: isFloatValue,
  mapping: isDict,
  sequence: (value) => isSequence(value) || value === undefined, // Jinja's undefined has a length
  iterable: (value) => isSequence(value) || value === undefined,
  callable: isCallable,
  odd: (value) => remainder(value, 2) === 1,
  even: (value) => remainder(value, 2) === 0,
  lower: (value) => typeof value === 'string' && value === value.toLowerCase() && value !== value.toUpperCase(),
  upper: (value) => typeof value === 'string' && value === value.toUpperCase() && value !== value.toLowerCase(),
  divisibleby: (value, divisor) => remainder(value, divisor) === 0,
  sameas: (value, other) => value === other,
  eq: isEqual,
  equalto: isEqual,
  ne: (value, other) => !isEqual(value, other),
  gt: (value, other) => compare(value, other) > 0,
  greaterthan: (value, other) => compare(value, other) > 0,
  ge: (value, other) => compare(value, other) >= 0,
  lt: (value, other) => compare(value, other) < 0,
  lessthan: (value, other) => compare(value, other) < 0,
  le: (value, other) => compare(value, other) <= 0,
  in: isIn,
  '==': isEqual,
  '!=': (value, other) => !isEqual(value, other),
  '>': (value, other) => compare(value, other) > 0,
  '>=': (value, other) => compare(value, other) >= 0,
  '<': (value, other) => compare(value, other) < 0,
  '<=': (value, other) => compare(value, other) <= 0,
}

/** Tests without an argument. The others compare the value with their argument. */
const ALONE: ReadonlySet<string> = new Set([
  ...['defined', 'undefined', 'none', 'boolean', 'true', 'false', 'string', 'number', 'integer', 'float', 'mapping'],
  ...['sequence', 'iterable', 'callable', 'odd', 'even', 'lower', 'upper'],
])

/**
 * Returns true if a value passes a test. Errors: throws TemplateError for an unknown test, or for
 * too many or too few arguments.
 */
export const passes = (name: string, value: TemplateValue, args: readonly TemplateValue[]): boolean => {
  const test = Object.hasOwn(TESTS, name) ? TESTS[name] : undefined
  if (test === undefined) throw new TemplateError(`No test named '${name}'`)
  const wanted = ALONE.has(name) ? 0 : 1
  if (args.length !== wanted)
    throw new TemplateError(`the test '${name}' takes ${wanted} arguments, got ${args.length}`)
  return test(value, args[0])
}
