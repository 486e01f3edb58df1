/**
 * Construction of one graph for many sizes.
 *
 * A recorded function has numeric shapes. Recorded twice, with different sizes for the axes that
 * may vary, it gives two graphs of the same operations that differ only where a size occurs: in the
 * shapes of values, and in the targets of reshapes. `unify` finds these places and writes a graph
 * without those numbers, which onnxruntime runs at any size.
 */
import { type Graph, type OpenShapes, type Operation, sameShape, type Value } from './graph.js'

/** Sizes that are unlikely in a model: the n-th varying axis has these in the two recordings. */
const SIZES: readonly (readonly [number, number])[] = [
  ...([
    [13, 17],
    [29, 37],
    [53, 61],
    [83, 97],
    [113, 127],
    [149, 163],
  ] as const),
  ...([
    [173, 181],
    [193, 211],
    [223, 239],
    [241, 263],
    [271, 283],
    [293, 307],
  ] as const),
  ...([
    [313, 331],
    [347, 359],
    [367, 383],
    [397, 409],
    [419, 433],
  ] as const),
]

/**
 * Varying axes of a value: a name, or names joined by ` + ` for a sum of sizes, or null for a fixed
 * size.
 */
export type AxisNames = readonly (string | null)[]

const namesIn = (axis: string): readonly string[] => axis.split(' + ')

/** Returns every name in the axes of some values, once. */
export const axisNames = (all: readonly (AxisNames | undefined)[]): readonly string[] => [
  ...new Set(all.flatMap((axes) => axes?.flatMap((axis) => (axis === null ? [] : namesIn(axis))) ?? [])),
]

/**
 * Returns the two shapes with which a function is recorded.
 *
 * Errors   throws RangeError for more varying axes than there are distinct sizes.
 */
export const recordingShapes = (
  shape: readonly number[],
  axes: AxisNames,
  names: readonly string[],
): readonly [readonly number[], readonly number[]] => {
  if (names.length > SIZES.length)
    throw new RangeError(`jit: at most ${SIZES.length} axes may vary, got ${names.join()}`)
  const at = (which: 0 | 1): readonly number[] =>
    shape.map((size, axis) => {
      const given = axes[axis] ?? null
      return given === null ? size : namesIn(given).reduce((sum, name) => sum + SIZES[names.indexOf(name)]![which], 0)
    })
  return [at(0), at(1)]
}

/**
 * Returns a reshape target that is valid for both sizes: 0 keeps the input's size of that axis, -1
 * is computed.
 */
const unifyTarget = (first: Operation, second: Operation): readonly number[] | undefined => {
  const [from, to] = [first.inputs[0]!.shape, first.outputs[0]!.shape]
  const [otherFrom, otherTo] = [second.inputs[0]!.shape, second.outputs[0]!.shape]
  const target = to.map((size, axis) => {
    if (size === otherTo[axis]) return size
    return size === from[axis] && otherTo[axis] === otherFrom[axis] ? 0 : -1
  })
  return target.filter((size) => size === -1).length <= 1 ? target : undefined
}

const describe = ({ name, outputs, origin }: Operation): string =>
  `${origin?.kernel ?? name} with result [${outputs[0]!.shape.join()}]`

const fail = (operation: Operation, what: string): never => {
  throw new Error(
    `jit: ${describe(operation)} depends on a varying size in a way that one graph cannot express: ${what}`,
  )
}

/** Returns name, domain and attributes of an operation, without the shapes of its results. */
const kindOf = (operation: Operation): string =>
  operation.signature.slice(0, operation.signature.indexOf('}') + 1) + operation.outputs.map(({ type }) => type).join()

/** A copy of the first graph that depends on none of the sizes in which the second differs. */
interface Unified {
  readonly graph: Graph
  readonly shapes: OpenShapes
}

/**
 * Unifies two recordings of a function.
 *
 * Errors   throws, naming the operation, if an operation depends on a varying size in another way
 *          than by the shapes of its inputs or by the target of a reshape with one unknown axis.
 */
export const unify = (first: Graph, second: Graph): Unified => {
  if (first.operations.length !== second.operations.length || first.feeds.length !== second.feeds.length) {
    throw new Error('jit: the function records other operations for other sizes')
  }
  const twin = new Map<Value, Value>()
  for (const [i, feed] of first.feeds.entries()) twin.set(feed, second.feeds[i]!)
  const shapes = new Map<Value, readonly (number | null)[]>()
  const operations = first.operations.map((operation, i): Operation => {
    const other = second.operations[i]!
    if (kindOf(operation) !== kindOf(other)) fail(operation, `it is ${describe(other)} for other sizes`)
    for (const [k, output] of operation.outputs.entries()) twin.set(output, other.outputs[k]!)
    const inputs = operation.inputs.map((input, k): Value | null => {
      const partner = other.inputs[k] ?? null
      if (input === null || partner === null) return input === partner ? input : fail(operation, 'an input is missing')
      if (!input.isConstant)
        return twin.get(input) === partner ? input : fail(operation, 'its inputs come from elsewhere')
      if (sameShape(input.shape, partner.shape) && input.data!.every((x, n) => Object.is(x, partner.data![n])))
        return input
      const target = operation.name === 'Reshape' && k === 1 ? unifyTarget(operation, other) : undefined
      if (target === undefined)
        return fail(operation, `a constant [${input.data}] is [${partner.data}] for other sizes`)
      return { ...input, data: BigInt64Array.from(target, BigInt) }
    })
    return { ...operation, inputs }
  })
  for (const value of [...first.feeds, ...first.roots]) {
    const partner = twin.get(value)!
    shapes.set(
      value,
      value.shape.map((size, axis) => (size === partner.shape[axis] ? size : null)),
    )
  }
  const constants = new Set(operations.flatMap(({ inputs }) => inputs.filter((v) => v?.isConstant === true)))
  return { graph: { ...first, operations, constants: [...constants] as readonly Value[] }, shapes }
}
