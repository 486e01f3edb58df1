import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { visibleLine, visibleText } from '../src/visibleText.js'

/** Text with many characters that a terminal obeys. */
const hostile = fc
  .array(
    fc.oneof(
      fc.string({ unit: 'binary' }),
      fc.constantFrom('\u001b[2J', '\u009b31m', '\r', '\u0007', '\u202e', '\u{e0041}', '\ufeff'),
    ),
  )
  .map((parts) => parts.join(''))

const OBEYED = /(?![\n\t\u200c\u200d])[\p{Cc}\p{Cf}]/u

describe('visibleText', () => {
  it('has no character that a terminal obeys, and is itself visible', () => {
    fc.assert(
      fc.property(hostile, (text) => {
        expect(visibleText(text)).not.toMatch(OBEYED)
        expect(visibleText(visibleText(text))).toBe(visibleText(text))
        expect(visibleLine(text)).not.toMatch(/[\n\t]/)
      }),
    )
  })

  it('keeps the meaning of JSON', () => {
    fc.assert(
      fc.property(hostile, (text) => {
        expect(JSON.parse(visibleText(JSON.stringify({ [text]: text })))).toEqual({ [text]: text })
      }),
    )
  })

  it.each(['a\tb\nc', 'naïve', '👩‍👩‍👧', 'می‌خواهم', '日本語', 'שלום'])('keeps %j', (text) => {
    expect(visibleText(text)).toBe(text)
  })
})
