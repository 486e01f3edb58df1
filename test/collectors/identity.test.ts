/** The identity of rows: operations on batches preserve trajectories and groups. */
import { keyFromSeed, orThrow, permutation } from '@tandem-rl/base'
import { collectedBatches } from '@tandem-rl/testing'
import { scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { decodeRollout, encodeRollout } from '../../packages/cluster/src/workers/rolloutBytes.js'
import { trajectoryReturns } from '../../src/collectors/rollouts/turnRows.js'
import type { GroupEntry, RowIdentity } from '../../src/data/batch.js'
import { ReplayBuffer } from '../../src/data/buffers/replayBuffer.js'
import { RandomSampler } from '../../src/data/buffers/sampler.js'
import { decodeTensorDict } from '../../src/data/codecs/tensorDictFileRead.js'
import { encodeTensorDict } from '../../src/data/codecs/tensorDictFileWrite.js'
import { concat } from '../../src/data/tensorDict/joining.js'
import { take } from '../../src/data/tensorDict/selecting.js'
import { get, type TensorDict } from '../../src/data/tensorDict/tensorDict.js'
import type { Outcome } from '../../src/envs/base/env.js'
import { useEngine } from '../kit/engine.js'

useEngine()

/** The entries that the laws compare. */
type Row = RowIdentity & GroupEntry & { readonly next: TensorDict<Pick<Outcome, 'reward'>> }
type Batch = TensorDict<Row>

/** Returns the return and the group of each trajectory, by its id. */
const byTrajectory = (batch: Batch): ReadonlyMap<string, readonly [sum: number, group: string | undefined]> => {
  const groups = get(batch, 'groupId').items
  return new Map(
    trajectoryReturns(batch).map(({ trajectoryId, rows, return: sum }) => [
      trajectoryId,
      [Math.fround(sum), groups.get(rows[0]!)],
    ]),
  )
}

const law = (change: (batches: readonly Batch[]) => Batch) =>
  fc.assert(
    fc.property(collectedBatches({ batches: 2, rewards: fc.integer({ min: -9, max: 9 }) }), (recipes) => {
      scope(() => {
        const batches = recipes.map((recipe) => recipe.build())
        const before = new Map(batches.flatMap((batch) => [...byTrajectory(batch)]))
        expect(byTrajectory(change(batches))).toEqual(before)
        return []
      })
    }),
    { numRuns: 25 },
  )

const size = (batch: Batch): number => batch.batchShape[0]!

describe('trajectories and groups stay what they are', () => {
  it('law: where batches are joined, and where their rows are shuffled', () => {
    law((batches) => concat(batches))
    law((batches) => {
      const joined = concat(batches)
      return take(joined, [...permutation(keyFromSeed(3), size(joined))])
    })
  })

  it('law: where batches are split by rows and joined again', () => {
    law((batches) => {
      const joined = concat(batches)
      const rows = [...Array(size(joined)).keys()]
      const halves = [0, 1].map((rest) => rows.filter((row) => row % 2 === rest)).filter((part) => part.length > 0)
      return concat(halves.map((part) => take(joined, part)))
    })
  })

  it('law: in files', () => {
    law(
      (batches) =>
        concat(batches.map((batch) => orThrow(decodeTensorDict(encodeTensorDict(batch as TensorDict))))) as Batch, // as it was written
    )
  })

  it('law: in the bytes of a queue', () => {
    law((batches) => {
      const read = batches.map((value) => {
        const rows = { value } as never // its rows are all that is looked at
        return orThrow(decodeRollout<Row, unknown>(encodeRollout({ rows, turns: 1, isCut: false }))).rows
      })
      const joined = concat(read.map(({ value }) => value as TensorDict as Batch)) // as they were written
      for (const rows of read) rows.release()
      return joined
    })
  })

  it('law: in a replay buffer', () => {
    law((batches) => {
      const buffer = ReplayBuffer({ capacity: 100, sampler: RandomSampler() })
      const state = batches.reduce((before, batch) => buffer.extend(before, batch)[1], buffer.initial<Row>())
      return concat(state.rows)
    })
  })
})
