/** Rewards of answers in words: exact match and word overlap. */
import { checkOptions } from '@tandem-rl/base'
import type { Task } from '@tandem-rl/text'
import { EXACT_MATCH_OPTIONS, TOKEN_F1_REWARD_OPTIONS } from '../optionKinds.js'
import { answerIn, blockOf, isCut } from './reply.js'
import type { Answered, Reward } from './reward.js'

export interface TextRewardOptions<in T extends Task = Task> {
  /**
   * `reply`: the answer is the whole message; one that was cut off has none. `block`: the answer is
   * the first closed answer block. Default `reply`.
   */
  readonly read?: 'reply' | 'block'
  /** Returns the accepted answers; the best match counts. Default: the task's answer. */
  readonly answers?: (task: T) => readonly string[]
}

export interface ExactMatchOptions<in T extends Task = Task> extends TextRewardOptions<T> {
  /**
   * `exact`: equal except for surrounding spaces. `squad`: case, punctuation, articles and spaces
   * are ignored. Default `exact`.
   */
  readonly compare?: 'exact' | 'squad'
}

export interface TokenF1Options<in T extends Task = Task> extends TextRewardOptions<T> {
  /** The F1 from which on the task counts as solved. Default 1. */
  readonly solvedAt?: number
}

/** The characters of Python's `string.punctuation`. */
const PUNCTUATION = /[!-/:-@[-`{-~]/g
const ARTICLES = /(?<![\p{L}\p{N}_])(?:a|an|the)(?![\p{L}\p{N}_])/gu

/**
 * Normalizes a text: lower case, without ASCII punctuation, without the articles a, an and the, and
 * with single spaces.
 *
 * Source   `normalize_answer` of SQuAD 1.1, Rajpurkar et al. 2016, arXiv:1606.05250, section 6.1.
 *
 * @example
 * squadText(' The  cat, an animal. ') // 'cat animal'
 */
export const squadText = (text: string): string =>
  text.toLowerCase().replace(PUNCTUATION, '').replace(ARTICLES, ' ').replace(/\s+/g, ' ').trim()

const wordsOf = (text: string): readonly string[] =>
  squadText(text)
    .split(' ')
    .filter((word) => word !== '')

/**
 * Returns the harmonic mean of precision and recall of words: with `c` common words, counted with
 * multiplicity, `F1 = 2 c / (|a| + |b|)`. If a text has no words, the result is 1 if neither has
 * any, else 0.
 *
 * Source   `f1_score` of SQuAD 1.1 on `squadText`; texts without words as in SQuAD 2.0.
 *
 * @example
 * tokenF1('the cat sat', 'a cat') // 0.6667
 */
export const tokenF1 = (a: string, b: string): number => {
  const [x, y] = [wordsOf(a), wordsOf(b)]
  if (x.length === 0 || y.length === 0) return x.length === y.length ? 1 : 0
  const counts = new Map<string, number>()
  for (const word of y) counts.set(word, (counts.get(word) ?? 0) + 1)
  let common = 0
  for (const word of x) {
    const left = counts.get(word) ?? 0
    if (left > 0) common += 1
    counts.set(word, left - 1)
  }
  return (2 * common) / (x.length + y.length)
}

/**
 * Returns the answer, or '' for a whole reply that was cut off. A closed block counts in any reply.
 */
const answerOf = (answered: Answered, read: 'reply' | 'block'): string => {
  if (read === 'block') return blockOf(answerIn(answered), 'answer').trim()
  return isCut(answered) ? '' : answerIn(answered).trim()
}

const references = <T extends Task>(task: T, { answers }: TextRewardOptions<T>): readonly string[] =>
  answers === undefined ? [task.answer] : answers(task)

/**
 * Makes a reward of 1 for the task's answer and 0 for any other. Its part is `match`. An empty
 * answer never matches.
 *
 * @example
 * exactMatch().range // [0, 1]
 */
export const exactMatch = <T extends Task = Task>(options: ExactMatchOptions<T> = {}): Reward<T, 'match'> => {
  checkOptions('exactMatch', options, EXACT_MATCH_OPTIONS)
  const { read = 'reply', compare = 'exact' } = options
  const form = (text: string): string => (compare === 'squad' ? squadText(text) : text.trim())
  return {
    name: 'exactMatch',
    partNames: ['match'],
    range: [0, 1],
    score: (answered) => {
      const answer = form(answerOf(answered, read))
      const success = answer !== '' && references(answered.task, options).some((each) => form(each) === answer)
      return { reward: success ? 1 : 0, success, parts: { match: success ? 1 : 0 } }
    },
  }
}

/**
 * Makes a reward of the word F1 between the answer and the task's (`tokenF1`). Its parts are `f1`
 * and `match`, which is 1 if both are the same text (`squadText`). An empty answer scores 0.
 *
 * Errors   throws RangeError unless `solvedAt` is above 0 and at most 1.
 *
 * @example
 * tokenF1Reward().partNames // ['f1', 'match']
 */
export const tokenF1Reward = <T extends Task = Task>(options: TokenF1Options<T> = {}): Reward<T, 'f1' | 'match'> => {
  checkOptions('tokenF1Reward', options, TOKEN_F1_REWARD_OPTIONS)
  const { read = 'reply', solvedAt = 1 } = options
  if (!(solvedAt > 0 && solvedAt <= 1)) {
    throw new RangeError(`tokenF1Reward: solvedAt must be above 0 and at most 1, got ${solvedAt}`)
  }
  return {
    name: 'tokenF1',
    partNames: ['f1', 'match'],
    range: [0, 1],
    score: (answered) => {
      const answer = answerOf(answered, read)
      const texts = answer === '' ? [] : references(answered.task, options)
      const f1 = texts.reduce((best, text) => Math.max(best, tokenF1(answer, text)), 0)
      const match = texts.some((text) => squadText(text) === squadText(answer)) ? 1 : 0
      return { reward: f1, success: f1 >= solvedAt, parts: { f1, match } }
    },
  }
}
