import { cpSync, existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { beforeAll, describe, expect, it } from 'vitest'
import { describe as sentence } from '../../src/core/failure.js'
import { finishRun, type PreparedRun, prepareRun } from '../../src/run/prepare.js'
import type { RunSummary } from '../../src/run/records.js'
import type { RunSettings } from '../../src/run/settings.js'
import { train } from '../../src/run/train.js'
import { useEngine } from '../kit/engine.js'
import { leftOf, rightOf } from '../kit/results.js'
import { contentsOf, gsm8kLines, smallSettings, useTemporaryFolder, writeAnsweringModel } from '../kit/runs.js'

useEngine({ threads: 1 })
const path = useTemporaryFolder()

let model = ''
let summary: RunSummary

/** Runs to the end; answers with the summary. */
const runToEnd = async (run: PreparedRun): Promise<RunSummary> => {
  for await (const event of train(run)) if (event.type === 'end') return event.summary
  throw new Error('the run has no end')
}

const settings = (changes: Partial<RunSettings> = {}): RunSettings => smallSettings(model, { steps: 2, ...changes })

const open = (name: string, changes: Partial<RunSettings> = {}): ReturnType<typeof prepareRun> =>
  prepareRun({ _tag: 'New', folder: path(name), settings: settings(changes) })

const reopen = (name: string, asked: Partial<RunSettings> = {}): ReturnType<typeof prepareRun> =>
  prepareRun({ _tag: 'Resume', folder: path(name), asked })

/** A copy of the run that `beforeAll` made. */
const copyOfRun = (name: string): string => {
  cpSync(path('done'), path(name), { recursive: true })
  return path(name)
}

beforeAll(async () => {
  model = await writeAnsweringModel(path('model'))
  summary = await runToEnd(await rightOf(open('done')))
})

describe('prepareRun for a new run', () => {
  it('makes the folder with the settings, and nothing else', async () => {
    const run = await rightOf(open('fresh'))
    expect(readdirSync(path('fresh'))).toEqual(['config.json'])
    expect(JSON.parse(readFileSync(run.paths.config, 'utf8'))).toEqual(settings())
    expect(run.resume).toBeUndefined()
  })

  it.each([
    ['a model folder that does not exist', { model: '/nowhere/model' }, '/nowhere/model'],
    ['a dataset that does not exist', { dataset: '/nowhere/rows.jsonl' }, '/nowhere/rows.jsonl'],
    ['evaluation rows that do not exist', { evalDataset: '/nowhere/held.jsonl' }, '/nowhere/held.jsonl'],
  ])('names %s, and leaves no folder behind', async (_, changes, culprit) => {
    expect(sentence(await leftOf(open('never', changes)))).toContain(culprit)
    expect(existsSync(path('never'))).toBe(false)
  })

  it.each([
    ['group', 1],
    ['clipLow', 1],
    ['steps', 0],
  ])(
    'refuses %s = %d, with which the run could not be opened again, and leaves no folder behind',
    async (name, value) => {
      expect(sentence(await leftOf(open(`range-${name}`, { [name]: value })))).toContain(name)
      expect(existsSync(path(`range-${name}`))).toBe(false)
    },
  )

  it('names the line of a dataset row that is torn, and leaves no folder behind', async () => {
    const dataset = path('torn.jsonl')
    writeFileSync(dataset, `${gsm8kLines(2)}{"question": "Why?"\n`)
    expect(sentence(await leftOf(open('never', { dataset })))).toContain(`${dataset}, line 3: `)
    expect(existsSync(path('never'))).toBe(false)
  })

  it('refuses a folder with a run and leaves every file as it was', async () => {
    const before = contentsOf(copyOfRun('taken'))
    expect(sentence(await leftOf(open('taken')))).toContain(path('taken'))
    expect(contentsOf(path('taken'))).toEqual(before)
  })

  it('stores how many problems can be evaluated, not how many were wanted', async () => {
    const dataset = path('twenty.jsonl')
    writeFileSync(dataset, gsm8kLines(20))
    const run = await rightOf(open('twenty', { dataset, evalProblems: 50 }))
    expect(run.settings.evalProblems).toBe(2)
    expect(JSON.parse(readFileSync(run.paths.config, 'utf8'))).toMatchObject({ evalProblems: 2 })
  })
})

describe('prepareRun to resume', () => {
  it('gives the last checkpoint and the records up to it', async () => {
    copyOfRun('again')
    const { resume } = await rightOf(reopen('again'))
    expect(resume?.checkpoint.state.step).toBe(2)
    expect(resume?.records.map(({ type, step }) => `${type} ${step}`)).toEqual([
      ...['evaluation 0', 'step 1', 'step 2', 'evaluation 2'],
    ])
  })

  it('cuts off what was written after the checkpoint, even half a line', async () => {
    const folder = copyOfRun('longer')
    const whole = readFileSync(`${folder}/metrics.jsonl`)
    writeFileSync(`${folder}/metrics.jsonl`, `${whole.toString()}{"type":"step","step":3}\n{"type":"st`)
    expect((await rightOf(reopen('longer'))).resume?.records).toHaveLength(4)
    expect(readFileSync(`${folder}/metrics.jsonl`).equals(whole)).toBe(true)
  })

  it('begins anew if the run had not saved anything', async () => {
    await rightOf(open('unsaved'))
    const run = await rightOf(reopen('unsaved'))
    expect(run.resume).toBeUndefined()
    expect((await runToEnd(run)).rewardCurve).toEqual(summary.rewardCurve)
  })

  it('refuses another configuration, naming it, and leaves every file as it was', async () => {
    const before = contentsOf(copyOfRun('other'))
    const told = sentence(await leftOf(reopen('other', { seed: 7, group: 4, steps: 9 })))
    expect(told).toContain('seed is 1, not 7')
    expect(told).toContain('group is 2, not 4')
    expect(contentsOf(path('other'))).toEqual(before)
  })

  it('stores the settings that were extended', async () => {
    copyOfRun('extended')
    expect((await rightOf(reopen('extended', { steps: 5 }))).settings.steps).toBe(5)
    expect((await rightOf(reopen('extended'))).settings.steps).toBe(5)
  })

  it.each(['state.json', 'model.safetensors', 'optimizer.safetensors'])(
    'names the %s of a checkpoint that is cut off, and leaves every file as it was',
    async (file) => {
      const broken = `${copyOfRun(`broken-${file}`)}/checkpoints/step-000002/${file}`
      writeFileSync(broken, readFileSync(broken).subarray(0, 50))
      const before = contentsOf(path(`broken-${file}`))
      const told = sentence(await leftOf(reopen(`broken-${file}`)))
      expect(told).toContain('checkpoints/step-000002')
      expect(told).toContain(file)
      expect(contentsOf(path(`broken-${file}`))).toEqual(before)
    },
  )

  it('names the metrics if they are shorter than they were at the checkpoint', async () => {
    const folder = copyOfRun('shorter')
    writeFileSync(`${folder}/metrics.jsonl`, '{}\n')
    expect(sentence(await leftOf(reopen('shorter')))).toContain(`${folder}/metrics.jsonl`)
  })

  it('says that there is no run in a folder without one', async () => {
    expect(sentence(await leftOf(reopen('nothing')))).toContain('there is no run in this folder')
    expect(existsSync(path('nothing'))).toBe(false)
  })
})

describe('finishRun', () => {
  it('writes the summary and a report', async () => {
    const { paths } = await rightOf(reopen('done'))
    await rightOf(finishRun(paths, summary))
    expect(JSON.parse(readFileSync(paths.summary, 'utf8'))).toEqual(summary)
    expect(readFileSync(paths.report, 'utf8')).toMatch(/^<!doctype html>/i)
  })

  it('can be done again: a resumed run replaces both files', async () => {
    const folder = copyOfRun('twice')
    const { paths } = await rightOf(reopen('twice'))
    await rightOf(finishRun(paths, summary))
    await rightOf(finishRun(paths, { ...summary, steps: 77 }))
    expect(JSON.parse(readFileSync(paths.summary, 'utf8'))).toMatchObject({ steps: 77 })
    expect(readdirSync(folder).filter((name) => name.includes('.tmp-'))).toEqual([])
  })

  it('names the line of metrics that is not JSON', async () => {
    copyOfRun('torn')
    const { paths } = await rightOf(reopen('torn'))
    writeFileSync(paths.metrics, '{}\n{"type"')
    expect(sentence(await leftOf(finishRun(paths, summary)))).toContain(`${paths.metrics}: line 2 is not JSON`)
  })
})
