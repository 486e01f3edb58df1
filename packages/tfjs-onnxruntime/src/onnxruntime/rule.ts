/** The interface in which kernels are written: read inputs, emit ONNX operations, return values. */
import type { TensorInfo } from '@tensorflow/tfjs-core'
import type { Attribute, OutputSpec, Value } from './graph.js'
import type { OnnxType } from './library.js'

export interface EmitOptions {
  readonly attributes?: Readonly<Record<string, Attribute>>
  readonly domain?: '' | 'com.microsoft'
}

/** Sizes of recorded values: those of the values of a run, or two examples of them. */
export type GraphSizes = 'fixed' | 'vary'

/** The operations that a kernel rule may use. All of them only record. */
export interface Emitter {
  /**
   * Returns the value of a tensor, reshaped to the tensor's own shape; undefined for strings and
   * complex numbers.
   */
  readonly valueOf: (info: TensorInfo) => Value | undefined
  readonly emit: (name: string, inputs: readonly (Value | null)[], output: OutputSpec, options?: EmitOptions) => Value
  readonly emitMany: (
    name: string,
    inputs: readonly (Value | null)[],
    outputs: readonly OutputSpec[],
    options?: EmitOptions,
  ) => readonly Value[]
  /** Returns `vary` inside of a function that is recorded for arguments of any size. */
  readonly sizes: () => GraphSizes
  /** Creates a 1-D int64 initializer: axes, shapes, repeats. */
  readonly integers: (values: readonly number[]) => Value
  /**
   * Creates a scalar that is fed, so that another number does not compile another graph (inside a
   * trace it is a constant).
   */
  readonly scalar: (value: number, type: OnnxType) => Value
  /**
   * Creates a scalar that is part of the graph: for the few numbers that never change, such as 0
   * and 1.
   */
  readonly fixed: (value: number, type: OnnxType) => Value
}

/**
 * Named tensors of one kernel call. A kernel with a list of tensors has them under '0', '1', ...
 */
export type KernelInputs = Readonly<Record<string, TensorInfo | undefined>>

/** Untyped attributes of tfjs. `attribute` readers check them on use. */
export type KernelAttributes = Readonly<Record<string, unknown>>

/**
 * The rule of one kernel: emits operations for the inputs and attributes. Returns undefined if this
 * combination (a dtype, a mode) has no ONNX form, so that the cpu backend runs it.
 */
export type KernelRule = (
  emitter: Emitter,
  inputs: KernelInputs,
  attributes: KernelAttributes,
) => Value | readonly Value[] | undefined

/** Rules by the kernel names of tfjs. */
export type RuleTable = Readonly<Record<string, KernelRule>>

export const numberAttribute = (attributes: KernelAttributes, name: string): number => {
  const value = attributes[name]
  if (typeof value !== 'number') throw new TypeError(`kernel attribute '${name}' must be a number, got ${typeof value}`)
  return value
}

/** Reads a list of integers; a single number counts as a list of one. */
export const integersAttribute = (attributes: KernelAttributes, name: string): readonly number[] => {
  const value = attributes[name]
  if (typeof value === 'number') return [value]
  if (Array.isArray(value) || ArrayBuffer.isView(value)) return Array.from(value as ArrayLike<number>) // checked above
  throw new TypeError(`kernel attribute '${name}' must be a list of integers, got ${typeof value}`)
}

/** Reads a flag; absent means false. */
export const flagAttribute = (attributes: KernelAttributes, name: string): boolean => attributes[name] === true

/**
 * Converts axes to non-negative numbers. Errors: throws RangeError for an axis that the rank does
 * not have.
 */
export const normalizeAxes = (axes: readonly number[], rank: number): readonly number[] =>
  axes.map((axis) => {
    if (!Number.isInteger(axis) || axis < -rank || axis >= rank) {
      throw new RangeError(`axis must be an integer from ${-rank} to ${rank - 1}, got ${axis}`)
    }
    return axis < 0 ? axis + rank : axis
  })

/** Returns the shape of two shapes broadcast together, or undefined if they do not fit. */
export const broadcastShape = (a: readonly number[], b: readonly number[]): readonly number[] | undefined => {
  const rank = Math.max(a.length, b.length)
  const shape: number[] = []
  for (let i = 0; i < rank; i++) {
    const m = a[a.length - rank + i] ?? 1
    const n = b[b.length - rank + i] ?? 1
    if (m !== n && m !== 1 && n !== 1) return undefined
    shape.push(m === 1 ? n : m)
  }
  return shape
}

export const isFloat = (value: Value): boolean => value.type === 'float32'
