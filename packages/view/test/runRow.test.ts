/** Rows of runs: what they read from config.json, the lock and logs of older versions. */
import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { liveFiles, liveLocks } from '@tandem-rl/host'
import { describe, expect, it } from 'vitest'
import { runLock } from '../../../src/run/store/runFolder.js'
import { rightOf } from '../../../test/kit/results.js'
import { useTemporaryFolder } from '../../../test/kit/runs.js'
import { writeRun } from '../../../test/kit/writtenRun.js'
import { phasesOf } from '../src/metricColumns.js'
import { runAnswer, runRow, viewedRuns } from '../src/viewedRuns.js'

const path = useTemporaryFolder()

const openRun = async (name: string) => {
  writeRun(path(name), { learningRate: 0.1, reward: 0.25 })
  const [run] = await viewedRuns(liveFiles, [path(name)])()
  if (run === undefined) throw new Error('no run')
  return run
}

const rowOf = async (name: string) => runRow(await openRun(name))

const START = {
  at: '2026-11-23T09:00:00.000Z',
  version: '0.1.0',
  command: 'tandem train gsm8k',
  processor: 'a processor',
  node: 'v20.20.2',
}

const addToConfig = (folder: string, fields: object): void => {
  const config = JSON.parse(readFileSync(`${folder}/config.json`, 'utf8')) as object // written by writeRun
  writeFileSync(`${folder}/config.json`, JSON.stringify({ ...config, ...fields }))
}

describe('runRow', () => {
  it('has the start that config.json records, and opens folders without it', async () => {
    const run = await openRun('started')
    expect(await runRow(run)).toMatchObject({ command: null, version: null, machine: null })
    addToConfig(run.folder, { start: START })
    expect(await runRow(run)).toMatchObject({
      ...{ startedAt: START.at, version: START.version, command: START.command },
      machine: 'a processor, Node v20.20.2',
    })
  })

  it('counts as running by its lock, and without a lock file by the age of its log', async () => {
    expect((await rowOf('locked')).state).toBe('finished')
    const lock = await rightOf(liveLocks.take(runLock(path('locked'))))
    expect((await rowOf('locked')).state).toBe('running')
    rmSync(path('locked/summary.json'))
    const run = await openRun('killed')
    rmSync(path('killed/summary.json'))
    expect((await runRow(run)).state).toBe('running') // no lock file and a new log
    const holder = JSON.parse(readFileSync(runLock(path('locked')), 'utf8')) as object // written by the lock
    writeFileSync(runLock(path('killed')), JSON.stringify({ ...holder, pid: 2 ** 22 + 1 }))
    expect((await runRow(run)).state).toBe('stopped')
    await lock.release()
  })
})

describe('runAnswer', () => {
  it('raises alarms at the limits of the run', async () => {
    const run = await openRun('limits')
    const file = `${run.folder}/metrics.jsonl`
    const step = JSON.parse(readFileSync(file, 'utf8')) as { update: object } // written by writeRun
    writeFileSync(file, `${JSON.stringify({ ...step, update: { ...step.update, maxLogProbGap: 0.5 } })}\n`)
    const alarms = async () => (await runAnswer(run)).alarms.map(({ alarm, limit }) => [alarm, limit])
    expect(await alarms()).toEqual([])
    addToConfig(run.folder, { settings: { keep: { alarmLimits: { 'sampler-gap': 0.25, truncation: null } } } })
    expect(await alarms()).toEqual([['sampler-gap', 0.25]])
  })
})

describe('phasesOf', () => {
  it('reads steps that were logged without memory', async () => {
    const { steps } = await (await openRun('older')).log()
    const [{ memory: _, ...older }] = [steps[0]!] // the run has one step
    expect(phasesOf([older], []).memory).toEqual({ resident: [null], graphs: [null] })
  })

  it('has the reference model only in runs whose steps have it', async () => {
    const { steps } = await (await openRun('reference')).log()
    const [{ reference: _, ...seconds }, step] = [steps[0]!.seconds, steps[0]!]
    const without = { ...step, seconds }
    expect(phasesOf([without], []).seconds).not.toHaveProperty('reference')
    expect(phasesOf([without, { ...step, seconds: { ...seconds, reference: 2 } }], []).seconds.reference).toEqual([
      0, 2,
    ])
  })
})
