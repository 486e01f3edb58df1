/**
 * Laws as values: a name and a check that throws. Any test runner runs them:
 * `checkLaws(it, envLaws(...))`.
 */

/** A property that holds for all inputs. `check` throws a counterexample otherwise. */
export interface Law {
  readonly name: string
  readonly check: () => void | Promise<void>
}

/** A law with its number in the table of laws (`docs/laws.md`). Its name starts with the number. */
export interface NumberedLaw extends Law {
  readonly number: number
}

/** Makes a numbered law. */
export const numbered = (number: number, title: string, check: Law['check']): NumberedLaw => ({
  number,
  name: `law ${number}: ${title}`,
  check,
})

/** Registers laws with a test runner's `it`. */
export const checkLaws = (
  it: (name: string, check: () => void | Promise<void>) => unknown,
  laws: readonly Law[],
): void => {
  for (const { name, check } of laws) it(name, check)
}

/** Throws an error with the message `problem` unless `holds`. */
export const require = (holds: boolean, problem: () => string): void => {
  if (!holds) throw new Error(problem())
}
