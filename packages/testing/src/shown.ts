/** The representation of values in fast-check's counterexamples. */
import { discard } from '@tandem-rl/tfjs-onnxruntime/scope'
import fc from 'fast-check'
import { type TensorDict, toNested } from 'tandem-rl/tensordict'

/**
 * Copies a plain record so that counterexamples show it as the given text, because functions have
 * no readable form.
 */
export const shown = <T extends object>(value: T, text: () => string): T =>
  Object.defineProperty({ ...value }, fc.toStringMethod, { value: text })

/** Makes a TensorDict, returns its batch shape and values as text, and frees it. */
export const textOfMade = (make: () => TensorDict): string => {
  const made = make()
  const text = `TensorDict [${made.batchShape.join(', ')}] ${fc.stringify(toNested(made))}`
  discard(made)
  return text
}
