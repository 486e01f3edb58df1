/**
 * Regular expressions of a tokenizer file as trees, so that their cost can be bounded before they
 * run.
 */

/** A part of a JavaScript expression with the flag `u`. */
export type PatternNode =
  /** One character: a literal, an escape or a class. */
  | { readonly kind: 'character'; readonly source: string }
  /** A place: `^`, `$`, `\b` or `\B`. */
  | { readonly kind: 'edge' }
  | { readonly kind: 'backreference' }
  | { readonly kind: 'look'; readonly direction: 'ahead' | 'behind'; readonly body: PatternNode }
  | { readonly kind: 'choice'; readonly options: readonly PatternNode[] }
  | { readonly kind: 'sequence'; readonly parts: readonly PatternNode[] }
  | { readonly kind: 'repeat'; readonly body: PatternNode; readonly least: number; readonly most: number }

const QUANTIFIER = /[*+?]|\{(\d+)(,?)(\d*)\}/y

const GROUP = /\((?:\?(?:[:=!]|<[=!]|<[^>=!][^>]*>|[a-z-]+:))?/y

/** Groups inside of groups. */
const DEEPEST = 100

/** The place behind the escape, the character class or the character at a place. */
const characterEnd = (source: string, at: number): number => {
  if (source[at] === '\\') {
    const isNamed = /[pPuk]/.test(source[at + 1] ?? '') && /[{<]/.test(source[at + 2] ?? '')
    if (!isNamed) return at + ({ c: 3, x: 4, u: 6 }[source[at + 1] ?? ''] ?? 2)
    const end = source.indexOf(source[at + 2] === '{' ? '}' : '>', at)
    return end < 0 ? source.length : end + 1
  }
  if (source[at] !== '[') return at + (source.codePointAt(at)! > 0xffff ? 2 : 1)
  let end = at + 1
  while (end < source.length && source[end] !== ']') end += source[end] === '\\' ? 2 : 1
  return end + 1
}

const single = (source: string): PatternNode => {
  if (source === '^' || source === '$' || source === '\\b' || source === '\\B') return { kind: 'edge' }
  return /^\\(?:[1-9]|k)/.test(source) ? { kind: 'backreference' } : { kind: 'character', source }
}

/**
 * Reads an expression that `RegExp` accepts with the flag `u`.
 *
 * Errors   throws SyntaxError for groups that are nested too deeply.
 * Cost     O(length).
 */
export const parsePattern = (source: string): PatternNode => {
  let at = 0
  const quantified = (body: PatternNode): PatternNode => {
    QUANTIFIER.lastIndex = at
    const found = QUANTIFIER.exec(source)
    if (found === null) return body
    const [text, low, comma, high] = found
    at += text.length
    if (source[at] === '?') at += 1 // lazy
    if (low === undefined) {
      return { kind: 'repeat', body, least: text === '+' ? 1 : 0, most: text === '?' ? 1 : Number.POSITIVE_INFINITY }
    }
    const least = Number(low)
    if (comma === '') return { kind: 'repeat', body, least, most: least }
    return { kind: 'repeat', body, least, most: high === '' ? Number.POSITIVE_INFINITY : Number(high) }
  }
  const group = (depth: number): PatternNode => {
    GROUP.lastIndex = at
    const [head = '('] = GROUP.exec(source) ?? []
    at += head.length
    const body = choice(depth + 1)
    at += 1
    if (/^\(\?<?[=!]/.test(head)) return { kind: 'look', direction: head.includes('<') ? 'behind' : 'ahead', body }
    return body
  }
  const sequence = (depth: number): PatternNode => {
    const parts: PatternNode[] = []
    while (at < source.length && source[at] !== '|' && source[at] !== ')') {
      if (source[at] === '(') {
        parts.push(quantified(group(depth)))
        continue
      }
      const end = characterEnd(source, at)
      const part = single(source.slice(at, end))
      at = end
      parts.push(quantified(part))
    }
    return { kind: 'sequence', parts }
  }
  const choice = (depth: number): PatternNode => {
    if (depth > DEEPEST) throw new SyntaxError(`its groups are nested more than ${DEEPEST} deep`)
    const options = [sequence(depth)]
    while (source[at] === '|') {
      at += 1
      options.push(sequence(depth))
    }
    return options.length === 1 ? options[0]! : { kind: 'choice', options }
  }
  return choice(0)
}
