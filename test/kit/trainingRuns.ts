/** Whole training runs in this process, on real folders: started, stopped after a step, resumed, and what they leave behind. */
import { readFileSync } from 'node:fs'
import { beforeAll, expect } from 'vitest'
import { prepareRun } from '../../src/run/prepare.js'
import type { StepRecord } from '../../src/run/records.js'
import type { RunSettings } from '../../src/run/settings.js'
import { train } from '../../src/run/train.js'
import { rightOf } from './results.js'
import { contentsOf, parseJsonLines, smallSettings, withoutSeconds, writeAnsweringModel } from './runs.js'

/** Runs a request to its end, or until the step `stopAt` is done. The steps that it took. */
const follow = async (request: Parameters<typeof prepareRun>[0], stopAt?: number): Promise<readonly StepRecord[]> => {
  const abort = new AbortController()
  const steps: StepRecord[] = []
  for await (const event of train({ ...(await rightOf(prepareRun(request))), signal: abort.signal })) {
    if (event.type !== 'step') continue
    steps.push(event)
    if (event.step === stopAt) abort.abort()
  }
  return steps
}

/** All that a run leaves behind after a step, without times, and without lengths of logs: they contain times. */
const remainsOf = (folder: string, step: number) => {
  const text = (file: string): string => readFileSync(`${folder}/${file}`, 'utf8')
  const checkpoint = `checkpoints/step-${String(step).padStart(6, '0')}`
  const state: object = JSON.parse(text(`${checkpoint}/state.json`))
  const { 'state.json': _, ...files } = contentsOf(`${folder}/${checkpoint}`)
  return {
    ...files,
    metrics: withoutSeconds(parseJsonLines(text('metrics.jsonl'))),
    trajectories: text('trajectories.jsonl'),
    state: withoutSeconds([{ ...state, metricsBytes: 0 }]),
  }
}

/** Small runs in folders of `path` by name, of a model that answers, which is written there before the tests of the file. */
export const useTrainingRuns = (path: (name: string) => string) => {
  let model = ''
  beforeAll(async () => {
    model = await writeAnsweringModel(path('model'))
  })
  const start = (name: string, settings: Partial<RunSettings> = {}, stopAt?: number): Promise<readonly StepRecord[]> =>
    follow({ _tag: 'New', folder: path(name), settings: smallSettings(model, settings) }, stopAt)
  const resume = (name: string): Promise<readonly StepRecord[]> =>
    follow({ _tag: 'Resume', folder: path(name), asked: {} })
  return {
    start,
    resume,
    /** A run of so many steps that is stopped after its first ends as one that was never stopped, bit for bit. Gives its steps. */
    expectResumed: async (
      name: string,
      settings: Partial<RunSettings> & { readonly steps: number },
    ): Promise<readonly StepRecord[]> => {
      const whole = await start(`${name} whole`, settings)
      const [first] = await start(`${name} stopped`, settings, 1)
      const rest = await resume(`${name} stopped`)
      expect([first?.step, ...rest.map(({ step }) => step)]).toEqual(whole.map(({ step }) => step))
      expect(remainsOf(path(`${name} stopped`), settings.steps)).toEqual(
        remainsOf(path(`${name} whole`), settings.steps),
      )
      return whole
    },
  }
}
