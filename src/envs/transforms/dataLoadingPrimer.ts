import { checkOptions, refuse } from '@tandem-rl/base'
import type { Task } from '@tandem-rl/text'
import * as E from 'fp-ts/lib/Either.js'
import { pipe } from 'fp-ts/lib/function.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { rowInputs } from '../../data/inputs.js'
import { fromNested } from '../../data/nested.js'
import { dataSpec, type Infer, isLeafSpec, type Spec } from '../../data/spec.js'
import type { RowSource } from '../../data/task.js'
import { type Data, data } from '../../data/tensorDict/leaf.js'
import { merge } from '../../data/tensorDict/merge.js'
import { TensorDict } from '../../data/tensorDict/tensorDict.js'
import { type EnvFailure, envFailure } from '../base/env.js'
import { DATA_LOADING_PRIMER_OPTIONS } from '../optionKinds.js'
import { type Transform, transform } from './transform.js'

/** The columns of a task, one entry each. */
export type TaskColumns = {
  readonly query: Data<string>
  readonly answer: Data<string>
  readonly taskId: Data<string>
}

/** A row of a source, with the id that its task has. */
export interface SourceRow {
  readonly id: string
}

/** The whole task of each batch element, with all columns of its dataset. */
export type TaskEntry<T extends SourceRow = Task> = { readonly task: Data<T> }

/** The origin of the rows of a batch. */
export type DrawnRow = {
  readonly taskId: Data<string>
  /** Shared by the completions of one draw of a task. Two draws of the same task are two groups. */
  readonly groupId: Data<string>
}

/** The default entries of the primer: the task and the group of each batch element. */
export type TaskEntries = TaskColumns & DrawnRow

/** The part of a task in states: only its columns, or also the whole task. */
export type Kept = 'columns' | 'task'

/** The entries of a question and its reference answer. */
export const QUESTION_SPEC = { query: dataSpec<string>('string'), answer: dataSpec<string>('string') } as const

/** The spec of a question and its reference answer. */
export type QuestionSpec = typeof QUESTION_SPEC

/** The entries of the primer for the kept part and the drawn columns. */
export type Primed<T extends SourceRow, K extends Kept, P extends Spec> = K extends 'task'
  ? Infer<P> & DrawnRow & TaskEntry<T>
  : Infer<P> & DrawnRow

/** The state of the primer: the number of used rows. */
export interface SourcePosition {
  readonly next: number
}

export interface DataLoadingPrimerOptions<
  T extends SourceRow = Task,
  K extends Kept = Kept,
  P extends Spec = QuestionSpec,
> {
  readonly source: RowSource<T>
  readonly batchSize: number
  /** The size of a group: neighbors that get the same row. Divides `batchSize`. */
  readonly repeats?: number
  /** The row to begin with, to resume. */
  readonly start?: number
  /**
   * `task`: the state has the whole task as well, for rewards that read its row. Default: its
   * columns alone.
   */
  readonly keep?: K
  /**
   * The entries that rows become: `{ level: dataSpec('string'), tokens: { prompt:
   * raggedSpec('int32') } }`. Default: `query` and `answer`.
   */
  readonly primers?: P
  /**
   * The columns of entries whose name is another, by the path of the entry: `{ 'tokens.prompt':
   * 'input_ids' }`. A column is a field of the task, or else of its `row`.
   */
  readonly columns?: Readonly<Record<string, string>>
}

/** A leaf of the primers: its place, and the column that it is read from. */
interface PrimedLeaf {
  readonly path: string
  readonly column: string
}

const leavesOf = (
  spec: Spec,
  columns: Readonly<Record<string, string>>,
  path: readonly string[],
): readonly PrimedLeaf[] =>
  Object.entries(spec).flatMap(([name, part]) => {
    const place = [...path, name]
    const key = place.join('.')
    if (isLeafSpec(part)) return [{ path: key, column: Object.hasOwn(columns, key) ? columns[key]! : key }]
    return leavesOf(part as Spec, columns, place) // nodes with axes of their own are refused
  })

/**
 * Lists the primers that rows cannot fill: values of a node, and nodes with more axes, which no row
 * has.
 */
const primerProblems = (spec: Spec, path: readonly string[] = []): readonly string[] =>
  Object.entries(spec).flatMap(([name, part]) => {
    const place = [...path, name].join('.')
    if (part._tag === 'MetaSpec' || part._tag === 'NodeSpec')
      return [`primers: ${place} must be a tensor, ragged rows, data, or a record of them, got a ${String(part._tag)}`]
    return isLeafSpec(part) ? [] : primerProblems(part as Spec, [...path, name]) // neither a leaf nor a node: a record
  })

const fieldOf = (record: unknown, column: string): unknown =>
  typeof record === 'object' && record !== null && Object.hasOwn(record, column)
    ? (record as Readonly<Record<string, unknown>>)[column] // a field that it has
    : undefined

/** The value of a column: a field of the task, or else of its row. */
const columnOf = (task: SourceRow, column: string): unknown => {
  const own = fieldOf(task, column)
  return own === undefined ? fieldOf(fieldOf(task, 'row'), column) : own
}

/** The values of the leaves of a spec, as records like it. */
const nestedColumns = (
  spec: Spec,
  valuesAt: (path: string) => readonly unknown[],
  path = '',
): Record<string, unknown> =>
  Object.fromEntries(
    Object.entries(spec).map(([name, part]) => {
      const place = path === '' ? name : `${path}.${name}`
      return [name, isLeafSpec(part) ? valuesAt(place) : nestedColumns(part as Spec, valuesAt, place)] // a record
    }),
  )

/** The entries of a batch of tasks, or the rows and columns that do not fit. */
const entriesOf = (
  primers: Spec,
  leaves: readonly PrimedLeaf[],
  tasks: readonly SourceRow[],
): E.Either<EnvFailure, TensorDict> => {
  const columns = new Map(leaves.map(({ path, column }) => [path, tasks.map((task) => columnOf(task, column))]))
  const missing = leaves.flatMap(({ path, column }) => {
    const row = columns.get(path)!.indexOf(undefined)
    return row < 0 ? [] : [`task ${tasks[row]!.id} has no column '${column}' for '${path}'`]
  })
  if (missing.length > 0) return E.left(envFailure('DataLoadingPrimer', missing.join('; ')))
  return pipe(
    fromNested(
      primers,
      nestedColumns(primers, (path) => columns.get(path)!),
      [tasks.length],
    ),
    E.bimap(
      ({ reason }) => {
        const ids = tasks.map(({ id }) => id).join(', ')
        return envFailure('DataLoadingPrimer', `the columns of tasks ${ids} do not fit the primers: ${reason}`)
      },
      (td) => td as TensorDict,
    ),
  )
}

/** The rows of the next groups, or the first that is not usable. */
const draw = <T>(source: RowSource<T>, next: number, groups: number): E.Either<EnvFailure, readonly T[]> => {
  const tasks: T[] = []
  for (let i = 0; i < groups; i++) {
    const task = source.at(next + i)
    if (E.isLeft(task)) {
      const { row, source: file } = task.left
      return E.left(envFailure('DataLoadingPrimer', `row ${row} of ${file} is not usable`, task.left))
    }
    tasks.push(task.right)
  }
  return E.right(tasks)
}

/** Makes the entries with the origin of rows, and with their tasks if kept. */
const originOf = <T extends SourceRow>(
  rows: readonly { readonly task: T; readonly groupId: string }[],
  keep: Kept,
): TensorDict =>
  TensorDict(
    {
      taskId: data(rows.map(({ task }) => task.id)),
      groupId: data(rows.map(({ groupId }) => groupId)),
      ...(keep === 'task' && { task: data(rows.map(({ task }) => task)) }),
    },
    [rows.length],
  )

/**
 * Draws rows from a source at every reset.
 *
 * Row after row is taken, each for `repeats` neighbouring batch elements, which share a `groupId`.
 * `primers` names the entries that their columns become: texts and other values, numbers, or token
 * ids of any length, for environments that read `tokens.prompt`. The position in the source is the
 * transform's state, so that an environment resumes where its last state was.
 *
 * Errors   `Left(EnvFailure)` with the row's failure if a row is not usable, and with the task and
 *          the column that is missing or does not fit its spec; throws RangeError unless `repeats`
 *          divides `batchSize`, for unknown options, and for columns that no primer has.
 * Effects  makes tensors and ragged rows of the primers, of the enclosing scope.
 * Source   TorchRL `DataLoadingPrimer` with `group_repeats`; the explicit group id is ours.
 *
 * @example
 * const rows = rowList('ids', [{ input_ids: [7, 8] }, { input_ids: [9] }])
 * const primer = DataLoadingPrimer({ source: rows, batchSize: 2, primers: { tokens: { prompt: raggedSpec('int32') } }, columns: { 'tokens.prompt': 'input_ids' } })
 * pipe(LLMEnv({ batchSize: 2 }), append(primer)).name // 'LLMEnv > DataLoadingPrimer'
 */
export const DataLoadingPrimer = <
  T extends SourceRow = Task,
  K extends Kept = 'columns',
  P extends Spec = QuestionSpec,
>(
  options: DataLoadingPrimerOptions<T, K, P>,
): Transform<SourcePosition, unknown, Primed<T, K, P>> => {
  checkOptions('DataLoadingPrimer', options, DATA_LOADING_PRIMER_OPTIONS)
  const { source, batchSize, repeats = 1, start = 0, keep = 'columns', columns = {} } = options
  const primers: Spec = options.primers ?? QUESTION_SPEC
  refuse('DataLoadingPrimer', [
    (!Number.isInteger(repeats) || repeats < 1 || batchSize % repeats !== 0) &&
      `repeats must divide the batch size ${batchSize}, got ${repeats}`,
    (!Number.isSafeInteger(start) || start < 0) && `start must be a row counted from 0, got ${start}`,
    ...primerProblems(primers),
  ])
  const leaves = leavesOf(primers, columns, [])
  const places = new Set(leaves.map(({ path }) => path))
  refuse(
    'DataLoadingPrimer',
    Object.keys(columns).map((path) => !places.has(path) && `columns: there is no primer '${path}'`),
  )
  const groups = batchSize / repeats
  const added: Spec = {
    ...primers,
    taskId: dataSpec<string>('string'),
    groupId: dataSpec<string>('string'),
    ...(keep === 'task' && { task: dataSpec<Task>('Task') }),
  }
  return transform<SourcePosition, unknown, Primed<T, K, P>>({
    name: 'DataLoadingPrimer',
    initial: { next: start },
    inputs: () => rowInputs(source),
    source,
    adds: added,
    prime: (_, { next }) =>
      pipe(
        draw(source, next, groups),
        E.chain((tasks) => {
          const rows = tasks.flatMap((task, group) => {
            const drawn = { task, groupId: `${next + group}:${task.id}` }
            return Array.from({ length: repeats }, () => drawn)
          })
          return pipe(
            entriesOf(
              primers,
              leaves,
              rows.map(({ task }) => task),
            ),
            E.map((entries) => [merge(entries, originOf(rows, keep)) as never, { next: next + groups }] as const), // the entries of `adds`
          )
        }),
        TE.fromEither,
      ),
  })
}
