import { memoryBytes } from '@tandem-rl/base'
import { encodeParquet, parquetInfo, readParquet } from '@tandem-rl/parquet'
import { own, scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as tf from '@tensorflow/tfjs-core'
import fc from 'fast-check'
import * as E from 'fp-ts/lib/Either.js'
import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import { encodeTrajectories } from '../../../src/data/codecs/trajectories.js'
import { decodeTrajectoriesParquet, encodeTrajectoriesParquet } from '../../../src/data/codecs/trajectoriesParquet.js'
import { equals } from '../../../src/data/tensorDict/compare.js'
import { data, meta, ragged } from '../../../src/data/tensorDict/leaf.js'
import { TensorDict } from '../../../src/data/tensorDict/tensorDict.js'
import { useEngine } from '../../kit/engine.js'
import { leftOf, rightOf } from '../../kit/results.js'
import { anyTrajectories, collectedBatch } from '../../kit/trajectories.js'

useEngine()

const source = (bytes: Uint8Array) => memoryBytes(bytes, 'a.parquet')

const small = () =>
  own(
    scope(() =>
      TensorDict(
        {
          query: data(['2 + 2?', '1 + 1?']),
          tokens: { response: ragged('int32', [[7, 8], []]) },
          next: { reward: tf.tensor1d([1, -0]), table: tf.ones([2, 2, 2], 'int32') },
          stop: data<unknown>(['stop', null]),
          'next.reward': data(['a', 'b']),
          source: meta(7n),
        },
        [2],
      ),
    ),
  )

describe('trajectories as Parquet', () => {
  it('are given back, equal in every bit: every TensorDict with a batch axis', async () => {
    const law = fc.asyncProperty(anyTrajectories, fc.constantFrom(1, 10), async (recipe, rowsPerGroup) => {
      using td = own(scope(recipe.build))
      const bytes = await rightOf(encodeTrajectoriesParquet(td.value, { rowsPerGroup }))
      using back = await rightOf(decodeTrajectoriesParquet(source(bytes)))
      expect(equals(back.value, td.value)).toBe(true)
      expect(encodeTrajectories(back.value)).toBe(encodeTrajectories(td.value))
    })
    await fc.assert(law, { numRuns: 50 })
  })

  it('of a real collector are given back', async () => {
    using batch = await collectedBatch([2, 1])
    using back = await rightOf(decodeTrajectoriesParquet(source(await rightOf(encodeTrajectoriesParquet(batch.value)))))
    expect(equals(back.value, batch.value)).toBe(true)
  })

  it('have a column for each leaf: text as it is, other data as JSON, ragged rows and tensors as lists', async () => {
    using td = small()
    const file = source(await rightOf(encodeTrajectoriesParquet(td.value)))
    expect((await rightOf(parquetInfo(file))).columns).toEqual([
      ...['query', 'tokens.response', 'next.reward', 'next.table', 'stop', 'next.reward (2)'],
    ])
    const [first] = await rightOf(readParquet(file, { schema: z.unknown() }))
    expect(first).toEqual({
      ...{ query: '2 + 2?', 'tokens.response': [7, 8], 'next.reward': 1, 'next.table': [1, 1, 1, 1] },
      ...{ stop: '"stop"', 'next.reward (2)': 'a' },
    })
  })

  it('in files without their footer, or with another, are refused', async () => {
    const plain = await rightOf(encodeParquet([{ name: 'n', type: 'int32', values: [1] }]))
    expect((await leftOf(decodeTrajectoriesParquet(source(plain)))).reason).toMatch(/a.parquet has no trajectories/)
    const columns = [{ name: 'n', type: 'string', values: ['x'] }] as const
    const footer = (batchShape: readonly number[], dtype: string) =>
      JSON.stringify({
        schema: {
          format: 'tandem trajectories',
          version: 1,
          batchShape,
          entries: [['n', { kind: 'tensor', dtype, shape: [] }]],
        },
        columns: [{ name: 'n', storage: 'plain' }],
      })
    const cases: readonly (readonly [string, RegExp])[] = [
      ['{', /footer is damaged/],
      ['{"schema":{},"columns":[]}', /the header: /],
      [footer([2], 'int32'), /1 rows where the footer declares 2/],
      [footer([1], 'int32'), /n: value 0 is not int32: "x"/],
      [footer([1], 'int32').replace('[{"name":"n","storage":"plain"}]', '[]'), /0 columns for 1 leaves/],
    ]
    for (const [tandem, reason] of cases) {
      const bytes = await rightOf(encodeParquet(columns, { metadata: { tandem } }))
      expect((await leftOf(decodeTrajectoriesParquet(source(bytes)))).reason).toMatch(reason)
    }
  })

  it('cut off are failures', async () => {
    using td = small()
    const bytes = await rightOf(encodeTrajectoriesParquet(td.value))
    for (let cut = 0; cut < bytes.length; cut += 7) {
      expect(E.isLeft(await decodeTrajectoriesParquet(source(bytes.subarray(0, cut)))())).toBe(true)
    }
  })
})
