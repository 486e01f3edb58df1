/** Saved batches of steps are read back unchanged, or rejected by name. */
import { readFileSync, writeFileSync } from 'node:fs'
import { liveFiles as files } from '@tandem-rl/host'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { data, ragged, raggedRows } from '../../src/data/tensorDict/leaf.js'
import { get, TensorDict } from '../../src/data/tensorDict/tensorDict.js'
import { type KeptBatch, learnedEntries, readBatch, saveAlarms, saveBatch } from '../../src/run/store/batchFolder.js'
import { leftOf, rightOf } from '../kit/results.js'
import { useTemporaryFolder } from '../kit/runs.js'

const path = useTemporaryFolder()

/** A batch with tokens, log-probabilities, advantages, and texts that no learner reads. */
const batchOf = (rows: readonly (readonly number[])[]) =>
  TensorDict(
    {
      trajectoryId: data(rows.map((_, i) => `t${i}`)),
      text: TensorDict({ response: data(rows.map(() => 'words')) }, [rows.length]),
      tokens: TensorDict({ response: ragged('int32', rows) }, [rows.length]),
      logProbs: TensorDict(
        {
          response: ragged(
            'float32',
            rows.map((row) => row.map((id) => -id / 8)),
          ),
        },
        [rows.length],
      ),
      advantage: ragged(
        'float32',
        rows.map((row) => row.map(() => 0.5)),
      ),
    },
    [rows.length],
  )

const anyRows = fc.array(fc.array(fc.nat(500), { maxLength: 5 }), { minLength: 1, maxLength: 5 })

const kept = (step: number, rows: readonly (readonly number[])[]): KeptBatch => ({
  ...{ step, record: { type: 'step', step }, trajectories: [] },
  learned: learnedEntries(batchOf(rows) as unknown as TensorDict), // read by names
})

describe('the entries that are learned from', () => {
  it('are rows of numbers and names: no text, no history, no tensor', () => {
    const { entries } = learnedEntries(batchOf([[1, 2]]) as unknown as TensorDict) // read by names
    expect(entries.keySeq().toArray().sort()).toEqual(['advantage', 'logProbs', 'tokens', 'trajectoryId'])
  })
})

describe('the batch of a step', () => {
  it('is read from its folder as it was kept', async () => {
    const law = fc.asyncProperty(anyRows, fc.integer({ min: 1, max: 9_999_999 }), async (rows, step) => {
      const folder = path(`batches-${step}`)
      await rightOf(saveBatch(files, kept(step, rows), { folder, keep: 1 }))
      const read = await rightOf(readBatch(files, `${folder}/step-${String(step).padStart(6, '0')}`))
      using batch = read.batch
      const td = batch.value as unknown as ReturnType<typeof batchOf> // as it was kept, but for its texts
      expect({ step: read.step, end: read.end }).toEqual({ step, end: null })
      expect(raggedRows(get(td, 'tokens', 'response')).map((row) => [...row])).toEqual(rows)
      expect(raggedRows(get(td, 'logProbs', 'response')).map((row) => [...row])).toEqual(
        rows.map((row) => row.map((id) => -id / 8)),
      )
      expect(get(td, 'trajectoryId').items.toArray()).toEqual(rows.map((_, i) => `t${i}`))
    })
    await fc.assert(law, { numRuns: 20 })
  })

  it('stays only while it is among the newest', async () => {
    const folder = path('few')
    for (const step of [1, 2, 3, 10]) await rightOf(saveBatch(files, kept(step, [[1]]), { folder, keep: 2 }))
    expect(await rightOf(files.list(folder))).toEqual(['step-000003', 'step-000010'])
  })

  it('gathers the alarms that began with it, each once', async () => {
    const folder = path('alarmed')
    const alarm = (name: 'truncation' | 'kl-runaway', step: number) =>
      ({ alarm: name, step, since: 1, value: 1, limit: 0, message: name }) as const
    const batch = kept(1, [[1]])
    await rightOf(saveAlarms(files, folder, { alarms: [alarm('truncation', 3)], batch }))
    await rightOf(saveAlarms(files, folder, { alarms: [alarm('truncation', 3), alarm('kl-runaway', 4)], batch }))
    const told: unknown = JSON.parse(readFileSync(`${folder}/alarms.json`, 'utf8'))
    expect(told).toEqual([alarm('truncation', 3), alarm('kl-runaway', 4)])
  })

  it.each([
    ['record.json', '{', 'not JSON'],
    ['record.json', '{"step":0}', 'step'],
    ['batch.td', 'no numbers', 'batch.td'],
  ])('is refused if %s holds %s', async (name, text, told) => {
    const folder = path(`torn-${told}`)
    await rightOf(saveBatch(files, kept(1, [[1]]), { folder, keep: 1 }))
    writeFileSync(`${folder}/step-000001/${name}`, text)
    expect(JSON.stringify(await leftOf(readBatch(files, `${folder}/step-000001`)))).toContain(told)
  })
})
