/** The size of JSON texts from outside, which is checked before they are parsed. */

/** Limits of every JSON body, which are checked before it is parsed. */
export const JSON_LIMITS = {
  /** Levels of nesting. Real requests have less; the limit allows recursive code. */
  depth: 128,
  /** Texts, names of fields, lists and objects. */
  values: 2 ** 20,
  /** Commas, of which a list of n numbers has n - 1. */
  items: 2 ** 23,
} as const

/** Counts of a JSON text. */
interface JsonSize {
  readonly depth: number
  readonly values: number
  readonly items: number
}

/**
 * Counts the levels, values and items of a JSON text without parsing it. Stops beyond a limit.
 *
 * Cost     linear in the text. Nothing is allocated.
 *
 * @example
 * jsonSize('[{"a": "[["}]') // { depth: 2, values: 4, items: 0 }
 */
export const jsonSize = (text: string, limits: JsonSize = JSON_LIMITS): JsonSize => {
  let [depth, deepest, values, items] = [0, 0, 0, 0]
  let inString = false
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i)
    if (inString) {
      if (code === 0x5c) i++
      else if (code === 0x22) inString = false
      continue
    }
    if (code === 0x22) {
      inString = true
      values++
    } else if (code === 0x5b || code === 0x7b) {
      deepest = Math.max(deepest, ++depth)
      values++
    } else if (code === 0x5d || code === 0x7d) depth--
    else if (code === 0x2c) items++
    else continue
    if (deepest > limits.depth || values > limits.values || items > limits.items) break
  }
  return { depth: deepest, values, items }
}

const inWords = (count: number): string => count.toLocaleString('en-US')

/** Describes a JSON text beyond `JSON_LIMITS`. Returns undefined within them. */
export const jsonSizeProblem = (text: string): string | undefined => {
  const { depth, values, items } = jsonSize(text)
  if (depth > JSON_LIMITS.depth) return `is nested deeper than ${JSON_LIMITS.depth} levels`
  if (values > JSON_LIMITS.values) return `has more than ${inWords(JSON_LIMITS.values)} texts, names, lists and objects`
  return items > JSON_LIMITS.items ? `has more than ${inWords(JSON_LIMITS.items)} commas` : undefined
}
