/** What a model should say to a word problem, made from a GSM8K answer text. */
import * as E from 'fp-ts/lib/Either.js'
import type { Task } from '../../task.js'
import { finalAnswer } from '../gsm8k.js'

/** `rationale` shows the arithmetic in a think block; `bare` is the answer block alone. */
export type CompletionStyle = 'rationale' | 'bare'

/** An operator between two operands: a sign after an operator or a bracket belongs to its number. */
const OPERATOR = /(?<=[\d.)%])\s*([-+*/=])\s*/g

/**
 * The arithmetic of a GSM8K answer text: its calculator annotations in order, with spaces around the operators. Empty if it has none.
 *
 * @example
 * rationale('Tom had 12 + 7 = <<12+7=19>>19 apples.\n#### 19') // '12 + 7 = 19'
 */
export const rationale = (answerText: string): string =>
  Array.from(answerText.matchAll(/<<((?:(?!<<|>>).)*)>>/g), ([, annotation]) =>
    annotation!.replace(OPERATOR, ' $1 '),
  ).join(' ; ')

/**
 * The completion that supervised training teaches: what `gsm8kReward` gives the full reward for.
 *
 * Errors   throws Error if the task's answer is not a GSM8K answer text: such a row is refused when it is loaded.
 *
 * @example
 * supervisedCompletion({ id: 'a', query: '?', answer: '<<12+7=19>>19\n#### 19' }, 'rationale') // '<think>12 + 7 = 19</think><answer>19</answer>'
 */
export const supervisedCompletion = ({ id, answer }: Task, style: CompletionStyle): string => {
  const number = finalAnswer(answer)
  if (E.isLeft(number)) throw new Error(`supervisedCompletion: the answer of task '${id}': ${number.left.reason}`)
  const block = `<answer>${number.right}</answer>`
  switch (style) {
    case 'rationale':
      return `<think>${rationale(answer)}</think>${block}`
    case 'bare':
      return block
  }
}
