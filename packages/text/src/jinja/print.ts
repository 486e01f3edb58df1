/** Python's formats of values: `str`, `repr` and `json.dumps`. */
import { templateWork } from './budget.js'
import { TemplateError } from './templateError.js'
import {
  type Dict,
  isDict,
  isFloatValue,
  isLargeInteger,
  isList,
  isTuple,
  numberOf,
  type TemplateValue,
  typeName,
} from './value.js'

/** Prints a float's shortest digits, with an exponent where Python writes one. */
const printFloat = (value: number): string => {
  if (Number.isNaN(value)) return 'nan'
  if (!Number.isFinite(value)) return value > 0 ? 'inf' : '-inf'
  const [digits, exponent] = value.toExponential().split('e') as [string, string]
  const power = Number(exponent)
  if (power < -4 || power >= 16) {
    return `${digits}e${power < 0 ? '-' : '+'}${String(Math.abs(power)).padStart(2, '0')}`
  }
  if (Object.is(value, -0)) return '-0.0'
  return Number.isInteger(value)
    ? `${BigInt(value)}.0`
    : value.toString().includes('e')
      ? fixed(value)
      : value.toString()
}

/** Prints small numbers that JavaScript writes with an exponent and Python without. */
const fixed = (value: number): string => {
  const [digits, exponent] = value.toExponential().split('e') as [string, string]
  return value.toFixed(digits.replace(/[-.]/g, '').length - 1 - Number(exponent))
}

const printNumber = (value: TemplateValue, number: number): string => {
  if (isLargeInteger(value)) return String(value.value)
  if (isFloatValue(value)) return printFloat(number)
  return Number.isSafeInteger(number) ? String(number) : String(BigInt(number))
}

const ESCAPES: Readonly<Record<string, string>> = { '\\': '\\\\', '\n': '\\n', '\r': '\\r', '\t': '\\t' }

const escapeOf = (char: string): string => {
  const code = char.codePointAt(0)!
  if (code < 0x100) return `\\x${code.toString(16).padStart(2, '0')}`
  return code < 0x10000 ? `\\u${code.toString(16).padStart(4, '0')}` : `\\U${code.toString(16).padStart(8, '0')}`
}

const reprString = (text: string): string => {
  templateWork.spendCharacters(text.length)
  const quote = text.includes("'") && !text.includes('"') ? '"' : "'"
  const body = text.replace(
    /\\|['"]|[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Cn}\p{Zl}\p{Zp}]|(?! )\p{Zs}/gu, // characters that Python escapes
    (char) => (char === quote ? `\\${quote}` : char === "'" || char === '"' ? char : (ESCAPES[char] ?? escapeOf(char))),
  )
  return `${quote}${body}${quote}`
}

const reprDict = (dict: Dict): string => `{${[...dict].map(([key, item]) => `${repr(key)}: ${repr(item)}`).join(', ')}}`

/** Implements Python's `repr`. */
export const repr = (value: TemplateValue): string => {
  templateWork.spend(1)
  if (typeof value === 'string') return reprString(value)
  if (value === undefined) return 'Undefined'
  if (value === null) return 'None'
  if (typeof value === 'boolean') return value ? 'True' : 'False'
  const number = numberOf(value)
  if (number !== undefined) return printNumber(value, number)
  if (isDict(value)) return reprDict(value)
  if (isList(value)) return `[${value.map(repr).join(', ')}]`
  if (isTuple(value)) return `(${value.items.map(repr).join(', ')}${value.items.length === 1 ? ',' : ''})`
  throw new TemplateError(`a ${typeName(value)} has no printed form`)
}

/** Implements Python's `str`, as `{{ }}` prints a value. An undefined value prints nothing. */
export const str = (value: TemplateValue): string =>
  typeof value === 'string' ? value : value === undefined ? '' : repr(value)

/** The options of Python's `json.dumps` that templates use. */
export interface JsonOptions {
  /** The text that each level is indented by; undefined writes one line. */
  readonly indent?: string
  readonly separators: readonly [string, string]
  readonly keys: 'sorted' | 'as given'
  readonly characters: 'ascii' | 'all'
}

const jsonString = (text: string, { characters }: JsonOptions): string => {
  templateWork.spendCharacters(text.length)
  const body = text.replace(/["\\\p{Cc}]/gu, (char) => JSON.stringify(char).slice(1, -1))
  const safe = characters === 'all' ? body : body.replace(/[\u007f-\uffff]/g, (char) => escapeUnit(char))
  return `"${safe}"`
}

const escapeUnit = (unit: string): string =>
  unit === '\u007f' ? unit : `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`

const jsonKey = (key: TemplateValue): string => {
  if (typeof key === 'string') return key
  if (key === null || typeof key === 'boolean') return String(key)
  if (numberOf(key) !== undefined) return repr(key)
  throw new TemplateError(`keys must be str, int, float, bool or None, not ${typeName(key)}`)
}

const jsonFloat = (text: string): string => ({ nan: 'NaN', inf: 'Infinity', '-inf': '-Infinity' })[text] ?? text

/**
 * Implements Python's `json.dumps`. Errors: throws TemplateError for values that are not JSON, such
 * as undefined.
 */
export const toJson = (value: TemplateValue, options: JsonOptions, depth = 0): string => {
  if (typeof value === 'string') return jsonString(value, options)
  if (value === null || typeof value === 'boolean') return String(value)
  const number = numberOf(value)
  if (number !== undefined) return jsonFloat(printNumber(value, number))
  const { indent, separators } = options
  templateWork.spend(1)
  const wrap = (open: string, items: readonly string[], close: string): string => {
    if (items.length === 0) return open + close
    const between = (indent?.length ?? 0) * (depth + 1) + separators[0].length + separators[1].length
    for (const item of items) templateWork.spendCharacters(item.length + between)
    if (indent === undefined) return open + items.join(separators[0]) + close
    const line = `\n${indent.repeat(depth + 1)}`
    return `${open}${line}${items.join(separators[0] + line)}\n${indent.repeat(depth)}${close}`
  }
  if (isDict(value)) {
    const entries = [...value].map(([key, item]) => [jsonKey(key), item] as const)
    const ordered = options.keys === 'sorted' ? entries.sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0)) : entries
    const items = ordered.map(
      ([key, item]) => `${jsonString(key, options)}${separators[1]}${toJson(item, options, depth + 1)}`,
    )
    return wrap('{', items, '}')
  }
  if (isList(value) || isTuple(value)) {
    const items = isTuple(value) ? value.items : value
    return wrap(
      '[',
      items.map((item) => toJson(item, options, depth + 1)),
      ']',
    )
  }
  throw new TemplateError(`Object of type ${typeName(value)} is not JSON serializable`)
}
