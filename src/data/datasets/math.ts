/**
 * MATH (Hendrycks et al. 2021, arXiv:2103.03874): competition problems with the answer boxed in the
 * solution, as in `\boxed{\frac{1}{2}}`.
 */
import type { FormatFailure } from '@tandem-rl/base'
import * as E from 'fp-ts/lib/Either.js'
import { z } from 'zod'
import type { RowTask } from '../task.js'
import type { DatasetFormat } from './rows.js'

const BOX = '\\boxed'

const refuse = (reason: string): E.Either<FormatFailure, never> =>
  E.left({ _tag: 'FormatFailure', format: 'MATH solution', reason })

/**
 * Returns the index after the brace that closes the one at `open`, or undefined. A brace after a
 * backslash is text.
 */
const closingBrace = (text: string, open: number): number | undefined => {
  let depth = 0
  for (let i = open; i < text.length; i++) {
    const character = text[i]
    if (character === '\\') i += 1
    else if (character === '{') depth += 1
    else if (character === '}') {
      depth -= 1
      if (depth === 0) return i + 1
    }
  }
  return undefined
}

/**
 * Returns the content of the last `\boxed` of a text: the part between its balanced braces, or the
 * one character after a blank.
 *
 * Errors   `Left(FormatFailure)` if there is no box, if the last one is never closed, or if it is
 *          empty.
 * Source   TorchRL `MATHRewardParser`, which takes the whole text if there is no box and drops a
 *          character of one that is not closed.
 *
 * @example
 * boxedAnswer('So \\boxed{1}, no: \\boxed{\\frac{1}{2}}.') // right('\\frac{1}{2}')
 */
export const boxedAnswer = (text: string): E.Either<FormatFailure, string> => {
  const start = text.lastIndexOf(BOX)
  if (start < 0) return refuse(`'${BOX}' does not occur`)
  const after = text.slice(start + BOX.length)
  const [, blank] = /^\s+([^\s{])/.exec(after) ?? []
  if (blank !== undefined) return E.right(blank)
  const open = /^\s*\{/.exec(after)?.[0].length
  if (open === undefined) return refuse(`nothing in braces follows the last '${BOX}'`)
  const close = closingBrace(after, open - 1)
  if (close === undefined) return refuse(`the braces of the last '${BOX}' are not closed`)
  const answer = after.slice(open, close - 1).trim()
  return answer === '' ? refuse(`the last '${BOX}' is empty`) : E.right(answer)
}

const rowSchema = z.object({
  problem: z.string().regex(/\S/, 'must not be empty'),
  /** `Level 1` to `Level 5`; three problems of the original data have `Level ?`. */
  level: z.string().regex(/^Level (?:[1-5]|\?)$/, "must be 'Level 1' to 'Level 5' or 'Level ?'"),
  type: z.string().regex(/\S/, 'must not be empty'),
  solution: z.string().check((context) => {
    const answer = boxedAnswer(context.value)
    if (E.isLeft(answer)) context.issues.push({ code: 'custom', message: answer.left.reason, input: context.value })
  }),
})

/** A row of MATH. */
export type MathRow = Readonly<z.infer<typeof rowSchema>>

/**
 * MATH: `problem` is the query, the last box of the solution is the answer, and the row is kept.
 */
export const MATH: DatasetFormat<MathRow, RowTask<MathRow>> = {
  name: 'math',
  schema: rowSchema,
  task: (row, id) => {
    const answer = boxedAnswer(row.solution)
    if (E.isLeft(answer)) throw new RangeError(`MATH: the row of ${id} was never validated: ${answer.left.reason}`)
    return { id, query: row.problem, answer: answer.right, row }
  },
}
