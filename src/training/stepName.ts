/** Names of what a run keeps of its steps. */

const NAME = /^step-\d{6,}$/

/**
 * The name of what is kept of a step: names sort by step.
 *
 * @example
 * stepName(12) // 'step-000012'
 */
export const stepName = (step: number): string => `step-${String(step).padStart(6, '0')}`

/** The step of a name. */
export const stepOf = (name: string): number => Number(name.slice('step-'.length))

/** Those among names that `stepName` makes, by step. */
export const inOrder = (names: readonly string[]): readonly string[] =>
  names.filter((name) => NAME.test(name)).sort((a, b) => stepOf(a) - stepOf(b))
