/**
 * Kernels that write slices to positions given by index vectors. Sums run on one thread, see
 * `docs/decisions`.
 */
import * as tf from '@tensorflow/tfjs-core'
import { sizeOf, type Value } from '../graph.js'
import { type Emitter, integersAttribute, type KernelRule, type RuleTable } from '../rule.js'
import { castValue } from './elementwise.js'
import { reshapeValue } from './shape.js'

/**
 * The operands of a scatter: slices of `updates` are written to the index vectors in the last axis
 * of `indices`.
 */
interface Scatter {
  readonly target: Value
  readonly indices: Value
  readonly updates: Value
  readonly reduction: 'none' | 'add'
}

/**
 * Writes the slices to the target or adds them. Of several slices for one position the last one
 * counts.
 *
 * Errors   throws tfjs's errors if shapes do not fit; a run throws for an index outside of the
 *          target.
 */
const scatterValue = (emitter: Emitter, { target, indices, updates, reduction }: Scatter): Value => {
  const [info, places] = [updates, indices].map((v) => ({ shape: [...v.shape] }) as tf.TensorInfo) // only shapes are read
  const { sliceSize, numUpdates, strides } = tf.scatter_util.calculateShapes(info!, places!, [...target.shape])
  const rank = indices.shape.length > 1 ? indices.shape.at(-1)! : 1
  const coordinates = castValue(emitter, reshapeValue(emitter, indices, [numUpdates, rank]), 'int64')
  const rows = emitter.emit(
    'ReduceSum',
    [emitter.emit('Mul', [coordinates, emitter.integers(strides.slice(0, rank))], coordinates), emitter.integers([1])],
    { shape: [numUpdates, 1], type: 'int64' },
    { attributes: { keepdims: 1 } },
  )
  const wide = { shape: [numUpdates, sliceSize], type: 'int64' } as const
  const spread = emitter.emit('Expand', [rows, emitter.integers(wide.shape)], wide)
  const flat = [sizeOf(target.shape) / sliceSize, sliceSize]
  const slices =
    updates.shape.length === 0
      ? emitter.emit('Expand', [updates, emitter.integers(wide.shape)], { shape: wide.shape, type: updates.type })
      : reshapeValue(emitter, updates, wide.shape)
  const scattered = emitter.emit(
    'ScatterElements',
    [reshapeValue(emitter, target, flat), spread, slices],
    { shape: flat, type: target.type },
    { attributes: { axis: 0, reduction } },
  )
  return reshapeValue(emitter, scattered, target.shape)
}

const filledWith = (emitter: Emitter, fill: Value, shape: readonly number[]): Value =>
  emitter.emit('Expand', [fill, emitter.integers(shape)], { shape, type: fill.type })

const scatterNd: KernelRule = (emitter, inputs, attributes) => {
  const [indices, updates] = [emitter.valueOf(inputs.indices!), emitter.valueOf(inputs.updates!)]
  if (indices?.type !== 'int32' || updates === undefined || updates.type === 'bool') return undefined
  const shape = integersAttribute(attributes, 'shape')
  if (sizeOf(shape) === 0) return undefined
  const target = filledWith(emitter, emitter.fixed(0, updates.type), shape)
  return scatterValue(emitter, { target, indices, updates, reduction: 'add' })
}

const tensorScatterUpdate: KernelRule = (emitter, inputs) => {
  const [indices, updates] = [emitter.valueOf(inputs.indices!), emitter.valueOf(inputs.updates!)]
  const target = emitter.valueOf(inputs.tensor!)
  if (indices?.type !== 'int32' || updates === undefined || target?.type !== updates.type) return undefined
  return scatterValue(emitter, { target, indices, updates, reduction: 'none' })
}

const sparseToDense: KernelRule = (emitter, inputs, attributes) => {
  const [indices, updates] = [emitter.valueOf(inputs.sparseIndices!), emitter.valueOf(inputs.sparseValues!)]
  const fill = emitter.valueOf(inputs.defaultValue!)
  if (indices?.type !== 'int32' || updates === undefined || fill?.type !== updates.type) return undefined
  const shape = integersAttribute(attributes, 'outputShape')
  if (sizeOf(shape) === 0) return undefined
  const target = filledWith(emitter, reshapeValue(emitter, fill, []), shape)
  return scatterValue(emitter, { target, indices, updates, reduction: 'none' })
}

/** Looks up slices by the index vectors in the last axis of `indices`. */
const gatherNd: KernelRule = (emitter, inputs) => {
  const [params, indices] = [emitter.valueOf(inputs.params!), emitter.valueOf(inputs.indices!)]
  if (params === undefined || indices?.type !== 'int32') return undefined
  const [shape] = tf.gather_util.prepareAndValidate(inputs.params!, inputs.indices!)
  if (indices.shape.at(-1) === 0) return undefined
  return emitter.emit('GatherND', [params, castValue(emitter, indices, 'int64')], { shape, type: params.type })
}

/**
 * Puts the elements on the diagonal of a matrix of zeros, and gives each of its two axes the shape
 * of x.
 */
const diag: KernelRule = (emitter, inputs) => {
  const x = emitter.valueOf(inputs.x!)
  if (x === undefined) return undefined
  const n = sizeOf(x.shape)
  const scattered = emitter.emit(
    'ScatterElements',
    [
      filledWith(emitter, emitter.fixed(0, x.type), [n * n]),
      emitter.integers(Array.from({ length: n }, (_, i) => i * (n + 1))),
      reshapeValue(emitter, x, [n]),
    ],
    { shape: [n * n], type: x.type },
    { attributes: { axis: 0 } },
  )
  return reshapeValue(emitter, scattered, [...x.shape, ...x.shape])
}

export const scatterRules: RuleTable = {
  Diag: diag,
  GatherNd: gatherNd,
  ScatterNd: scatterNd,
  SparseToDense: sparseToDense,
  TensorScatterUpdate: tensorScatterUpdate,
}
