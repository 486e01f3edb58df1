/** Data sets by name: a file of rows, or rows on the Hugging Face hub. */
import {
  collectJsonLines,
  type Files,
  type Hub,
  type HubFailure,
  type HubListing,
  type HubProgress,
  type HubRepo,
  type RowFailure,
} from '@tandem-rl/base'
import { fileBytes, liveFiles, liveHub } from '@tandem-rl/host'
import { type ParquetFailure, readParquet } from '@tandem-rl/parquet'
import type { Task } from '@tandem-rl/text'
import * as E from 'fp-ts/lib/Either.js'
import { pipe } from 'fp-ts/lib/function.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import type { z } from 'zod'
import type { TaskSource } from '../task.js'
import { collectJson } from './json.js'
import { type DatasetFormat, tasksOfRows } from './rows.js'

export type DatasetFailure = RowFailure | ParquetFailure | HubFailure

/** The files and the hub that data sets are read from. */
export interface DatasetAccess {
  /** Default: the file system. */
  readonly files?: Pick<Files, 'open' | 'exists'>
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
  /** Without `config`: `default`, else `main`, else the only one. Without `split`: `train`. */
  readonly rows: { readonly file: string } | { readonly config?: string; readonly split?: string }
}

const isRowFile = (path: string): boolean => /\.(?:parquet|jsonl|json)$/.test(path)

const rowsOf = <Row>(
  path: string,
  { schema }: { readonly schema: z.ZodType<Row> },
  { files }: DatasetAccess,
): TE.TaskEither<DatasetFailure, readonly Row[]> =>
  pipe(
    fileBytes(path, files),
    TE.chainW((source): TE.TaskEither<DatasetFailure, readonly Row[]> => {
      if (path.endsWith('.parquet')) return readParquet(source, { schema })
      return path.endsWith('.json') ? collectJson(source, { schema }) : collectJsonLines(source, { schema })
    }),
  )

/**
 * Tests if a file belongs to a split by its name (`train-00000-of-00002.parquet`, `train.jsonl`) or
 * by a folder (`train/0000.parquet`).
 */
const isOfSplit = (path: string, split: string): boolean => {
  const parts = path.split('/')
  const name = parts.at(-1)!
  return (
    isRowFile(path) &&
    (parts.slice(0, -1).includes(split) || (name.startsWith(split) && /^[-.]/.test(name.slice(split.length))))
  )
}

/**
 * Returns `true` if a file belongs to a configuration: by its folder, or by a prefix of its name.
 */
const isOfConfig = (path: string, config: string): boolean => {
  const parts = path.split('/')
  return parts.slice(0, -1).includes(config) || parts.at(-1)!.startsWith(`${config}_`)
}

const DEFAULT_CONFIG = 'default'

/**
 * Returns the configuration of a file of a split: its first folder that is neither the split nor
 * the usual `data`.
 */
const configOf = (path: string, split: string): string =>
  path
    .split('/')
    .slice(0, -1)
    .find((folder) => folder !== split && folder !== 'data') ?? DEFAULT_CONFIG

/** Files that are listed in an error. */
const LISTED = 20

const listed = (all: readonly string[]): string =>
  `${all.slice(0, LISTED).join(', ')}${all.length > LISTED ? ' ...' : ''}`

/** The files of some rows, and their name with the resolved configuration and split. */
interface FoundRows {
  readonly files: readonly string[]
  readonly name: string
}

const filesOf = ({ files, commit }: HubListing, wanted: HubRows): E.Either<HubFailure, FoundRows> => {
  const { repo, rows } = wanted
  const known = files.map(({ path }) => path).filter(isRowFile)
  const found = (paths: readonly string[], named: HubRows['rows'], what: string): E.Either<HubFailure, FoundRows> => {
    if (paths.length > 0) return E.right({ files: paths, name: hubName({ ...wanted, rows: named }) })
    const list = known.length === 0 ? 'it has no .parquet, .jsonl or .json files' : `its files are ${listed(known)}`
    const reason = `${repo} at ${commit.slice(0, 7)} does not have ${what}: ${list}`
    return E.left({ _tag: 'HubFailure', kind: 'not-found', repo, reason })
  }
  if ('file' in rows) {
    const { file } = rows
    return found(
      known.filter((path) => path === file),
      rows,
      `a file ${file}`,
    )
  }
  const { config = DEFAULT_CONFIG, split = 'train' } = rows
  const ofSplit = known.filter((path) => isOfSplit(path, split)).sort()
  if (config !== DEFAULT_CONFIG)
    return found(
      ofSplit.filter((path) => isOfConfig(path, config)),
      { config, split },
      `files of split ${split} of ${config}`,
    )
  const configs = [...new Set(ofSplit.map((path) => configOf(path, split)))]
  const chosen = configs.length === 1 ? configs[0] : [DEFAULT_CONFIG, 'main'].find((each) => configs.includes(each))
  if (chosen === undefined && configs.length > 1) {
    const reason = `${repo} has several configurations: ${listed(configs)}. Name one, such as ${repo}/${configs[0]}/${split}`
    return E.left({ _tag: 'HubFailure', kind: 'not-found', repo, reason })
  }
  return found(
    ofSplit.filter((path) => configOf(path, split) === chosen),
    { config: chosen ?? config, split },
    `files of split ${split}`,
  )
}

/** Returns the text that names rows on the hub: `hub:openai/gsm8k/main/train`. */
export const hubName = ({ repo, revision, rows }: HubRows): string => {
  const { config, split } = 'file' in rows ? { config: rows.file } : rows
  const at = revision === undefined ? '' : `@${encodeURIComponent(revision)}`
  const parts = split === undefined ? [config] : [config ?? DEFAULT_CONFIG, split]
  return [`hub:${repo}${at}`, ...parts.filter((part) => part !== undefined)].join('/')
}

/** Failures to reach a data set that is not in the cache either. */
const AWAY: ReadonlySet<HubFailure['kind']> = new Set(['not-cached', 'unreachable', 'timeout'])

/**
 * Adds a workaround to the failure if the hub cannot be reached and the cache does not have the
 * rows.
 */
const withWayOut = (failure: DatasetFailure): DatasetFailure =>
  failure._tag === 'HubFailure' && AWAY.has(failure.kind)
    ? {
        ...failure,
        reason: `${failure.reason}. Download it once on a machine that can reach the hub (\`hf download ${failure.repo} --repo-type dataset\` fills the same cache), or name a file of rows`,
      }
    : failure

interface NamedRows<Row> {
  readonly name: string
  readonly rows: readonly Row[]
}

const hubRowsOf = <Row>(
  wanted: HubRows,
  format: { readonly schema: z.ZodType<Row> },
  access: DatasetAccess,
): TE.TaskEither<DatasetFailure, NamedRows<Row>> => {
  const { hub = liveHub(), onProgress } = access
  const repo: HubRepo = { name: wanted.repo, kind: 'dataset', revision: wanted.revision ?? 'main' }
  return pipe(
    hub.list(repo),
    TE.chainW((listing) =>
      pipe(
        TE.fromEither(filesOf(listing, wanted)),
        TE.chainW(({ files, name }) =>
          pipe(
            files,
            // All files are of one commit, also if the revision moves meanwhile.
            TE.traverseSeqArray((path) => hub.download({ ...repo, revision: listing.commit }, path, onProgress)),
            TE.chainW(TE.traverseSeqArray((path) => rowsOf(path, format, access))),
            TE.map((parts) => ({ name, rows: parts.flat() })),
          ),
        ),
      ),
    ),
    TE.mapLeft(withWayOut),
  )
}

/** `OWNER/NAME`, optionally `@REVISION`, optionally a path. */
const NAME = /^([\w.-]+\/[\w.-]+)(?:@([^/]+))?(?:\/(.+))?$/

/**
 * Parses a name without `hub:` as rows on the hub. A name with the extension of a row file requires
 * `hub:`.
 */
const hubRowsNamed = (name: string): HubRows | undefined => {
  const [, repo, revision, rest] = NAME.exec(name) ?? []
  const [config, split, ...more] = rest?.split('/') ?? []
  if (repo === undefined || repo.startsWith('.')) return undefined
  const at = revision === undefined ? {} : { revision: revision.replaceAll('%2F', '/') }
  if (rest !== undefined && isRowFile(rest)) return { repo, ...at, rows: { file: rest } }
  if (more.length > 0 || config === '' || split === '') return undefined
  return { repo, ...at, rows: { ...(config !== undefined && { config }), ...(split !== undefined && { split }) } }
}

const HUB = 'hub:'

/**
 * Reads a name of rows on the hub: `hub:OWNER/NAME[@REVISION]`, followed by nothing (the default
 * configuration, split `train`), by `/CONFIG`, by `/CONFIG/SPLIT`, or by `/PATH` of a .parquet,
 * .jsonl or .json file. A slash in the revision is written %2F.
 *
 * Errors   `Left(HubFailure)` for a text that is not such a name.
 *
 * @example
 * parseHubName('hub:openai/gsm8k/main/train') // right({ repo: 'openai/gsm8k', rows: { config: 'main', split: 'train' } })
 */
export const parseHubName = (text: string): E.Either<HubFailure, HubRows> => {
  const found = text.startsWith(HUB) ? hubRowsNamed(text.slice(HUB.length)) : undefined
  if (found !== undefined) return E.right(found)
  const reason = `'${text}' does not name rows on the hub: expected hub:OWNER/NAME, hub:OWNER/NAME/CONFIG/SPLIT, such as hub:openai/gsm8k/main/train, or hub:OWNER/NAME/PATH of a .parquet, .jsonl or .json file`
  return E.left({ _tag: 'HubFailure', kind: 'not-found', repo: text, reason })
}

/**
 * Tests if a name can refer to rows on the hub, if the file does not exist: `hub:...`, or
 * `OWNER/NAME` with an optional configuration and split.
 */
export const mayBeHubName = (name: string): boolean =>
  name.startsWith(HUB) || (!isRowFile(name) && hubRowsNamed(name) !== undefined)

/**
 * Reads the rows of a name: on the hub after `hub:`, else from the file if it exists, else on the
 * hub.
 */
const namedRows = <Row>(
  name: string,
  format: { readonly schema: z.ZodType<Row> },
  access: DatasetAccess,
): TE.TaskEither<DatasetFailure, NamedRows<Row>> => {
  const onHub = pipe(
    TE.fromEither(parseHubName(name.startsWith(HUB) ? name : `${HUB}${name}`)),
    TE.chainW((rows) => hubRowsOf(rows, format, access)),
  )
  const inFile = pipe(
    rowsOf(name, format, access),
    TE.map((rows) => ({ name, rows })),
  )
  if (name.startsWith(HUB)) return onHub
  if (!mayBeHubName(name)) return inFile
  const missing = (failure: DatasetFailure): DatasetFailure =>
    failure._tag === 'HubFailure'
      ? { ...failure, reason: `no file '${name}', and on the hub: ${failure.reason}` }
      : failure
  return pipe(
    (access.files ?? liveFiles).exists(name),
    TE.chainW((exists) => (exists ? inFile : pipe(onHub, TE.mapLeft(missing)))),
  )
}

/**
 * Opens the tasks of a name.
 *
 * | name | rows |
 * | --- | --- |
 * | a path that exists | `.parquet`, `.json` (one array, or JSON Lines), else JSON Lines |
 * | `OWNER/NAME[@REVISION]`, optionally `/CONFIG` or `/CONFIG/SPLIT` | the hub or its cache |
 * | the same after `hub:` | the hub, even if a file of that name exists |
 * | `hub:OWNER/NAME/PATH` | one file of the repository |
 *
 * Errors   `Left` with the file and the bad lines or rows; for a file that cannot be read; for a
 *          package that is not installed; `HubFailure` with the hub's refusal, with the list of
 *          files if there is no such file or split, or with the configurations if there are several
 *          and none is named.
 * Effects  reads files; sends requests to the hub and writes to its cache, which is used while the
 *          hub cannot be reached.
 */
export const openDataset = <Row, T extends Task>(
  name: string,
  format: DatasetFormat<Row, T>,
  access: DatasetAccess = {},
): TE.TaskEither<DatasetFailure, TaskSource<T>> =>
  pipe(
    namedRows(name, format, access),
    TE.chainEitherKW(({ name: source, rows }) => tasksOfRows(source, rows, format)),
  )

/**
 * Opens the rows of a name, parsed by a schema. Use it for data sets without tasks, such as
 * conversations, preference pairs and rows of token ids. Names are those of `openDataset`.
 *
 * Errors and effects: those of `openDataset`.
 */
export const openRows = <Row>(
  name: string,
  schema: z.ZodType<Row>,
  access: DatasetAccess = {},
): TE.TaskEither<DatasetFailure, readonly Row[]> =>
  pipe(
    namedRows(name, { schema }, access),
    TE.map(({ rows }) => rows),
  )
