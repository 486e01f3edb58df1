/** Readers of run folders. */
import { appendFileSync, mkdirSync, writeFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { readRun } from '../../src/run/store/runReader.js'
import { stepRecord } from '../kit/records.js'
import { useTemporaryFolder } from '../kit/runs.js'
import { writeRun } from '../kit/writtenRun.js'

const path = useTemporaryFolder()

const readerOf = async (name: string) => {
  const reader = await readRun(path(name))
  if (reader === null) throw new Error('no run')
  return reader
}

describe('readRun', () => {
  it('returns null for folders without a run, such as one with the config.json of a model', async () => {
    expect(await readRun(path('nothing'))).toBeNull()
    mkdirSync(path('model'))
    writeFileSync(path('model/config.json'), '{"model_type":"qwen2"}')
    expect(await readRun(path('model'))).toBeNull()
  })

  it('has the best evaluation, and the folders of batches that alarms saved', async () => {
    writeRun(path('best'), { learningRate: 0.1, reward: 1 })
    const { records, alarms } = await readerOf('best')
    const evaluation = { type: 'evaluation', name: 'held out', tasks: 8, score: 'accuracy', measure: 'success' }
    const lines = [0.5, 0.25].map((accuracy, i) => ({ ...evaluation, step: i + 1, scores: { accuracy }, seconds: 1 }))
    const bad = { ...stepRecord(2), update: { ...stepRecord(2).update, maxLogProbGap: 3 } }
    appendFileSync(path('best/metrics.jsonl'), [...lines, bad].map((line) => `${JSON.stringify(line)}\n`).join(''))
    expect((await records()).best).toMatchObject({ step: 1, scores: { accuracy: 0.5 } })
    const raised = async () => (await alarms()).map(({ alarm, step, batch }) => ({ alarm, step, batch }))
    expect(await raised()).toEqual([{ alarm: 'sampler-gap', step: 2, batch: null }])
    mkdirSync(path('best/alarms/step-000002'), { recursive: true })
    expect(await raised()).toEqual([{ alarm: 'sampler-gap', step: 2, batch: 'alarms/step-000002' }])
  })

  it('returns null for a batch that was not saved', async () => {
    writeRun(path('batches'), { learningRate: 0.1, reward: 1 })
    expect(await (await readerOf('batches')).savedBatch(1)).toBeNull()
  })

  it('reads each line once, however many calls read at the same time', async () => {
    writeRun(path('run'), { learningRate: 0.1, reward: 1 })
    const { records } = await readerOf('run')
    const stepsOf = async () => (await records()).steps.map(({ step }) => step)
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
    const { records } = await readerOf('torn')
    expect((await records()).steps.length).toBe(1)
    appendFileSync(`${path('torn')}/metrics.jsonl`, `${JSON.stringify(stepRecord(2)).slice('{"type":"st'.length)}\n`)
    expect((await records()).steps.map(({ step }) => step)).toEqual([1, 2])
  })
})
