/**
 * Unicode normalization forms that report the change of each character. JavaScript's own
 * `normalize` returns only the text.
 */
import type { TextChange } from './alignedText.js'

/** A form of Unicode normalization. */
export type UnicodeForm = 'NFC' | 'NFD' | 'NFKC' | 'NFKD'

/**
 * Returns true if a character of a decomposed text combines with the starter before it: its
 * canonical combining class is not 0.
 */
const isCombining = (character: string): boolean => {
  if (!/^\p{M}$/u.test(character)) return false
  if (character === '\u0334') return true // class 1; characters of higher classes are sorted behind it
  if (`${character}\u0334`.normalize('NFD').startsWith('\u0334')) return true
  return `\u0345${character}`.normalize('NFD').startsWith(character) // class 1: sorted before class 240
}

/**
 * Returns true if the first of two combining characters blocks the second from the starter before
 * them: their classes are equal.
 */
const isBlocking = (first: string, second: string): boolean =>
  first === second || `${second}${first}`.normalize('NFD') === `${second}${first}`

/** Sorts a run of combining characters into canonical order. Equal ones keep their order. */
const sorted = (run: readonly TextChange[]): readonly TextChange[] => {
  if (run.length < 2) return run
  const left = new Map<string, TextChange[]>()
  for (const change of [...run].reverse()) {
    const same = left.get(change.character)
    if (same === undefined) left.set(change.character, [change])
    else same.push(change)
  }
  return Array.from(
    run
      .map(({ character }) => character)
      .join('')
      .normalize('NFD'),
    (character) => left.get(character)!.pop()!,
  )
}

const decomposed = (text: string, form: 'NFD' | 'NFKD'): readonly TextChange[] => {
  const result: TextChange[] = []
  const run: TextChange[] = []
  const flush = (): void => {
    for (const change of sorted(run)) result.push(change)
    run.length = 0
  }
  for (const whole of text) {
    for (const [i, character] of Array.from(whole.normalize(form)).entries()) {
      const change = { character, change: i === 0 ? 0 : 1 }
      if (isCombining(character)) {
        run.push(change)
        continue
      }
      flush()
      result.push(change)
    }
  }
  flush()
  return result
}

/** Returns the composition of two characters, or undefined if they do not compose. */
const composition = (first: string, second: string): string | undefined => {
  const both = `${first}${second}`.normalize('NFC')
  return both.length === (both.codePointAt(0)! > 0xffff ? 2 : 1) ? both : undefined
}

/**
 * Composes each starter with the characters that follow and combine with it, until another starter
 * that does not.
 */
const composed = (parts: readonly TextChange[]): readonly TextChange[] => {
  const result: TextChange[] = []
  let starter: TextChange | undefined
  let between: TextChange[] = [] // combining characters after the starter that did not compose with it
  const flush = (): void => {
    if (starter !== undefined) result.push(starter)
    for (const change of between) result.push(change)
    between = []
  }
  for (const part of parts) {
    const combining = isCombining(part.character)
    const last = between.at(-1)
    const blocked = last !== undefined && (!combining || isBlocking(last.character, part.character))
    const together = starter === undefined || blocked ? undefined : composition(starter.character, part.character)
    if (starter !== undefined && together !== undefined) {
      starter = { character: together, change: starter.change + part.change - 1 }
    } else if (combining) {
      between.push(part)
    } else {
      flush()
      starter = part
    }
  }
  flush()
  return result
}

/**
 * Computes the changes that normalize a text.
 *
 * Source   Unicode Standard Annex 15. Origins are those of the crate
 *          unicode-normalization-alignments: a composed character comes from the first of its
 *          characters; a decomposed one is inserted after the first.
 */
export const unicodeChanges = (text: string, form: UnicodeForm): readonly TextChange[] => {
  const parts = decomposed(text, form === 'NFC' || form === 'NFD' ? 'NFD' : 'NFKD')
  return form === 'NFC' || form === 'NFKC' ? composed(parts) : parts
}
