import type { TokenSpan } from '@tandem-rl/text'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { maskOfSpans, sampledTokens, tokensOfRoles } from '../../src/data/tokenMasks.js'

const ROLES = ['system', 'user', 'assistant', 'tool', 'mixed'] as const

/** Spans with gaps between them, and the length of their conversation. */
const conversations = fc
  .array(
    fc.record({
      gap: fc.nat(2),
      size: fc.nat(4),
      role: fc.constantFrom(...ROLES),
      origin: fc.constantFrom('rendered' as const, 'sampled' as const),
    }),
    { maxLength: 6 },
  )
  .map((parts) => {
    let at = 0
    const spans = parts.map(({ gap, size, role, origin }, message): TokenSpan => {
      const start = at + gap
      at = start + size
      return { start, end: at, message, role, origin }
    })
    return { spans, length: at + 1 }
  })

const ones = (mask: Uint8Array): number => mask.reduce((sum, m) => sum + m, 0)

describe('maskOfSpans', () => {
  it('is 1 exactly in the spans that the choice takes, and has the length of the conversation', () => {
    fc.assert(
      fc.property(conversations, ({ spans, length }) => {
        const mask = maskOfSpans(spans, length)
        expect(mask).toHaveLength(length)
        for (const { start, end, origin } of spans)
          expect(Array.from(mask.slice(start, end))).toEqual(Array(end - start).fill(origin === 'sampled' ? 1 : 0))
        const sampled = spans.filter(({ origin }) => origin === 'sampled')
        expect(ones(mask)).toBe(sampled.reduce((sum, { start, end }) => sum + end - start, 0))
      }),
    )
  })

  it('by roles: each role alone adds up to all of them, and no role takes nothing', () => {
    fc.assert(
      fc.property(conversations, ({ spans, length }) => {
        const each = ROLES.map((role) => ones(maskOfSpans(spans, length, tokensOfRoles(role))))
        const all = ones(maskOfSpans(spans, length, tokensOfRoles(...ROLES)))
        expect(each.reduce((a, b) => a + b, 0)).toBe(all)
        expect(ones(maskOfSpans(spans, length, tokensOfRoles()))).toBe(0)
      }),
    )
  })

  it('by a function of the span and the place', () => {
    const spans: readonly TokenSpan[] = [
      { start: 0, end: 2, message: 0, role: 'user', origin: 'rendered' },
      { start: 2, end: 6, message: 1, role: 'assistant', origin: 'sampled' },
    ]
    const withoutFirst = maskOfSpans(spans, 7, (span, place) => sampledTokens(span, place) && place > span.start)
    expect(Array.from(withoutFirst)).toEqual([0, 0, 0, 1, 1, 1, 0])
  })

  it.each([
    ['spans that overlap', [0, 2], [1, 3]],
    ['spans out of order', [2, 3], [0, 1]],
    ['a span that ends before it starts', [0, 1], [3, 2]],
    ['a span behind the end', [0, 1], [1, 9]],
    ['a span at NaN', [0, 1], [Number.NaN, 2]],
  ])('refuses %s', (_, ...places) => {
    const spans = (places as readonly (readonly number[])[]).map(
      ([start, end], message): TokenSpan => ({ start: start!, end: end!, message, role: 'user', origin: 'sampled' }),
    )
    expect(() => maskOfSpans(spans, 4)).toThrow(/span 1 is from/)
  })
})
