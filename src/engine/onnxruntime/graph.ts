/**
 * Recorded operations: values that know how to be computed.
 *
 * A kernel call makes an `Operation` and its output `Value`s and does no arithmetic. Values are computed together, later:
 * `collect` walks from the wanted values back to values that have data, `graphKey` names the structure, and `encodeModel`
 * writes it as an ONNX model.
 */

import { type MessageWriter, protobufWriter } from '../../core/protobuf.js'
import type { OnnxArray, OnnxType } from './binding.js'
import { type Origin, operationName } from './origin.js'

export type Attribute =
  | number
  | string
  | readonly number[]
  | { readonly float: number }
  | { readonly floats: readonly number[] }

/** One ONNX node. `signature` is everything that two operations must share to be the same computation. */
export interface Operation {
  readonly name: string
  readonly domain: '' | 'com.microsoft'
  readonly attributes: Readonly<Record<string, Attribute>>
  readonly inputs: readonly (Value | null)[]
  readonly outputs: readonly Value[]
  readonly signature: string
  /** The kernel call that recorded it; null for what the backend needs itself. */
  readonly origin: Origin | null
}

export interface OutputSpec {
  readonly shape: readonly number[]
  readonly type: OnnxType
  /** An optional output that is not wanted: the operation need not compute it. */
  readonly wanted?: 'no'
}

/**
 * A tensor that exists or can be computed. Exactly one holds: `data` is there (given, or computed by a run), or
 * `operation` computes it, or it is a parameter of the function being traced and has neither.
 */
export interface Value extends OutputSpec {
  /** Baked into the model as an initializer instead of being fed. */
  readonly isConstant: boolean
  /** The trace during which the value was made; 0 outside of traces. */
  readonly trace: number
  operation: Operation | null
  data: OnnxArray | null
}

export const sizeOf = (shape: readonly number[]): number => shape.reduce((product, n) => product * n, 1)

export const sameShape = (a: readonly number[], b: readonly number[]): boolean =>
  a.length === b.length && a.every((n, i) => n === b[i])

/** Different numbers, different text: also -0, NaN and the infinities, which JSON confuses with others. */
const formatNumber = (x: number | bigint): string => (Object.is(x, -0) ? '-0' : String(x))

const formatNumbers = (numbers: ArrayLike<number | bigint>): string => Array.from(numbers, formatNumber).join()

const formatAttribute = (value: Attribute): string => {
  if (typeof value === 'number') return formatNumber(value)
  if (typeof value === 'string') return JSON.stringify(value)
  if ('float' in value) return `float ${formatNumber(value.float)}`
  if ('floats' in value) return `floats ${formatNumbers(value.floats)}`
  return `[${formatNumbers(value)}]`
}

const formatAttributes = (attributes: Readonly<Record<string, Attribute>>): string =>
  Object.entries(attributes)
    .map(([key, value]) => `${key}=${formatAttribute(value)}`)
    .join(';')

/** Makes an operation together with its output values. */
export const makeOperation = (
  name: string,
  inputs: readonly (Value | null)[],
  outputs: readonly OutputSpec[],
  options: {
    readonly attributes?: Readonly<Record<string, Attribute>>
    readonly domain?: '' | 'com.microsoft'
    readonly trace: number
    readonly origin?: Origin | null
  },
): Operation => {
  const { attributes = {}, domain = '', trace, origin = null } = options
  const operation = {
    name,
    domain,
    attributes,
    inputs,
    outputs: [] as Value[],
    origin,
    signature: `${domain}${name}{${formatAttributes(attributes)}}${outputs.map((o) => `${o.type}[${o.shape.join()}]`).join('')}`,
  }
  for (const spec of outputs) {
    operation.outputs.push({ ...spec, isConstant: false, trace, operation, data: null })
  }
  return operation
}

/** A set of values to compute, what they need, and the order in which to do it. */
export interface Graph {
  readonly roots: readonly Value[]
  /** Every operation once, after the operations it depends on. */
  readonly operations: readonly Operation[]
  /** Values that have to be fed, each once, in the order of first use. */
  readonly feeds: readonly Value[]
  readonly constants: readonly Value[]
}

/** Walks back from `roots`, which must not have data. Cost: linear in operations and their inputs. */
export const collect = (roots: readonly Value[]): Graph => {
  const operations: Operation[] = []
  const feeds: Value[] = []
  const constants: Value[] = []
  const seenLeaves = new Set<Value>()
  const state = new Map<Operation, 'open' | 'done'>()
  const stack = roots.map((root) => root.operation!).reverse()
  while (stack.length > 0) {
    const operation = stack[stack.length - 1]!
    const visited = state.get(operation)
    if (visited !== undefined) {
      stack.pop()
      if (visited === 'open') {
        state.set(operation, 'done')
        operations.push(operation)
      }
      continue
    }
    state.set(operation, 'open')
    for (let i = operation.inputs.length - 1; i >= 0; i--) {
      const input = operation.inputs[i]
      if (input?.operation && !state.has(input.operation)) stack.push(input.operation)
    }
  }
  for (const { inputs } of operations) {
    for (const input of inputs) {
      if (input === null || input.operation !== null || seenLeaves.has(input)) continue
      seenLeaves.add(input)
      ;(input.isConstant ? constants : feeds).push(input)
    }
  }
  return { roots, operations, feeds, constants }
}

/** Equal keys, equal computations: the same operations on feeds of the same shapes and the same constants. */
export const graphKey = (graph: Graph): string => {
  const numbers = new Map<Value, number>()
  const parts: string[] = []
  for (const feed of graph.feeds) {
    numbers.set(feed, numbers.size)
    parts.push(`${feed.type}[${feed.shape.join()}]`)
  }
  for (const constant of graph.constants) {
    numbers.set(constant, numbers.size)
    parts.push(`${constant.type}[${constant.shape.join()}]=${formatNumbers(constant.data!)}`)
  }
  for (const operation of graph.operations) {
    for (const output of operation.outputs) numbers.set(output, numbers.size)
    parts.push(`${operation.signature}(${operation.inputs.map((v) => (v === null ? '-' : numbers.get(v))).join()})`)
  }
  parts.push(`=>${graph.roots.map((root) => numbers.get(root)).join()}`)
  return parts.join('\n')
}

const ELEMENT_TYPE: Readonly<Record<OnnxType, number>> = { float32: 1, int32: 6, int64: 7, bool: 9 }

const writeAttribute = (writer: MessageWriter, name: string, value: Attribute): void => {
  writer.text(1, name)
  if (typeof value === 'number') {
    writer.integer(3, value)
    writer.integer(20, 2)
  } else if (typeof value === 'string') {
    writer.text(4, value)
    writer.integer(20, 3)
  } else if ('float' in value) {
    writer.float(2, value.float)
    writer.integer(20, 1)
  } else if ('floats' in value) {
    for (const x of value.floats) writer.float(7, x)
    writer.integer(20, 6)
  } else {
    for (const n of value) writer.integer(8, n)
    writer.integer(20, 7)
  }
}

const writeValueInfo = (
  writer: MessageWriter,
  name: string,
  value: { readonly shape: readonly (number | null)[]; readonly type: OnnxType },
): void => {
  writer.text(1, name)
  writer.message(2, (type) => {
    type.message(1, (tensor) => {
      tensor.integer(1, ELEMENT_TYPE[value.type])
      tensor.message(2, (shape) => {
        for (const n of value.shape) {
          shape.message(1, (dimension) => {
            if (n !== null) dimension.integer(1, n)
          })
        }
      })
    })
  })
}

/** The names that a compiled graph uses for the values that go in and out, in the order of the feeds without values, and of `roots`. */
export interface EncodedModel {
  readonly model: Uint8Array
  readonly feedNames: readonly string[]
  readonly rootNames: readonly string[]
}

/** ONNX operator set of the models written here, and the IR version that goes with it. */
const OPERATOR_SET = 23
const IR_VERSION = 11

/** Shapes of feeds and roots in which null is a size that may vary. */
export type OpenShapes = ReadonlyMap<Value, readonly (number | null)[]>

/** Numbers of feeds that are part of a model, as its constants are. */
export type FeedValues = ReadonlyMap<Value, OnnxArray>

const NO_VALUES: FeedValues = new Map()

/** Writes a graph as an ONNX model (onnx.proto3, ModelProto). Feeds with `values` are none of the model's: they are written into it. */
export const encodeModel = (
  graph: Graph,
  { open = new Map(), values = NO_VALUES }: { readonly open?: OpenShapes; readonly values?: FeedValues } = {},
): EncodedModel => {
  const names = new Map<Value, string>()
  const nameOf = (value: Value | null): string => {
    if (value === null) return ''
    const known = names.get(value)
    if (known !== undefined) return known
    const name = `v${names.size}`
    names.set(value, name)
    return name
  }
  const feeds = graph.feeds.filter((feed) => !values.has(feed))
  const feedNames = feeds.map(nameOf)
  const writer = protobufWriter()
  writer.integer(1, IR_VERSION)
  writer.text(2, 'tandem')
  writer.message(7, (body) => {
    for (const [index, operation] of graph.operations.entries()) {
      body.message(1, (node) => {
        for (const input of operation.inputs) node.text(1, nameOf(input))
        for (const output of operation.outputs) node.text(2, output.wanted === 'no' ? '' : nameOf(output))
        node.text(3, operationName(index))
        node.text(4, operation.name)
        for (const [name, value] of Object.entries(operation.attributes)) {
          node.message(5, (attribute) => writeAttribute(attribute, name, value))
        }
        if (operation.domain !== '') node.text(7, operation.domain)
      })
    }
    body.text(2, 'graph')
    for (const constant of [...graph.constants, ...values.keys()]) {
      body.message(5, (tensor) => {
        for (const n of constant.shape) tensor.integer(1, n)
        tensor.integer(2, ELEMENT_TYPE[constant.type])
        tensor.text(8, nameOf(constant))
        const { buffer, byteOffset, byteLength } = values.get(constant) ?? constant.data!
        tensor.bytes(9, new Uint8Array(buffer, byteOffset, byteLength))
      })
    }
    const spec = (value: Value) => ({ type: value.type, shape: open.get(value) ?? value.shape })
    for (const [i, feed] of feeds.entries()) {
      body.message(11, (info) => writeValueInfo(info, feedNames[i]!, spec(feed)))
    }
    for (const root of graph.roots) body.message(12, (info) => writeValueInfo(info, nameOf(root), spec(root)))
  })
  for (const [domain, version] of [
    ['', OPERATOR_SET],
    ['com.microsoft', 1],
  ] as const) {
    writer.message(8, (operatorSet) => {
      operatorSet.text(1, domain)
      operatorSet.integer(2, version)
    })
  }
  return { model: writer.finish(), feedNames, rootNames: graph.roots.map(nameOf) }
}
