import { isLeft } from 'fp-ts/lib/Either.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { aNumber, aRecord, checkOptions, oneOf } from '../../core/options.js'
import { dataSpec } from '../../data/spec.js'
import type { Task, TaskSource } from '../../data/task.js'
import { type Data, data } from '../../data/tensorDict/leaf.js'
import { TensorDict } from '../../data/tensorDict/tensorDict.js'
import { envFailure } from '../env.js'
import { type Transform, transform } from './transform.js'

/** What every task has, one entry each. */
export type TaskColumns = {
  readonly query: Data<string>
  readonly answer: Data<string>
  readonly taskId: Data<string>
}

/** The whole task of each batch element, with what its dataset says beside question and answer. */
export type TaskEntry<T extends Task = Task> = { readonly task: Data<T> }

/** What the primer adds: the task of each batch element and the group it belongs to. */
export type TaskEntries = TaskColumns & {
  /** Completions of one drawing of one task share it. Two drawings of the same task are two groups. */
  readonly groupId: Data<string>
}

/** What states have of a task: its columns alone, or the whole task as well. */
export type Kept = 'columns' | 'task'

/** What the primer adds if it keeps this. */
export type Primed<T extends Task, K extends Kept> = K extends 'task' ? TaskEntries & TaskEntry<T> : TaskEntries

/** How many rows of the source have been used: the state of the primer. */
export interface SourcePosition {
  readonly next: number
}

export interface DataLoadingPrimerOptions<T extends Task = Task, K extends Kept = Kept> {
  readonly source: TaskSource<T>
  readonly batchSize: number
  /** How often each row is used in succession: the size of a group. Divides `batchSize`. */
  readonly repeats?: number
  /** The row to begin with, to resume. */
  readonly start?: number
  /** `task`: the state has the whole task as well, for rewards that read its row. Default: its columns alone. */
  readonly keep?: K
}

/**
 * Draws rows from a task source at every reset.
 *
 * Row after row is taken, each for `repeats` neighbouring batch elements, which share a `groupId`. The position in the source is the
 * transform's state, so that an environment resumes where its last state was.
 *
 * Errors   `Left(EnvFailure)` with the row's failure if a row is not usable; throws RangeError unless `repeats` divides `batchSize`.
 * Source   TorchRL `DataLoadingPrimer` with `group_repeats`; the explicit group id is ours.
 */
export const DataLoadingPrimer = <T extends Task = Task, K extends Kept = 'columns'>(
  options: DataLoadingPrimerOptions<T, K>,
): Transform<SourcePosition, unknown, Primed<T, K>> => {
  checkOptions('DataLoadingPrimer', options, {
    source: aRecord,
    batchSize: aNumber,
    repeats: aNumber,
    start: aNumber,
    keep: oneOf('columns', 'task'),
  })
  const { source, batchSize, repeats = 1, start = 0, keep = 'columns' } = options
  if (!Number.isInteger(repeats) || repeats < 1 || batchSize % repeats !== 0) {
    throw new RangeError(`DataLoadingPrimer: repeats must divide the batch size ${batchSize}, got ${repeats}`)
  }
  if (!Number.isSafeInteger(start) || start < 0) {
    throw new RangeError(`DataLoadingPrimer: start must be a row counted from 0, got ${start}`)
  }
  const columns = {
    query: dataSpec<string>('string'),
    answer: dataSpec<string>('string'),
    taskId: dataSpec<string>('string'),
    groupId: dataSpec<string>('string'),
  }
  return transform<SourcePosition, unknown, Primed<T, K>>({
    name: 'DataLoadingPrimer',
    initial: { next: start },
    adds: keep === 'task' ? { ...columns, task: dataSpec<Task>('Task') } : columns,
    prime: (_, { next }) => {
      const groups = batchSize / repeats
      const tasks: T[] = []
      for (let i = 0; i < groups; i++) {
        const task = source.at(next + i)
        if (isLeft(task)) {
          return TE.left(
            envFailure('DataLoadingPrimer', `row ${task.left.row} of ${task.left.source} is not usable`, task.left),
          )
        }
        tasks.push(task.right)
      }
      const each = <X>(f: (task: T, group: number) => X): Data<X> =>
        data(tasks.flatMap((task, group) => Array.from({ length: repeats }, () => f(task, group))))
      const added = TensorDict(
        {
          query: each((task) => task.query),
          answer: each((task) => task.answer),
          taskId: each((task) => task.id),
          groupId: each((task, group) => `${next + group}:${task.id}`),
          ...(keep === 'task' && { task: each((task) => task) }),
        },
        [batchSize],
      )
      return TE.right([added as never, { next: next + groups }]) // the entries that `keep` asks for
    },
  })
}
