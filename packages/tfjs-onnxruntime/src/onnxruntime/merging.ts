/** Merges operations that compute the same. */
import { constantKey, type Graph, makeOperation, type Operation, sizeOf, type Value } from './graph.js'

/** Constants of more numbers are compared by identity. */
const COMPARED_NUMBERS = 1024

/** A graph, and the values that take the places of those of the graph that it was made of. */
export interface MergedGraph {
  readonly graph: Graph
  readonly inPlaceOf: (value: Value) => Value
}

/** Returns the number of each value, in the order of first use. */
const numbering = (): ((value: Value) => number) => {
  const numbers = new Map<Value, number>()
  return (value) => {
    const known = numbers.get(value) ?? numbers.size
    numbers.set(value, known)
    return known
  }
}

/**
 * Merges operations with equal signatures and inputs. Operations that compute roots are not merged
 * into others, because each root is an array of its own.
 *
 * Cost     linear in operations and their inputs.
 */
export const mergeEqual = ({ roots, operations, feeds, constants }: Graph): MergedGraph => {
  const replaced = new Map<Value, Value>()
  const inPlaceOf = (value: Value): Value => replaced.get(value) ?? value
  const numberOf = numbering()
  const results = new Set(roots)

  const firstConstants = new Map<string, Value>()
  const keptConstants = constants.filter((constant) => {
    if (sizeOf(constant.shape) > COMPARED_NUMBERS) return true
    const key = constantKey(constant)
    const first = firstConstants.get(key)
    if (first === undefined) firstConstants.set(key, constant)
    else replaced.set(constant, first)
    return first === undefined
  })

  const firstOperations = new Map<string, Operation>()
  const replaceOutputs = ({ outputs }: Operation, by: Operation): void => {
    for (const [i, output] of outputs.entries()) replaced.set(output, by.outputs[i]!)
  }
  const keptOperations = operations.flatMap((operation) => {
    const { name, domain, attributes, origin, signature, outputs } = operation
    const inputs = operation.inputs.map((input) => input && inPlaceOf(input))
    const places = inputs.map((input) => (input === null ? '-' : numberOf(input)))
    const key = `${signature}${outputs.map(({ wanted = '' }) => wanted).join()}(${places.join()})`
    const first = firstOperations.get(key)
    if (first !== undefined && !outputs.some((output) => results.has(output))) {
      replaceOutputs(operation, first)
      return []
    }
    const isChanged = inputs.some((input, i) => input !== operation.inputs[i])
    const kept = isChanged
      ? makeOperation(name, inputs, outputs, { attributes, domain, trace: outputs[0]!.trace, origin })
      : operation
    if (isChanged) replaceOutputs(operation, kept)
    if (first === undefined) firstOperations.set(key, kept)
    return [kept]
  })
  const graph = { roots: roots.map(inPlaceOf), operations: keptOperations, feeds, constants: keptConstants }
  return { graph, inPlaceOf }
}
