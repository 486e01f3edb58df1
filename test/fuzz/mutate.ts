/** Mutates texts of a corpus for fuzzing. The same key gives the same input. */
import { child, type Key, uniform } from '@tandem-rl/base'

/** Fragments with a meaning in some format. */
const WORDS = [
  ...[
    '',
    ' ',
    '\n',
    '\r\n',
    '\0',
    '\\',
    '"',
    "'",
    '`',
    '```',
    '{',
    '}',
    '[',
    ']',
    '(',
    ')',
    '<',
    '>',
    '</',
    '{{',
    '}}',
    '{%',
    '%}',
  ],
  ...[
    '0',
    '-1',
    '1e999',
    '4294967297',
    '9007199254740993',
    'NaN',
    'null',
    'true',
    '[]',
    '{}',
    '__proto__',
    'constructor',
  ],
  ...[
    '\ud800',
    '\ufeff',
    '\u202e',
    'é',
    '\u{1f600}',
    '<|im_end|>',
    '<tool_call>',
    'http://',
    '://',
    '@',
    'Bearer ',
    '%00',
    '../',
  ],
  ...['(a+)+$', '.*', '\\p{L}', '\\frac', '\\boxed{', '\\infty', '####', '<<', '>>', '--', '=', ':', ',', '.', '/'],
] as const

/** Longest input. Longer ones take more time and find no more bugs. */
const LONGEST = 60_000

/** Draws integers from a key. */
const dice = (key: Key): ((sides: number) => number) => {
  let thrown = 0
  return (sides) => Math.floor(uniform(key, thrown++) * sides)
}

type Change = (text: string, other: string, throwDie: (sides: number) => number) => string

const range = (text: string, throwDie: (sides: number) => number): readonly [number, number] => {
  const start = throwDie(text.length + 1)
  return [start, Math.min(text.length, start + throwDie(1 + Math.min(64, text.length)))]
}

const CHANGES: readonly Change[] = [
  (text, _, throwDie) => {
    const [start, end] = range(text, throwDie)
    return text.slice(0, start) + text.slice(end)
  },
  (text, _, throwDie) => {
    const [start, end] = range(text, throwDie)
    return text.slice(0, start) + WORDS[throwDie(WORDS.length)] + text.slice(end)
  },
  (text, _, throwDie) => {
    const at = throwDie(text.length + 1)
    return text.slice(0, at) + WORDS[throwDie(WORDS.length)]! + text.slice(at)
  },
  (text, _, throwDie) => {
    const [start, end] = range(text, throwDie)
    const piece = text.slice(start, end)
    return text.slice(0, end) + piece.repeat(1 + throwDie(4) ** 6) + text.slice(end)
  },
  (text, other, throwDie) => text.slice(0, throwDie(text.length + 1)) + other.slice(throwDie(other.length + 1)),
  (text, _, throwDie) => {
    const at = throwDie(text.length + 1)
    return text.slice(0, at) + String.fromCharCode(throwDie(throwDie(2) === 0 ? 128 : 65_536)) + text.slice(at + 1)
  },
]

/** Returns a text of the corpus with one to eight mutations. */
export const mutated = (corpus: readonly string[], key: Key): string => {
  const throwDie = dice(child(key, 0))
  const pick = (): string => corpus[throwDie(corpus.length)]!
  let text = pick()
  for (let left = 1 + throwDie(8); left > 0; left--) {
    text = CHANGES[throwDie(CHANGES.length)]!(text, pick(), throwDie).slice(0, LONGEST)
  }
  return text
}
