/** Errors of commands. */
import { describe, type Failure } from '@tandem-rl/base'

/** An expected error, printed as one line without a stack. */
export class CommandError extends Error {
  constructor(message: string) {
    super(message)
    this.name = 'CommandError'
  }
}

/** Returns the value of a task, or throws a CommandError that describes the failure. */
export const orFail = async <T>(
  task: () => Promise<
    { readonly _tag: 'Left'; readonly left: Failure } | { readonly _tag: 'Right'; readonly right: T }
  >,
): Promise<T> => {
  const result = await task()
  if (result._tag === 'Left') throw new CommandError(describe(result.left))
  return result.right
}
