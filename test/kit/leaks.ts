/** The exception from the rule that no test leaves tensors behind. */

let isAllowed = false

/** Lets the tests of a file leave tensors and owned values to the tests after them. Say why: the reason is for readers. */
export const allowLeaks = (_reason: string): void => {
  isAllowed = true
}

/** Whether `allowLeaks` was called in this file: every test file has modules of its own. */
export const leaksAllowed = (): boolean => isAllowed
