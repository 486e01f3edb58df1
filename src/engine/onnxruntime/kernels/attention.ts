/** Attention over a key-value cache: kernels of this project's own, behind the functions in `engine/ops`. */
import type { OutputSpec, Value } from '../graph.js'
import { isFloat, numberAttribute, type RuleTable } from '../rule.js'

export const attentionRules: RuleTable = {
  /** New positions over what is cached and themselves; see `engine/ops/cachedAttention.ts`. */
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
  /** One new position of each row over what is cached and itself; see `engine/ops/decodeAttention.ts`. */
  DecodeAttention: (emitter, inputs, attributes) => {
    const names = ['queries', 'keys', 'values', 'bias', 'self', 'pastKeys', 'pastValues'] as const
    const given = names.map((name) => emitter.valueOf(inputs[name]!))
    if (!given.every((value): value is Value => value !== undefined && isFloat(value))) return undefined
    const [queries, keys, values, bias, self, pastKeys, pastValues] = given as [Value, ...Value[]] & { length: 7 }
    const [rows, heads, , width] = queries.shape as [number, number, number, number] // checked by the operation
    const groups = keys!.shape[1]!
    const scale = numberAttribute(attributes, 'scale')
    const floats = (...shape: readonly number[]): OutputSpec => ({ shape, type: 'float32' })
    const reshape = (x: Value, ...shape: readonly number[]): Value =>
      emitter.emit('Reshape', [x, emitter.integers(shape)], floats(...shape))
    const grouped = [rows, groups, heads / groups] as const
    const own = emitter.emit('FusedMatMul', [reshape(queries, ...grouped, width), keys!], floats(...grouped, 1), {
      domain: 'com.microsoft',
      attributes: { transA: 0, transB: 1, alpha: { float: scale } },
    })
    const all = floats(rows, heads, 1, bias!.shape[3]!)
    const placed = emitter.emit('Mul', [reshape(own, rows, heads, 1, 1), self!], all)
    const scores = emitter.emit('Add', [placed, bias!], all)
    const [mixed, , , weights] = emitter.emitMany(
      'Attention',
      [queries, pastKeys!, pastValues!, scores],
      [queries, { ...all, wanted: 'no' }, { ...all, wanted: 'no' }, all],
      { attributes: { scale: { float: scale }, qk_matmul_output_mode: 3 } },
    )
    const first = emitter.emit('Gather', [weights!, emitter.integers([0])], floats(rows, heads, 1, 1), {
      attributes: { axis: 3 },
    })
    const added = emitter.emit('Mul', [reshape(first, ...grouped, 1), values!], floats(...grouped, width))
    return emitter.emit('Add', [mixed!, reshape(added, rows, heads, 1, width)], queries)
  },
  /** The largest number along the last axis, kept as an axis of size 1. */
  RowMax: (emitter, inputs) => {
    const x = emitter.valueOf(inputs.x!)
    if (x === undefined || !isFloat(x)) return undefined
    return emitter.emit('ReduceMax', [x, emitter.integers([-1])], { shape: [...x.shape.slice(0, -1), 1], type: x.type })
  },
}
