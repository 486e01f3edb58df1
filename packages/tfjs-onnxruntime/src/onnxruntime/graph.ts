/**
 * Recorded operations, and values with the operations that compute them.
 *
 * A kernel call creates an `Operation` and its output `Value`s and does no arithmetic. Values are
 * computed together, later: `collect` walks from the requested values back to values that have
 * data, `graphKey` names the structure, and `encodeModel` writes it as an ONNX model.
 */
import { type MessageWriter, protobufWriter } from '@tandem-rl/base'
import type { DeviceTensor, ExternalData, OnnxArray, OnnxRuntime, OnnxType } from './library.js'
import { type Origin, operationName } from './origin.js'

export type Attribute =
  | number
  | string
  | readonly number[]
  | { readonly float: number }
  | { readonly floats: readonly number[] }

/**
 * One ONNX node. `signature` contains everything that two operations must share to be the same
 * computation.
 */
export interface Operation {
  readonly name: string
  readonly domain: '' | 'com.microsoft'
  readonly attributes: Readonly<Record<string, Attribute>>
  readonly inputs: readonly (Value | null)[]
  readonly outputs: readonly Value[]
  readonly signature: string
  /** The kernel call that recorded it; null for operations of the backend itself. */
  readonly origin: Origin | null
}

export interface OutputSpec {
  readonly shape: readonly number[]
  readonly type: OnnxType
  /** `no` for an optional output that the operation need not compute. */
  readonly wanted?: 'no'
}

/**
 * A tensor that exists or can be computed. It has `data` (given, or computed by a run), or is
 * `resident` in the memory of a GPU, or `operation` computes it. A parameter of the function being
 * traced has none of them.
 */
export interface Value extends OutputSpec {
  /** True if it is written into the model as an initializer instead of being fed. */
  readonly isConstant: boolean
  /** The trace that created the value; 0 outside of traces. */
  readonly trace: number
  operation: Operation | null
  data: OnnxArray | null
  readonly resident?: DeviceTensor
}

/** Returns true for a value that a run must compute. */
export const isUncomputed = ({ data, resident }: Value): boolean => data === null && resident === undefined

export const sizeOf = (shape: readonly number[]): number => shape.reduce((product, n) => product * n, 1)

export const sameShape = (a: readonly number[], b: readonly number[]): boolean =>
  a.length === b.length && a.every((n, i) => n === b[i])

/**
 * Formats a number unambiguously, including -0, NaN and the infinities, which JSON does not
 * distinguish.
 */
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

/** Creates an operation together with its output values. */
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

/** Values to compute, with the operations that they need in order of execution. */
export interface Graph {
  readonly roots: readonly Value[]
  /** Every operation once, after its dependencies. */
  readonly operations: readonly Operation[]
  /** Values that must be fed, each once, in the order of first use. */
  readonly feeds: readonly Value[]
  readonly constants: readonly Value[]
}

/**
 * Collects the graph of `roots`, which must not have data. Cost: linear in operations and their
 * inputs.
 */
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

/** Returns a key of a constant. Equal keys mean equal types, shapes and numbers. */
export const constantKey = ({ type, shape, data }: Value): string => `${type}[${shape.join()}]=${formatNumbers(data!)}`

/**
 * Returns a key of the computation. Equal keys mean the same operations on feeds of the same shapes
 * and the same constants.
 */
export const graphKey = (graph: Graph): string => {
  const numbers = new Map<Value, number>()
  const parts: string[] = []
  for (const feed of graph.feeds) {
    numbers.set(feed, numbers.size)
    parts.push(`${feed.type}[${feed.shape.join()}]`)
  }
  for (const constant of graph.constants) {
    numbers.set(constant, numbers.size)
    parts.push(constantKey(constant))
  }
  for (const operation of graph.operations) {
    for (const output of operation.outputs) numbers.set(output, numbers.size)
    parts.push(`${operation.signature}(${operation.inputs.map((v) => (v === null ? '-' : numbers.get(v))).join()})`)
  }
  parts.push(`=>${graph.roots.map((root) => numbers.get(root)).join()}`)
  return parts.join('\n')
}

/** Codes of element types (onnx.proto3, TensorProto.DataType). */
export const ELEMENT_TYPE: Readonly<Record<OnnxType, number>> = { float32: 1, int32: 6, int64: 7, bool: 9, float64: 11 }

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

/**
 * A model with the names of its inputs and outputs, in the order of the feeds without values, and
 * of `roots`.
 */
export interface EncodedModel {
  readonly model: Uint8Array
  readonly feedNames: readonly string[]
  readonly rootNames: readonly string[]
  /** Constants that are not in `model`. */
  readonly externalData: readonly ExternalData[]
}

/** Bytes above which a constant may be external. */
const LARGE_BYTES = 2 ** 16

/** Writes a constant that is not in the model (onnx.proto3, TensorProto). */
const writeExternal = (tensor: MessageWriter, { path, data }: ExternalData): void => {
  for (const [key, value] of Object.entries({ location: path, offset: '0', length: String(data.byteLength) })) {
    tensor.message(13, (entry) => {
      entry.text(1, key)
      entry.text(2, value)
    })
  }
  tensor.integer(14, 1) // data_location: EXTERNAL
}

/** The ONNX operator set of encoded models, and the matching IR version. */
const OPERATOR_SET = 23
const IR_VERSION = 11

/** Shapes of feeds and roots. Null is a size that may vary. */
export type OpenShapes = ReadonlyMap<Value, readonly (number | null)[]>

/** Values of feeds that are written into a model, like its constants. */
export type FeedValues = ReadonlyMap<Value, OnnxArray>

const NO_VALUES: FeedValues = new Map()

export interface ModelOptions {
  readonly open?: OpenShapes
  readonly values?: FeedValues
  /** Default `inside`. */
  readonly largeConstants?: OnnxRuntime['largeConstants']
}

/**
 * Encodes a graph as an ONNX model (onnx.proto3, ModelProto). Feeds with `values` are constants of
 * it and not inputs.
 */
export const encodeModel = (
  graph: Graph,
  { open = new Map(), values = NO_VALUES, largeConstants = 'inside' }: ModelOptions = {},
): EncodedModel => {
  const externalData: ExternalData[] = []
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
        const data = new Uint8Array(buffer, byteOffset, byteLength)
        if (largeConstants === 'inside' || byteLength <= LARGE_BYTES) {
          tensor.bytes(9, data)
          return
        }
        const external = { path: nameOf(constant), data }
        externalData.push(external)
        writeExternal(tensor, external)
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
  return { model: writer.finish(), feedNames, rootNames: graph.roots.map(nameOf), externalData }
}
