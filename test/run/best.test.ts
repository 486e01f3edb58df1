/** The best checkpoint of a run: chosen, kept beside the newest, exported. */
import { readdirSync, readFileSync } from 'node:fs'
import fc from 'fast-check'
import { beforeAll, describe, expect, it } from 'vitest'
import { bestEvaluation } from '../../src/data/runLayout.js'
import { modelFolders } from '../../src/modules/pretrained/modelFolder.js'
import type { EvaluationRecord, RunSummary } from '../../src/run/metrics/records.js'
import type { RunEvent } from '../../src/run/train/events.js'
import { useEngine } from '../kit/engine.js'
import { rightOf } from '../kit/results.js'
import {
  contentsOf,
  type Flags,
  parseJsonLines,
  type RunSettings,
  smallSettings,
  useTemporaryFolder,
  writeAnsweringModel,
} from '../kit/runs.js'
import { runEvents, storedSettings } from '../kit/trainingRuns.js'

useEngine({ threads: 1 })
const path = useTemporaryFolder()

const evaluation = (step: number, accuracy: number, tasks = 10): EvaluationRecord => ({
  ...{
    type: 'evaluation',
    name: 'held out',
    score: 'accuracy',
    measure: 'success',
    scores: { accuracy },
    step,
    tasks,
    seconds: 0,
  },
})

describe('bestEvaluation', () => {
  it('is the earliest of the highest among those of trained weights', () => {
    const accuracies = fc.array(fc.integer({ min: 0, max: 5 }), { minLength: 1, maxLength: 12 })
    fc.assert(
      fc.property(accuracies, (list) => {
        const best = bestEvaluation([evaluation(0, 1), ...list.map((accuracy, i) => evaluation(i + 1, accuracy / 10))])
        expect(best?.step).toBe(1 + list.indexOf(Math.max(...list)))
      }),
    )
  })

  it('compares evaluations on as many problems as the last one, and there is none before training', () => {
    expect(bestEvaluation([evaluation(1, 0.9, 5), evaluation(2, 0.1), evaluation(3, 0.2)])?.step).toBe(3)
    expect([bestEvaluation([]), bestEvaluation([evaluation(0, 1)])]).toEqual([undefined, undefined])
  })
})

let model = ''
beforeAll(async () => {
  model = await writeAnsweringModel(path('model'))
})

/** Every step is evaluated, and every other one is saved. */
const SETTINGS: Flags = { steps: 6, evalEvery: 1, checkpointEvery: 2, evalTasks: 20, dtype: 'F32' }

const follow = async (name: string, settings: RunSettings, stopAt?: number): Promise<RunSummary | undefined> => {
  let summary: RunSummary | undefined
  const isLast = (event: RunEvent): boolean => event.type === 'step' && event.step === stopAt
  for await (const event of runEvents(path(name), settings, { stopAt: isLast }))
    if (event.type === 'end') summary = event.summary
  return summary
}

const start = (name: string, stopAt?: number): Promise<RunSummary | undefined> =>
  follow(name, smallSettings(model, SETTINGS), stopAt)

describe('the best checkpoint of a run', () => {
  it('stays beside the last two, is exported, and is that of the summary', async () => {
    const summary = await start('whole')
    const records = parseJsonLines(readFileSync(path('whole/metrics.jsonl'), 'utf8'))
    const evaluations = records.filter(({ type }) => type === 'evaluation') as unknown as EvaluationRecord[] // the lines of this type, as the run wrote them
    const best = bestEvaluation(evaluations)!
    expect(summary?.best).toEqual({ step: best.step, name: 'held out', value: best.scores.accuracy })
    const name = (step: number): string => `step-00000${step}`
    const kept = readdirSync(path('whole/checkpoints'))
    expect(kept).toContain(name(best.step))
    expect(kept).toContain(name(6))
    expect(kept.length).toBeLessThanOrEqual(3)
    expect(await rightOf(modelFolders(path('whole')))).toMatchObject({
      folder: path(`whole/checkpoints/${name(best.step)}`),
    })
    const weights = (folder: string): string | undefined => contentsOf(path(folder))['model.safetensors']
    expect(weights('whole/best/model')).toBe(weights(`whole/checkpoints/${name(best.step)}`))
    expect(weights('whole/model')).toBe(weights(`whole/checkpoints/${name(6)}`))
  })

  it('is the same, bit for bit, in a run that was stopped after it and taken up again', async () => {
    await start('stopped', 3)
    await follow('stopped', await storedSettings(path('stopped')))
    expect(contentsOf(path('stopped/best'))).toEqual(contentsOf(path('whole/best')))
  })
})
