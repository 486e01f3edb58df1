import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { findStop, openLength, stopMatcher } from '../../../../src/modules/generation/sampling/stopStrings.js'

/** Two letters, so that the beginnings of stop strings lie in each other. */
const word = fc.string({ unit: fc.constantFrom('a', 'b'), minLength: 1, maxLength: 6 })
const stops = fc.array(word, { minLength: 1, maxLength: 5 })
const pieces = fc.array(fc.string({ unit: fc.constantFrom('a', 'b', 'c'), maxLength: 5 }), { maxLength: 8 })

describe('a search for stop strings', () => {
  it('finds the one that ends first, then the one listed first, however the text is cut', () => {
    const law = fc.property(stops, pieces, (words, parts) => {
      const matcher = stopMatcher(words)
      const text = parts.join('')
      const end = Array.from({ length: text.length }, (_, i) => i + 1).find((place) =>
        words.some((stop) => text.slice(0, place).endsWith(stop)),
      )
      let [node, before] = [0, 0]
      for (const part of parts) {
        const { node: next, match } = findStop(matcher, { node, text: part, search: 'find' })
        if (match !== null) {
          expect(before + match.end).toBe(end)
          expect(match.stop).toBe(words.find((stop) => text.slice(0, end).endsWith(stop)))
          return
        }
        node = next
        before += part.length
      }
      expect(end).toBeUndefined()
    })
    fc.assert(law, { numRuns: 1000 })
  })

  it('holds the longest end that is a beginning of a stop string, also after those that do not count', () => {
    const law = fc.property(stops, pieces, (words, parts) => {
      const matcher = stopMatcher(words)
      let [node, text] = [0, '']
      for (const part of parts) {
        const read = findStop(matcher, { node, text: part, search: 'skip' })
        node = read.node
        text += part
        expect(read.match).toBeNull()
        const open = words.flatMap((stop) =>
          Array.from(stop, (_, n) => n).filter((n) => text.endsWith(stop.slice(0, n))),
        )
        expect(openLength(matcher, node)).toBe(Math.max(...open))
      }
    })
    fc.assert(law, { numRuns: 1000 })
  })
})
