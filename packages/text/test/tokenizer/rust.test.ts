import { orThrow } from '@tandem-rl/base'
import fc from 'fast-check'
import * as E from 'fp-ts/lib/Either.js'
import { describe, expect, it, vi } from 'vitest'
import {
  anyText,
  FAMILIES,
  families,
  familyJson,
  familyTokenizer,
  isNewerThanRust,
  ours,
  rust,
} from '../../../../test/kit/tokenizers.js'
import { batchTokenizer, nativeTokenizer } from '../../src/tokenizer/native.js'
import { textTokenizer } from '../../src/tokenizer/textTokenizer.js'

const eachFamily = families.map((family) => [family, FAMILIES[family]] as const)

describe.each(eachFamily)('%s, a %s', (family) => {
  const tokenizer = familyTokenizer(family)
  const native = rust(familyJson(family))
  const text = anyText(family).filter((s) => !isNewerThanRust(s))

  it('gives ids, offsets, types, masks and decoded texts of the Rust library', async () => {
    const law = fc.asyncProperty(text, fc.constantFrom('add', 'omit'), async (s, template) => {
      expect(ours(tokenizer, s, template)).toEqual(await native(s, template))
    })
    await fc.assert(law, { numRuns: 60 })
  })

  it('encode alone gives the ids of the encoding', () => {
    const law = fc.property(
      anyText(family),
      fc.constantFrom('add', 'omit'),
      fc.constantFrom('recognize', 'plainText'),
      (s, template, specialTokens) => {
        const options = { template, specialTokens }
        expect(tokenizer.encode(s, options)).toEqual(tokenizer.encoding(s, options).ids)
      },
    )
    fc.assert(law, { numRuns: 60 })
  })

  it('plain text gives no special token, whatever it spells, except the unknown one', () => {
    const { model } = familyJson(family)
    const unknown = model.unk_token ?? tokenizer.tokenOf(model.unk_id ?? -1)
    const special = new Set(tokenizer.specialTokens.values())
    special.delete(tokenizer.idOf(unknown ?? '') ?? -1)
    const law = fc.property(anyText(family), (s) => {
      for (const id of tokenizer.encode(s, { specialTokens: 'plainText' })) expect(special.has(id)).toBe(false)
    })
    fc.assert(law, { numRuns: 60 })
  })

  it('offsets are ranges of the text that cut no surrogate pair', () => {
    const law = fc.property(anyText(family), (s) => {
      const { offsets } = tokenizer.encoding(s)
      for (const [i, place] of offsets.entries()) {
        expect(place >= 0 && place <= s.length).toBe(true)
        if (i % 2 === 1) expect(place).toBeGreaterThanOrEqual(offsets[i - 1]!)
        const isCut = /[\ud800-\udbff]/.test(s[place - 1] ?? '') && /[\udc00-\udfff]/.test(s[place] ?? '')
        expect(isCut).toBe(false)
      }
    })
    fc.assert(law, { numRuns: 60 })
  })
})

it.each(['<mask>', ' <mask>', '  <mask>', ' \n<mask> a', 'a  <mask><mask>', '   <mask>  <mask>'])(
  "the offsets of RoBERTa's <mask> leave out the blanks before it: %j",
  async (text) => {
    expect(ours(familyTokenizer('roberta'), text, 'add')).toEqual(await rust(familyJson('roberta'))(text, 'add'))
  },
)

it.each(['1234567', 'a 12 é½²³ 1000!?', '٣٤٥٦ x', '>>TITLE<< 😀12'])(
  "digits are cut after the bytes by Falcon's pre-tokenizers: %j",
  async (text) => {
    expect(ours(familyTokenizer('falcon'), text, 'add')).toEqual(await rust(familyJson('falcon'))(text, 'add'))
  },
)

describe('batches', () => {
  const texts = ['Hello world', '', '你好 😀', 'a <s> b</s>', '<|im_end|> café']

  it.each(eachFamily)('of %s are the same from both libraries', async (family) => {
    const own = batchTokenizer(familyTokenizer(family))
    const native = orThrow(await nativeTokenizer(familyJson(family))())
    for (const options of [{}, { template: 'add' }, { specialTokens: 'plainText' }] as const) {
      const expected = orThrow(await own.encodeBatch(texts, options)())
      expect(orThrow(await native.encodeBatch(texts, options)())).toEqual(expected)
      for (const mode of ['keep', 'skip'] as const) {
        const ids = expected.map((encoding) => encoding.ids)
        expect(await native.decodeBatch(ids, mode)()).toEqual(await own.decodeBatch(ids, mode)())
      }
    }
  })

  it('follow the config in both libraries', async () => {
    const config = { bos_token: 'a', clean_up_tokenization_spaces: true }
    const own = orThrow(textTokenizer(familyJson('bert'), config))
    const native = orThrow(await nativeTokenizer(familyJson('bert'), config)())
    const batch = batchTokenizer(own)
    expect(own.specialTokens.has('a')).toBe(true)
    const encodings = orThrow(await native.encodeBatch(["it ' s a . b"])())
    expect(encodings).toEqual(orThrow(await batch.encodeBatch(["it ' s a . b"])()))
    const ids = encodings.map((encoding) => encoding.ids)
    for (const mode of ['keep', 'skip'] as const) {
      expect(await native.decodeBatch(ids, mode)()).toEqual(await batch.decodeBatch(ids, mode)())
    }
  })

  it('without the package the failure names the package to install', async () => {
    vi.doMock('tokenizers', () => {
      throw new Error('Cannot find package')
    })
    const result = await nativeTokenizer(familyJson('gpt2'))()
    vi.doUnmock('tokenizers')
    expect(result).toMatchObject({ _tag: 'Left', left: { _tag: 'NativeTokenizerFailure' } })
    expect(E.isLeft(result) && result.left.reason).toContain('npm install tokenizers')
  })

  it('a file that cannot be used is a failure of its format, before the library sees it', async () => {
    const result = await nativeTokenizer({ model: { type: 'Nonsense' } })()
    expect(E.isLeft(result) && result.left._tag).toBe('FormatFailure')
  })
})
