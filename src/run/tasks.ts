/** The problems that a run learns from and is measured on. */
import * as E from 'fp-ts/lib/Either.js'
import { pipe } from 'fp-ts/lib/function.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { child, keyFromSeed } from '../core/key.js'
import { GSM8K } from '../data/datasets/gsm8k.js'
import { type DatasetAccess, type DatasetFailure, openDataset } from '../data/datasets/open.js'
import { wordProblems } from '../data/datasets/wordProblems/wordProblems.js'
import type { Task, TaskSource } from '../data/task.js'
import { taskList } from '../data/task.js'
import { runKeys } from './pipeline.js'
import type { RunSettings } from './settings.js'

export type TasksFailure = DatasetFailure

export interface RunTasks {
  readonly train: TaskSource
  readonly evaluation: TaskSource
  /** At most this many problems can be evaluated. */
  readonly evalProblems: number
}

/**
 * GSM8K rows: a file of JSON Lines, a .parquet file, or `hub:openai/gsm8k/main/train`. Errors: `Left` naming what cannot be read, and the
 * lines or rows that are not usable.
 */
export const loadTasks = (name: string, access: DatasetAccess = {}): TE.TaskEither<TasksFailure, TaskSource> =>
  openDataset(name, GSM8K, access)

/** The held-out problems are the same in every run, so that runs can be compared. */
const HELD_OUT_KEY = child(keyFromSeed(0), 'held out')

const heldOutProblems = (): TaskSource => wordProblems(HELD_OUT_KEY, { split: 'heldOut' })

const rows = (source: TaskSource): readonly Task[] =>
  typeof source.size === 'number'
    ? Array.from({ length: source.size }, (_, i) => source.at(i)).flatMap((task) =>
        E.isRight(task) ? [task.right] : [],
      )
    : []

/** The largest share of a dataset that is held out for evaluation. */
const HELD_OUT_SHARE = 0.1

/** The last rows of a dataset for evaluation, the others for training. */
const holdOut = (source: TaskSource, wanted: number): RunTasks => {
  const all = rows(source)
  const count = Math.max(1, Math.floor(all.length * HELD_OUT_SHARE))
  const cut = all.length > 1 ? all.length - count : all.length // a single row has to serve for both
  return {
    train: taskList(source.name, all.slice(0, cut)),
    evaluation: taskList(`${source.name} (held out)`, all.length > 1 ? all.slice(cut) : all),
    evalProblems: Math.min(wanted, count),
  }
}

const withEvaluation = (train: TaskSource, evaluation: TaskSource, wanted: number): RunTasks => ({
  train,
  evaluation,
  evalProblems: Math.min(wanted, evaluation.size === 'endless' ? wanted : evaluation.size),
})

/**
 * The tasks of a run: the built-in word problems, of which training and evaluation never share one, or the rows of files. Without a file
 * of its own, evaluation gets the last rows of the dataset, and training does not.
 */
export const openTasks = (settings: RunSettings, access: DatasetAccess = {}): TE.TaskEither<TasksFailure, RunTasks> => {
  const { dataset, evalDataset, evalProblems } = settings
  const key = child(runKeys(settings.seed).tasks, 'word problems')
  if (dataset === null && evalDataset === null) {
    return TE.right(withEvaluation(wordProblems(key, { split: 'rl' }), heldOutProblems(), evalProblems))
  }
  const train = dataset === null ? TE.right(wordProblems(key, { split: 'rl' })) : loadTasks(dataset, access)
  return pipe(
    train,
    TE.chain((source) =>
      evalDataset === null
        ? TE.right(holdOut(source, evalProblems))
        : pipe(
            loadTasks(evalDataset, access),
            TE.map((evaluation) => withEvaluation(source, evaluation, evalProblems)),
          ),
    ),
  )
}

/** Generated problems that are evaluated if nobody says how many. */
const DEFAULT_PROBLEMS = 200

/** What to evaluate a model on: rows of a file, all or the first so many, or held-out word problems. */
export const evaluationTasks = (
  options: { readonly dataset?: string; readonly problems?: number },
  access: DatasetAccess = {},
): TE.TaskEither<TasksFailure, { readonly source: TaskSource; readonly problems: number }> => {
  const { dataset, problems } = options
  if (dataset === undefined) return TE.right({ source: heldOutProblems(), problems: problems ?? DEFAULT_PROBLEMS })
  return pipe(
    loadTasks(dataset, access),
    TE.map((source) => {
      const size = source.size === 'endless' ? DEFAULT_PROBLEMS : source.size
      return { source, problems: Math.min(problems ?? size, size) }
    }),
  )
}
