/** Kernels that look up or write elements by index. */
import * as tf from '@tensorflow/tfjs-core'
import type { Value } from '../graph.js'
import { sizeOf } from '../graph.js'
import type { KernelRule, RuleTable } from '../rule.js'
import { normalizeAxes, numberAttribute } from '../rule.js'
import { castValue } from './elementwise.js'
import { reshapeValue } from './shape.js'

/**
 * Checks indices whose values are known when the kernel is called. Indices that are computed later
 * are checked by onnxruntime at run time, which counts indices from -size to -1 from the end
 * instead of refusing them.
 *
 * Errors   throws RangeError for an index outside `[0, size)`, with tfjs's message.
 */
const checkKnownIndices = (indices: Value, size: number): void => {
  for (const index of indices.data ?? []) {
    if (index < 0 || index >= size) {
      throw new RangeError(`GatherV2: the index value ${index} is not in [0, ${size - 1}]`)
    }
  }
}

const gather: KernelRule = (emitter, { x, indices }, attributes) => {
  const [value, index] = [emitter.valueOf(x!), emitter.valueOf(indices!)]
  if (value === undefined || index?.type !== 'int32') return undefined
  const [axis] = normalizeAxes([numberAttribute(attributes, 'axis')], value.shape.length)
  const batchDims = numberAttribute(attributes, 'batchDims')
  checkKnownIndices(index, value.shape[axis!]!)
  // Throws where the batches of the two do not fit.
  const { outputShape: shape } = tf.backend_util.segment_util.collectGatherOpShapeInfo(x!, indices!, axis!, batchDims)
  if (batchDims === 0) {
    return emitter.emit('Gather', [value, index], { shape, type: value.type }, { attributes: { axis: axis! } })
  }
  if (axis !== batchDims) return undefined
  const places = castValue(emitter, reshapeValue(emitter, index, [...index.shape, 1]), 'int64')
  return emitter.emit(
    'GatherND',
    [value, places],
    { shape, type: value.type },
    { attributes: { batch_dims: batchDims } },
  )
}

/**
 * Sums the rows that share a segment id. Rows whose id is negative or too large are dropped, as in
 * tfjs: they go to an extra row that is removed. ScatterElements runs on one thread; ScatterND,
 * which runs on several, loses additions to equal rows (a data race in onnxruntime 1.30, see
 * `docs/decisions`).
 */
const segmentSum: KernelRule = (emitter, { x, segmentIds }, attributes) => {
  const [value, ids] = [emitter.valueOf(x!), emitter.valueOf(segmentIds!)]
  if (value === undefined || value.type === 'bool' || ids?.type !== 'int32' || ids.shape.length !== 1) return undefined
  const count = numberAttribute(attributes, 'numSegments')
  const { type } = value
  const rest = value.shape.slice(1)
  const [rows, width] = [ids.shape[0]!, sizeOf(rest)]
  if (value.shape[0] !== rows) {
    throw new Error(`unsortedSegmentSum: x [${value.shape.join()}] and segmentIds [${rows}] do not fit`)
  }
  const negative = emitter.emit('Less', [ids, emitter.fixed(0, 'int32')], { shape: ids.shape, type: 'bool' })
  const extra = emitter.scalar(count, 'int32')
  const safe = emitter.emit('Min', [emitter.emit('Where', [negative, extra, ids], ids), extra], ids)
  const places = emitter.emit('Expand', [reshapeValue(emitter, safe, [rows, 1]), emitter.integers([1, width])], {
    shape: [rows, width],
    type: 'int32',
  })
  const sumShape = [count + 1, width]
  const zeros = emitter.emit('Expand', [emitter.fixed(0, type), emitter.integers(sumShape)], { shape: sumShape, type })
  const sums = emitter.emit(
    'ScatterElements',
    [zeros, places, reshapeValue(emitter, value, [rows, width])],
    { shape: sumShape, type },
    { attributes: { axis: 0, reduction: 'add' } },
  )
  const bounds = [emitter.integers([0]), emitter.integers([count]), emitter.integers([0])]
  const kept = emitter.emit('Slice', [sums, ...bounds], { shape: [count, width], type })
  return reshapeValue(emitter, kept, [count, ...rest])
}

const oneHot: KernelRule = (emitter, { indices }, attributes) => {
  const index = emitter.valueOf(indices!)
  const { dtype } = attributes
  if (index?.type !== 'int32' || (dtype !== 'float32' && dtype !== 'int32')) return undefined
  const depth = numberAttribute(attributes, 'depth')
  const shape = [...index.shape, depth]
  const classes = emitter.emit(
    'Range',
    [emitter.fixed(0, 'int32'), emitter.fixed(depth, 'int32'), emitter.fixed(1, 'int32')],
    { shape: [depth], type: 'int32' },
  )
  const hit = emitter.emit('Equal', [reshapeValue(emitter, index, [...index.shape, 1]), classes], {
    shape,
    type: 'bool',
  })
  const on = emitter.scalar(numberAttribute(attributes, 'onValue'), dtype)
  const off = emitter.scalar(numberAttribute(attributes, 'offValue'), dtype)
  return emitter.emit('Where', [hit, on, off], { shape, type: dtype })
}

export const indexingRules: RuleTable = {
  GatherV2: gather,
  OneHot: oneHot,
  UnsortedSegmentSum: segmentSum,
}
