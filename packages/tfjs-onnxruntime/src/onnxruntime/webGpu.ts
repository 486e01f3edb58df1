/**
 * Graphs for onnxruntime's WebGPU provider: operations that it lacks, by those that it has.
 *
 * Without this, onnxruntime computes these operations on the CPU and copies their tensors there and
 * back in every run.
 */
import {
  type Attribute,
  ELEMENT_TYPE,
  type Graph,
  makeOperation,
  type Operation,
  type OutputSpec,
  type Value,
} from './graph.js'
import { copyArray, leaf } from './storage.js'

/** Records the operations that replace one. */
interface Writer {
  readonly emit: (
    name: string,
    inputs: readonly (Value | null)[],
    output: OutputSpec,
    attributes?: Readonly<Record<string, Attribute>>,
  ) => Value
  readonly integers: (values: readonly number[]) => Value
  readonly number: (value: number) => Value
}

/** Returns the value that replaces the first result of an operation. */
type Replacement = (writer: Writer, operation: Operation) => Value

const floatOf = (value: Attribute | undefined, missing: number): number =>
  typeof value === 'object' && 'float' in value ? value.float : missing

const swapped = (shape: readonly number[]): readonly number[] => [...shape.slice(0, -2), shape.at(-1)!, shape.at(-2)!]

/** Swaps the last two axes. */
const transposed = ({ emit }: Writer, x: Value): Value => {
  const { length } = x.shape
  const perm = [...Array(length - 2).keys(), length - 1, length - 2]
  return emit('Transpose', [x], { shape: swapped(x.shape), type: x.type }, { perm })
}

const scaled = ({ emit, number }: Writer, x: Value, factor: number): Value =>
  factor === 1 ? x : emit('Mul', [x, number(factor)], x)

const fusedMatMul: Replacement = (writer, { inputs, outputs, attributes }) => {
  const [a, b] = inputs as readonly [Value, Value] // always two
  const product = writer.emit(
    'MatMul',
    [attributes.transA === 1 ? transposed(writer, a) : a, attributes.transB === 1 ? transposed(writer, b) : b],
    outputs[0]!,
  )
  return scaled(writer, product, floatOf(attributes.alpha, 1))
}

const notANumber: Replacement = ({ emit }, { inputs, outputs }) => {
  const [x] = inputs as readonly [Value] // always one
  return emit('Not', [emit('Equal', [x, x], outputs[0]!)], outputs[0]!)
}

/** The provider has no float64. Its sums are added in parallel, in many partial sums. */
const cast: Replacement = ({ emit }, { inputs, outputs, attributes }) => {
  const output = outputs[0]!
  return attributes.to === ELEMENT_TYPE.float64
    ? emit('Identity', inputs, { ...output, type: 'float32' })
    : emit('Cast', inputs, output, attributes)
}

/** Attention by products and a softmax. Axes: P prompts, Q query heads, K key-value heads. */
const attention: Replacement = (writer, { inputs, outputs, attributes }) => {
  const { emit, integers } = writer
  const [queries, keys, values, bias, pastKeys = null, pastValues = null] = inputs as readonly [
    Value,
    Value,
    Value,
    Value,
    ...(Value | null)[],
  ] // as `CachedAttention` emits it
  const [p, q, t, h] = queries.shape as readonly [number, number, number, number]
  const [, k, own] = keys.shape as readonly [number, number, number]
  const places = own + (pastKeys?.shape[2] ?? 0)
  const floats = (...shape: readonly number[]): OutputSpec => ({ shape, type: 'float32' })
  const whole = (past: Value | null, next: Value): Value => {
    const all = past === null ? next : emit('Concat', [past, next], floats(p, k, places, h), { axis: 2 })
    return emit('Unsqueeze', [all, integers([2])], floats(p, k, 1, places, h))
  }
  const grouped = emit('Reshape', [queries, integers([0, k, q / k, -1, h])], floats(p, k, q / k, t, h))
  const products = emit(
    'MatMul',
    [scaled(writer, grouped, floatOf(attributes.scale, 1 / Math.sqrt(h))), transposed(writer, whole(pastKeys, keys))],
    floats(p, k, q / k, t, places),
  )
  const opened = emit('Unsqueeze', [bias, integers([2])], floats(...bias.shape.slice(0, 2), 1, ...bias.shape.slice(2)))
  const weights = emit('Softmax', [emit('Add', [products, opened], products)], products, { axis: -1 })
  const mixed = emit('MatMul', [weights, whole(pastValues, values)], floats(p, k, q / k, t, h))
  return emit('Reshape', [mixed, integers([0, q, -1, h])], outputs[0]!)
}

/** The operations that the provider lacks, by their names in ONNX. */
const REPLACEMENTS: Readonly<Record<string, Replacement>> = {
  Attention: attention,
  Cast: cast,
  FusedMatMul: fusedMatMul,
  IsNaN: notANumber,
}

/**
 * Returns a graph with the same feeds and results, without operations that the WebGPU provider
 * lacks. Works for graphs of open sizes too, because new reshape targets name no varying size.
 */
export const forWebGpu = (graph: Graph): Graph => {
  const constants = [...graph.constants]
  const operations: Operation[] = []
  const constant = (value: Value): Value => {
    constants.push(value)
    return value
  }
  const fixed = { isConstant: true, trace: 0 }
  const writerFor = ({ origin }: Operation): Writer => ({
    emit: (name, inputs, { shape, type }, attributes = {}) => {
      const operation = makeOperation(name, inputs, [{ shape, type }], { attributes, trace: 0, origin })
      operations.push(operation)
      return operation.outputs[0]!
    },
    integers: (values) => constant(leaf(copyArray(values, 'int64'), [values.length], 'int64', fixed)),
    number: (value) => constant(leaf(copyArray([value], 'float32'), [], 'float32', fixed)),
  })
  for (const operation of graph.operations) {
    const replacement = REPLACEMENTS[operation.name]
    if (replacement === undefined) {
      operations.push(operation)
      continue
    }
    replacement(writerFor(operation), operation)
    const last = operations.pop()!
    operations.push({ ...last, outputs: operation.outputs.slice(0, 1) }) // later operations name this result
  }
  return { ...graph, operations, constants }
}
