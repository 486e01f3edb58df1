/**
 * Limits the work of encoding or decoding one text with the tokenizer of an untrusted model folder.
 */
import { type Failure, FailureError, workCounter } from '@tandem-rl/base'
import * as E from 'fp-ts/lib/Either.js'

export const tokenizerWork = workCounter(
  (units) =>
    new FailureError({
      _tag: 'TokenizerFailure',
      reason: `the tokenizer needs more than ${units} steps for this text; shorten the text or replace tokenizer.json`,
    }),
)

/**
 * Runs an encoding or a decoding. Returns a failure for a text that needs more work than its
 * budget.
 */
export const tokenized = <T>(run: () => T): E.Either<Failure, T> => {
  try {
    return E.right(run())
  } catch (error) {
    if (error instanceof FailureError && error.failure._tag === 'TokenizerFailure') return E.left(error.failure)
    throw error
  }
}
