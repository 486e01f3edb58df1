/** The operators of expressions, with Python's rules. */
import { templateWork } from './budget.js'
import { percentFormat } from './strings.js'
import { TemplateError } from './templateError.js'
import {
  compare,
  float,
  isDict,
  isEqual,
  isFloatValue,
  isList,
  isTuple,
  itemsOf,
  numberOf,
  type TemplateValue,
  tuple,
  typeName,
} from './value.js'

/** The maximum length of a repeated string or list. No conversation needs a longer one. */
const MAX_REPEATED = 10_000_000

const unsupported = (operator: string, left: TemplateValue, right: TemplateValue): TemplateError =>
  new TemplateError(`unsupported operand types for ${operator}: '${typeName(left)}' and '${typeName(right)}'`)

const arithmetic = (operator: string, a: number, b: number): number => {
  if (b === 0 && (operator === '/' || operator === '//' || operator === '%'))
    throw new TemplateError('division by zero')
  switch (operator) {
    case '+':
      return a + b
    case '-':
      return a - b
    case '*':
      return a * b
    case '/':
      return a / b
    case '//':
      return Math.floor(a / b)
    case '%':
      return a - b * Math.floor(a / b)
    default:
      return a ** b
  }
}

const repeated = (value: TemplateValue, count: number): TemplateValue => {
  const times = Math.max(0, count)
  const size = typeof value === 'string' ? value.length : itemsOf(value).length
  if (times * size > MAX_REPEATED) throw new TemplateError(`a repetition of ${times * size} items is too long`)
  templateWork.spendCharacters(times * size)
  if (typeof value === 'string') return value.repeat(times)
  const items = Array.from({ length: times }, () => itemsOf(value)).flat()
  return isTuple(value) ? tuple(items) : items
}

const isRepeatable = (value: TemplateValue): boolean => typeof value === 'string' || isList(value) || isTuple(value)

/**
 * Computes `left operator right` for an arithmetic operator. Errors: throws TemplateError where
 * Python raises.
 */
export const calculate = (operator: string, left: TemplateValue, right: TemplateValue): TemplateValue => {
  const [a, b] = [numberOf(left), numberOf(right)]
  if (a !== undefined && b !== undefined) {
    const result = arithmetic(operator, a, b)
    const fraction = isFloatValue(left) || isFloatValue(right) || operator === '/' || (operator === '**' && b < 0)
    return fraction ? float(result) : result
  }
  if (operator === '+') {
    if (typeof left === 'string' && typeof right === 'string') return left + right
    templateWork.spend((isList(left) ? left.length : 1) + (isList(right) ? right.length : 1))
    if (isList(left) && isList(right)) return [...left, ...right]
    if (isTuple(left) && isTuple(right)) return tuple([...left.items, ...right.items])
  }
  if (operator === '*' && isRepeatable(left) && b !== undefined && !isFloatValue(right)) return repeated(left, b)
  if (operator === '*' && isRepeatable(right) && a !== undefined && !isFloatValue(left)) return repeated(right, a)
  if (operator === '%' && typeof left === 'string') return percentFormat(left, right)
  throw unsupported(operator, left, right)
}

/** Implements Python's `in`. */
export const isIn = (item: TemplateValue, container: TemplateValue): boolean => {
  if (typeof container === 'string') {
    if (typeof item !== 'string') throw new TemplateError(`'in <string>' requires string, not ${typeName(item)}`)
    templateWork.spendCharacters(container.length)
    return container.includes(item)
  }
  if (isDict(container)) return container.has(item)
  return itemsOf(container).some((other) => isEqual(item, other))
}

/** Evaluates one comparison. Errors: throws TemplateError where Python raises. */
export const compared = (operator: string, left: TemplateValue, right: TemplateValue): boolean => {
  switch (operator) {
    case '==':
      return isEqual(left, right)
    case '!=':
      return !isEqual(left, right)
    case '<':
      return compare(left, right) < 0
    case '<=':
      return compare(left, right) <= 0
    case '>':
      return compare(left, right) > 0
    case '>=':
      return compare(left, right) >= 0
    case 'in':
      return isIn(left, right)
    case 'not in':
      return !isIn(left, right)
    default:
      throw new TemplateError(`unknown comparison '${operator}'`)
  }
}

/** Slices strings (by code points), lists and tuples as Python does. */
export const sliceValue = (
  value: TemplateValue,
  range: readonly [TemplateValue, TemplateValue, TemplateValue],
): TemplateValue => {
  const items = itemsOf(value)
  if (isDict(value) || value === undefined) throw new TemplateError(`'${typeName(value)}' object cannot be sliced`)
  const [from, to, by] = range.map((bound) => {
    if (bound === undefined || bound === null) return undefined
    const number = numberOf(bound)
    if (number === undefined || isFloatValue(bound)) throw new TemplateError('slice indices must be integers or None')
    return number
  })
  const step = by ?? 1
  if (step === 0) throw new TemplateError('slice step cannot be zero')
  const size = items.length
  templateWork.spendCharacters(size)
  const [low, high] = step > 0 ? [0, size] : [-1, size - 1]
  const bound = (given: number | undefined, absent: number): number =>
    given === undefined ? absent : Math.min(Math.max(given < 0 ? given + size : given, low), high)
  const start = bound(from, step > 0 ? low : high)
  const stop = bound(to, step > 0 ? high : low)
  const count = Math.max(0, Math.ceil((stop - start) / step))
  const picked = Array.from({ length: count }, (_, i) => items[start + i * step])
  if (typeof value === 'string') return picked.join('')
  return isTuple(value) ? tuple(picked) : picked
}
