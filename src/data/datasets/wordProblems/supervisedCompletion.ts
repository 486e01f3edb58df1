/** Target completions for word problems, made from GSM8K answer texts. */
import type { Task } from '@tandem-rl/text'
import * as E from 'fp-ts/lib/Either.js'
import { finalAnswer } from '../gsm8k.js'

/** `rationale` shows the arithmetic in a think block; `bare` is only the answer block. */
export type CompletionStyle = 'rationale' | 'bare'

/**
 * Matches an operator between two operands. A sign after an operator or a bracket belongs to its
 * number.
 */
const OPERATOR = /(?<=[\d.)%])\s*([-+*/=])\s*/g

/**
 * Extracts the arithmetic of a GSM8K answer text: its calculator annotations in order, with spaces
 * around the operators. Empty without annotations.
 *
 * @example
 * rationale('Tom had 12 + 7 = <<12+7=19>>19 apples.\n#### 19') // '12 + 7 = 19'
 */
export const rationale = (answerText: string): string =>
  Array.from(answerText.matchAll(/<<((?:(?!<<|>>).)*)>>/g), ([, annotation]) =>
    annotation!.replace(OPERATOR, ' $1 '),
  ).join(' ; ')

/**
 * Creates the target completion of supervised training, which gets the full `gsm8kReward`.
 *
 * Errors   throws Error if the task's answer is not a GSM8K answer text. Loading refuses such rows.
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
