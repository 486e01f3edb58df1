/** Detection of a text's language. */
import { optionalPackage, type PackageFailure } from '@tandem-rl/base'
import { importPackage } from '@tandem-rl/base/host'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { SPACE } from './pythonText.js'

/** Returns the language of a text as an ISO 639-1 code; undefined if it is unknown. Pure. */
export type LanguageDetector = (text: string) => string | undefined

/** A package's guess about a text; `language` is '' if it is unknown. */
export interface LanguageGuess {
  readonly language: string
  readonly isReliable: () => boolean
}

const BETWEEN_WORDS = new RegExp(`[${SPACE}।,.!?;:"'()-]+`)
const wordsOf = (text: string): readonly string[] =>
  text
    .toLowerCase()
    .split(BETWEEN_WORDS)
    .filter((word) => word !== '')
const share = (words: readonly string[], pattern: RegExp): number =>
  words.filter((word) => pattern.test(word)).length / Math.max(1, words.length)

const NEPALI = /^(?:छ|छन्|छु|छौं|हुन्|हुन्छ|थियो|थिए|पनि|र|भयो|गर्छ)$|.(?:को|मा|लाई|हरू|हरु|छन्|छौं|छ)$/
const HINDI = /^(?:है|हैं|में|और|का|की|के|से|था|थी|थे|नहीं|हूँ|हो|कि|ने|पर|यह|वह)$/
const SWAHILI =
  /^(?:na|ya|wa|kwa|ni|katika|kila|za|la|cha|vya|hii|huu|hiyo|kama|pia|lakini|yake|wake|sana|watu|au|hu[a-z]{3,}|ku[a-z]{3,}|(?:ana|ina|tuna|wana)[a-z]{2,})$/

/** Corrects guesses for Nepali and Swahili, which eld does not support, by their frequent words. */
const corrected = (text: string, { language, isReliable }: LanguageGuess): string => {
  if (language === 'hi') {
    const words = wordsOf(text)
    return share(words, NEPALI) > share(words, HINDI) ? 'ne' : language
  }
  const isOpen = language === 'tl' || language === 'yo' || (language !== '' && !isReliable())
  return isOpen && /[a-z]/i.test(text) && share(wordsOf(text), SWAHILI) >= 0.2 ? 'sw' : language
}

/** Maximum number of characters that eld reads. */
const PIECE = 1000
const MOST_PIECES = 32

/** Returns the whole text, or pieces spread over it. */
const pieces = (text: string): readonly string[] => {
  const count = Math.min(MOST_PIECES, Math.max(1, Math.ceil(text.length / PIECE)))
  const stride = count === 1 ? 0 : (text.length - PIECE) / (count - 1)
  return Array.from({ length: count }, (_, i) => text.slice(Math.round(i * stride), Math.round(i * stride) + PIECE))
}

/**
 * Makes a detector from guesses about short texts. For longer texts, the language of most pieces
 * wins, on a tie the first one.
 *
 * Cost     at most 32 pieces of 1,000 characters, spread over the text.
 */
export const languageDetector =
  (guess: (text: string) => LanguageGuess): LanguageDetector =>
  (text) => {
    const found = pieces(text).map((piece) => corrected(piece, guess(piece)))
    const votes = new Map<string, number>()
    for (const language of found) votes.set(language, (votes.get(language) ?? 0) + 1)
    const [winner = ''] = [...votes].reduce((best, each) => (each[1] > best[1] ? each : best), ['', 0])
    return winner === '' ? undefined : winner
  }

type Eld = typeof import('eld/small')

/**
 * Loads the detector for IFEval's language checks: eld, with Nepali and Swahili added.
 *
 * Errors   `Left(PackageFailure)` with the command that installs eld, if it is missing.
 * Effects  imports the package, which takes a second.
 * Source   the published checks use langdetect, which draws at random; on the table of the tests
 *          the two agree wherever langdetect is right.
 */
export const loadLanguageDetector = (): TE.TaskEither<PackageFailure, LanguageDetector> =>
  TE.map(({ eld }: Eld) => {
    const instance = eld.newInstance() // a separate instance, whose settings no other code can change
    return languageDetector((text) => instance.detect(text))
  })(optionalPackage('eld', 'telling languages apart', () => importPackage<Eld>('eld/small', import.meta)))
