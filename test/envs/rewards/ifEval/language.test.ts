import { describe, expect, it } from 'vitest'
import { type LanguageGuess, languageDetector } from '../../../../src/envs/rewards/ifEval/language.js'
import { loadedDetector } from '../../../kit/ifEval.js'

const detect = await loadedDetector()
const ENGLISH = 'The children go to school every morning and learn to read. '
const SPANISH = 'Los niños van a la escuela cada mañana y aprenden a leer. '

describe('the language of a long text', () => {
  it('is that of most of it, wherever the rest is', () => {
    expect(detect(ENGLISH.repeat(100))).toBe('en')
    expect(detect(SPANISH.repeat(30) + ENGLISH.repeat(100))).toBe('en')
    expect(detect(ENGLISH.repeat(100) + SPANISH.repeat(30))).toBe('en')
    expect(detect(ENGLISH.repeat(20) + SPANISH.repeat(5000))).toBe('es')
  })

  it('is asked of at most 32 pieces, the first and the last among them', () => {
    const seen: string[] = []
    const guess = (text: string): LanguageGuess => {
      seen.push(text)
      return { language: 'en', isReliable: () => true }
    }
    languageDetector(guess)(`begin${'x'.repeat(1_000_000)}end`)
    expect(seen).toHaveLength(32)
    expect(seen.every((piece) => piece.length === 1000)).toBe(true)
    expect([seen[0]!.slice(0, 5), seen.at(-1)!.slice(-3)]).toEqual(['begin', 'end'])
  })

  it('is the first of two that have equally many pieces, and unknown where most pieces are', () => {
    const guess = (text: string): LanguageGuess => ({
      language: text[0] === '?' ? '' : text[0]!,
      isReliable: () => true,
    })
    const read = (pieces: string) => languageDetector(guess)([...pieces].map((sign) => sign.repeat(1000)).join(''))
    expect(read('abab')).toBe('a')
    expect(read('baab')).toBe('b')
    expect(read('a??')).toBeUndefined()
    expect(read('')).toBeUndefined()
  })
})

it('is equal for equal texts, in any order of asking', () => {
  const texts = [ENGLISH, SPANISH, 'OK', '12', 'Jina langu ni Juma na ninakaa katika mji wa Dar es Salaam.']
  const first = texts.map(detect)
  expect(texts.map(detect)).toEqual(first)
  expect([...texts].reverse().map(detect)).toEqual([...first].reverse())
})
