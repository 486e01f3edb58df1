import { orThrow } from '@tandem-rl/base'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { anyText, families, familyJson, familyTokenizer, rust } from '../../../../test/kit/tokenizers.js'
import { decodeEnd, decodeNext, type TextTokenizer, textTokenizer } from '../../src/tokenizer/textTokenizer.js'

type Mode = 'keep' | 'skip'

/** The texts of the steps, then that of the end. */
const streamed = (tokenizer: TextTokenizer, steps: readonly ArrayLike<number>[], mode: Mode): readonly string[] => {
  let state = tokenizer.decodeStart(mode)
  const texts = steps.map((ids) => {
    const [next, text] = decodeNext(state, ids)
    state = next
    return text
  })
  return [...texts, decodeEnd(state)]
}

const singly = (ids: ArrayLike<number>): readonly number[][] => Array.from(ids, (id) => [id])

describe.each(families)('streaming with %s', (family) => {
  const tokenizer = familyTokenizer(family)
  const mode = fc.constantFrom<Mode>('keep', 'skip')
  const anyIds = fc.oneof(
    anyText(family).map((text) => Array.from(tokenizer.encode(text, { template: 'add' }))),
    fc.array(fc.nat(tokenizer.vocabularySize + 2), { maxLength: 12 }),
  )

  it('gives at every cut what decoding gives: the text so far and the end of the state', () => {
    const law = fc.property(anyIds, mode, (ids, specialTokens) => {
      let state = tokenizer.decodeStart(specialTokens)
      let text = ''
      for (const [i, id] of ids.entries()) {
        const [next, more] = decodeNext(state, [id])
        text += more
        state = next
        expect(text + decodeEnd(state)).toBe(tokenizer.decode(ids.slice(0, i + 1), specialTokens))
      }
    })
    fc.assert(law, { numRuns: 60 })
  })

  it('gives the same in steps of any length', () => {
    const law = fc.property(fc.array(anyIds, { maxLength: 4 }), mode, (steps, specialTokens) => {
      expect(streamed(tokenizer, steps, specialTokens).join('')).toBe(tokenizer.decode(steps.flat(), specialTokens))
    })
    fc.assert(law, { numRuns: 60 })
  })

  it('gives no half character before the end', () => {
    const law = fc.property(fc.string({ unit: 'grapheme', maxLength: 10 }), mode, (text, specialTokens) => {
      fc.pre(!text.includes('\ufffd'))
      for (const part of streamed(tokenizer, singly(tokenizer.encode(text)), specialTokens)) {
        expect(part).not.toContain('\ufffd')
      }
    })
    fc.assert(law, { numRuns: 60 })
  })
})

describe('a stream', () => {
  it('waits for the last byte of a character', () => {
    const tokenizer = familyTokenizer('gpt2')
    const texts = streamed(tokenizer, singly(tokenizer.encode('🇩')), 'keep')
    expect(texts.filter((text) => text !== '')).toEqual(['🇩'])
  })

  it('can go on twice from one state', () => {
    const tokenizer = familyTokenizer('gpt2')
    const [first, second] = singly(tokenizer.encode('🇩'))
    const [held] = decodeNext(tokenizer.decodeStart('keep'), first!)
    const [, once] = decodeNext(held, second!)
    const [, again] = decodeNext(held, second!)
    expect([once, again]).toEqual(['🇩', '🇩'])
    expect(decodeEnd(held)).toBe('\ufffd')
  })

  it('strips both ends of the whole text, whatever is cut where', async () => {
    const steps = [{ type: 'Fuse' }, { type: 'Strip', content: 'e', start: 2, stop: 1 }]
    const json = { ...familyJson('gpt2'), decoder: { type: 'Sequence', decoders: steps } }
    const tokenizer = orThrow(textTokenizer(json))
    const native = rust(json)
    for (const text of ['eeabce', 'eabcee', 'abc', 'eeee']) {
      const { ids, kept } = await native(text, 'omit')
      expect(streamed(tokenizer, singly(ids), 'keep').join('')).toBe(kept)
    }
  })

  it('drops the blank before the first word of SentencePiece alone', () => {
    const tokenizer = familyTokenizer('llama2')
    expect(streamed(tokenizer, singly(tokenizer.encode('the fox')), 'keep').join('')).toBe('the fox')
  })
})

describe('cleaning up the blanks of decoded texts', () => {
  const config = { clean_up_tokenization_spaces: true }
  const insisting = { ...config, clean_up_tokenization_spaces_for_bpe_even_though_it_will_corrupt_output: true }
  const endings = [' .', ' ?', ' !', ' ,', " ' ", " n't", " 'm", " 's", " 've", " 're"]
  /**
   * The result of Transformers for a whole text; `npm run verify -- tokenizers` compares it with
   * both.
   */
  const cleanedText = (text: string): string =>
    endings.reduce((result, ending) => result.replaceAll(ending, ending.trim()), text)
  const piece = fc.constantFrom(
    ' ',
    "'",
    'n',
    't',
    've',
    're',
    's',
    'm',
    '.',
    '?',
    '!',
    ',',
    'word',
    "n't",
    "' '",
    '  ',
  )
  const texts = fc.array(piece, { maxLength: 12 }).map((pieces) => pieces.join(''))

  it.each([
    ['bert', config],
    ['t5', config],
    ['xlmr', config],
    ['llama2', insisting],
    ['gpt2', insisting],
  ] as const)('of %s is that of the whole text, also in a stream', (family, settings) => {
    const plain = familyTokenizer(family)
    const tokenizer = orThrow(textTokenizer(familyJson(family), settings))
    const law = fc.property(texts, (text) => {
      const ids = plain.encode(text)
      const expected = cleanedText(plain.decode(ids, 'keep'))
      expect(tokenizer.decode(ids, 'keep')).toBe(expected)
      expect(streamed(tokenizer, singly(ids), 'keep').join('')).toBe(expected)
    })
    fc.assert(law)
  })

  it('leaves BPE models alone unless the config insists', () => {
    const tokenizer = orThrow(textTokenizer(familyJson('llama2'), config))
    expect(tokenizer.decode(tokenizer.encode('a . b'), 'keep')).toBe('a . b')
  })
})
