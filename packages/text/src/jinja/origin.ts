/**
 * The origin of values: the template's own text, or its input. A message may contain the text of a
 * control token, but only the template's own text may become one.
 *
 * Joined text keeps the origin of its parts exactly. The result of a filter or a method on mixed
 * text keeps it where it can be recovered: a part that the template wrote is searched in the
 * result, and counts as own if no input has the same text and it occurs no more often than the
 * template wrote it. Everything else counts as input.
 */
import { indexOfText } from '@tandem-rl/base'
import { appendRanges, joinRanges, type TextRange } from '../textRange.js'
import { templateWork } from './budget.js'
import { str } from './print.js'
import {
  isDict,
  isList,
  isNamespace,
  isTuple,
  numberOf,
  type Pieces,
  type TemplateValue,
  type TracedValue,
  type ValueOrigin,
} from './value.js'

/** Returns all texts in a value. */
const textsIn = (value: TemplateValue): readonly string[] => {
  templateWork.spend(1)
  if (typeof value === 'string') return [value]
  if (isDict(value)) return [...value].flatMap(([key, item]) => [...textsIn(key), ...textsIn(item)])
  if (isNamespace(value)) return [...value.fields.values()].flatMap(textsIn)
  if (isTuple(value)) return value.items.flatMap(textsIn)
  return isList(value) ? value.flatMap(textsIn) : []
}

/** Marks a value as made from nothing but the template's own text. */
export const ownText = (value: TemplateValue): TracedValue => ({
  value,
  origin: { kind: 'own', given: [], pieces: () => ({ own: textsIn(value), given: [] }) },
})

/** Returns true if the value carries text: numbers, booleans and null do not. */
const hasText = (value: TemplateValue): boolean =>
  typeof value === 'string' || (typeof value === 'object' && value !== null && numberOf(value) === undefined)

/** Marks a value as input of the template. */
export const given = (value: TemplateValue): TracedValue =>
  hasText(value)
    ? {
        value,
        origin: {
          kind: 'given',
          given: typeof value === 'string' && value !== '' ? [{ start: 0, end: value.length }] : [],
          pieces: () => ({ own: [], given: textsIn(value) }),
        },
      }
    : ownText(value)

/** Returns the parts of a text inside the ranges, and between them. */
const piecesAt = (text: string, ranges: readonly TextRange[]): Pieces => {
  templateWork.spend(ranges.length)
  const starts = [0, ...ranges.map(({ end }) => end)]
  return {
    own: starts.map((start, i) => text.slice(start, ranges[i]?.start)).filter((part) => part !== ''),
    given: ranges.map(({ start, end }) => text.slice(start, end)),
  }
}

/**
 * Traces a text by the ranges that are input. The ranges must be in order, separate and not empty.
 */
export const tracedText = (text: string, joined: readonly TextRange[]): TracedValue => {
  const isWhole = text !== '' && joined[0]?.start === 0 && joined[0].end === text.length
  if (isWhole) return given(text)
  if (joined.length === 0) return ownText(text)
  return { value: text, origin: { kind: 'both', given: joined, pieces: () => piecesAt(text, joined) } }
}

/** Returns the printed form of a value. */
export const printed = ({
  value,
  origin,
}: TracedValue): { readonly text: string; readonly given: readonly TextRange[] } => {
  if (typeof value === 'string') return { text: value, given: origin.given }
  const text = str(value)
  return { text, given: derived(text, [origin]).origin.given }
}

/** Concatenates the printed forms of two values. */
export const joinPrinted = (first: TracedValue, second: TracedValue): TracedValue => {
  const [left, right] = [printed(first), printed(second)]
  templateWork.spend(left.given.length + right.given.length)
  return tracedText(left.text + right.text, appendRanges(left.given, right.given, left.text.length))
}

const union = (origins: readonly ValueOrigin[]): Pieces => {
  const all = origins.map(({ pieces }) => pieces())
  for (const pieces of all) templateWork.spend(1 + pieces.own.length + pieces.given.length)
  return { own: all.flatMap((pieces) => pieces.own), given: all.flatMap((pieces) => pieces.given) }
}

const placesOf = (text: string, part: string): readonly TextRange[] => {
  const places: TextRange[] = []
  templateWork.spend(1)
  templateWork.spendCharacters(text.length)
  for (let at = indexOfText(text, part); at !== -1; at = indexOfText(text, part, at + part.length)) {
    places.push({ start: at, end: at + part.length })
  }
  return places
}

/** Returns the ranges between these. */
const gaps = (ranges: readonly TextRange[], length: number): readonly TextRange[] =>
  [{ start: 0, end: 0 }, ...ranges]
    .map(({ end }, i) => ({ start: end, end: ranges[i]?.start ?? length }))
    .filter(({ start, end }) => end > start)

const isWithin = (part: string, text: string): boolean => {
  templateWork.spendCharacters(text.length)
  return indexOfText(text, part) !== -1
}

/** Finds the template's own parts in a text. */
const recognized = (text: string, { own: parts, given: others }: Pieces): readonly TextRange[] => {
  const trimmed = parts.map((part) => part.trim()).filter((part) => part !== '')
  const all = [...new Set(trimmed)].flatMap((part) => {
    const written = trimmed.reduce((sum, whole) => sum + placesOf(whole, part).length, 0)
    const found = placesOf(text, part)
    return found.length <= written && !others.some((other) => isWithin(part, other)) ? found : []
  })
  return joinRanges(all)
}

/** Traces the result of an operation by the origins of its operands. */
export const derived = (value: TemplateValue, origins: readonly ValueOrigin[]): TracedValue => {
  templateWork.spend(origins.length)
  if (!hasText(value) || origins.every(({ kind }) => kind === 'own')) return ownText(value)
  const isGiven = origins.every(({ kind }) => kind === 'given')
  if (typeof value !== 'string') {
    return { value, origin: { kind: isGiven ? 'given' : 'both', given: [], pieces: () => union(origins) } }
  }
  return isGiven ? given(value) : tracedText(value, gaps(recognized(value, union(origins)), value.length))
}
