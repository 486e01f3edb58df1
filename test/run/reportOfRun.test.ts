/** Reports of run folders: of killed runs, of continued runs, and without steps. */
import { mkdirSync, writeFileSync } from 'node:fs'
import { liveFiles } from '@tandem-rl/host'
import { describe, expect, it } from 'vitest'
import { summarizeRun } from '../../src/run/metrics/records.js'
import { reportOfRun } from '../../src/run/report/reportOfRun.js'
import { evaluationRecord, stepRecord, summaryContext, trajectoryRecord } from '../kit/records.js'
import { leftOf, rightOf } from '../kit/results.js'
import { useTemporaryFolder } from '../kit/runs.js'

const path = useTemporaryFolder()

/** Writes a run folder as a killed process leaves it, with an unfinished last line. */
const killed = (name: string): string => {
  const folder = path(name)
  mkdirSync(folder)
  const settings = { model: 'm', keep: { alarmLimits: { truncation: 0.1 } } }
  writeFileSync(`${folder}/config.json`, JSON.stringify({ format: 2, recipe: null, settings, run: {} }))
  const cut = [1, 2, 3].map((number) => stepRecord(number, { truncated: 0.2 }))
  const lines = [evaluationRecord(0, 0.25), ...cut, evaluationRecord(3, 0.75)].map((each) => JSON.stringify(each))
  writeFileSync(`${folder}/metrics.jsonl`, `${lines.join('\n')}\n{"type":"ste`)
  writeFileSync(`${folder}/trajectories.jsonl`, `${JSON.stringify(trajectoryRecord(1))}\n{"step`)
  writeFileSync(`${folder}/machine.json`, JSON.stringify({ processor: 'P', backend: 'onnxruntime 1', threads: '2' }))
  return folder
}

describe('reportOfRun', () => {
  it('reports a run that was killed, with the limits of its alarms and the engine of its folder', async () => {
    const html = await rightOf(reportOfRun(liveFiles, killed('killed')))
    expect(html).toContain('In 3 steps (12 s), accuracy on 200 tasks (held out) rose from 25.0 % to 75.0 %.')
    expect(html).toContain('The run did not reach its last step.')
    expect(html).toContain('Step 3: truncation')
    expect(html).toContain('onnxruntime 1')
  })

  it('uses summary.json only if the run has not trained on since', async () => {
    const folder = killed('resumed')
    const summary = summarizeRun([stepRecord(1)], [], { ...summaryContext, secondsTotal: 77 })
    writeFileSync(`${folder}/summary.json`, JSON.stringify({ ...summary, steps: 3 }))
    expect(await rightOf(reportOfRun(liveFiles, folder))).toContain('In 3 steps (77 s)')
    writeFileSync(`${folder}/summary.json`, JSON.stringify(summary))
    expect(await rightOf(reportOfRun(liveFiles, folder))).toContain('In 3 steps (12 s)')
  })

  it('refuses a folder without steps, and names it', async () => {
    const folder = killed('empty')
    writeFileSync(`${folder}/metrics.jsonl`, '')
    expect(await leftOf(reportOfRun(liveFiles, folder))).toMatchObject({
      where: folder,
      reason: 'no step was recorded yet',
    })
    expect(await leftOf(reportOfRun(liveFiles, path('none')))).toMatchObject({ where: path('none') })
  })
})
