/** The methods of Python strings that templates use. */
import { templateWork } from './budget.js'
import { repr, str } from './print.js'
import { TemplateError } from './templateError.js'
import { type Arguments, callable, isTuple, itemsOf, numberOf, type TemplateValue, tuple, typeName } from './value.js'

const SPACE = '[\\t-\\r\\x1c-\\x20\\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000]' // Python's str.isspace

const LINE_END = '(?:\\r\\n|[\\n\\r\\v\\f\\x1c-\\x1e\\x85\\u2028\\u2029])' // the line boundaries of Python's str.splitlines

/** Returns the argument at a position or with a name. */
export const argument = ({ positional, named }: Arguments, position: number, name: string): TemplateValue =>
  position < positional.length ? positional[position] : named.get(name)

const escaped = (chars: string): string => chars.replace(/[\\\]^-]/g, '\\$&')

const classOf = (chars: TemplateValue): string => {
  if (chars === undefined || chars === null) return SPACE
  return typeof chars === 'string' && chars !== '' ? `[${escaped(chars)}]` : '(?!)'
}

/** Implements Python's `strip`, on one side or both, for white space or for a set of characters. */
export const strip = (text: string, chars: TemplateValue, side: 'left' | 'right' | 'both' = 'both'): string => {
  templateWork.spendCharacters(text.length)
  const set = new RegExp(classOf(chars), 'u')
  const points = Array.from(text)
  const isKept = (char: string): boolean => !set.test(char)
  const first = side === 'right' ? 0 : points.findIndex(isKept)
  if (first === -1) return ''
  const last = side === 'left' ? points.length - 1 : points.findLastIndex(isKept)
  return points.slice(first, last + 1).join('')
}

const textArgument = (value: TemplateValue, method: string): string => {
  if (typeof value !== 'string') throw new TemplateError(`${method}() argument must be str, not ${typeName(value)}`)
  return value
}

const limitOf = (value: TemplateValue): number => {
  const limit = value === undefined ? -1 : numberOf(value)
  if (limit === undefined) throw new TemplateError(`'${typeName(value)}' object cannot be interpreted as an integer`)
  return limit < 0 ? Number.POSITIVE_INFINITY : limit
}

const splitOnSpace = (text: string, limit: number, side: 'left' | 'right'): readonly string[] => {
  const words = [...text.matchAll(new RegExp(`(?:(?!${SPACE})[^])+`, 'gu'))]
  if (words.length <= limit) return words.map(([word]) => word)
  if (side === 'left') {
    const rest = words[limit]!
    return [...words.slice(0, limit).map(([word]) => word), text.slice(rest.index)]
  }
  const cut = words.length - limit
  const head = words[cut - 1]!
  return [text.slice(0, head.index + head[0].length), ...words.slice(cut).map(([word]) => word)]
}

const split = (text: string, args: Arguments, side: 'left' | 'right'): readonly string[] => {
  const separator = argument(args, 0, 'sep') ?? null
  const limit = limitOf(argument(args, 1, 'maxsplit'))
  if (separator === null) return splitOnSpace(text, limit, side)
  const by = textArgument(separator, 'split')
  if (by === '') throw new TemplateError('empty separator')
  const parts = text.split(by)
  if (parts.length - 1 <= limit) return parts
  return side === 'left'
    ? [...parts.slice(0, limit), parts.slice(limit).join(by)]
    : [parts.slice(0, parts.length - limit).join(by), ...parts.slice(parts.length - limit)]
}

/**
 * Implements Python's `replace`: replaces the first `count` occurrences, or all if `count` is
 * negative or absent.
 */
export const replaceText = (text: string, args: Arguments): string => {
  const [from, to] = [
    textArgument(argument(args, 0, 'old'), 'replace'),
    textArgument(argument(args, 1, 'new'), 'replace'),
  ]
  const limit = limitOf(argument(args, 2, 'count') ?? undefined)
  templateWork.spendCharacters(text.length)
  const parts = from === '' ? ['', ...Array.from(text), ''] : text.split(from)
  templateWork.spendCharacters(parts.length * (1 + to.length))
  if (limit === Number.POSITIVE_INFINITY) return text.replaceAll(from, () => to)
  const cut = Math.min(limit, parts.length - 1)
  return [parts.slice(0, cut + 1).join(to), ...parts.slice(cut + 1)].join(from)
}

const hasAffix = (args: Arguments, test: (affix: string) => boolean, method: string): boolean => {
  const [affix] = args.positional
  return isTuple(affix)
    ? affix.items.some((item) => test(textArgument(item, method)))
    : test(textArgument(affix, method))
}

/** Joins texts with a separator. */
export const joined = (parts: readonly string[], separator: string): string => {
  for (const part of parts) templateWork.spendCharacters(1 + part.length + separator.length)
  return parts.join(separator)
}

const lowered = (text: string): string => text.toLowerCase()

/** Capitalizes the first letter and lowers the rest. */
export const capitalize = (text: string): string => {
  const [first = '', ...rest] = Array.from(text)
  return first.toUpperCase() + lowered(rest.join(''))
}

const titled = (text: string): string => text.replace(/\p{L}+/gu, (word) => capitalize(word))

const partition = (text: string, at: number, by: string): TemplateValue =>
  tuple([text.slice(0, at), by, text.slice(at + by.length)])

const justified = (text: string, args: Arguments, side: 'start' | 'end'): string => {
  const width = numberOf(args.positional[0]) ?? 0
  const missing = Math.min(width, MAX_WIDTH) - Array.from(text).length
  const fill = missing > 0 ? textArgument(args.positional[1] ?? ' ', 'just').repeat(missing) : ''
  return side === 'start' ? fill + text : text + fill
}

const MAX_WIDTH = 100_000

const pointIndex = (text: string, unit: number): number => (unit < 0 ? -1 : Array.from(text.slice(0, unit)).length)

const everyChar = (text: string, pattern: RegExp): boolean =>
  text !== '' && Array.from(text).every((c) => pattern.test(c))

/** Implements `'{} {name}'.format(...)` without format specifications. */
const formatted = (text: string, { positional, named }: Arguments): string => {
  let next = 0
  return text.replace(/\{\{|\}\}|\{(\w*)(![rs])?\}|[{}]/g, (whole, field: string | undefined, conversion?: string) => {
    if (whole === '{{' || whole === '}}') return whole[0]!
    if (field === undefined) throw new TemplateError(`format: '${text}' is not supported`)
    const index = field === '' ? next++ : Number(field)
    const value = Number.isInteger(index) ? positional[index] : named.get(field)
    if (value === undefined) throw new TemplateError(`format: missing argument '${field}'`)
    const part = conversion === '!r' ? repr(value) : str(value)
    templateWork.spendCharacters(part.length)
    return part
  })
}

type Method = (text: string, args: Arguments) => TemplateValue

const METHODS: Readonly<Record<string, Method>> = {
  strip: (text, args) => strip(text, args.positional[0]),
  lstrip: (text, args) => strip(text, args.positional[0], 'left'),
  rstrip: (text, args) => strip(text, args.positional[0], 'right'),
  split: (text, args) => split(text, args, 'left'),
  rsplit: (text, args) => split(text, args, 'right'),
  splitlines: (text) => (text === '' ? [] : text.replace(new RegExp(`${LINE_END}$`), '').split(new RegExp(LINE_END))),
  replace: replaceText,
  startswith: (text, args) => hasAffix(args, (affix) => text.startsWith(affix), 'startswith'),
  endswith: (text, args) => hasAffix(args, (affix) => text.endsWith(affix), 'endswith'),
  removeprefix: (text, { positional: [affix] }) => {
    const prefix = textArgument(affix, 'removeprefix')
    return text.startsWith(prefix) ? text.slice(prefix.length) : text
  },
  removesuffix: (text, { positional: [affix] }) => {
    const suffix = textArgument(affix, 'removesuffix')
    return suffix !== '' && text.endsWith(suffix) ? text.slice(0, -suffix.length) : text
  },
  upper: (text) => text.toUpperCase(),
  lower: lowered,
  casefold: lowered,
  title: titled,
  capitalize,
  find: (text, { positional: [part] }) => pointIndex(text, text.indexOf(textArgument(part, 'find'))),
  rfind: (text, { positional: [part] }) => pointIndex(text, text.lastIndexOf(textArgument(part, 'rfind'))),
  index: (text, { positional: [part] }) => {
    const at = pointIndex(text, text.indexOf(textArgument(part, 'index')))
    if (at === -1) throw new TemplateError('substring not found')
    return at
  },
  count: (text, { positional: [part] }) => text.split(textArgument(part, 'count')).length - 1,
  join: (text, { positional: [items] }) =>
    joined(
      itemsOf(items).map((item) => textArgument(item, 'join')),
      text,
    ),
  partition: (text, { positional: [by] }) => {
    const at = text.indexOf(textArgument(by, 'partition'))
    return at === -1 ? tuple([text, '', '']) : partition(text, at, by as string) // checked by textArgument
  },
  rpartition: (text, { positional: [by] }) => {
    const at = text.lastIndexOf(textArgument(by, 'rpartition'))
    return at === -1 ? tuple(['', '', text]) : partition(text, at, by as string) // checked by textArgument
  },
  isdigit: (text) => everyChar(text, /\p{Nd}/u),
  isnumeric: (text) => everyChar(text, /\p{N}/u),
  isalpha: (text) => everyChar(text, /\p{L}/u),
  isalnum: (text) => everyChar(text, /[\p{L}\p{N}]/u),
  isspace: (text) => everyChar(text, new RegExp(SPACE, 'u')),
  isupper: (text) => text === text.toUpperCase() && text !== lowered(text),
  islower: (text) => text === lowered(text) && text !== text.toUpperCase(),
  ljust: (text, args) => justified(text, args, 'end'),
  rjust: (text, args) => justified(text, args, 'start'),
  zfill: (text, { positional: [width] }) => {
    const sign = /^[+-]/.exec(text)?.[0] ?? ''
    const digits = text.slice(sign.length)
    return sign + digits.padStart(Math.min(numberOf(width) ?? 0, MAX_WIDTH) - sign.length, '0')
  },
  format: formatted,
}

/** Returns a method of a string, or undefined for an unknown name. */
export const stringMethod = (text: string, name: string): TemplateValue => {
  const method = Object.hasOwn(METHODS, name) ? METHODS[name] : undefined
  if (method === undefined) return undefined
  return callable(name, (args) => {
    templateWork.spendCharacters(text.length)
    return method(text, args)
  })
}

/** Implements `'%s and %d' % values`: the conversions s, r, d and i without flags. */
export const percentFormat = (text: string, values: TemplateValue): string => {
  const items = isTuple(values) ? values.items : [values]
  let next = 0
  const result = text.replace(/%(.|$)/gs, (whole, conversion: string) => {
    if (conversion === '%') return '%'
    if (next >= items.length) throw new TemplateError('not enough arguments for format string')
    const value = items[next]
    next += 1
    if (conversion === 's' || conversion === 'r') {
      const part = conversion === 's' ? str(value) : repr(value)
      templateWork.spendCharacters(part.length)
      return part
    }
    const number = numberOf(value)
    if ((conversion === 'd' || conversion === 'i') && number !== undefined) return String(Math.trunc(number))
    throw new TemplateError(`'${whole}' is not a supported conversion of a ${typeName(value)}`)
  })
  if (next < items.length) throw new TemplateError('not all arguments converted during string formatting')
  return result
}
