/** What fast-check prints of a value in a counterexample. */
import fc from 'fast-check'
import { toNested } from '../data/tensorDict/inspect.js'
import type { TensorDict } from '../data/tensorDict/tensorDict.js'
import { discard } from '../engine/scope.js'

/** A copy of a plain record that counterexamples show as a text: functions say nothing to a reader. */
export const shown = <T extends object>(value: T, text: () => string): T =>
  Object.defineProperty({ ...value }, fc.toStringMethod, { value: text })

/** The batch shape and the values of a TensorDict that is made for it and freed. */
export const textOfMade = (make: () => TensorDict): string => {
  const made = make()
  const text = `TensorDict [${made.batchShape.join(', ')}] ${fc.stringify(toNested(made))}`
  discard(made)
  return text
}
