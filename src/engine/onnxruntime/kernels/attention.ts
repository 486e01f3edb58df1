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
  /**
   * Attention of one new position of each row over the cache and itself; see
   * `engine/ops/decodeAttention.ts`.
   */
  DecodeAttention: (emitter, inputs, attributes) => {
    const names = ['queries', 'keys', 'values', 'bias', 'self', 'pastKeys', 'pastValues'] as const
    const given = names.map((name) => emitter.valueOf(inputs[name]!))
    if (!given.every((value): value is Value => value !== undefined && isFloat(value))) return undefined
    const [queries, keys, values, bias, self, pastKeys, pastValues] = given as [Value, ...Value[]] & { length: 7 }
    const [rows, heads, , width] = queries.shape as [number, number, number, number] // checked by the operation
    const [groups, places] = [keys!.shape[1]!, bias!.shape[3]!]
    const floats = (...shape: readonly number[]): OutputSpec => ({ shape, type: 'float32' })
    /**
     * Reshapes to `[S, K, Q / K, 1, ...]`: every product has one row, for which onnxruntime has
     * faster kernels than for several.
     */
    const each = (size: number): OutputSpec => floats(rows, groups, heads / groups, 1, size)
    const opened = (x: Value, axis: number): Value =>
      emitter.emit(
        'Unsqueeze',
        [x, emitter.integers([axis])],
        floats(...x.shape.slice(0, axis), 1, ...x.shape.slice(axis)),
      )
    // Scaled beforehand: products that scale their result take a slower kernel.
    const scaled = emitter.emit(
      'Mul',
      [queries, emitter.fixed(numberAttribute(attributes, 'scale'), 'float32')],
      queries,
    )
    const grouped = emitter.emit('Reshape', [scaled, emitter.integers(each(width).shape)], each(width))
    const cached = emitter.emit('FusedMatMul', [grouped, opened(pastKeys!, 2)], each(places), {
      domain: 'com.microsoft',
      attributes: { transA: 0, transB: 1, alpha: { float: 1 } },
    })
    const products = emitter.emit('Mul', [grouped, opened(keys!, 2)], each(width))
    const own = emitter.emit('ReduceSum', [products, emitter.integers([-1])], each(1), { attributes: { keepdims: 1 } })
    const placed = emitter.emit('Mul', [own, self!], each(places))
    const hidden = emitter.emit('Add', [placed, opened(bias!, 1)], each(places))
    const scores = emitter.emit('Add', [cached, hidden], each(places))
    const weights = emitter.emit('Softmax', [scores], each(places), { attributes: { axis: -1 } })
    const mixed = emitter.emit('MatMul', [weights, opened(pastValues!, 2)], each(width))
    const first = emitter.emit('Gather', [weights, emitter.integers([0])], each(1), { attributes: { axis: 4 } })
    const added = emitter.emit('Mul', [first, opened(values!, 2)], each(width))
    const all = emitter.emit('Add', [mixed, added], each(width))
    return emitter.emit('Reshape', [all, emitter.integers(queries.shape)], queries)
  },
  /** Returns the largest number along the last axis, kept as an axis of size 1. */
  RowMax: (emitter, inputs) => {
    const x = emitter.valueOf(inputs.x!)
    if (x === undefined || !isFloat(x)) return undefined
    return emitter.emit('ReduceMax', [x, emitter.integers([-1])], { shape: [...x.shape.slice(0, -1), 1], type: x.type })
  },
}
