/**
 * TensorDicts that files of trajectories must carry: drawn ones, and batches that a collector made.
 */
import { keyFromSeed } from '@tandem-rl/base'
import { anyHistory, anyTensorDict, type TensorDictRecipe } from '@tandem-rl/testing'
import type { Owned } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as tf from '@tensorflow/tfjs-core'
import fc from 'fast-check'
import { List } from 'immutable'
import { LLMCollector } from '../../src/collectors/llmCollector.js'
import { data, type Leaf, meta, ragged } from '../../src/data/tensorDict/leaf.js'
import { TensorDict } from '../../src/data/tensorDict/tensorDict.js'
import { rightOf } from './results.js'
import { smallPolicy, turnEnv } from './small.js'

/** Values that JSON does not have, or that look like the marks that stand for them. */
export const anyAwkwardValue: fc.Arbitrary<unknown> = fc.oneof(
  fc.constantFrom<unknown>(
    Number.NaN,
    Number.POSITIVE_INFINITY,
    Number.NEGATIVE_INFINITY,
    -0,
    undefined,
    null,
    2n ** 80n,
    -1n,
  ),
  fc.constantFrom<unknown>(
    { $type: 'number', value: 'NaN' },
    { $type: 1 },
    { a: undefined },
    [undefined],
    '\ud800',
    '\u2028',
  ),
  fc.constantFrom<unknown>(new Date(0), List([1, List(['a'])])),
  fc.double(),
  anyHistory,
  fc.dictionary(
    fc.constantFrom('$type', '__proto__', 'constructor', 'toString', '10', ''),
    fc.oneof(fc.integer(), fc.constant(-0)),
    { noNullPrototype: true },
  ),
  fc.jsonValue({ maxDepth: 3 }),
)

/** Batch shapes with at least one axis. */
const anyBatchedShape: fc.Arbitrary<readonly number[]> = fc.array(fc.integer({ min: 0, max: 3 }), {
  minLength: 1,
  maxLength: 3,
})

/**
 * TensorDicts with a batch axis: what `anyTensorDict` draws, awkward values, texts as tensors, and
 * nodes with a batch shape of their own.
 */
export const anyTrajectories: fc.Arbitrary<TensorDictRecipe> = anyTensorDict(anyBatchedShape).chain((recipe) => {
  const rows = recipe.batchShape.reduce((n, m) => n * m, 1)
  const items = fc.array(anyAwkwardValue, { minLength: rows, maxLength: rows })
  return fc
    .record({ items, value: anyAwkwardValue, extra: fc.integer({ min: 0, max: 2 }) })
    .map(({ items, value, extra }) => ({
      batchShape: recipe.batchShape,
      build: () => {
        const drawn = recipe.build()
        const inner = [...drawn.batchShape, extra]
        const entries: readonly (readonly [string, Leaf | TensorDict])[] = [
          ['awkward', data(items)],
          ['value', meta(value)],
          ['texts', tf.fill([...inner], 'żółw', 'string')],
          ['zeros', tf.fill([...drawn.batchShape], -0)],
          [
            'wider',
            TensorDict(
              {
                ids: ragged(
                  'int32',
                  Array.from({ length: rows * extra }, (_, i) => [i, -i]),
                ),
                flags: tf.zeros(inner, 'bool'),
              },
              inner,
            ),
          ],
        ]
        return TensorDict({ drawn, ...Object.fromEntries(entries) }, drawn.batchShape)
      },
    }))
})

/** A batch of conversations of several turns, from the real collector. */
export const collectedBatch = async (turns: readonly number[]): Promise<Owned<TensorDict>> => {
  const collector = LLMCollector({
    env: turnEnv(turns, { prompts: turns.length, repeats: 2 }),
    policy: smallPolicy(),
    key: keyFromSeed(3),
  })
  return (await rightOf(collector.collect(collector.start))).batch
}
