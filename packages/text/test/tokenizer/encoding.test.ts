import fc from 'fast-check'
import { Tokenizer } from 'tokenizers'
import { describe, expect, it } from 'vitest'
import { anyText, familyJson, familyTokenizer } from '../../../../test/kit/tokenizers.js'
import { type Encoding, padEncodings, type Side, utf8Offsets, windows } from '../../src/tokenizer/encoding.js'

const tokenizer = familyTokenizer('bert')
const native = Tokenizer.fromString(JSON.stringify(familyJson('bert')))

const side = fc.constantFrom<Side>('left', 'right')
const text = anyText('bert')

const idsOf = ({ ids }: Encoding): number[] => Array.from(ids)

describe('windows', () => {
  const cut = fc
    .record({ maxLength: fc.integer({ min: 1, max: 9 }), stride: fc.nat(8), side })
    .filter(({ maxLength, stride }) => stride < maxLength)

  it('are those of the Rust library, what is kept and what overflows', async () => {
    const law = fc.asyncProperty(text, cut, async (s, options) => {
      const expected = await native.encode(s, null, { addSpecialTokens: false })
      expected.truncate(options.maxLength, options.stride, options.side === 'left' ? 'left' : 'right')
      const all = [expected, ...expected.getOverflowing()].map((encoding) => encoding.getIds())
      expect(windows(tokenizer.encoding(s), options).map(idsOf)).toEqual(all)
    })
    await fc.assert(law)
  })

  it('framed by a template are as long as allowed, and hold every token of the text', () => {
    const law = fc.property(text, fc.integer({ min: 3, max: 12 }), (s, maxLength) => {
      const framed = tokenizer.encodingWindows(s, { maxLength }, { template: 'add' })
      for (const { ids } of framed) {
        expect(ids.length).toBeLessThanOrEqual(maxLength)
        expect(tokenizer.tokenOf(ids[0]!)).toBe('[CLS]')
        expect(tokenizer.tokenOf(ids.at(-1)!)).toBe('[SEP]')
      }
      expect(framed.flatMap((window) => idsOf(window).slice(1, -1))).toEqual(idsOf(tokenizer.encoding(s)))
    })
    fc.assert(law)
  })

  it('need room for the tokens of the template', () => {
    expect(() => tokenizer.encodingWindows('a', { maxLength: 2 }, { template: 'add' })).toThrow(/2 leaves no room/)
  })

  it.each([
    [{ maxLength: 0 }, 'maxLength'],
    [{ maxLength: 1.5 }, 'maxLength'],
    [{ maxLength: 2, stride: 2 }, 'stride must be less'],
    [{ maxLength: 2, stride: -1 }, 'stride'],
  ])('refuse %o', (options, reason) => {
    expect(() => windows(tokenizer.encoding('a b c'), options)).toThrow(reason)
  })
})

describe('padEncodings', () => {
  it('fills up to one length, on one side, where attention does not look', () => {
    const law = fc.property(
      fc.array(text, { minLength: 1, maxLength: 4 }),
      side,
      fc.integer({ min: 1, max: 8 }),
      (texts, where, multipleOf) => {
        const encodings = texts.map((s) => tokenizer.encoding(s, { template: 'add' }))
        const padded = padEncodings(encodings, { id: 0, side: where, multipleOf })
        const longest = Math.max(...encodings.map(({ ids }) => ids.length))
        for (const [i, row] of padded.entries()) {
          expect(row.ids.length).toBe(Math.ceil(longest / multipleOf) * multipleOf)
          expect(row.offsets.length).toBe(2 * row.ids.length)
          const attended = idsOf(row).filter((_, t) => row.attentionMask[t] === 1)
          expect(attended).toEqual(idsOf(encodings[i]!))
          const filled = row.ids.length - encodings[i]!.ids.length
          const start = where === 'left' ? 0 : encodings[i]!.ids.length
          expect(Array.from(row.specialTokensMask.slice(start, start + filled))).toEqual(Array(filled).fill(1))
          expect(Array.from(row.ids.slice(start, start + filled))).toEqual(Array(filled).fill(0))
        }
      },
    )
    fc.assert(law)
  })

  it('is that of the Rust library', async () => {
    const law = fc.asyncProperty(text, side, fc.integer({ min: 1, max: 40 }), async (s, where, length) => {
      const expected = await native.encode(s)
      expected.pad(length, { direction: where, padId: 7, padTypeId: 1, padToken: 'x' })
      const [actual] = padEncodings([tokenizer.encoding(s, { template: 'add' })], {
        id: 7,
        typeId: 1,
        side: where,
        length,
      })
      expect(idsOf(actual!)).toEqual(expected.getIds())
      expect(Array.from(actual!.attentionMask)).toEqual(expected.getAttentionMask())
      expect(Array.from(actual!.typeIds)).toEqual(expected.getTypeIds())
      expect(Array.from(actual!.specialTokensMask)).toEqual(expected.getSpecialTokensMask())
    })
    await fc.assert(law)
  })

  it('of nothing is nothing, and lengths must be positive integers', () => {
    expect(padEncodings([], { id: 0 })).toEqual([])
    expect(() => padEncodings([], { id: 0, length: 0 })).toThrow('length')
    expect(() => padEncodings([], { id: 0, multipleOf: 0.5 })).toThrow('multipleOf')
  })
})

describe('a pair of texts', () => {
  it('is framed as the Rust library frames it, with its types', async () => {
    for (const template of ['add', 'omit'] as const) {
      const expected = await native.encode('hello world', 'the fox', { addSpecialTokens: template === 'add' })
      const actual = tokenizer.encoding('hello world', { second: 'the fox', template })
      expect(idsOf(actual)).toEqual(expected.getIds())
      expect(Array.from(actual.typeIds)).toEqual(expected.getTypeIds())
      expect(Array.from(actual.offsets)).toEqual(expected.getOffsets().flat())
      expect(Array.from(actual.texts, (index) => (index < 0 ? null : index))).toEqual(expected.getSequenceIds())
    }
  })
})

describe('utf8Offsets', () => {
  it('are the lengths of the texts before, in bytes', () => {
    const law = fc.property(fc.array(fc.string({ unit: 'grapheme', maxLength: 3 }), { maxLength: 5 }), (parts) => {
      const whole = parts.join('')
      const places = parts.map((_, i) => parts.slice(0, i).join('').length)
      const expected = parts.map((_, i) => new TextEncoder().encode(parts.slice(0, i).join('')).length)
      expect(Array.from(utf8Offsets(whole, places))).toEqual(expected)
    })
    fc.assert(law)
  })

  it('outside the text are refused', () => {
    expect(() => utf8Offsets('ab', [3])).toThrow('offset 3 is outside a text of 2')
  })
})
