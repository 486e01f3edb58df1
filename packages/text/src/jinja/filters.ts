/** Jinja's filters, and Transformers' `tojson`. */
import { templateWork } from './budget.js'
import { escapeHtml } from './markup.js'
import { repr, str, toJson } from './print.js'
import { argument, capitalize, joined, percentFormat, replaceText, stringMethod, strip } from './strings.js'
import { TemplateError } from './templateError.js'
import { passes } from './tests.js'
import {
  type Arguments,
  compare,
  float,
  isCallable,
  isDict,
  isEqual,
  isFloatValue,
  isLargeInteger,
  isList,
  isNamespace,
  isTruthy,
  isTuple,
  itemsOf,
  numberOf,
  type TemplateValue,
  tuple,
  typeName,
} from './value.js'

type Filter = (value: TemplateValue, args: Arguments) => TemplateValue

const asJson: Filter = (value, args) => {
  const indent = argument(args, 1, 'indent') ?? null
  const separators = argument(args, 2, 'separators') ?? null
  const [item, key] = separators === null ? [indent === null ? ', ' : ',', ': '] : itemsOf(separators).map(str)
  if (item === undefined || key === undefined) throw new TemplateError('separators must be two strings')
  const text = typeof indent === 'string' ? indent : ' '.repeat(Math.min(Math.max(numberOf(indent) ?? 0, 0), 100))
  return toJson(value, {
    ...(indent !== null && { indent: text }),
    separators: [item, key],
    keys: isTruthy(argument(args, 3, 'sort_keys')) ? 'sorted' : 'as given',
    characters: isTruthy(argument(args, 0, 'ensure_ascii')) ? 'ascii' : 'all',
  })
}

const lengthOf: Filter = (value) => itemsOf(value).length

/** Returns the value at a dotted path, `a.0.b`: entries of dicts, items of lists. */
const attributeOf = (value: TemplateValue, path: TemplateValue): TemplateValue =>
  String(path)
    .split('.')
    .reduce<TemplateValue>((at, name) => {
      if (isDict(at)) return at.get(name)
      if (isNamespace(at)) return at.fields.get(name)
      return /^\d+$/.test(name) && (isList(at) || isTuple(at)) ? itemsOf(at)[Number(name)] : undefined
    }, value)

const folded = (value: TemplateValue): TemplateValue => (typeof value === 'string' ? value.toLowerCase() : value)

/** Sorts items by a key. Equal keys keep their order, also with `reverse`. */
const sortedBy = (
  items: readonly TemplateValue[],
  args: Arguments,
  key: (item: TemplateValue) => TemplateValue,
): readonly TemplateValue[] => {
  const sign = isTruthy(argument(args, 0, 'reverse')) ? -1 : 1
  return items.toSorted((a, b) => sign * compare(key(a), key(b)))
}

const sort: Filter = (value, args) => {
  const path = argument(args, 2, 'attribute') ?? null
  const isExact = isTruthy(argument(args, 1, 'case_sensitive'))
  return sortedBy(itemsOf(value), args, (item) => {
    const at = path === null ? item : attributeOf(item, path)
    return isExact ? at : folded(at)
  })
}

const dictsort: Filter = (value, args) => {
  if (!isDict(value)) throw new TemplateError(`dictsort: '${typeName(value)}' is not a dict`)
  const by = argument(args, 1, 'by') ?? 'key'
  const isExact = isTruthy(argument(args, 0, 'case_sensitive'))
  const sign = isTruthy(argument(args, 2, 'reverse')) ? -1 : 1
  const keyOf = (entry: readonly [TemplateValue, TemplateValue]): TemplateValue => {
    const at = by === 'value' ? entry[1] : entry[0]
    return isExact ? at : folded(at)
  }
  return [...value].toSorted((a, b) => sign * compare(keyOf(a), keyOf(b))).map(tuple)
}

const unique: Filter = (value, args) => {
  const path = argument(args, 1, 'attribute') ?? null
  const isExact = isTruthy(argument(args, 0, 'case_sensitive'))
  const keyOf = (item: TemplateValue): TemplateValue => {
    const at = path === null ? item : attributeOf(item, path)
    return isExact ? at : folded(at)
  }
  return itemsOf(value).filter((item, i, all) => all.findIndex((other) => isEqual(keyOf(other), keyOf(item))) === i)
}

const map: Filter = (value, { positional: [name, ...rest], named }) => {
  if (!isTruthy(value)) return [] // like Jinja's, which tests the value before it iterates: None has no items
  const path = named.get('attribute')
  if (path !== undefined) {
    return itemsOf(value).map((item) => attributeOf(item, path) ?? named.get('default'))
  }
  return itemsOf(value).map((item) => applyFilter(str(name), item, { positional: rest, named }))
}

/** Implements `select`, `reject` and their forms with an attribute. */
const choose =
  (keep: 'passing' | 'failing', by: 'item' | 'attribute'): Filter =>
  (value, { positional }) => {
    const [path, [test, ...others]] =
      by === 'attribute' ? [positional[0], positional.slice(1)] : [undefined, positional]
    if (!isTruthy(value)) return [] // as in `map`
    return itemsOf(value).filter((item) => {
      const at = by === 'attribute' ? attributeOf(item, path) : item
      return (test === undefined ? isTruthy(at) : passes(str(test), at, others)) === (keep === 'passing')
    })
  }

const indent: Filter = (value, args) => {
  const width = argument(args, 0, 'width') ?? 4
  const pad = typeof width === 'string' ? width : ' '.repeat(Math.min(Math.max(numberOf(width) ?? 0, 0), 1000))
  const lines = str(value).split('\n')
  const isBlankToo = isTruthy(argument(args, 2, 'blank'))
  templateWork.spendCharacters(lines.length * pad.length)
  const rest = lines.slice(1).map((line) => (line !== '' || isBlankToo ? pad + line : line))
  return [isTruthy(argument(args, 1, 'first')) ? pad + lines[0]! : lines[0]!, ...rest].join('\n')
}

const integer: Filter = (value, args) => {
  if (isLargeInteger(value)) return value
  const absent = argument(args, 0, 'default') ?? 0
  const text = typeof value === 'string' ? strip(value, undefined) : undefined
  const number =
    text === undefined
      ? numberOf(value)
      : /^[+-]?\d[\d_]*(\.\d*)?(e[+-]?\d+)?$/i.test(text)
        ? Number(text.replaceAll('_', ''))
        : undefined
  return number === undefined || !Number.isFinite(number) ? absent : Math.trunc(number)
}

const asFloat: Filter = (value, args) => {
  const text = typeof value === 'string' ? strip(value, undefined) : undefined
  const number = text === undefined ? numberOf(value) : text === '' ? Number.NaN : Number(text)
  return number === undefined || Number.isNaN(number) ? (argument(args, 0, 'default') ?? float(0)) : float(number)
}

/** Rounds half to even, as Python does. */
const round: Filter = (value, args) => {
  const digits = numberOf(argument(args, 0, 'precision')) ?? 0
  const method = argument(args, 1, 'method') ?? 'common'
  const scaled = (numberOf(value) ?? Number.NaN) * 10 ** digits
  const floor = Math.floor(scaled)
  const even = scaled - floor === 0.5 ? floor + (floor % 2 === 0 ? 0 : 1) : Math.round(scaled)
  const whole = method === 'ceil' ? Math.ceil(scaled) : method === 'floor' ? floor : even
  return float(whole / 10 ** digits)
}

const sum: Filter = (value, args) => {
  const path = argument(args, 0, 'attribute') ?? null
  const items = itemsOf(value).map((item) => (path === null ? item : attributeOf(item, path)))
  const total = items.reduce<number>((n, item) => n + (numberOf(item) ?? Number.NaN), 0)
  return items.some(isFloatValue) ? float(total) : total
}

const extreme =
  (sign: 1 | -1): Filter =>
  (value) =>
    itemsOf(value).reduce(
      (best, item) => (best === undefined || sign * compare(item, best) > 0 ? item : best),
      undefined,
    )

const join: Filter = (value, args) => {
  const path = argument(args, 1, 'attribute') ?? null
  const items = itemsOf(value).map((item) => (path === null ? item : attributeOf(item, path)))
  return joined(items.map(str), str(argument(args, 0, 'd') ?? ''))
}

const withDefault: Filter = (value, args) => {
  const isAbsent = isTruthy(argument(args, 1, 'boolean')) ? !isTruthy(value) : value === undefined
  return isAbsent
    ? args.positional.length > 0 || args.named.has('default_value')
      ? argument(args, 0, 'default_value')
      : ''
    : value
}

const titled = (text: string): string => text.replace(/[^-\s({[<]+/g, capitalize)

const method =
  (name: string): Filter =>
  (value, args) => {
    const found = stringMethod(str(value), name)
    if (!isCallable(found)) throw new TemplateError(`No filter named '${name}'`)
    return found.call(args)
  }

const FILTERS: Readonly<Record<string, Filter>> = {
  abs: (value) => (isFloatValue(value) ? float(Math.abs(numberOf(value)!)) : Math.abs(numberOf(value) ?? Number.NaN)),
  attr: (value, { positional: [name] }) => attributeOf(value, name),
  bool: (value) => isTruthy(value),
  capitalize: method('capitalize'),
  count: lengthOf,
  d: withDefault,
  default: withDefault,
  dictsort,
  e: (value) => escapeHtml(str(value)),
  escape: (value) => escapeHtml(str(value)),
  forceescape: (value) => escapeHtml(str(value)),
  first: (value) => itemsOf(value)[0],
  float: asFloat,
  format: (value, { positional }) => percentFormat(str(value), tuple(positional)),
  indent,
  int: integer,
  items: (value) => {
    if (value === undefined) return []
    if (!isDict(value)) throw new TemplateError('Can only get item pairs from a mapping.')
    return [...value].map(tuple)
  },
  join,
  last: (value) => itemsOf(value).at(-1),
  length: lengthOf,
  list: (value) => [...itemsOf(value)],
  lower: method('lower'),
  map,
  max: extreme(1),
  min: extreme(-1),
  pprint: (value) => repr(value),
  reject: choose('failing', 'item'),
  rejectattr: choose('failing', 'attribute'),
  replace: (value, args) => replaceText(str(value), args),
  reverse: (value) =>
    typeof value === 'string' ? Array.from(value).reverse().join('') : [...itemsOf(value)].reverse(),
  round,
  safe: (value) => str(value),
  select: choose('passing', 'item'),
  selectattr: choose('passing', 'attribute'),
  sort,
  string: (value) => str(value),
  sum,
  title: (value) => titled(str(value)),
  tojson: asJson,
  trim: (value, args) => strip(str(value), argument(args, 0, 'chars')),
  unique,
  upper: method('upper'),
  wordcount: (value) => str(value).match(/[\p{L}\p{N}_]+/gu)?.length ?? 0,
}

/** Filters that do not read all of a value. */
const SHALLOW: ReadonlySet<string> = new Set(['count', 'd', 'default', 'first', 'last', 'length'])

const spendOn = (value: TemplateValue): void => {
  if (typeof value === 'string') templateWork.spendCharacters(value.length)
  else if (isList(value)) templateWork.spend(value.length)
  else if (isTuple(value)) templateWork.spend(value.items.length)
}

/** Applies a filter. Errors: throws TemplateError for an unknown filter, or where Jinja raises. */
export const applyFilter = (name: string, value: TemplateValue, args: Arguments): TemplateValue => {
  const filter = Object.hasOwn(FILTERS, name) ? FILTERS[name] : undefined
  if (filter === undefined) throw new TemplateError(`No filter named '${name}'`)
  if (!SHALLOW.has(name)) spendOn(value)
  return filter(value, args)
}
