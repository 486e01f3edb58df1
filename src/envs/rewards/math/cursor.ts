/** A cursor over the tokens of an answer, for the parser. */
import { rational } from '@tandem-rl/base'
import type { Token } from './tokens.js'
import type { MathTree } from './tree.js'

/** Maximum nesting of groups, brackets, roots and powers. */
const DEEPEST = 50

/** Reads tokens from left to right. It is the only mutable part of a parse. */
export interface MathCursor {
  readonly peek: (ahead?: number) => Token | undefined
  /** Returns true if the next token is one of these signs. */
  readonly isSign: (...signs: readonly string[]) => boolean
  /** Reads the next token if it is one of these signs, and returns it. */
  readonly skip: (...signs: readonly string[]) => string | undefined
  readonly expect: (sign: string) => void
  /** Reads and returns the next token. Throws SyntaxError at the end. */
  readonly take: () => Token
  /**
   * Reads the next token, or only its first digit, as LaTeX does for an argument without braces.
   */
  readonly takeOne: () => Token
  /**
   * Runs a reader one level deeper. Throws SyntaxError beyond the maximum depth. `bars`: whether a
   * bar closes an absolute value there.
   */
  readonly inside: <T>(read: () => T, bars?: 'close' | 'open') => T
  /** Returns true if a bar closes the current absolute value. */
  readonly barCloses: () => boolean
}

export const mathCursorOf = (source: readonly Token[]): MathCursor => {
  const tokens = [...source]
  let [at, depth, closing] = [0, 0, false]
  const isSign: MathCursor['isSign'] = (...signs) => tokens[at]?.kind === 'sign' && signs.includes(tokens[at]!.text)
  const take = (): Token => {
    const next = tokens[at]
    if (next === undefined) throw new SyntaxError('the answer ends too early')
    at += 1
    return next
  }
  return {
    peek: (ahead = 0) => tokens[at + ahead],
    isSign,
    take,
    skip: (...signs) => (isSign(...signs) ? take().text : undefined),
    expect: (sign) => {
      if (!isSign(sign)) throw new SyntaxError(`expected ${sign}`)
      at += 1
    },
    takeOne: () => {
      const next = tokens[at]
      if (next?.kind !== 'number' || !/^\d\d+$/.test(next.text)) return take()
      tokens[at] = { kind: 'number', text: next.text.slice(1) }
      return { kind: 'number', text: next.text.slice(0, 1) }
    },
    inside: (read, bars = 'open') => {
      if (depth >= DEEPEST) throw new SyntaxError(`more than ${DEEPEST} levels`)
      const before = closing
      depth += 1
      closing = bars === 'close'
      const result = read()
      depth -= 1
      closing = before
      return result
    },
    barCloses: () => closing,
  }
}

/** Maximum exponent of ten, and maximum number of digits. */
const [LARGEST_EXPONENT, MOST_DIGITS] = [300, 300]

/**
 * Parses a number token: `12`, `0.5`, `.5`, `1.2e-3`, `0.1(6)` with the repeating digits in
 * parentheses.
 */
export const numberAt = (text: string): MathTree => {
  const parts = /^(\d*)(?:\.(\d*)(?:\((\d+)\))?)?(?:[eE]([-+]?\d+))?$/.exec(text)
  if (parts === null || text.length > MOST_DIGITS) throw new SyntaxError('a number that is too long')
  const [, whole = '', fraction = '', repeats = '', exponent = '0'] = parts
  const power = Number(exponent)
  if (Math.abs(power) > LARGEST_EXPONENT) throw new SyntaxError('a power of ten that is too large')
  const scale = 10n ** BigInt(fraction.length)
  // With r digits that repeat, the digits behind the point are worth those before them plus repeats
  // / (10^r - 1) of their last place.
  const [first, cycle] = [BigInt(`0${whole}${fraction}`), 10n ** BigInt(repeats.length) - 1n]
  const exact = repeats === '' ? rational(first, scale) : rational(first * cycle + BigInt(repeats), scale * cycle)
  const shift = 10n ** BigInt(Math.abs(power))
  const { numerator, denominator } = exact
  return {
    _tag: 'Number',
    value: power < 0 ? rational(numerator, denominator * shift) : rational(numerator * shift, denominator),
  }
}
