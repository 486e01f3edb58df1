import { readFileSync, writeFileSync } from 'node:fs'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { TrainingRows } from '../../src/collectors/stepRows.js'
import { data, meta, ragged } from '../../src/data/tensorDict/leaf.js'
import { TensorDict } from '../../src/data/tensorDict/tensorDict.js'
import { liveFiles as files } from '../../src/live/files.js'
import {
  type KeptBatch,
  readBatch,
  rowsFromTensorDict,
  rowsToTensorDict,
  saveAlarms,
  saveBatch,
} from '../../src/run/batchFolder.js'
import { requireRight } from '../../src/testing/results.js'
import { leftOf, rightOf } from '../kit/results.js'
import { useTemporaryFolder } from '../kit/runs.js'

const path = useTemporaryFolder()

const ids = fc.array(fc.nat(500), { maxLength: 5 })
const float = fc.float({ noNaN: true })

/** Rows with any of the lists that rows may have. */
const anyRows: fc.Arbitrary<TrainingRows> = fc
  .array(fc.tuple(ids, ids), { minLength: 1, maxLength: 5 })
  .chain((pairs) => {
    const completions = pairs.map(([, completion]) => completion)
    const byToken = fc.tuple(
      ...completions.map(({ length }) => fc.array(float, { minLength: length, maxLength: length })),
    )
    return fc.record(
      {
        prompts: fc.constant(pairs.map(([prompt]) => prompt)),
        completions: fc.constant(completions),
        oldLogProbs: byToken,
        advantages: fc.oneof(byToken, fc.tuple(...completions.map(() => fc.double({ noNaN: true })))),
        temperature: fc.double({ min: 0.1, max: 2, noNaN: true }),
        behaviorLogProbs: byToken,
        refLogProbs: byToken,
        masks: byToken,
        weights: byToken,
        noise: byToken,
      },
      { requiredKeys: ['prompts', 'completions', 'oldLogProbs', 'advantages', 'temperature'] },
    ) as fc.Arbitrary<TrainingRows> // keys that are left out are absent
  })

const kept = (step: number, rows: TrainingRows): KeptBatch => ({
  ...{ step, record: { type: 'step', step }, trajectories: [] },
  learned: { rows, groupIds: rows.completions.map((_, i) => `g${i}`) },
})

const ROWS: TrainingRows = {
  ...{ prompts: [[1]], completions: [[2, 3]], oldLogProbs: [[-1, -2]], advantages: [0.1], temperature: 1 },
}

describe('rows as a TensorDict', () => {
  it('come back as they were, whatever lists they have', () => {
    fc.assert(
      fc.property(anyRows, (rows) => {
        expect(requireRight(rowsFromTensorDict(rowsToTensorDict(rows)))).toEqual(rows)
      }),
    )
  })

  it('are refused with all that is wrong with them', () => {
    const wrong = TensorDict({ prompts: data(['a']), completions: ragged('int32', [[1]]), other: meta(1) }, [1])
    expect(rowsFromTensorDict(wrong)).toEqual({
      _tag: 'Left',
      left: {
        _tag: 'RowsFailure',
        reason:
          "'oldLogProbs' is missing; 'advantages' is missing; 'prompts' is no list of numbers; 'temperature' is no number; 'other' is no list of rows",
      },
    })
  })
})

describe('the batch of a step', () => {
  it('is read from its folder as it was kept', async () => {
    const law = fc.asyncProperty(anyRows, fc.integer({ min: 1, max: 9_999_999 }), async (rows, step) => {
      const folder = path(`batches-${step}`)
      await rightOf(saveBatch(files, kept(step, rows), { folder, keep: 1 }))
      const read = await rightOf(readBatch(files, `${folder}/step-${String(step).padStart(6, '0')}`))
      expect(read).toEqual({ step, rows, groupIds: rows.completions.map((_, i) => `g${i}`), end: null })
    })
    await fc.assert(law, { numRuns: 20 })
  })

  it('stays only while it is among the newest', async () => {
    const folder = path('few')
    for (const step of [1, 2, 3, 10]) await rightOf(saveBatch(files, kept(step, ROWS), { folder, keep: 2 }))
    expect(await rightOf(files.list(folder))).toEqual(['step-000003', 'step-000010'])
  })

  it('gathers the alarms that began with it, each once', async () => {
    const folder = path('alarmed')
    const alarm = (name: 'truncation' | 'kl-runaway', step: number) =>
      ({ alarm: name, step, since: 1, value: 1, limit: 0, message: name }) as const
    const batch = kept(1, ROWS)
    await rightOf(saveAlarms(files, folder, { alarms: [alarm('truncation', 3)], batch }))
    await rightOf(saveAlarms(files, folder, { alarms: [alarm('truncation', 3), alarm('kl-runaway', 4)], batch }))
    const told: unknown = JSON.parse(readFileSync(`${folder}/alarms.json`, 'utf8'))
    expect(told).toEqual([alarm('truncation', 3), alarm('kl-runaway', 4)])
  })

  it.each([
    ['record.json', '{', 'not JSON'],
    ['record.json', '{"step":0}', 'step'],
    ['groups.json', '["a","b"]', '1 rows but 2 groups'],
    ['rows.td', 'no numbers', 'rows.td'],
  ])('is refused if %s holds %s', async (name, text, told) => {
    const folder = path(`torn-${told}`)
    await rightOf(saveBatch(files, kept(1, ROWS), { folder, keep: 1 }))
    writeFileSync(`${folder}/step-000001/${name}`, text)
    expect(JSON.stringify(await leftOf(readBatch(files, `${folder}/step-000001`)))).toContain(told)
  })
})
