/**
 * Our verdicts against those of the authors' code, as lm-eval distributes it
 * (test/golden/generate/ifEval.py).
 */
import { readFileSync } from 'node:fs'
import * as E from 'fp-ts/lib/Either.js'
import { describe, expect, it } from 'vitest'
import type { Instruction } from '../../../../src/data/datasets/ifEval.js'
import { INSTRUCTION_ARGUMENTS } from '../../../../src/data/datasets/ifEvalInstructions.js'
import { ifEvalScore } from '../../../../src/envs/rewards/ifEval/ifEvalScore.js'
import { loadLanguageDetector } from '../../../../src/envs/rewards/ifEval/language.js'
import { sentences } from '../../../../src/envs/rewards/ifEval/punkt.js'
import { wordTokens } from '../../../../src/envs/rewards/ifEval/wordTokens.js'

interface Case extends Instruction {
  /** A digit for each reply: 1 where the instruction is kept. */
  readonly strict: string
  readonly loose: string
}

const golden = (name: string): never => JSON.parse(readFileSync(`test/golden/ifEval/${name}.json`, 'utf8')) as never // typed where it is read
const verdicts: {
  readonly replies: readonly string[]
  readonly cases: readonly Case[]
  readonly spoken: readonly string[]
  readonly languages: readonly Case[]
  readonly differences: readonly (Instruction & {
    readonly reply: string
    readonly reason: string
    readonly published: boolean | string
  })[]
} = golden('verdicts')
const cutTexts: {
  readonly texts: readonly {
    readonly text: string
    readonly sentences: readonly string[]
    readonly words: readonly string[]
  }[]
} = golden('sentences')
const spokenTexts: { readonly texts: readonly (readonly [text: string, detected: string | null])[] } =
  golden('languages')

const detector = await loadLanguageDetector()()
if (E.isLeft(detector)) throw new Error(detector.left.reason)
const detectLanguage = detector.right

/** The replies whose verdict is another one. */
const differing = ({ id, kwargs, strict, loose }: Case, replies: readonly string[]): readonly string[] =>
  replies.filter((reply, i) => {
    const own = ifEvalScore(reply, [{ id, kwargs }], { detectLanguage })
    return own.promptLevelStrict !== (strict[i] === '1') || own.promptLevelLoose !== (loose[i] === '1')
  })

describe('the verdicts on every kind of instruction', () => {
  it.each(verdicts.cases)('are the published ones on all replies: $id $kwargs', (each) => {
    expect(differing(each, verdicts.replies)).toEqual([])
  })

  it.each(verdicts.languages)('are the published ones on sentences in 34 languages: $id $kwargs', (each) => {
    expect(differing(each, verdicts.spoken.slice(0, each.strict.length))).toEqual([])
  })

  it.each(Object.keys(INSTRUCTION_ARGUMENTS))(
    'have been compared on replies that keep %s and on ones that do not',
    (id) => {
      const bits = [...verdicts.cases, ...verdicts.languages]
        .filter((each) => each.id === id)
        .map(({ strict }) => strict)
      expect(bits.join('')).toMatch(/1/)
      expect(bits.join('')).toMatch(/0/)
      expect(bits.join('').length).toBeGreaterThan(60)
    },
  )

  it.each(verdicts.differences)(
    'differ on purpose, because $reason: $id $kwargs $reply',
    ({ reply, published, ...row }) => {
      expect(ifEvalScore(reply, [row], { detectLanguage }).promptLevelStrict).toBe(published !== true)
    },
  )
})

it('sentences and words are those of NLTK, in 290 texts', () => {
  const cut = cutTexts.texts.map(({ text }) => ({
    text,
    sentences: sentences(text),
    words: sentences(text).flatMap(wordTokens),
  }))
  expect(cut).toEqual(cutTexts.texts)
  expect(cut.length).toBeGreaterThan(290)
})

it('the language of a text is that of langdetect, but for German in capitals, which it takes for Somali', () => {
  const own = spokenTexts.texts.map(([text]) => [text, detectLanguage(text) ?? null])
  const known = spokenTexts.texts.map(([text, language]) => [text, text.startsWith('DIE KINDER') ? 'de' : language])
  expect(own).toEqual(known)
})
