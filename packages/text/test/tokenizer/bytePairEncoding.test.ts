import fc from 'fast-check'
import * as E from 'fp-ts/lib/Either.js'
import { describe, expect, it } from 'vitest'
import { byteCharacters, trainBytePairEncoding } from '../../src/tokenizer/bytePairEncoding.js'
import { type TextTokenizer, textTokenizer } from '../../src/tokenizer/textTokenizer.js'

const SPECIAL = ['<|end|>', '<think>', '</think>', '<|endoftext|>'] as const

const TEXTS = Array.from({ length: 50 }, (_, i) => [
  `<think>${i} + 12 = ${i + 12} ; ${i + 12} - 4 = ${i + 8}</think>`,
  `Tom had ${i} apples. Then he gave 4 apples to Mia. How many apples does Tom have now?<|end|>`,
]).flat()

const load = (texts: Iterable<string>, vocabularySize: number, specialTokens: readonly string[] = SPECIAL) => {
  const tokenizer = textTokenizer(trainBytePairEncoding(texts, { vocabularySize, specialTokens }))
  if (E.isLeft(tokenizer)) throw new Error(tokenizer.left.reason)
  return tokenizer.right
}

const tokenizer = load(TEXTS, 300)

const pieces = (of: TextTokenizer, text: string): readonly string[] =>
  Array.from(of.encode(text), (id) => of.decode([id], 'keep'))

/** Anything but lone surrogates, which are no text: UTF-8 has no bytes for them. */
const anyText = fc.oneof(
  fc.string({ unit: 'binary' }),
  fc.string({ unit: 'grapheme' }),
  fc
    .array(
      fc.constantFrom('Tom', ' had', ' ', '\n', '\t', '7', '12', '½', "'ll", '\u0085', '\uFEFF', '<think>', '<|end'),
      {
        maxLength: 12,
      },
    )
    .map((parts) => parts.join('')),
)

const words = fc.array(fc.string({ unit: fc.constantFrom('a', 'b', 'c', ' ', '1', 'é'), maxLength: 12 }), {
  maxLength: 8,
})

/** Byte pair encoding as it is explained: count all pairs anew for each merge. */
const slowMerges = (texts: readonly string[], count: number): readonly string[] => {
  const corpus = texts
    .flatMap((text) => text.match(/ ?\p{L}+|\p{N}|\s+(?!\S)|\s+/gu) ?? [])
    .map((piece) => Array.from(new TextEncoder().encode(piece), (byte) => byteCharacters()[byte]!))
  const order = [...byteCharacters()].sort((a, b) => a.charCodeAt(0) - b.charCodeAt(0))
  const merges: string[] = []
  while (merges.length < count) {
    const counts = new Map<string, number>()
    for (const symbols of corpus) {
      for (let i = 1; i < symbols.length; i++) {
        const pair = `${symbols[i - 1]} ${symbols[i]}`
        counts.set(pair, (counts.get(pair) ?? 0) + 1)
      }
    }
    const rank = (pair: string): number => {
      const [left, right] = pair.split(' ')
      return order.indexOf(left!) * 1e6 + order.indexOf(right!)
    }
    const best = [...counts].sort(([a, n], [b, m]) => m - n || rank(a) - rank(b))[0]?.[0]
    if (best === undefined) break
    const [left, right] = best.split(' ')
    if (!order.includes(`${left}${right}`)) order.push(`${left}${right}`)
    if (!merges.includes(best)) merges.push(best)
    for (const symbols of corpus) {
      for (let i = 0; i + 1 < symbols.length; i++) {
        if (symbols[i] === left && symbols[i + 1] === right) symbols.splice(i, 2, `${left}${right}`)
      }
    }
  }
  return merges
}

describe('the tokenizer that is trained', () => {
  it('decodes what it encodes, for any text', () => {
    fc.assert(
      fc.property(anyText, (text) => {
        expect(tokenizer.decode(tokenizer.encode(text), 'keep')).toBe(text)
      }),
      { numRuns: 1000 },
    )
  })

  it('decodes what it encodes, whatever it was trained on', () => {
    fc.assert(
      fc.property(
        fc.array(anyText, { maxLength: 5 }),
        fc.integer({ min: 260, max: 300 }),
        anyText,
        (texts, size, text) => {
          const any = load(texts, size)
          for (const each of [text, ...texts]) expect(any.decode(any.encode(each), 'keep')).toBe(each)
        },
      ),
    )
  })

  it('gives every digit a token of its own', () => {
    fc.assert(
      fc.property(fc.bigInt(), fc.constantFrom('', ' ', 'x', '-', '\n'), (number, around) => {
        const digits = pieces(tokenizer, `${around}${number}${around}`).filter((piece) => /\d/.test(piece))
        expect(digits).toEqual(String(number).replace('-', '').split(''))
      }),
    )
  })

  it('learns no token in which a digit is not alone', () => {
    const { vocab } = trainBytePairEncoding(TEXTS, { vocabularySize: 400 }).model
    expect(Object.keys(vocab).filter((token) => /\d/.test(token) && token.length > 1)).toEqual([])
  })

  it('makes single tokens of frequent words', () => {
    expect(pieces(tokenizer, 'Tom had 12 apples.')).toEqual(['Tom', ' had', ' ', '1', '2', ' apples', '.'])
  })

  it('never cuts a special token, and gives special tokens the last ids', () => {
    const special = [...tokenizer.encode('<think>1<think></think><|end|><|endoftext|>')]
    expect(special).toEqual([297, tokenizer.idOf('1'), 297, 298, 296, 299])
    expect(SPECIAL.map((token) => tokenizer.idOf(token))).toEqual([296, 297, 298, 299])
    expect([...tokenizer.specialTokens.keys()]).toEqual(SPECIAL)
    expect(tokenizer.decode(special, 'skip')).toBe('1')
  })

  it('has a token for each of the 256 bytes', () => {
    expect(byteCharacters().map((character) => tokenizer.idOf(character))).not.toContain(undefined)
    expect(new Set(byteCharacters()).size).toBe(256)
  })
})

describe('trainBytePairEncoding', () => {
  it('learns the merges of the definition', () => {
    fc.assert(
      fc.property(words, fc.nat(12), (texts, count) => {
        const { merges, vocab } = trainBytePairEncoding(texts, { vocabularySize: 256 + count }).model
        expect(merges).toEqual(slowMerges(texts, merges.length))
        expect(Object.keys(vocab).length).toBeLessThanOrEqual(256 + count)
      }),
    )
  })

  it('learns what the reference implementation learns', () => {
    // Hugging Face tokenizers 0.23.3 (Python): BpeTrainer(vocab_size=280,
    // initial_alphabet=ByteLevel.alphabet()), no minimal
    // frequency, with the pre-tokenizer that the trained file names.
    const texts = [
      'Sie säen 12 Sämlinge, sie säen 120 Samen: säen, Säen!',
      "banana bananas ananas  \n\n it's we'll 日本 日本語 aaaa aaaaa",
    ]
    expect(trainBytePairEncoding(texts, { vocabularySize: 280 }).model.merges).toEqual(
      [
        ['a a', 'a n', 'e n', 'Ã ¤', 'Ġ s', 'Ã¤ en', 'Ġ S', 'an a', 'an ana', 'Ġs Ã¤en', 'b anana', 'i e'],
        ['¥ æ', 'æ Ĺ', 'Ġ aa', 'Ġ æĹ', 'ľ ¬', '¥æ ľ¬', 'Ġaa aa', 'ĠæĹ ¥æľ¬', "' l", "' s", 'S ie', 'a m'],
      ].flat(),
    )
    expect([...load(texts, 280, []).encode('bananas säen 12 日本語')]).toEqual([
      266, 82, 265, 220, 16, 17, 275, 164, 103, 252,
    ])
  })

  it('does not depend on the order of the texts, and gives equal results for equal texts', () => {
    fc.assert(
      fc.property(
        words.chain((texts) =>
          fc.tuple(
            fc.constant(texts),
            fc.shuffledSubarray(texts, { minLength: texts.length, maxLength: texts.length }),
          ),
        ),
        ([texts, shuffled]) => {
          const options = { vocabularySize: 280, specialTokens: ['ab'] }
          expect(JSON.stringify(trainBytePairEncoding(shuffled, options))).toBe(
            JSON.stringify(trainBytePairEncoding(texts, options)),
          )
        },
      ),
    )
  })

  it.each([260, 261, 280, 300])('has exactly the %i tokens asked for', (size) => {
    expect(load(TEXTS, size).vocabularySize).toBe(size)
    const { model, added_tokens } = trainBytePairEncoding(TEXTS, { vocabularySize: size, specialTokens: SPECIAL })
    const ids = [...Object.values(model.vocab), ...added_tokens.map(({ id }) => id)]
    expect(ids.sort((a, b) => a - b)).toEqual(Array.from({ length: size }, (_, i) => i))
  })

  it('has fewer tokens when no pair is left', () => {
    const { model, added_tokens } = trainBytePairEncoding(['ab 1234'], { vocabularySize: 1000, specialTokens: ['<x>'] })
    expect(model.merges).toEqual(['a b'])
    expect(model.vocab.ab).toBe(256)
    expect(added_tokens).toMatchObject([{ id: 257, content: '<x>', special: true }])
  })

  it('breaks ties by the smaller ids', () => {
    expect(trainBytePairEncoding(['cd', 'ab'], { vocabularySize: 300 }).model.merges).toEqual(['a b', 'c d'])
  })

  it('reads one text at a time', () => {
    const generated = function* () {
      yield* TEXTS
    }
    const options = { vocabularySize: 300 }
    expect(trainBytePairEncoding(generated(), options)).toEqual(trainBytePairEncoding(TEXTS, options))
  })

  it('learns nothing from special tokens, and no token that spells one', () => {
    const { model } = trainBytePairEncoding(['<think><think><think>', 'Ġx', ' x x x x'], {
      vocabularySize: 300,
      specialTokens: ['<think>', 'Ġx'],
    })
    expect(model.merges.filter((merge) => /think|Ġ x/.test(merge.replace(' ', '')))).toEqual([])
    expect(model.vocab).not.toHaveProperty('Ġx')
  })

  it('takes special tokens to the letter', () => {
    const of = load(['(a|b)* (a|b)* ab'], 270, ['(a|b)*', '[x-z]', '\\d', '<x>', '<x>y'])
    expect(pieces(of, 'a(a|b)*\\d<x>y<x>[x-z]')).toEqual(['a', '(a|b)*', '\\d', '<x>y', '<x>', '[x-z]'])
  })

  it.each([
    [{ vocabularySize: 255 }, /from 256 /],
    [{ vocabularySize: 259, specialTokens: SPECIAL }, /from 260 /],
    [{ vocabularySize: 300.5 }, /an integer/],
    [{ vocabularySize: 2 ** 21 }, /to 1048576/],
    [{ vocabularySize: 300, specialTokens: [''] }, /not empty/],
    [{ vocabularySize: 300, specialTokens: ['<a>', '<a>'] }, /distinct/],
    [{ vocabularySize: 300, specialTokens: ['Ġ'] }, /character of a byte/],
  ])('refuses %j', (options, message) => {
    expect(() => trainBytePairEncoding([], options)).toThrow(message)
  })
})
