/** Where the answer of a mathematical problem stands in a reply. */
import { isRight } from 'fp-ts/lib/Either.js'
import { boxedAnswer } from '../../../data/datasets/math.js'
import { blockOf } from '../reply.js'

/** `block`: between the tags `answer` and `/answer`; `box`: in the last `\boxed`; `phrase`: behind the last "answer is". */
export type AnswerPlace = 'block' | 'box' | 'phrase'

/** What the last box holds; the text itself if it has none. */
export const unboxed = (text: string): string => {
  const boxed = boxedAnswer(text)
  return isRight(boxed) ? boxed.right : text
}

/** Characters that an answer in a sentence may have. */
const LONGEST_PHRASE = 500

const phraseOf = (reply: string): string => {
  const start = reply.toLowerCase().lastIndexOf('answer is')
  if (start < 0) return ''
  const [line = ''] = reply.slice(start + 'answer is'.length, start + LONGEST_PHRASE).split('\n')
  return line.replace(/^[:\s]+/, '').replace(/[.\s]+$/, '')
}

const answerAt = (place: AnswerPlace, reply: string): string => {
  switch (place) {
    case 'block':
      return unboxed(blockOf(reply, 'answer'))
    case 'box': {
      const boxed = boxedAnswer(reply)
      return isRight(boxed) ? boxed.right : ''
    }
    case 'phrase':
      return unboxed(phraseOf(reply))
  }
}

/**
 * The answer of a reply: of the first of these places that has one; '' if none has. A box in an answer block is unwrapped.
 *
 * @example
 * mathAnswerOf('So \\boxed{1}, no: \\boxed{\\frac12}.', ['block', 'box']) // '\\frac12'
 */
export const mathAnswerOf = (reply: string, places: readonly AnswerPlace[]): string =>
  places.map((place) => answerAt(place, reply)).find((answer) => answer !== '') ?? ''
