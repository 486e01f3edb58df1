/** What is kept of the batch of a step, to be looked at and to be learned from again. */
import * as E from 'fp-ts/lib/Either.js'
import { pipe } from 'fp-ts/lib/function.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { z } from 'zod'
import type { TrainingRows } from '../collectors/stepRows.js'
import type { FileContents, Files } from '../core/capabilities.js'
import type { FileFailure } from '../core/failure.js'
import { readTensorDict, type TensorDictReadFailure } from '../data/codecs/tensorDictFile.js'
import { tensorDictParts } from '../data/codecs/tensorDictFileWrite.js'
import { type Data, data, meta, type Ragged, ragged, raggedRows } from '../data/tensorDict/leaf.js'
import { TensorDict } from '../data/tensorDict/tensorDict.js'
import type { Alarm } from './alarms.js'
import type { TrajectoryRecord } from './records.js'
import { inOrder, stepName } from './stepName.js'

/** A step's batch. */
export interface KeptBatch {
  readonly step: number
  /** What was measured of it, or where it begins if it could not be collected. */
  readonly record: object
  /** What it learned from, or was to learn from; null if it could not be collected. */
  readonly learned: {
    readonly rows: TrainingRows /** The group of each row. */
    readonly groupIds: readonly string[]
  } | null
  /** All that was sampled for it. */
  readonly trajectories: readonly TrajectoryRecord[]
}

/** A list of the rows as an entry: numbers by token, or one number for each row. */
const entryOf = (list: readonly number[] | readonly ArrayLike<number>[], type: 'int32' | 'float32'): Data | Ragged => {
  const isByRow = (lists: typeof list): lists is readonly number[] => typeof lists[0] === 'number'
  return isByRow(list) ? data(list) : ragged(type, list)
}

/**
 * Rows to learn from as a TensorDict `[rows]` without tensors: their lists by name, and `temperature`. Numbers of tokens are float32, as the
 * step computes with them; those of rows stay what they are.
 *
 * @example
 * const rows = { prompts: [[1]], completions: [[2, 3]], oldLogProbs: [[-1, -2]], advantages: [1], temperature: 1 }
 * rowsToTensorDict(rows).batchShape // [1]
 */
export const rowsToTensorDict = ({ temperature, ...lists }: TrainingRows): TensorDict =>
  TensorDict(
    {
      ...Object.fromEntries(
        Object.entries(lists).map(([name, list]) => [
          name,
          entryOf(list, name === 'prompts' || name === 'completions' ? 'int32' : 'float32'),
        ]),
      ),
      temperature: meta(temperature),
    },
    [lists.completions.length],
  )

/** Entries that are not what rows are made of. */
export interface RowsFailure {
  readonly _tag: 'RowsFailure'
  readonly reason: string
}

const NAMES = [
  ...([
    'prompts',
    'completions',
    'oldLogProbs',
    'behaviorLogProbs',
    'refLogProbs',
    'masks',
    'weights',
    'noise',
  ] as const),
  'advantages',
] as const satisfies readonly (keyof TrainingRows)[]

const REQUIRED: readonly (typeof NAMES)[number][] = ['prompts', 'completions', 'oldLogProbs', 'advantages']

const numbersOf = (entry: unknown): readonly number[] | readonly (readonly number[])[] | undefined => {
  if (typeof entry !== 'object' || entry === null || !('_tag' in entry)) return undefined
  if (entry._tag === 'Ragged') return raggedRows(entry as Ragged) // of the tag
  const items: readonly unknown[] = entry._tag === 'Data' ? (entry as Data).items.toArray() : ['not numbers'] // of the tag
  return items.every((item) => typeof item === 'number') ? items : undefined
}

/**
 * The inverse of `rowsToTensorDict`: rows to learn from.
 *
 * Errors   `Left(RowsFailure)` with every entry that is missing, unknown or not of its kind.
 *
 * @example
 * const rows = { prompts: [[1]], completions: [[2, 3]], oldLogProbs: [[-1, -2]], advantages: [1], temperature: 1 }
 * rowsFromTensorDict(rowsToTensorDict(rows)) // right({ prompts: [[1]], completions: [[2, 3]], oldLogProbs: [[-1, -2]], advantages: [1], temperature: 1 })
 */
export const rowsFromTensorDict = (td: TensorDict): E.Either<RowsFailure, TrainingRows> => {
  const entries = new Map<string, unknown>(td.entries)
  const temperature = entries.get('temperature')
  const value: unknown =
    typeof temperature === 'object' && temperature !== null && 'value' in temperature ? temperature.value : undefined
  const lists = NAMES.flatMap((name) => (entries.has(name) ? [[name, numbersOf(entries.get(name))] as const] : []))
  const problems = [
    ...REQUIRED.filter((name) => !entries.has(name)).map((name) => `'${name}' is missing`),
    ...lists.filter(([, list]) => list === undefined).map(([name]) => `'${name}' is no list of numbers`),
    ...(typeof value === 'number' ? [] : ["'temperature' is no number"]),
    ...[...entries.keys()]
      .filter((name) => name !== 'temperature' && !NAMES.some((known) => known === name))
      .map((name) => `'${name}' is no list of rows`),
  ]
  return problems.length > 0
    ? E.left({ _tag: 'RowsFailure', reason: problems.join('; ') })
    : E.right({ ...Object.fromEntries(lists), temperature: value } as unknown as TrainingRows) // by the checks above
}

const jsonText = (value: unknown): string => `${JSON.stringify(value, undefined, 2)}\n`

const batchFiles = ({ record, learned, trajectories }: KeptBatch): Readonly<Record<string, FileContents>> => ({
  'record.json': jsonText(record),
  ...(learned && {
    'groups.json': jsonText(learned.groupIds),
    'rows.td': tensorDictParts(rowsToTensorDict(learned.rows)),
  }),
  'trajectories.jsonl': trajectories.map((each) => `${JSON.stringify(each)}\n`).join(''),
})

/** Keeps a batch in a folder beside others, of which the newest `keep` stay. */
export const saveBatch = (
  files: Files,
  batch: KeptBatch,
  { folder, keep }: { readonly folder: string; readonly keep: number },
): TE.TaskEither<FileFailure, void> =>
  pipe(
    files.makeFolder(folder),
    TE.chain(() => files.writeFolder(`${folder}/${stepName(batch.step)}`, batchFiles(batch))),
    TE.chain(() => files.list(folder)),
    TE.chain((names) => {
      const old = inOrder(names).slice(0, -keep)
      return TE.traverseSeqArray((name: string) => files.remove(`${folder}/${name}`))(old)
    }),
    TE.map(() => undefined),
  )

const ALARMS_FILE = 'alarms.json'

const alarmsSchema = z.array(z.looseObject({ alarm: z.string(), step: z.number(), message: z.string() }))

/** The alarms of a folder that is there, none if it is not readable: it is written anew. */
const alarmsIn = (text: string): z.infer<typeof alarmsSchema> => {
  try {
    return alarmsSchema.safeParse(JSON.parse(text)).data ?? []
  } catch {
    return []
  }
}

/** The alarms of a folder, none where there are none. */
const alarmsOf = (files: Files, folder: string): TE.TaskEither<FileFailure, z.infer<typeof alarmsSchema>> =>
  pipe(
    files.exists(`${folder}/${ALARMS_FILE}`),
    TE.chain((exists) => (exists ? files.readText(`${folder}/${ALARMS_FILE}`) : TE.right('[]'))),
    TE.map(alarmsIn),
  )

/** Keeps a batch with the alarms that began with it, and those that were told of it before. */
export const saveAlarms = (
  files: Files,
  folder: string,
  { alarms, batch }: { readonly alarms: readonly Alarm[]; readonly batch: KeptBatch },
): TE.TaskEither<FileFailure, void> =>
  pipe(
    alarmsOf(files, folder),
    TE.chain((before) => {
      const isNew = ({ alarm, step }: { readonly alarm: string; readonly step: number }): boolean =>
        !alarms.some((each) => each.alarm === alarm && each.step === step)
      const all = [...before.filter(isNew), ...alarms]
      return files.writeFolder(folder, { [ALARMS_FILE]: jsonText(all), ...batchFiles(batch) })
    }),
  )

/** A folder that holds no batch to learn from. */
export interface BatchFailure {
  readonly _tag: 'BatchFailure'
  readonly folder: string
  readonly reason: string
}

/** What was learned from in a step, as it was kept. */
export interface ReadBatch {
  readonly step: number
  readonly rows: TrainingRows
  readonly groupIds: readonly string[]
  /** Why the step was not done: its loss was no number; null if it was. */
  readonly end: string | null
}

const recordSchema = z.looseObject({ step: z.number().int().positive() })

const parsed = <T>(schema: z.ZodType<T>, text: string): E.Either<string, T> => {
  try {
    const result = schema.safeParse(JSON.parse(text))
    return result.success ? E.right(result.data) : E.left(z.prettifyError(result.error))
  } catch (error) {
    return E.left(`not JSON: ${String(error)}`)
  }
}

/** Reads the batch of a folder. Errors: `Left` for a folder without one, as where a batch could not be collected, and for files that are torn. */
export const readBatch = (
  files: Files,
  folder: string,
): TE.TaskEither<BatchFailure | FileFailure | TensorDictReadFailure, ReadBatch> => {
  const refuse = (reason: string): BatchFailure => ({ _tag: 'BatchFailure', folder, reason })
  const read = <T>(name: string, schema: z.ZodType<T>): TE.TaskEither<BatchFailure | FileFailure, T> =>
    pipe(
      files.readText(`${folder}/${name}`),
      TE.chainEitherKW((text) =>
        pipe(
          parsed(schema, text),
          E.mapLeft((reason) => refuse(`${name}: ${reason}`)),
        ),
      ),
    )
  return pipe(
    read('record.json', recordSchema),
    TE.bindTo('record'),
    TE.bindW('groupIds', () => read('groups.json', z.array(z.string()))),
    TE.bindW('rows', () =>
      pipe(
        readTensorDict(`${folder}/rows.td`, { files }),
        TE.chainEitherKW((held) => {
          using td = held
          return pipe(
            rowsFromTensorDict(td.value),
            E.mapLeft(({ reason }) => refuse(`rows.td: ${reason}`)),
          )
        }),
      ),
    ),
    TE.bindW('alarms', () => alarmsOf(files, folder)),
    TE.filterOrElseW(
      ({ rows, groupIds }) => rows.completions.length === groupIds.length,
      ({ rows, groupIds }) => refuse(`${rows.completions.length} rows but ${groupIds.length} groups`),
    ),
    TE.map(({ record, groupIds, rows, alarms }) => {
      const end = alarms.find(({ alarm }) => alarm === 'non-finite')?.message
      return { step: record.step, groupIds, rows, end: end?.slice('non-finite: '.length) ?? null }
    }),
  )
}
