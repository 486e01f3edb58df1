/** Arguments of calls that JSON has as objects, whose numbers would lose their spelling. */

/** A number that JavaScript writes differently, or that it may round. */
const OTHER_SPELLING = /-0|\d\.|\d[eE]|\d{16}/

/** Arguments that are an object: OpenAI's name of the field, and Anthropic's. */
const AN_OBJECT = /"(?:arguments|input)"[ \t\r\n]*:[ \t\r\n]*\{/

const BLANKS = /[ \t\r\n]*/y

/** Returns the place of the first character at or after a place that is not blank. */
const inkedFrom = (text: string, at: number): number => {
  BLANKS.lastIndex = at
  BLANKS.exec(text)
  return BLANKS.lastIndex
}

/** Returns the end of the string that starts at a place. */
const stringEnd = (text: string, start: number): number => {
  let at = start + 1
  while (at < text.length && text[at] !== '"') at += text[at] === '\\' ? 2 : 1
  return at + 1
}

/** Returns the end of the object that starts at a place. */
const objectEnd = (text: string, start: number): number => {
  let depth = 0
  for (let at = start; at < text.length; ) {
    const c = text[at]
    if (c === '{') depth += 1
    if (c === '}' && --depth === 0) return at + 1
    at = c === '"' ? stringEnd(text, at) : at + 1
  }
  return text.length
}

const ARGUMENTS: readonly string[] = ['"arguments"', '"input"']

/** The fields of requests and answers that have calls. */
const WITH_CALLS: readonly string[] = ['"messages"', '"choices"']

/**
 * Writes the arguments of calls in the messages of a request, or in the choices of an answer, as
 * texts, which the formats of OpenAI have anyway, if `JSON.parse` would change the spelling of
 * their numbers. Everything else is unchanged.
 *
 * Cost     linear in the text.
 *
 * @example
 * writtenArguments('{"messages": [{"input": {"f": 1.0}}]}') // '{"messages": [{"input": "{\\"f\\": 1.0}"}]}'
 */
export const writtenArguments = (text: string): string => {
  if (!AN_OBJECT.test(text) || !OTHER_SPELLING.test(text)) return text
  const parts: string[] = []
  let [depth, from, hasCalls] = [0, 0, false]
  for (let at = 0; at < text.length; ) {
    const c = text[at]
    if (c === '{' || c === '[') depth += 1
    if (c === '}' || c === ']') depth -= 1
    if (c !== '"') {
      at += 1
      continue
    }
    const start = at
    at = stringEnd(text, start)
    const colon = inkedFrom(text, at)
    if (text[colon] !== ':') continue
    const key = text.slice(start, at)
    if (depth === 1) hasCalls = WITH_CALLS.includes(key)
    const value = inkedFrom(text, colon + 1)
    if (!hasCalls || text[value] !== '{' || !ARGUMENTS.includes(key)) continue
    at = objectEnd(text, value)
    const source = text.slice(value, at)
    if (!OTHER_SPELLING.test(source)) continue
    parts.push(text.slice(from, value), JSON.stringify(source))
    from = at
  }
  return from === 0 ? text : [...parts, text.slice(from)].join('')
}
