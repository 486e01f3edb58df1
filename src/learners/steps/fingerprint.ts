/**
 * Fingerprints of formulas: digests of what a loss or an advantage computes for fixed numbers. Two
 * formulas with equal fingerprints are the same for a run, whatever their names.
 */
import { child, type Key, keyFromSeed, uniforms } from '@tandem-rl/base'
import { liveDigest } from '@tandem-rl/base/host'
import { onCpu, valueAndGrad } from '@tandem-rl/tfjs-onnxruntime'
import { scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as tf from '@tensorflow/tfjs-core'
import { set } from '../../data/tensorDict/edit.js'
import { data, type Ragged, ragged, raggedArray } from '../../data/tensorDict/leaf.js'
import { find, TensorDict } from '../../data/tensorDict/tensorDict.js'
import type { Advantage } from '../../objectives/advantages/advantage.js'
import { type AnyLoss, scalarsOf, totalLoss } from '../../objectives/loss.js'
import { withNoise } from '../../objectives/lossRows.js'
import { lossTensors } from './stepLoss.js'
import { listTensors, stepRows } from './tokenRows.js'

/** Digits of a digest that are kept. */
const DIGITS = 16

/** Number of tokens of the vocabulary in logits. */
const VOCABULARY = 7

const KEY: Key = keyFromSeed(20261127)

const lengthsOf = (rows: number): readonly number[] => Array.from({ length: rows }, (_, row) => 2 + (row % 4))

const numbers = (name: string, count: number, scale = 1, shift = 0): Float32Array =>
  Float32Array.from(uniforms(child(KEY, name), count), (x) => scale * x + shift)

/** Ragged numbers, one for each token of responses. */
const perToken = (name: string, rows: number, scale = 1, shift = 0): Ragged<'float32'> =>
  ragged(
    'float32',
    lengthsOf(rows).map((length, row) => numbers(`${name} ${row}`, length, scale, shift)),
  )

const nats = (name: string, rows: number): Ragged<'float32'> => perToken(name, rows, -3, -0.1)

const tokens = (rows: number) => ({
  prompt: ragged(
    'int32',
    Array.from({ length: rows }, (_, row) => [1, Math.floor(row / 2)]),
  ),
  response: ragged(
    'int32',
    lengthsOf(rows).map((length) => new Int32Array(length).fill(1)),
  ),
})

/** A batch of `groups` times `group` turns with the entries of all losses and advantages. */
const probeBatch = (groups: number, group: number): TensorDict => {
  const rows = groups * group
  const each = <T>(f: (row: number) => T): readonly T[] => Array.from({ length: rows }, (_, row) => f(row))
  const side = (name: string) => ({ tokens: tokens(rows), refLogProbs: { response: nats(`${name} reference`, rows) } })
  return TensorDict(
    {
      tokens: tokens(rows),
      masks: {
        loss: ragged(
          'bool',
          lengthsOf(rows).map((length, row) =>
            Uint8Array.from({ length }, (_, t) => (row % 3 === 1 && t === 1 ? 0 : 1)),
          ),
        ),
      },
      logProbs: { response: nats('sampled', rows) },
      next: { refLogProbs: { response: nats('reference', rows) }, reward: tf.tensor1d(numbers('reward', rows)) },
      teacherLogProbs: { response: nats('teacher', rows) },
      advantage: perToken('advantage', rows, 2, -1),
      tokenWeights: perToken('weight', rows),
      returns: perToken('return', rows),
      values: perToken('value', rows),
      groupId: data(each((row) => `group ${Math.floor(row / group)}`)),
      trajectoryId: data(each((row) => `trajectory ${row}`)),
      turn: data(each(() => 0)),
      chosen: side('chosen'),
      rejected: side('rejected'),
      margin: tf.tensor1d(numbers('margin', rows)),
    },
    [rows],
  ) as unknown as TensorDict // entries are found by name
}

/** Adds numbers for each token under the names that the batch lacks. */
const withEntries = (batch: TensorDict, names: readonly string[]): TensorDict =>
  names.reduce(
    (td, name) =>
      find(td, name.split('.')) === undefined
        ? (set(td as never, name.split('.') as never, perToken(name, td.batchShape[0]!) as never) as TensorDict) // of any schema
        : td,
    batch,
  )

const digestOf = (lists: readonly ArrayLike<number>[]): string => {
  const all = Float32Array.from(lists.flatMap((list) => Array.from(list)))
  return liveDigest(new Uint8Array(all.buffer)).slice(0, DIGITS)
}

/** Returns the digest, or the reason why the formula cannot be computed for the fixed numbers. */
const probed = (compute: () => readonly ArrayLike<number>[]): string => {
  try {
    return digestOf(onCpu(() => compute()))
  } catch (error) {
    return `not computed: ${error instanceof Error ? error.message : String(error)}`
  }
}

const sorted = (tensors: Readonly<Record<string, tf.Tensor>>): readonly ArrayLike<number>[] =>
  Object.entries(tensors)
    .toSorted(([a], [b]) => (a < b ? -1 : 1))
    .map(([, tensor]) => tensor.dataSync())

/**
 * Computes the fingerprint of a loss: a digest of its scalars and of its gradients by all outputs
 * of the model, for a fixed batch, on a backend that gives the same numbers everywhere. It differs
 * if the formula, its settings, or the tokens that it selects differ.
 *
 * A loss that cannot be computed for the batch, because it reads entries of another kind, has the
 * reason as its fingerprint.
 */
export const lossFingerprint = (loss: AnyLoss): string =>
  probed(() =>
    scope(() => {
      const batch = withEntries(probeBatch(2, 2), loss.reads)
      const plain = loss.rows(batch as TensorDict<never>) // it has all entries
      const rows = stepRows(loss.needs.noise === 'uniform' ? withNoise(plain, KEY) : plain)
      const { mask, lists } = listTensors(rows)
      const [count, width] = mask.shape as [number, number] // [B, T]
      const at = (name: string, shape: readonly number[], scale = 1, shift = 0): tf.Tensor =>
        tf.tensor(
          numbers(
            name,
            shape.reduce((a, b) => a * b, 1),
            scale,
            shift,
          ),
          [...shape],
        )
      const model = {
        logProbs: at('logProbs', [count, width], -3, -0.1),
        entropy: at('entropy', [count, width]),
        values: at('values', [count, width]),
        logits: at('logits', [count * width, VOCABULARY], 4, -2),
      }
      const given = { mask, lists }
      const greedy = tf.round(at('greedy', [count, width]))
      const selected = [loss.selection.counted, loss.selection.choose].flatMap((select) =>
        select === undefined ? [] : [select(model, lossTensors(given)).dataSync()],
      )
      const counts = { tokens: tf.sum(mask), completions: tf.scalar(count) }
      const { value, grads, aux } = valueAndGrad(model, (outputs) => {
        const output = loss.apply({ ...outputs, greedy }, lossTensors({ ...given, counts }))
        return { value: totalLoss(output), aux: scalarsOf(output) }
      })
      return [...selected, value.dataSync(), ...sorted(aux), ...sorted(grads)].map((list) => Float32Array.from(list))
    }),
  )

/**
 * Computes the fingerprint of an advantage: a digest of the entries that it writes for a fixed
 * batch of rewards.
 */
export const advantageFingerprint = (advantage: Advantage<never, unknown>): string =>
  probed(() =>
    scope(() => {
      const batch = withEntries(probeBatch(2, advantage.groupSize ?? 2), advantage.reads)
      const result = advantage(batch as TensorDict<never>) as unknown as TensorDict // it has all entries
      return Object.keys(advantage.writes).map((name) => Float32Array.from(raggedArray(find(result, [name]) as Ragged)))
    }),
  )
