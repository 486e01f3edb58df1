/** The reward of GSM8K: compares the number in the answer block with the reference. */
import { checkOptions } from '@tandem-rl/base'
import { withoutThoughts } from '@tandem-rl/text'
import { GSM8K_ANSWER_REWARD_OPTIONS, GSM8K_REWARD_OPTIONS } from '../optionKinds.js'
import { ANSWER_PARTS, type AnswerReward, type AnswerRewardOptions, answerRange } from './answerScore.js'
import { plainSpelling } from './plainSpelling.js'
import { blockOf, hasThoughts, replyOf } from './reply.js'

/** The score of a completion. */
export interface GSM8KReward {
  /** `correctReward` for the right answer, `formatReward` for another answer, 0 for none. */
  readonly reward: number
  /** 1 if there is a non-empty answer block. */
  readonly answer: number
  /** 1 if there is a non-empty think block. */
  readonly think: number
  /** 1 if the answer is right. */
  readonly right: number
}

export type GSM8KRewardOptions = AnswerRewardOptions

const NUMBER = /^([+-]?)(\d*)(?:\.(\d*))?$/
/** A number with digits in groups of three, as in `1,000`. */
const GROUPED = /^[+-]?\d{1,3}(?:,\d{3})+(?:\.\d*)?$/

const reversed = (digits: string): string => [...digits].reverse().join('')

/** Returns the number of leading zeros. */
const zerosOf = (digits: string): number => /^0*/.exec(digits)![0].length // it matches any text

/** Emphasis and math delimiters around a number, in Markdown and LaTeX. */
const AROUND: readonly (readonly [open: string, close: string])[] = [
  ...['***', '**', '*', '__', '_', '`', '"', '$$', '$'].map((mark) => [mark, mark] as const),
  ...([
    ['\\(', '\\)'],
    ['\\[', '\\]'],
    ['{', '}'],
  ] as const),
]

const COMMAND = /^\\(?:boxed|fbox|text[a-z]{0,6}|math[a-z]{1,6}|boldsymbol|bm|pmb|emph|underline)\s?(?=\{)/

/** Nested emphasis that is removed. */
const MOST_AROUND = 8

/** Removes the end of a sentence, emphasis and delimiters. */
const withoutMarkup = (text: string): string => {
  let bare = text
  for (let i = 0; i < MOST_AROUND; i++) {
    const trimmed = bare.trim().replace(/\.$/, '').trim().replace(COMMAND, '')
    const around = AROUND.find(
      ([open, close]) =>
        trimmed.length > open.length + close.length && trimmed.startsWith(open) && trimmed.endsWith(close),
    )
    const next = around === undefined ? trimmed : trimmed.slice(around[0].length, -around[1].length)
    if (next === bare) return bare
    bare = next
  }
  return bare
}

/**
 * Returns a decimal number in one spelling, or undefined if the text is not a number. Typographic
 * signs, emphasis in Markdown or LaTeX, commas between groups of three digits, one currency sign
 * before or after the number, a percent sign after it, a trailing period and superfluous zeros do
 * not matter.
 *
 * @example
 * canonicalNumber('$1,000.50') // '1000.5'
 */
export const canonicalNumber = (text: string): string | undefined => {
  const bare = withoutMarkup(plainSpelling(text))
    .replace(/^([+-]?)\\?[$€£¥₹]/, '$1')
    .replace(/\\?[$€£¥₹%]$/, '')
    .trim()
    .replace(/\.$/, '')
  const parts = NUMBER.exec(GROUPED.test(bare) ? bare.replaceAll(',', '') : bare)
  if (parts === null || !/\d/.test(bare)) return undefined
  const [, sign = '', whole = '', fraction = ''] = parts
  const [before, behind] = [
    whole.slice(zerosOf(whole)),
    fraction.slice(0, fraction.length - zerosOf(reversed(fraction))),
  ]
  const digits = `${before === '' ? '0' : before}${behind === '' ? '' : `.${behind}`}`
  return sign === '-' && digits !== '0' ? `-${digits}` : digits
}

/**
 * Returns the reference's final answer: the text after `#### `; undefined unless that occurs
 * exactly once.
 */
const referenceAnswer = (reference: string): string | undefined => {
  const parts = reference.split('#### ')
  return parts.length === 2 ? parts[1]!.trim() : undefined
}

/**
 * Scores a completion against a GSM8K answer text. The first answer block outside of thoughts
 * counts. Two answers are equal if they are the same number in any spelling (`canonicalNumber`);
 * other texts are compared literally.
 *
 * Errors   throws Error if the reference does not contain `#### ` exactly once. Such rows are
 *          rejected when they are loaded.
 * Source   TorchRL `GSM8KRewardParser` (1.0 / 0.1 / 0); here numbers are compared instead of texts,
 *          and only the completion is read.
 *
 * @example
 * gsm8kReward('<think>6 * 3 = 18</think><answer>$18.00</answer>', 'She makes 6*3=18\n#### 18').reward // 1
 */
export const gsm8kReward = (completion: string, reference: string, options: GSM8KRewardOptions = {}): GSM8KReward => {
  checkOptions('gsm8kReward', options, GSM8K_REWARD_OPTIONS)
  const { correctReward = 1, formatReward = 0.1 } = options
  const truth = referenceAnswer(reference)
  if (truth === undefined) throw new Error(`gsm8kReward: the reference must contain '#### ' exactly once: ${reference}`)
  const answer = blockOf(withoutThoughts(completion), 'answer')
  const think = blockOf(completion, 'think')
  const given = canonicalNumber(answer)
  const right = answer !== '' && (given === undefined ? answer === truth : given === canonicalNumber(truth))
  return {
    reward: right ? correctReward : answer === '' ? 0 : formatReward,
    answer: answer === '' ? 0 : 1,
    think: think === '' ? 0 : 1,
    right: right ? 1 : 0,
  }
}

/**
 * Makes a reward of `gsm8kReward` on the assistant's last message. Its parts are `answer`, `think`
 * and `right`.
 *
 * Errors   `score` throws Error if the task's answer does not contain `#### ` exactly once.
 *
 * @example
 * gsm8kAnswerReward().partNames // ['answer', 'think', 'right']
 */
export const gsm8kAnswerReward = (options: GSM8KRewardOptions = {}): AnswerReward => {
  checkOptions('gsm8kAnswerReward', options, GSM8K_ANSWER_REWARD_OPTIONS)
  return {
    name: 'gsm8k',
    partNames: ANSWER_PARTS,
    range: answerRange(options),
    score: (answered) => {
      const { reward, ...parts } = gsm8kReward(replyOf(answered), answered.task.answer, options)
      return { reward, success: parts.right === 1, parts: { ...parts, think: hasThoughts(answered) ? 1 : 0 } }
    },
  }
}
