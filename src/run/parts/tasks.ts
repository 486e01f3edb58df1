/** The training and evaluation tasks of a run. */
import { checkOptions, child, type Key, keyFromSeed } from '@tandem-rl/base'
import type { Task } from '@tandem-rl/text'
import * as E from 'fp-ts/lib/Either.js'
import { pipe } from 'fp-ts/lib/function.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { z } from 'zod'
import { GSM8K } from '../../data/datasets/gsm8k.js'
import { type DatasetAccess, type DatasetFailure, openDataset } from '../../data/datasets/open.js'
import { type Columns, type DatasetFormat, withColumns } from '../../data/datasets/rows.js'
import { wordProblems } from '../../data/datasets/wordProblems/wordProblems.js'
import { type TaskSource, taskList } from '../../data/task.js'
import { ROW_SETTINGS_OPTIONS } from '../optionKinds.js'
import { indicesWithoutShared } from './sharedTasks.js'

const FILES =
  'a .jsonl, .json or .parquet file, or OWNER/NAME[@REVISION][/CONFIG/SPLIT] on the hub (hub:OWNER/NAME/PATH for one file)'

/** Help text for options that name a data set. */
export const DATASET_HELP = `rows with question and answer, as in GSM8K: ${FILES}`

export interface RowSettingsOptions<F extends string> {
  /** Description of the rows, for help texts. */
  readonly rows: string
  /** The default data set. */
  readonly from: string
  /** Default columns of the format's fields. */
  readonly columns: Readonly<Record<F, string>>
}

/** Makes the column settings, one for each field of the format. */
const columnSettings = <F extends string>(columns: Readonly<Record<F, string>>) => {
  const fields = Object.entries<string>(columns).map(([field, column]) => [
    field,
    z
      .string()
      .default(column)
      .describe(`column with ${field}`)
      .meta({ flag: `${field}-column` }),
  ])
  return z
    .strictObject(Object.fromEntries(fields) as Readonly<Record<F, z.ZodDefault<z.ZodString>>>) // one for each F
    .prefault({} as never) // every field has a default
}

/**
 * Returns the data set settings of a recipe: `dataset` with a default, `evalDataset`, and
 * `columns`, the columns of the format's fields.
 *
 * @example
 * z.strictObject(rowSettings({ rows: 'sums', from: 'sums.jsonl', columns: { query: 'question', answer: 'answer' } })).parse({}).columns // { query: 'question', answer: 'answer' }
 */
export const rowSettings = <const F extends string>(options: RowSettingsOptions<F>) => {
  checkOptions('rowSettings', options, ROW_SETTINGS_OPTIONS)
  const { rows, from, columns } = options
  return {
    dataset: z.string().default(from).describe(`${rows}: ${FILES}`),
    evalDataset: z
      .string()
      .nullable()
      .default(null)
      .describe('rows for evaluation; off: the last tenth of the data set, held out from training'),
    columns: columnSettings<F>(columns),
  }
}

/** Tasks for training and for evaluation. */
export interface RunTasks<T extends Task = Task> {
  readonly train: TaskSource<T>
  readonly heldOut: TaskSource<T>
  /** Number of `heldOut` tasks to evaluate. */
  readonly heldOutTasks: number
}

/** A fixed key: all runs evaluate the same word problems, so they can be compared. */
const HELD_OUT_KEY = child(keyFromSeed(0), 'held out')

/** Returns generated word problems from a split that training never uses. */
export const heldOutProblems = (): TaskSource => wordProblems(HELD_OUT_KEY, { split: 'heldOut' })

/** Lists all readable tasks of a finite source. */
const tasksOf = <T extends Task>(source: TaskSource<T>): readonly T[] =>
  typeof source.size === 'number'
    ? Array.from({ length: source.size }, (_, i) => source.at(i)).flatMap((task) =>
        E.isRight(task) ? [task.right] : [],
      )
    : []

/** The largest share of a data set that is held out for evaluation. */
const HELD_OUT_SHARE = 0.1

/**
 * Holds out the last rows of a data set for evaluation, without those that also occur before. If
 * none is left, as of a single row, they serve for both, which a run refuses by default.
 */
const holdOut = <T extends Task>(source: TaskSource<T>, wanted: number): RunTasks<T> => {
  const all = tasksOf(source)
  const count = Math.max(1, Math.floor(all.length * HELD_OUT_SHARE))
  const cut = all.length > 1 ? all.length - count : all.length
  const [train, last] = [all.slice(0, cut), all.slice(-count)]
  const others = indicesWithoutShared(last, train).map((index) => last[index]!)
  const heldOut = others.length === 0 ? last : others
  const listed = (name: string, tasks: readonly T[]) => taskList(name, tasks) as unknown as TaskSource<T> // tasks have ids and answers
  return {
    train: listed(source.name, train),
    heldOut: listed(`${source.name} (held out)`, heldOut),
    heldOutTasks: Math.min(wanted, heldOut.length),
  }
}

const withEvaluation = <T extends Task>(train: TaskSource<T>, heldOut: TaskSource<T>, wanted: number): RunTasks<T> => ({
  train,
  heldOut,
  heldOutTasks: Math.min(wanted, heldOut.size === 'endless' ? wanted : heldOut.size),
})

/** The settings that `trainingTasks` reads. */
export interface TaskSettings {
  readonly dataset: string | null
  readonly evalDataset: string | null
  readonly keep: { readonly evalTasks: number }
}

/** The settings that `rowTasks` reads. */
export type RowTaskSettings = TaskSettings & {
  readonly dataset: string
  /** Columns of the format's fields. Default: columns with the same names. */
  readonly columns?: Columns
}

/**
 * Opens the tasks of a run from rows of a format. Fields may be in columns with other names.
 * Without `evalDataset`, the last tenth of the rows is held out for evaluation.
 *
 * Errors   `Left` naming the file that cannot be read, or the invalid rows.
 */
export const rowTasks = <Row, T extends Task>(
  { dataset, evalDataset, columns = {}, keep: { evalTasks } }: RowTaskSettings,
  format: DatasetFormat<Row, T>,
  access: DatasetAccess = {},
): TE.TaskEither<DatasetFailure, RunTasks<T>> => {
  const open = (name: string) => openDataset(name, withColumns(format, columns), access)
  return pipe(
    open(dataset),
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

/**
 * Opens the tasks of a run: rows in GSM8K's format (`rowTasks`), or, without a data set, word
 * problems generated from `key`.
 *
 * Errors   as `rowTasks`.
 */
export const trainingTasks = (
  settings: TaskSettings,
  key: Key,
  access: DatasetAccess = {},
): TE.TaskEither<DatasetFailure, RunTasks> => {
  const { dataset, evalDataset, keep } = settings
  if (dataset !== null) return rowTasks({ dataset, evalDataset, keep }, GSM8K, access)
  const train = wordProblems(key, { split: 'rl' })
  return pipe(
    evalDataset === null ? TE.right(heldOutProblems()) : openDataset(evalDataset, GSM8K, access),
    TE.map((evaluation) => withEvaluation(train, evaluation, keep.evalTasks)),
  )
}
