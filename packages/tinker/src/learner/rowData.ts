/** Rows as data of the protocol. */
import { type Datum, floatTensor, integerTensor } from '../protocol/values.js'

/** A row as a datum: the model reads all tokens but the last, and predicts all but the first. */
export const rowDatum = (prompt: ArrayLike<number>, completion: ArrayLike<number>): Datum => {
  const all = [...Array.from(prompt), ...Array.from(completion)]
  return { tokens: all.slice(0, -1), inputs: { target_tokens: integerTensor(all.slice(1)) } }
}

/** Numbers of a completion's tokens, with 0 for those of its prompt. */
export const withPromptPlaces = (prompt: ArrayLike<number>, numbers: ArrayLike<number>): Float32Array => {
  const all = new Float32Array(prompt.length - 1 + numbers.length)
  all.set(numbers, prompt.length - 1)
  return all
}

/** A datum with inputs for each token of its completion. */
export const withInputs = (
  datum: Datum,
  prompt: ArrayLike<number>,
  inputs: Readonly<Record<string, ArrayLike<number>>>,
): Datum => ({
  tokens: datum.tokens,
  inputs: {
    ...datum.inputs,
    ...Object.fromEntries(
      Object.entries(inputs).map(([name, numbers]) => [name, floatTensor(withPromptPlaces(prompt, numbers))]),
    ),
  },
})
