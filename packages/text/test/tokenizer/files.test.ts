import { orThrow } from '@tandem-rl/base'
import fc from 'fast-check'
import * as E from 'fp-ts/lib/Either.js'
import { describe, expect, it } from 'vitest'
import { families, familyJson } from '../../../../test/kit/tokenizers.js'
import { applyChanges, original } from '../../src/tokenizer/alignedText.js'
import { readCharsmap } from '../../src/tokenizer/charsmap.js'
import { textTokenizer } from '../../src/tokenizer/textTokenizer.js'
import { type UnicodeForm, unicodeChanges } from '../../src/tokenizer/unicodeForm.js'

const reasonFor = (json: object, config: object = {}): string => {
  const result = textTokenizer(json, config)
  if (E.isRight(result)) throw new Error('the files were accepted')
  return result.left.reason
}

const gpt2 = familyJson('gpt2')
const llama2 = familyJson('llama2')

describe('a file that cannot be used is refused with the name of the part', () => {
  it.each([
    ['an unknown normalizer', { normalizer: { type: 'Sequence', normalizers: [{ type: 'Magic' }] } }, "'Magic'"],
    ['an unknown pre-tokenizer', { pre_tokenizer: { type: 'UnicodeScripts' } }, "'UnicodeScripts'"],
    ['an unknown decoder', { decoder: { type: 'CTC' } }, "'CTC'"],
    [
      'a decoder that needs tokens after one text',
      { decoder: { type: 'Sequence', decoders: [{ type: 'Fuse' }, { type: 'ByteFallback' }] } },
      "'ByteFallback'",
    ],
    ['an expression that is none', { normalizer: { type: 'Replace', pattern: { Regex: '(' }, content: '' } }, '('],
    ['a merge of unknown tokens', { model: { ...gpt2.model, merges: ['a qqqq'] } }, "'qqqq'"],
    ['an unknown token that is not there', { model: { ...gpt2.model, unk_token: '<none>' } }, "'<none>'"],
    ['dropout', { model: { ...gpt2.model, dropout: 0.1 } }, 'dropout'],
    ['an added token with another id', { added_tokens: [{ id: 5, content: 'a' }] }, "'a' has the id 5"],
    ['no charsmap', { normalizer: { type: 'Precompiled', precompiled_charsmap: '%%' } }, 'base64'],
    ['half a charsmap', { normalizer: { type: 'Precompiled', precompiled_charsmap: '/wAAAA==' } }, 'does not fit'],
  ])('%s', (_, change, reason) => {
    expect(reasonFor({ ...gpt2, ...change })).toContain(reason)
  })

  it('all that is wrong is named at once', () => {
    const reason = reasonFor({ ...gpt2, normalizer: { type: 'Magic' }, decoder: { type: 'CTC' }, model: { type: 'X' } })
    for (const name of ['Magic', 'CTC', "'X'"]) expect(reason).toContain(name)
  })

  it('whatever JSON it is, without an exception', () => {
    const law = fc.property(fc.object(), fc.constantFrom(...families), (junk, family) => {
      expect(E.isLeft(textTokenizer(junk))).toBe(true)
      for (const part of Object.keys(familyJson(family))) {
        if (part === 'version' || part === 'truncation' || part === 'padding') continue
        expect(['Left', 'Right']).toContain(textTokenizer({ ...familyJson(family), [part]: junk })._tag)
      }
    })
    fc.assert(law, { numRuns: 30 })
  })

  it('a charsmap of any bytes is read or refused', () => {
    const law = fc.property(fc.uint8Array({ maxLength: 40 }), fc.string(), (bytes, s) => {
      try {
        expect(['string', 'undefined']).toContain(
          typeof readCharsmap(Buffer.from(bytes).toString('base64')).replacement(s),
        )
      } catch (error) {
        expect(error).toBeInstanceOf(RangeError)
      }
    })
    fc.assert(law)
  })
})

describe('tokenizer_config.json', () => {
  const config = {
    bos_token: '<s>',
    eos_token: { content: '</s>' },
    pad_token: null,
    model_max_length: 4096,
    padding_side: 'left',
    clean_up_tokenization_spaces: true,
  }

  it('names the tokens, the limit and the sides', () => {
    expect(orThrow(textTokenizer(llama2, config)).settings).toEqual({
      roles: { bos: '<s>', eos: '</s>' },
      maxLength: 4096,
      paddingSide: 'left',
      truncationSide: 'right',
      cleanUpSpaces: 'never',
    })
    expect(orThrow(textTokenizer(llama2, { model_max_length: 1e30 })).settings.maxLength).toBeUndefined()
  })

  it('makes tokens of the model special', () => {
    const named = orThrow(textTokenizer(gpt2, { additional_special_tokens: ['the'] }))
    const id = named.idOf('the')!
    expect(named.specialTokens.get('the')).toBe(id)
    expect(named.decode([id], 'skip')).toBe('')
    expect(Array.from(named.encode('other the'))).toContain(id)
  })

  it('is refused if it names a token that has no id, or is malformed', () => {
    expect(reasonFor(gpt2, { additional_special_tokens: ['<nope>'] })).toContain('<nope>')
    expect(reasonFor(gpt2, { padding_side: 'up' })).toContain('padding_side')
  })
})

describe('changes into a Unicode form', () => {
  it('give the text of the standard', () => {
    const unit = fc.oneof(
      fc.string({ unit: 'grapheme', maxLength: 3 }),
      fc.constantFrom(
        '\u0301',
        '\u0323',
        '\u0334',
        '\u0345',
        '\u1161',
        '\u11a8',
        'a',
        '\uac00',
        'ﬁ',
        '\u0958',
        '\u030a',
      ),
    )
    const law = fc.property(
      fc.array(unit, { maxLength: 8 }),
      fc.constantFrom<UnicodeForm>('NFC', 'NFD', 'NFKC', 'NFKD'),
      (parts, form) => {
        const text = parts.join('')
        expect(applyChanges(original(text), unicodeChanges(text, form)).text).toBe(text.normalize(form))
      },
    )
    fc.assert(law, { numRuns: 500 })
  })
})
