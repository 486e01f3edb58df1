/**
 * Whole training runs in this process on real folders: starting, stopping after a step, resuming,
 * and their saved data.
 */
import { readFileSync } from 'node:fs'
import { orThrow } from '@tandem-rl/base'
import { liveFiles } from '@tandem-rl/host'
import { beforeAll, expect } from 'vitest'
import { loadRecipe } from '../../src/cli/recipeFile.js'
import type { TaskSource } from '../../src/data/task.js'
import { GSM8KEnv } from '../../src/envs/gsm8kEnv.js'
import { loadPretrained } from '../../src/modules/pretrained/pretrained.js'
import { trainOptionsOf } from '../../src/run/define/choices.js'
import { defineRun } from '../../src/run/define/defineRun.js'
import { grpoParts } from '../../src/run/define/grpoParts.js'
import type { StepRecord } from '../../src/run/metrics/records.js'
import type { BuildContext } from '../../src/run/parts/recipe.js'
import type { AnyRun } from '../../src/run/parts/run.js'
import type { TrainOptions } from '../../src/run/store/options.js'
import { openRun } from '../../src/run/store/runFolder.js'
import { type RunStore, runFolder } from '../../src/run/store/store.js'
import type { RunEvent } from '../../src/run/train/events.js'
import { train } from '../../src/run/train/train.js'
import {
  contentsOf,
  type Flags,
  parseJsonLines,
  type RunSettings,
  smallSettings,
  withFlags,
  withoutSeconds,
  writeAnsweringModel,
} from './runs.js'

const { recipe } = await loadRecipe('wordProblems')

/** Builds a run of the recipe `wordProblems`. */
export const wordProblemRun = async (settings: RunSettings, context: BuildContext = {}): Promise<AnyRun> =>
  recipe.build(settings, context)

/** The options of `runEvents`. */
export interface FollowOptions {
  readonly store?: Partial<RunStore>
  /** Stops the run after the first event for which it returns `true`. */
  readonly stopAt?: (event: RunEvent) => boolean
  readonly train?: Partial<TrainOptions>
  /** Replaces parts of the run. */
  readonly change?: (run: AnyRun) => AnyRun
}

/** Starts or resumes a run of word problems in a folder and yields its events. */
export async function* runEvents(
  folder: string,
  settings: RunSettings,
  { store, stopAt, train: options = {}, change = (run) => run }: FollowOptions = {},
): AsyncGenerator<RunEvent> {
  const abort = new AbortController()
  const run = change(await wordProblemRun(settings))
  const all: TrainOptions = {
    ...{ ...trainOptionsOf(settings), store: runFolder(folder, store), signal: abort.signal },
    recipe: {
      name: recipe.name,
      file: null,
      settings: settings as unknown as NonNullable<TrainOptions['recipe']>['settings'], // plain JSON
    },
    ...options,
  }
  for await (const event of train(run, all)) {
    yield event
    if (stopAt?.(event) === true) abort.abort()
  }
}

/** Runs word problems of `source` and yields the events. */
export async function* sourceEvents(
  folder: string,
  source: TaskSource,
  settings: RunSettings,
  options: Partial<TrainOptions> = {},
): AsyncGenerator<RunEvent> {
  const model = orThrow(await loadPretrained(settings.model)())
  const run = await defineRun(grpoParts(settings, { model, env: (tasks) => GSM8KEnv({ source, ...tasks }) }))
  yield* train(run, { ...trainOptionsOf(settings), store: runFolder(folder), ...options })
}

/** Reads the stored settings of a run, overridden by flags. */
export const storedSettings = async (folder: string, flags: Flags = {}): Promise<RunSettings> =>
  withFlags(orThrow(await openRun(liveFiles, folder)()).config.settings, flags)

/** Runs to the end, or to the end of step `stopAt`. Returns the step records. */
const follow = async (folder: string, settings: RunSettings, stopAt?: number): Promise<readonly StepRecord[]> => {
  const steps: StepRecord[] = []
  const isLast = (event: RunEvent): boolean => event.type === 'step' && event.step === stopAt
  for await (const event of runEvents(folder, settings, { stopAt: isLast }))
    if (event.type === 'step') steps.push(event)
  return steps
}

/** Returns everything a run has saved after a step, without data that depends on time. */
const remainsOf = (folder: string, step: number) => {
  const text = (file: string): string => readFileSync(`${folder}/${file}`, 'utf8')
  const checkpoint = `checkpoints/step-${String(step).padStart(6, '0')}`
  const state: object = JSON.parse(text(`${checkpoint}/state.json`))
  const { 'state.json': _, 'digests.json': __, ...files } = contentsOf(`${folder}/${checkpoint}`)
  return {
    ...files,
    metrics: withoutSeconds(parseJsonLines(text('metrics.jsonl'))),
    trajectories: text('trajectories.jsonl'),
    state: withoutSeconds([{ ...state, metrics: null, digest: null }]),
  }
}

/**
 * Small runs in folders of `path`, by name, with an answering model that is written before the
 * tests.
 */
export const useTrainingRuns = (path: (name: string) => string) => {
  let model = ''
  beforeAll(async () => {
    model = await writeAnsweringModel(path('model'))
  })
  const start = (name: string, flags: Flags = {}, stopAt?: number): Promise<readonly StepRecord[]> =>
    follow(path(name), smallSettings(model, flags), stopAt)
  const resume = async (name: string): Promise<readonly StepRecord[]> =>
    follow(path(name), await storedSettings(path(name)))
  return {
    start,
    resume,
    /**
     * Expects that a run stopped after its first step and resumed is bit-identical to an
     * uninterrupted run. Returns its steps.
     */
    expectResumed: async (name: string, flags: Flags & { readonly steps: number }): Promise<readonly StepRecord[]> => {
      const whole = await start(`${name} whole`, flags)
      const [first] = await start(`${name} stopped`, flags, 1)
      const rest = await resume(`${name} stopped`)
      expect([first?.step, ...rest.map(({ step }) => step)]).toEqual(whole.map(({ step }) => step))
      expect(remainsOf(path(`${name} stopped`), flags.steps)).toEqual(remainsOf(path(`${name} whole`), flags.steps))
      return whole
    },
  }
}
