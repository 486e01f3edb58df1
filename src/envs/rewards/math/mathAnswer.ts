/** Finds the answer to a mathematical problem in a reply. */
import { withoutThoughts } from '@tandem-rl/text'
import { isRight } from 'fp-ts/lib/Either.js'
import { boxedAnswer } from '../../../data/datasets/math.js'
import { blockOf } from '../reply.js'

/**
 * The place of an answer. `block`: between the tags `answer` and `/answer`; `box`: in the last
 * `\boxed`, or in the last ones with only separators between them; `phrase`: after the last "answer
 * is".
 */
export type AnswerPlace = 'block' | 'box' | 'phrase'

/** Maximum number of joined boxes, and of characters between two of them. */
const [MOST_BOXES, LONGEST_GAP] = [20, 40]

const BOX = '\\boxed'

/** Separators between boxes of one answer: commas, `and`, `or`, blanks and math delimiters. */
const GAP = /^(?:\s|[$,;&}]|\\text\s*\{|\\(?:quad|qquad|[,;! ])|and(?![a-z])|or(?![a-z]))*$/

/**
 * Joins the contents of the boxes at the end of a text by commas, if only separators are between
 * them.
 */
const boxedAnswers = (text: string): string => {
  const answers: string[] = []
  for (let end = text.length; answers.length < MOST_BOXES; ) {
    const start = end > 0 ? text.lastIndexOf(BOX, end - 1) : -1
    const boxed = boxedAnswer(start < 0 ? '' : text.slice(start, end))
    if (!isRight(boxed)) break
    const behind = text.indexOf(boxed.right, start + BOX.length) + boxed.right.length
    if (answers.length > 0 && (end - behind > LONGEST_GAP || !GAP.test(text.slice(behind, end)))) break
    answers.unshift(boxed.right)
    end = start
  }
  return answers.join(', ')
}

/** Returns the contents of the last boxes, or the text itself if it has no box. */
export const unboxed = (text: string): string => {
  const boxed = boxedAnswers(text)
  return boxed === '' ? text : boxed
}

/** Longest answer in a sentence, in characters. */
const LONGEST_PHRASE = 500

const phraseOf = (reply: string): string => {
  const start = reply.toLowerCase().lastIndexOf('answer is')
  if (start < 0) return ''
  const [line = ''] = reply.slice(start + 'answer is'.length, start + LONGEST_PHRASE).split('\n')
  const [sentence = ''] = line.split(/\.\s+(?=[A-Z])/)
  return sentence.replace(/^[:\s]+/, '').replace(/[.\s]{1,500}$/, '')
}

/**
 * Returns the answer of a block: of the sentence "the answer is ..." if it has one, else all of it.
 */
const bareBlock = (block: string): string => {
  const text = unboxed(block)
  return text === block && /answer is/i.test(block) ? phraseOf(block) : text
}

const answerAt = (place: AnswerPlace, reply: string): string => {
  switch (place) {
    case 'block':
      return bareBlock(blockOf(reply, 'answer'))
    case 'box':
      return boxedAnswers(reply)
    case 'phrase':
      return unboxed(phraseOf(reply))
  }
}

/**
 * Returns the answer of a reply from the first of these places that has one, or ''. Thoughts are
 * not searched. Boxes in an answer block and the sentence "the answer is ..." are unwrapped.
 *
 * @example
 * mathAnswerOf('So \\boxed{1}, no: \\boxed{\\frac12}.', ['block', 'box']) // '\\frac12'
 */
export const mathAnswerOf = (reply: string, places: readonly AnswerPlace[]): string => {
  const text = withoutThoughts(reply)
  return places.map((place) => answerAt(place, text)).find((answer) => answer !== '') ?? ''
}
