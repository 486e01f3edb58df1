/** The index of a log of rollouts: a file of columns, so that opening a long run is quick. */
import { type Files, type OpenFile, orThrow, ownValue } from '@tandem-rl/base'
import { liveDigest } from '@tandem-rl/base/host'
import * as E from 'fp-ts/lib/Either.js'
import type { RowNumbers } from './rowNumbers.js'

/** The numbers of rollouts in the first `bytes` bytes of a log. */
export interface IndexedLog {
  readonly rows: readonly RowNumbers[]
  /** For each row, the start and the length of each of its turns in bytes. */
  readonly places: readonly (readonly number[])[]
  /** Bytes of whole lines that were read. */
  readonly bytes: number
  /** Size and time of the file. */
  readonly size: number
  readonly modified: string
  /** The `fingerprint` of the bytes that were read. */
  readonly print: string
}

const FORMAT = 1

/** Blocks of a log that its fingerprint contains, and the bytes of each. */
const SAMPLES = 16
const SAMPLE = 4096

/**
 * Computes a digest of samples of a file's first `bytes` bytes, the last ones included. It
 * changes if the log was cut off and written again.
 */
export const fingerprint = async (file: OpenFile, bytes: number): Promise<string> => {
  if (bytes > file.size) return ''
  const size = Math.min(SAMPLE, bytes)
  const all = new Uint8Array(size * SAMPLES)
  for (let i = 0; i < SAMPLES; i++) {
    const start = Math.floor(((bytes - size) * i) / (SAMPLES - 1))
    orThrow(await file.read(all.subarray(i * size, (i + 1) * size), start)())
  }
  return liveDigest(all)
}

const COLUMNS = ['step', 'reward', 'length', 'advantage', 'turns', 'toolCalls', 'toolErrors', 'version'] as const

type Column = (typeof COLUMNS)[number]

/** The contents of the file. All lists of `columns` have one element per rollout. */
interface IndexFile extends Omit<IndexedLog, 'rows' | 'places'> {
  readonly format: typeof FORMAT
  readonly columns: Readonly<Record<Column, readonly (number | null)[]>>
  readonly ids: readonly string[]
  /** Names of groups, and for each rollout the position of its group's name. */
  readonly groupNames: readonly string[]
  readonly groups: readonly number[]
  /** 1 for truncated, plus 2 for failed. */
  readonly flags: readonly number[]
  readonly parts: Readonly<Record<string, readonly (number | null)[]>>
  /** Starts and lengths of all turns, rollout by rollout. */
  readonly places: readonly number[]
}

const fileOf = ({ rows, places, ...rest }: IndexedLog): IndexFile => {
  const names = new Map<string, number>()
  const groups = rows.map(({ group }) => {
    const at = names.get(group) ?? names.size
    names.set(group, at)
    return at
  })
  const partNames = new Set(rows.flatMap(({ parts }) => Object.keys(parts)))
  return {
    format: FORMAT,
    ...rest,
    columns: Object.fromEntries(
      COLUMNS.map((name) => [name, rows.map((row) => row[name])]),
    ) as unknown as IndexFile['columns'], // by COLUMNS
    ids: rows.map(({ id }) => id),
    groupNames: [...names.keys()],
    groups,
    flags: rows.map(({ truncated, failed }) => Number(truncated) + 2 * Number(failed)),
    parts: Object.fromEntries(
      [...partNames].map((name) => [name, rows.map(({ parts }) => ownValue(parts, name) ?? null)]),
    ),
    places: places.flat(),
  }
}

const partsAt = (columns: IndexFile['parts'], names: readonly string[], i: number): RowNumbers['parts'] => {
  const parts: Record<string, number> = {}
  for (const name of names) {
    const value = columns[name]![i]
    if (value !== null && value !== undefined) parts[name] = value
  }
  return parts
}

const indexOf = ({ columns, ids, groupNames, groups, flags, parts, places: all, ...rest }: IndexFile): IndexedLog => {
  const names = Object.keys(parts)
  const places: (readonly number[])[] = []
  let at = 0
  const rows = ids.map((id, i): RowNumbers => {
    const turns = columns.turns[i]!
    places.push(all.slice(at, at + 2 * turns))
    at += 2 * turns
    // Without spreads, which would take ten times as long for a large log.
    return {
      id,
      index: i,
      group: groupNames[groups[i]!]!,
      parts: partsAt(parts, names, i),
      turns,
      step: columns.step[i]!,
      reward: columns.reward[i]!,
      length: columns.length[i]!,
      truncated: flags[i]! % 2 === 1,
      failed: flags[i]! >= 2,
      advantage: columns.advantage[i]!,
      version: columns.version[i]!,
      toolCalls: columns.toolCalls[i]!,
      toolErrors: columns.toolErrors[i]!,
    }
  })
  const { bytes, size, modified, print } = rest
  return { rows, places, bytes, size, modified, print }
}

/** Checks that a parsed file has the columns of one index. */
const isWhole = (file: Partial<IndexFile>): file is IndexFile => {
  const { format, columns, ids, groups, flags, parts, places, groupNames } = file
  if (format !== FORMAT || !Array.isArray(ids) || !Array.isArray(places) || !Array.isArray(groupNames)) return false
  const lists = [groups, flags, ...COLUMNS.map((name) => columns?.[name]), ...Object.values(parts ?? {})]
  return lists.every((list) => Array.isArray(list) && list.length === ids.length)
}

/** Reads an index. Returns `undefined` for a missing, malformed or unknown one. */
export const readIndex = async (files: Files, path: string): Promise<IndexedLog | undefined> => {
  const text = await files.readText(path)()
  if (E.isLeft(text)) return undefined
  const parsed = E.tryCatch(
    () => JSON.parse(text.right) as Partial<IndexFile>, // checked by `isWhole`
    () => undefined,
  )
  return E.isRight(parsed) && isWhole(parsed.right) ? indexOf(parsed.right) : undefined
}

/** The fewest bytes of a log with an index, and its growth until the index is written again. */
const LEAST = 2 ** 20
const GROWTH = 1.2

/**
 * Writes an index beside its log, if that saves time. `written` is the number of bytes that the
 * file there describes. Returns `false` if nothing was written, also for a read-only folder.
 */
export const writeIndex = async (
  files: Files,
  path: string,
  { index, written }: { readonly index: IndexedLog; readonly written: number },
): Promise<boolean> => {
  if (index.bytes < LEAST || index.bytes < written * GROWTH) return false
  const made = await files.makeFolder(path.slice(0, path.lastIndexOf('/')))()
  return E.isRight(made) && E.isRight(await files.write(path, JSON.stringify(fileOf(index)))())
}
