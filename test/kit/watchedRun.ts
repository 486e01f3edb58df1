/**
 * A run of word problems with watched tasks, for processes that tests kill. Uses no test runner.
 */
import { type Clock, child, type Files, keyFromSeed, orThrow } from '@tandem-rl/base'
import type { TaskSource } from '../../src/data/task.js'
import { shuffled } from '../../src/data/task.js'
import { GSM8KEnv } from '../../src/envs/gsm8kEnv.js'
import { loadPretrained } from '../../src/modules/pretrained/pretrained.js'
import { trainOptionsOf } from '../../src/run/define/choices.js'
import { defineRun } from '../../src/run/define/defineRun.js'
import { grpoParts } from '../../src/run/define/grpoParts.js'
import { trainingTasks } from '../../src/run/parts/tasks.js'
import { runFolder } from '../../src/run/store/store.js'
import type { RunEvent } from '../../src/run/train/events.js'
import { train } from '../../src/run/train/train.js'
import type { RunSettings } from './runs.js'

/** The options of a watched run. */
interface Watched {
  readonly files: Files
  readonly clock: Clock
  readonly watch: Readonly<Record<'training' | 'heldOut', (source: TaskSource) => TaskSource>>
}

/** Runs `wordProblems` with tasks that report when they are read. */
export async function* watchedEvents(
  folder: string,
  settings: RunSettings,
  { files, clock, watch }: Watched,
): AsyncGenerator<RunEvent> {
  const model = orThrow(await loadPretrained(settings.model)())
  const key = child(keyFromSeed(settings.seed), 'tasks')
  const tasks = orThrow(await trainingTasks(settings, child(key, 'word problems'))())
  const source = watch.training(shuffled(tasks.train, key))
  const heldOut = watch.heldOut(tasks.heldOut)
  const run = await defineRun(
    grpoParts(settings, {
      model,
      env: (each) => GSM8KEnv({ source, ...each }),
      heldOut: [{ env: (each) => GSM8KEnv({ source: heldOut, ...each }), tasks: tasks.heldOutTasks }],
    }),
  )
  const recipe = { name: 'wordProblems', file: null, settings: settings as never } // plain JSON, written to config.json
  yield* train(run, { ...trainOptionsOf(settings), store: runFolder(folder, { files }), clock, recipe })
}
