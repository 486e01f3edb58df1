/** Refuses expressions of a tokenizer file that may take exponential time: they meet every text that is encoded. */

/** Repetitions from which on a count is taken for endless. */
const MANY = 32

/** Repetitions of a part that can match in several ways. */
const FEW = 3

const QUANTIFIER = /[*+?]|\{(\d+)(,?)(\d*)\}/y

interface Quantifier {
  readonly end: number
  readonly most: number
  readonly isVariable: boolean
}

const quantifierAt = (source: string, at: number): Quantifier | undefined => {
  QUANTIFIER.lastIndex = at
  const found = QUANTIFIER.exec(source)
  if (found === null) return undefined
  const [text, low, comma, high] = found
  const end = at + text.length
  if (low === undefined) return { end, most: text === '?' ? 1 : Number.POSITIVE_INFINITY, isVariable: true }
  if (comma === '') return { end, most: Number(low), isVariable: false }
  const most = high === '' ? Number.POSITIVE_INFINITY : Number(high)
  return { end, most: most >= MANY ? Number.POSITIVE_INFINITY : most, isVariable: most !== Number(low) }
}

/** The place behind the escape or the character class that begins at a place. */
const atomEnd = (source: string, at: number): number => {
  if (source[at] === '\\') {
    const isNamed = /[pPuk]/.test(source[at + 1] ?? '') && /[{<]/.test(source[at + 2] ?? '')
    if (!isNamed) return at + 2
    const end = source.indexOf(source[at + 2] === '{' ? '}' : '>', at)
    return end < 0 ? source.length : end + 1
  }
  if (source[at] !== '[') return at + 1
  let end = at + 1
  while (end < source.length && source[end] !== ']') end += source[end] === '\\' ? 2 : 1
  return end + 1
}

/**
 * Whether some part of a JavaScript expression repeats what can itself match in several ways: `(a+)+`, `(a|a)*`, `(a?){20}`. No published
 * tokenizer has one. `(\d{3})+` is none.
 *
 * Cost     O(length).
 */
export const repeatsChoices = (source: string): boolean => {
  const choices = [false] // of each open group: whether it can match in several ways
  for (let at = 0; at < source.length; ) {
    const character = source[at]!
    if (character === '(') {
      choices.push(false)
      at += /^\?(?:[:=!]|<[=!])/.test(source.slice(at + 1, at + 4)) ? source.slice(at + 1).search(/[:=!]/) + 2 : 1
      continue
    }
    if (character === '|') {
      choices[choices.length - 1] = true
      at += 1
      continue
    }
    const hasChoice = character === ')' && choices.length > 1 ? choices.pop()! : false
    at = atomEnd(source, at)
    const quantifier = quantifierAt(source, at)
    if (quantifier !== undefined) {
      if (hasChoice && quantifier.most > FEW) return true
      at = quantifier.end
      if (source[at] === '?') at += 1 // lazy
    }
    if (hasChoice || quantifier?.isVariable === true) choices[choices.length - 1] = true
  }
  return false
}
