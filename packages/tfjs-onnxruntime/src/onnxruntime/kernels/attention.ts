/**
 * Attention over a key-value cache: this project's own kernels for the functions in `engine/ops`.
 */
import type { OutputSpec, Value } from '../graph.js'
import { isFloat, numberAttribute, type RuleTable } from '../rule.js'

export const attentionRules: RuleTable = {
  /**
   * Attention of new positions over the cache and themselves; see `engine/ops/cachedAttention.ts`.
   */
  CachedAttention: (emitter, inputs, attributes) => {
    const names = ['queries', 'keys', 'values', 'bias', 'pastKeys', 'pastValues'] as const
    const given = names.map((name) => (inputs[name] === undefined ? null : emitter.valueOf(inputs[name])))
    if (!given.every((value): value is Value | null => value === null || (value !== undefined && isFloat(value)))) {
      return undefined
    }
    const [queries, keys, values, bias, pastKeys, pastValues] = given
    const [rows, , places, width] = queries!.shape as [number, number, number, number] // checked by the operation
    const present: OutputSpec = {
      shape: [rows, keys!.shape[1]!, (pastKeys?.shape[2] ?? 0) + places, width],
      type: 'float32',
    }
    return emitter.emitMany(
      'Attention',
      [queries!, keys!, values!, bias!, pastKeys!, pastValues!],
      pastKeys === null ? [queries!] : [queries!, present, present], // with a past, onnxruntime insists on writing the whole
      { attributes: { scale: { float: numberAttribute(attributes, 'scale') } } },
    )[0]
  },
  /** Returns the largest number along the last axis, kept as an axis of size 1. */
  RowMax: (emitter, inputs) => {
    const x = emitter.valueOf(inputs.x!)
    if (x === undefined || !isFloat(x)) return undefined
    return emitter.emit('ReduceMax', [x, emitter.integers([-1])], { shape: [...x.shape.slice(0, -1), 1], type: x.type })
  },
}
