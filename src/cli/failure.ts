/** The last line of a command that failed. */
import { NonFiniteLoss } from '../collectors/steps/lossStep.js'
import { describe, type Failure, FailureError } from '../core/failure.js'

/** A failure that a person reads: what happened, and where. */
export class CommandError extends Error {
  constructor(message: string) {
    super(message)
    this.name = 'CommandError'
  }
}

/** The value, or a CommandError with the failure in one sentence. */
export const orFail = async <T>(
  task: () => Promise<
    { readonly _tag: 'Left'; readonly left: Failure } | { readonly _tag: 'Right'; readonly right: T }
  >,
): Promise<T> => {
  const result = await task()
  if (result._tag === 'Left') throw new CommandError(describe(result.left))
  return result.right
}

/** Any exception that stands for an expected failure as a CommandError; others as they are. */
export const asCommandError = (error: unknown): unknown =>
  error instanceof FailureError || error instanceof NonFiniteLoss ? new CommandError(error.message) : error
