/** The tasks that a run learns from and is measured on. */
import * as E from 'fp-ts/lib/Either.js'
import { pipe } from 'fp-ts/lib/function.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { child, type Key, keyFromSeed } from '../core/key.js'
import { GSM8K } from '../data/datasets/gsm8k.js'
import { type DatasetAccess, type DatasetFailure, openDataset } from '../data/datasets/open.js'
import { wordProblems } from '../data/datasets/wordProblems/wordProblems.js'
import { type Task, type TaskSource, taskList } from '../data/task.js'

/** How rows are named, for help texts. */
export const DATASET_HELP =
  'rows with question and answer, as in GSM8K: a file of JSON lines, a .parquet file, or hub:OWNER/NAME[@REVISION]/CONFIG/SPLIT'

/** Tasks for training and for evaluation; they share none. */
export interface RunTasks {
  readonly train: TaskSource
  readonly heldOut: TaskSource
  /** Tasks of `heldOut` that are evaluated. */
  readonly heldOutTasks: number
}

/** Held-out word problems are the same in every run, so that runs can be compared. */
const HELD_OUT_KEY = child(keyFromSeed(0), 'held out')

/** Generated word problems that no training draws from. */
export const heldOutProblems = (): TaskSource => wordProblems(HELD_OUT_KEY, { split: 'heldOut' })

const rows = (source: TaskSource): readonly Task[] =>
  typeof source.size === 'number'
    ? Array.from({ length: source.size }, (_, i) => source.at(i)).flatMap((task) =>
        E.isRight(task) ? [task.right] : [],
      )
    : []

/** The largest share of a data set that is held out for evaluation. */
const HELD_OUT_SHARE = 0.1

/** The last rows of a data set for evaluation, the others for training. */
const holdOut = (source: TaskSource, wanted: number): RunTasks => {
  const all = rows(source)
  const count = Math.max(1, Math.floor(all.length * HELD_OUT_SHARE))
  const cut = all.length > 1 ? all.length - count : all.length // a single row has to serve for both
  return {
    train: taskList(source.name, all.slice(0, cut)),
    heldOut: taskList(`${source.name} (held out)`, all.length > 1 ? all.slice(cut) : all),
    heldOutTasks: Math.min(wanted, count),
  }
}

const withEvaluation = (train: TaskSource, heldOut: TaskSource, wanted: number): RunTasks => ({
  train,
  heldOut,
  heldOutTasks: Math.min(wanted, heldOut.size === 'endless' ? wanted : heldOut.size),
})

/** What `trainingTasks` reads of settings. */
export interface TaskSettings {
  readonly dataset: string | null
  readonly evalDataset: string | null
  readonly keep: { readonly evalTasks: number }
}

/**
 * Opens the tasks of a run: the rows of data sets, or generated word problems drawn from `key`. Without a data set of its own, evaluation
 * gets the last tenth of the rows, and training does not.
 *
 * Errors   `Left` naming the file that cannot be read, and the rows that are not usable.
 */
export const trainingTasks = (
  { dataset, evalDataset, keep: { evalTasks } }: TaskSettings,
  key: Key,
  access: DatasetAccess = {},
): TE.TaskEither<DatasetFailure, RunTasks> => {
  const generated = (): TaskSource => wordProblems(key, { split: 'rl' })
  if (dataset === null && evalDataset === null)
    return TE.right(withEvaluation(generated(), heldOutProblems(), evalTasks))
  const open = (name: string) => openDataset(name, GSM8K, access)
  return pipe(
    dataset === null ? TE.right(generated()) : open(dataset),
    TE.chain((source) =>
      evalDataset === null
        ? TE.right(holdOut(source, evalTasks))
        : pipe(
            open(evalDataset),
            TE.map((evaluation) => withEvaluation(source, evaluation, evalTasks)),
          ),
    ),
  )
}
