/**
 * GSM8K (Cobbe et al. 2021, arXiv:2110.14168): grade-school word problems whose answer ends with a
 * line `#### N`.
 */
import { type FormatFailure, parseJsonLines, type RowFailure } from '@tandem-rl/base'
import type { Task } from '@tandem-rl/text'
import * as E from 'fp-ts/lib/Either.js'
import { pipe } from 'fp-ts/lib/function.js'
import { z } from 'zod'
import type { TaskSource } from '../task.js'
import { type DatasetFormat, tasksOfRows } from './rows.js'

const MARK = '#### '

/** Digits, with thousands commas in all the right places or in none, and an optional fraction. */
const NUMBER = /^-?(?:\d+|\d{1,3}(?:,\d{3})+)(?:\.\d+)?$/

const refuse = (reason: string): E.Either<FormatFailure, never> =>
  E.left({ _tag: 'FormatFailure', format: 'GSM8K answer', reason })

/**
 * Returns the number after `#### ` in a GSM8K answer text.
 *
 * Errors   `Left(FormatFailure)` unless `#### ` occurs exactly once and exactly one number follows
 *          it.
 *
 * @example
 * finalAnswer('She sold 500 + 500 = 1,000 clips.\n#### 1,000') // right(1000)
 */
export const finalAnswer = (answerText: string): E.Either<FormatFailure, number> => {
  const [, after, ...more] = answerText.split(MARK)
  if (after === undefined) return refuse(`'${MARK}' does not occur`)
  if (more.length > 0) return refuse(`'${MARK}' occurs ${more.length + 1} times`)
  const text = after.trim()
  return NUMBER.test(text)
    ? E.right(Number(text.replaceAll(',', '')))
    : refuse(`'${text}' after '${MARK}' is not a number`)
}

/** One row of GSM8K's files. Other fields are ignored. */
const rowSchema = z.object({
  question: z.string().regex(/\S/, 'must not be empty'),
  answer: z.string().check((context) => {
    const answer = finalAnswer(context.value)
    if (E.isLeft(answer)) context.issues.push({ code: 'custom', message: answer.left.reason, input: context.value })
  }),
})

/**
 * A row of GSM8K: the answer contains its derivation, and its last line is `#### ` and a number.
 */
export type Gsm8kRow = Readonly<z.infer<typeof rowSchema>>

/** GSM8K: `question` is the query, and `answer` is kept whole. */
export const GSM8K: DatasetFormat<Gsm8kRow, Task> = {
  name: 'gsm8k',
  schema: rowSchema,
  task: ({ question, answer }, id) => ({ id, query: question, answer }),
}

export interface Gsm8kTasksOptions {
  /**
   * The name of the source, and the first part of its task ids: `gsm8k-train` gives
   * `gsm8k-train-0`, `gsm8k-train-1` ...
   */
  readonly name?: string
}

/**
 * Creates a task source of GSM8K rows from the text of a JSON Lines file. A task's id ends with its
 * index, counted from 0.
 *
 * Errors   `Left(RowFailure)`, with line numbers, for rows that are not `{ question, answer }` or
 *          whose answer has no final number (`finalAnswer`), and for a text without rows.
 * Effects  none: it reads no file.
 */
export const gsm8kTasks = (text: string, options: Gsm8kTasksOptions = {}): E.Either<RowFailure, TaskSource> => {
  const { name = GSM8K.name } = options
  return pipe(
    parseJsonLines(text, { schema: GSM8K.schema, source: name }),
    E.chain((rows) => tasksOfRows(name, rows, GSM8K)),
  )
}
