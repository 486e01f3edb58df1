/** Run folders: creation, exact resume, and refusal without changes. */
import { cpSync, existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { orThrow } from '@tandem-rl/base'
import { liveFiles as files } from '@tandem-rl/host'
import { beforeAll, describe, expect, it } from 'vitest'
import type { RunSummary } from '../../src/run/metrics/records.js'
import { finishRun } from '../../src/run/report/report.js'
import { runPaths } from '../../src/run/store/runFolder.js'
import type { RunEvent } from '../../src/run/train/events.js'
import { useEngine } from '../kit/engine.js'
import { leftOf } from '../kit/results.js'
import {
  contentsOf,
  type Flags,
  gsm8kLines,
  smallSettings,
  useTemporaryFolder,
  writeAnsweringModel,
} from '../kit/runs.js'
import { runEvents, storedSettings } from '../kit/trainingRuns.js'

useEngine({ threads: 1 })
const path = useTemporaryFolder()

let model = ''
let summary: RunSummary

const allOf = async (events: AsyncIterable<RunEvent>): Promise<readonly RunEvent[]> => {
  const all: RunEvent[] = []
  for await (const event of events) all.push(event)
  return all
}

const summaryOf = (events: readonly RunEvent[]): RunSummary => {
  const last = events.at(-1)
  if (last?.type !== 'end') throw new Error('the run has no end')
  return last.summary
}

const start = (name: string, flags: Flags = {}): Promise<readonly RunEvent[]> =>
  allOf(runEvents(path(name), smallSettings(model, { steps: 2, ...flags }), { store: { existing: 'refuse' } }))

const resume = async (name: string, flags: Flags = {}): Promise<readonly RunEvent[]> =>
  allOf(runEvents(path(name), await storedSettings(path(name), flags)))

/** Copies the run that `beforeAll` made. */
const copyOfRun = (name: string): string => {
  cpSync(path('done'), path(name), { recursive: true })
  return path(name)
}

beforeAll(async () => {
  model = await writeAnsweringModel(path('model'))
  summary = summaryOf(await start('done'))
})

describe('a new run', () => {
  it.each([
    ['a model folder that does not exist', { model: '/nowhere/model' }, '/nowhere/model'],
    ['a dataset that does not exist', { dataset: '/nowhere/rows.jsonl' }, '/nowhere/rows.jsonl'],
    ['evaluation rows that do not exist', { evalDataset: '/nowhere/held.jsonl' }, '/nowhere/held.jsonl'],
  ])('names %s, and leaves no folder behind', async (_, flags, culprit) => {
    await expect(start('never', flags)).rejects.toThrow(culprit)
    expect(existsSync(path('never'))).toBe(false)
  })

  it('names the line of a dataset row that is torn, and leaves no folder behind', async () => {
    const dataset = path('torn.jsonl')
    writeFileSync(dataset, `${gsm8kLines(2)}{"question": "Why?"\n`)
    await expect(start('never', { dataset })).rejects.toThrow(`${dataset}, line 3: `)
    expect(existsSync(path('never'))).toBe(false)
  })

  it('refuses a folder with a run and leaves every file as it was', async () => {
    const before = contentsOf(copyOfRun('taken'))
    await expect(start('taken')).rejects.toThrow(path('taken'))
    expect(contentsOf(path('taken'))).toEqual(before)
  })

  it('evaluates as many tasks as there are, not as many as were wanted', async () => {
    const dataset = path('twenty.jsonl')
    writeFileSync(dataset, gsm8kLines(20))
    const { evaluated } = summaryOf(await start('twenty', { dataset, evalTasks: 50, steps: 1 }))
    expect(evaluated).toMatchObject([{ tasks: 2 }])
  })
})

describe('a resumed run', () => {
  it('cuts off what was written after the checkpoint, even half a line', async () => {
    const folder = copyOfRun('longer')
    const whole = readFileSync(`${folder}/metrics.jsonl`)
    writeFileSync(`${folder}/metrics.jsonl`, `${whole.toString()}{"type":"step","step":3}\n{"type":"st`)
    await resume('longer')
    expect(readFileSync(`${folder}/metrics.jsonl`).equals(whole)).toBe(true)
  })

  it('begins anew if the run had not saved anything', async () => {
    const folder = copyOfRun('unsaved')
    for (const name of readdirSync(`${folder}/checkpoints`))
      orThrow(await files.remove(`${folder}/checkpoints/${name}`)())
    expect(summaryOf(await resume('unsaved')).rewardCurve).toEqual(summary.rewardCurve)
  })

  it('refuses other parts, naming them, and leaves every file as it was', async () => {
    const before = contentsOf(copyOfRun('other'))
    await expect(resume('other', { group: 4, learningRate: 0.5 })).rejects.toThrow(
      /was 2 and is 4.*was 0.01 and is 0.5/s,
    )
    expect(contentsOf(path('other'))).toEqual(before)
  })

  it('stores the settings that were extended', async () => {
    copyOfRun('extended')
    await resume('extended', { steps: 3 })
    expect((await storedSettings(path('extended'))).steps).toBe(3)
  })

  it.each(['state.json', 'model.safetensors', 'optimizer.safetensors'])(
    'names the %s of a checkpoint that is cut off, and leaves every file as it was',
    async (file) => {
      const broken = `${copyOfRun(`broken-${file}`)}/checkpoints/step-000002/${file}`
      writeFileSync(broken, readFileSync(broken).subarray(0, 50))
      const before = contentsOf(path(`broken-${file}`))
      const told = await resume(`broken-${file}`).catch((error: unknown) => String(error))
      expect(told).toContain('checkpoints/step-000002')
      expect(told).toContain(file)
      expect(contentsOf(path(`broken-${file}`))).toEqual(before)
    },
  )

  it.each(['metrics.jsonl', 'trajectories.jsonl'])(
    'names %s if any byte of its kept part was changed, and leaves every file as it was',
    async (file) => {
      const folder = copyOfRun(`changed-${file}`)
      const whole = readFileSync(`${folder}/${file}`)
      for (const at of [0, whole.length >> 1, whole.length - 2]) {
        const changed = Buffer.from(whole)
        changed[at] = changed[at]! ^ 1
        writeFileSync(`${folder}/${file}`, Buffer.concat([changed, Buffer.from('{"later":1}\n')]))
        const before = contentsOf(folder)
        const told = await resume(`changed-${file}`).catch((error: unknown) => String(error))
        expect(told).toContain(`${folder}/${file}: its first ${whole.length} bytes are not those that were saved`)
        expect(contentsOf(folder)).toEqual(before)
      }
    },
  )

  it('names state.json if the position of the tasks was changed', async () => {
    const state = `${copyOfRun('moved')}/checkpoints/step-000002/state.json`
    const { position, ...rest } = JSON.parse(readFileSync(state, 'utf8')) as { readonly position: object }
    const [[name, value]] = Object.entries(position) as [[string, unknown]]
    expect([name, typeof value]).toEqual(['batch', 'number'])
    writeFileSync(
      state,
      JSON.stringify({ ...rest, position: { ...position, [name]: Number(value) + 1 } }, undefined, 2),
    )
    await expect(resume('moved')).rejects.toThrow(/state\.json.*its bytes are not those that were saved/)
  })

  it('names the metrics if they are shorter than they were at the checkpoint', async () => {
    const folder = copyOfRun('shorter')
    writeFileSync(`${folder}/metrics.jsonl`, '{}\n')
    await expect(resume('shorter')).rejects.toThrow(`${folder}/metrics.jsonl`)
  })
})

describe('finishRun', () => {
  it('has written summary and report, and can be done again', async () => {
    const paths = runPaths(copyOfRun('twice'))
    expect(JSON.parse(readFileSync(paths.summary, 'utf8'))).toEqual(summary)
    expect(readFileSync(paths.report, 'utf8')).toMatch(/^<!doctype html>/i)
    orThrow(await finishRun(files, paths, { summary: { ...summary, steps: 77 }, alarms: {} })())
    expect(JSON.parse(readFileSync(paths.summary, 'utf8'))).toMatchObject({ steps: 77 })
    expect(readdirSync(paths.folder).filter((name) => name.includes('.tmp-'))).toEqual([])
  })

  it('names the line of metrics that is not JSON', async () => {
    const paths = runPaths(copyOfRun('torn'))
    writeFileSync(paths.metrics, '{}\n{"type"')
    const failure = await leftOf(finishRun(files, paths, { summary, alarms: {} }))
    expect(JSON.stringify(failure)).toContain(`${paths.metrics}`)
    expect(JSON.stringify(failure)).toContain('line 2 is not JSON')
  })
})
