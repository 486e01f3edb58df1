/** The reader of a run folder's records. */
import { appendFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { liveFiles } from '../../src/live/files.js'
import { runLog } from '../../src/view/runLog.js'
import { stepRecord } from '../kit/records.js'
import { useTemporaryFolder } from '../kit/runs.js'
import { writeRun } from '../kit/writtenRun.js'

const path = useTemporaryFolder()

describe('runLog', () => {
  it('reads each line once, however many calls read at the same time', async () => {
    writeRun(path('run'), { learningRate: 0.1, reward: 1 })
    const log = runLog(liveFiles, path('run'))
    const stepsOf = async () => (await log()).steps.map(({ step }) => step)
    expect(await Promise.all([stepsOf(), stepsOf(), stepsOf()])).toEqual([[1], [1], [1]])
    appendFileSync(`${path('run')}/metrics.jsonl`, `${JSON.stringify(stepRecord(2))}\n`)
    expect(await Promise.all([stepsOf(), stepsOf()])).toEqual([
      [1, 2],
      [1, 2],
    ])
  })

  it('waits for the end of a line that is being written', async () => {
    writeRun(path('torn'), { learningRate: 0.1, reward: 1 })
    appendFileSync(`${path('torn')}/metrics.jsonl`, '{"type":"st')
    const log = runLog(liveFiles, path('torn'))
    expect((await log()).steps.length).toBe(1)
    appendFileSync(`${path('torn')}/metrics.jsonl`, `${JSON.stringify(stepRecord(2)).slice('{"type":"st'.length)}\n`)
    expect((await log()).steps.map(({ step }) => step)).toEqual([1, 2])
  })
})
