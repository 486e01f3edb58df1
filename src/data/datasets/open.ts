/** Datasets by name: a file of JSON Lines or Parquet, or rows on the Hugging Face hub. */
import * as E from 'fp-ts/lib/Either.js'
import { pipe } from 'fp-ts/lib/function.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import type { z } from 'zod'
import type { Files } from '../../core/capabilities.js'
import type { Hub, HubFailure, HubListing, HubProgress, HubRepo } from '../../core/hub.js'
import { fileBytes } from '../../live/byteSource.js'
import { liveHub } from '../../live/hub.js'
import { type ParquetFailure, readParquet } from '../codecs/parquet.js'
import type { RowFailure, Task, TaskSource } from '../task.js'
import { collectJsonLines } from './jsonl.js'
import { type DatasetFormat, tasksOfRows } from './rows.js'

export type DatasetFailure = RowFailure | ParquetFailure | HubFailure

/** What datasets need of the world. */
export interface DatasetAccess {
  /** Default: the file system. */
  readonly files?: Pick<Files, 'open'>
  /** Default: `liveHub()`. */
  readonly hub?: Hub
  readonly onProgress?: (progress: HubProgress) => void
}

/** Rows on the hub: a file by its path, or all files of a split. */
export interface HubRows {
  /** Owner and name, such as `openai/gsm8k`. */
  readonly repo: string
  /** A branch, a tag or a commit. Default `main`. */
  readonly revision?: string
  readonly rows: { readonly file: string } | { readonly config: string; readonly split: string }
}

const isRowFile = (path: string): boolean => /\.(?:parquet|jsonl)$/.test(path)

const rowsOf = <Row>(
  path: string,
  format: Pick<DatasetFormat<Row, Task>, 'schema'>,
  { files }: DatasetAccess,
): TE.TaskEither<DatasetFailure, readonly Row[]> =>
  pipe(
    fileBytes(path, files),
    TE.chainW(
      (source): TE.TaskEither<DatasetFailure, readonly Row[]> =>
        path.endsWith('.parquet')
          ? readParquet(source, { schema: format.schema })
          : collectJsonLines(source, { schema: format.schema }),
    ),
  )

/**
 * The tasks in a file: Parquet if its name ends so, JSON Lines of any size otherwise.
 *
 * Errors   `Left` naming the file and the lines or rows that are not what the format asks for; for a file that cannot be read; for a
 *          package that is not installed.
 * Effects  reads the file.
 */
export const fileDataset = <Row, T extends Task>(
  path: string,
  format: DatasetFormat<Row, T>,
  access: DatasetAccess & { readonly name?: string } = {},
): TE.TaskEither<DatasetFailure, TaskSource<T>> =>
  pipe(
    rowsOf(path, format, access),
    TE.chainEitherKW((rows) => tasksOfRows(access.name ?? path, rows, format)),
  )

/** Whether a file belongs to a split: in its name (`train-00000-of-00002.parquet`, `train.jsonl`) or as a folder (`train/0000.parquet`). */
const isOfSplit = (path: string, config: string, split: string): boolean => {
  const parts = path.split('/')
  const name = parts.at(-1)!
  const folders = parts.slice(0, -1)
  const inSplit = folders.includes(split) || (name.startsWith(split) && /^[-.]/.test(name.slice(split.length)))
  return (
    isRowFile(path) && inSplit && (config === 'default' || folders.includes(config) || name.startsWith(`${config}_`))
  )
}

const filesOf = ({ files, commit }: HubListing, { repo, rows }: HubRows): E.Either<HubFailure, readonly string[]> => {
  const known = files.map(({ path }) => path).filter(isRowFile)
  const found =
    'file' in rows
      ? known.filter((path) => path === rows.file)
      : known.filter((path) => isOfSplit(path, rows.config, rows.split)).sort()
  if (found.length > 0) return E.right(found)
  const wanted = 'file' in rows ? `a file ${rows.file}` : `files of split ${rows.split} of ${rows.config}`
  const list =
    known.length === 0
      ? 'it has no .parquet or .jsonl files'
      : `its files are ${known.slice(0, 20).join(', ')}${known.length > 20 ? ' ...' : ''}`
  return E.left({
    _tag: 'HubFailure',
    kind: 'not-found',
    repo,
    reason: `${repo} at ${commit.slice(0, 7)} does not have ${wanted}: ${list}`,
  })
}

/** The text that names rows on the hub: `hub:openai/gsm8k/main/train`. */
export const hubName = ({ repo, revision, rows }: HubRows): string =>
  `hub:${repo}${revision === undefined ? '' : `@${encodeURIComponent(revision)}`}/${'file' in rows ? rows.file : `${rows.config}/${rows.split}`}`

const hubRowsOf = <Row>(
  wanted: HubRows,
  format: Pick<DatasetFormat<Row, Task>, 'schema'>,
  access: DatasetAccess,
): TE.TaskEither<DatasetFailure, readonly Row[]> => {
  const { hub = liveHub(), onProgress } = access
  const repo: HubRepo = { name: wanted.repo, kind: 'dataset', revision: wanted.revision ?? 'main' }
  return pipe(
    hub.list(repo),
    TE.chainW((listing) =>
      pipe(
        TE.fromEither(filesOf(listing, wanted)),
        // All files are of one commit, also if the revision moves meanwhile.
        TE.chainW(TE.traverseSeqArray((path) => hub.download({ ...repo, revision: listing.commit }, path, onProgress))),
      ),
    ),
    TE.chainW(TE.traverseSeqArray((path) => rowsOf(path, format, access))),
    TE.map((parts) => parts.flat()),
  )
}

/**
 * The tasks of a dataset on the hub. Its files are downloaded into the hub's cache, which is used while the hub cannot be reached.
 *
 * Errors   `Left(HubFailure)` for what the hub refuses, and with the list of files where there is no such file or split; otherwise as
 *          `fileDataset`.
 * Effects  requests to the hub, files in the cache.
 */
export const hubDataset = <Row, T extends Task>(
  wanted: HubRows,
  format: DatasetFormat<Row, T>,
  access: DatasetAccess = {},
): TE.TaskEither<DatasetFailure, TaskSource<T>> =>
  pipe(
    hubRowsOf(wanted, format, access),
    TE.chainEitherKW((rows) => tasksOfRows(hubName(wanted), rows, format)),
  )

/**
 * Reads a name of rows on the hub: `hub:OWNER/NAME[@REVISION]/CONFIG/SPLIT`, or `hub:OWNER/NAME[@REVISION]/PATH` with a path that ends
 * with .parquet or .jsonl. A slash in the revision is written %2F.
 *
 * Errors   `Left(HubFailure)` for a text that begins with `hub:` and is no such name.
 *
 * @example
 * parseHubName('hub:openai/gsm8k/main/train') // right({ repo: 'openai/gsm8k', rows: { config: 'main', split: 'train' } })
 */
export const parseHubName = (text: string): E.Either<HubFailure, HubRows> => {
  const [, repo, revision, rest] = /^hub:([\w.-]+\/[\w.-]+)(?:@([^/]+))?\/(.+)$/.exec(text) ?? []
  const [config, split, ...more] = rest?.split('/') ?? []
  const at = revision === undefined ? {} : { revision: revision.replaceAll('%2F', '/') }
  if (repo !== undefined && rest !== undefined && isRowFile(rest)) return E.right({ repo, ...at, rows: { file: rest } })
  if (repo !== undefined && config && split && more.length === 0)
    return E.right({ repo, ...at, rows: { config, split } })
  const reason = `'${text}' names no rows on the hub: expected hub:OWNER/NAME/CONFIG/SPLIT, such as hub:openai/gsm8k/main/train, or hub:OWNER/NAME/PATH of a .parquet or .jsonl file`
  return E.left({ _tag: 'HubFailure', kind: 'not-found', repo: text, reason })
}

/** Whether a name means rows on the hub, and not a file. */
export const isHubName = (name: string): boolean => name.startsWith('hub:')

/** The tasks that a name stands for: rows on the hub, or a file. Errors and effects: those of `hubDataset` and `fileDataset`. */
export const openDataset = <Row, T extends Task>(
  name: string,
  format: DatasetFormat<Row, T>,
  access: DatasetAccess = {},
): TE.TaskEither<DatasetFailure, TaskSource<T>> =>
  isHubName(name)
    ? pipe(
        TE.fromEither(parseHubName(name)),
        TE.chainW((rows) => hubDataset(rows, format, access)),
      )
    : fileDataset(name, format, access)

/**
 * The rows that a name stands for, as a schema has them: for data sets that are no tasks, such as conversations and preference pairs.
 *
 * Errors and effects: those of `hubDataset` and `fileDataset`.
 */
export const openRows = <Row>(
  name: string,
  schema: z.ZodType<Row>,
  access: DatasetAccess = {},
): TE.TaskEither<DatasetFailure, readonly Row[]> =>
  isHubName(name)
    ? pipe(
        TE.fromEither(parseHubName(name)),
        TE.chainW((rows) => hubRowsOf(rows, { schema }, access)),
      )
    : rowsOf(name, { schema }, access)
