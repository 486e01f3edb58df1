/** The rollouts of a run, from its log or from memory. */
import { type Files, type OpenFile, orThrow } from '@tandem-rl/base'
import { fileTimes } from '@tandem-rl/host'
import type { TrajectoryRecord } from 'tandem-rl/run'
import { turnHas } from './conversation.js'
import { rolloutId, type ViewedTurn } from './foreign/viewedTurn.js'
import { fingerprint, type IndexedLog, readIndex, writeIndex } from './rolloutIndex.js'
import { type Rollout, type RowNumbers, withTurn } from './rowNumbers.js'

/** Rollouts whose numbers are in memory, and whose texts are read when they are needed. */
export interface RolloutLog {
  /** Returns all rollouts, in the order of the log. The list is the same until the log grows. */
  readonly rollouts: () => Promise<readonly Rollout[]>
  /** Reads the turns of some rollouts. */
  readonly turns: (rollouts: readonly Rollout[]) => Promise<readonly (readonly ViewedTurn[])[]>
  /** Returns the identifiers of rollouts with a text, without regard to case. */
  readonly search: (text: string) => Promise<ReadonlySet<string>>
}

/** Groups records to rollouts, in the order of their first turns. */
const grouped = (records: readonly ViewedTurn[]): ReadonlyMap<string, readonly ViewedTurn[]> => {
  const turns = new Map<string, ViewedTurn[]>()
  for (const record of records) {
    const own = turns.get(rolloutId(record))
    if (own === undefined) turns.set(rolloutId(record), [record])
    else own.push(record)
  }
  return turns
}

/** Makes a log of records in memory. */
export const heldRollouts = (records: readonly ViewedTurn[]): RolloutLog => {
  const turns = grouped(records)
  const rollouts = [...turns.values()].map((own, index): Rollout => {
    const row = own.reduce<RowNumbers | undefined>((before, turn) => withTurn(before, turn, index), undefined)
    return { row: row! } // a rollout has a turn
  })
  return {
    rollouts: async () => rollouts,
    turns: async (requested) => requested.map(({ row }) => turns.get(row.id) ?? []),
    search: async (text) => {
      const wanted = text.toLowerCase()
      const found = [...turns].filter(([, own]) => own.some((turn) => turnHas(turn, wanted)))
      return new Set(found.map(([id]) => id))
    },
  }
}

/** Bytes of the log that are read at once. */
const CHUNK = 8 * 2 ** 20

/** The longest line of a log in bytes, as a power of two times `CHUNK`. */
const LONGEST_LINE = 32 * CHUNK

/** Gaps between turns that are read along, and the most bytes of turns that are read at once. */
const GAP = 2 ** 16

const decoder = new TextDecoder()

/** A whole line of the log, without its end. */
interface Line {
  readonly start: number
  readonly bytes: Uint8Array
}

/** Bytes of a log between two places, as whole lines. */
interface Block {
  readonly text: Uint8Array
  readonly start: number
}

/** Reads whole lines from `from` on, in blocks. An incomplete last line is left out. */
async function* blocks(file: OpenFile, from: number): AsyncGenerator<Block> {
  let [start, size] = [from, CHUNK]
  while (start < file.size) {
    const target = new Uint8Array(Math.min(size, file.size - start))
    orThrow(await file.read(target, start)())
    const end = target.lastIndexOf(10) + 1
    if (end === 0) {
      if (start + target.length === file.size) return
      if (size >= LONGEST_LINE) throw new Error(`a line at byte ${start} is longer than ${LONGEST_LINE} bytes`)
      size *= 2 // a line that is longer than the block
      continue
    }
    yield { text: target.subarray(0, end), start }
    start += end
    size = CHUNK
  }
}

function* linesOf({ text, start }: Block): Generator<Line> {
  for (let at = 0; at < text.length; ) {
    const end = text.indexOf(10, at)
    if (end > at) yield { start: start + at, bytes: text.subarray(at, end) }
    at = end + 1
  }
}

/** Newest format of a record that this version reads. */
const NEWEST = 2

const parse = (bytes: Uint8Array, path: string): TrajectoryRecord => {
  const record = JSON.parse(decoder.decode(bytes)) as TrajectoryRecord // written by a run
  if ((record.format ?? 1) > NEWEST)
    throw new RangeError(
      `${path}: expected records of format ${NEWEST} or older, got ${record.format}: update tandem-rl`,
    )
  return record
}

/** The rows of a log that is being read. Mutable: `add` changes the rows and places. */
const openRows = ({ rows, places }: Pick<IndexedLog, 'rows' | 'places'>) => {
  const [newRows, newPlaces] = [[...rows], [...places]]
  const changed = new Map<number, number[]>()
  const known = new Map(rows.map(({ id }, i) => [id, i]))
  return {
    rows: newRows,
    places: newPlaces,
    add: (record: TrajectoryRecord, { start, bytes }: Line): void => {
      const id = rolloutId(record)
      const at = known.get(id) ?? newRows.length
      known.set(id, at)
      newRows[at] = withTurn(newRows[at], record, at)
      const own = changed.get(at) ?? [...(newPlaces[at] ?? [])]
      own.push(start, bytes.length)
      changed.set(at, own)
      newPlaces[at] = own
    },
  }
}

/** Reads what a log has after the part that is indexed. */
const extended = async (file: OpenFile, path: string, before: IndexedLog): Promise<IndexedLog> => {
  const open = openRows(before)
  let { bytes } = before
  for await (const block of blocks(file, before.bytes)) {
    for (const line of linesOf(block)) open.add(parse(line.bytes, path), line)
    bytes = block.start + block.text.length
  }
  const modified = (await fileTimes(path))?.modified ?? ''
  return {
    rows: open.rows,
    places: open.places,
    bytes,
    size: file.size,
    modified,
    print: await fingerprint(file, bytes),
  }
}

const EMPTY: IndexedLog = { rows: [], places: [], bytes: 0, size: 0, modified: '', print: '' }

/** Checks if an index describes the beginning of a file as it is now. */
const fits = async (index: IndexedLog, file: OpenFile, modified: string): Promise<boolean> =>
  file.size >= index.size &&
  (file.size > index.size || modified === index.modified) &&
  (await fingerprint(file, index.bytes)) === index.print

/** Reads ranges of a file. Ranges that are near each other are read together. */
const readRanges = async (
  file: OpenFile,
  ranges: readonly (readonly [start: number, bytes: number])[],
): Promise<ReadonlyMap<number, Uint8Array>> => {
  const found = new Map<number, Uint8Array>()
  const sorted = [...ranges].sort(([a], [b]) => a - b)
  for (let i = 0; i < sorted.length; ) {
    const from = sorted[i]![0]
    let [end, next] = [from, i]
    while (next < sorted.length && sorted[next]![0] - end < GAP && sorted[next]![0] - from < CHUNK) {
      end = Math.max(end, sorted[next]![0] + sorted[next]![1])
      next++
    }
    const target = new Uint8Array(end - from)
    orThrow(await file.read(target, from)())
    for (const [start, bytes] of sorted.slice(i, next))
      found.set(start, target.subarray(start - from, start - from + bytes))
    i = next
  }
  return found
}

function* pairs(places: readonly number[]): Generator<readonly [start: number, bytes: number]> {
  for (let i = 0; i < places.length; i += 2) yield [places[i]!, places[i + 1]!]
}

const [QUOTE, COMMA] = [34, 44]

/**
 * Removes `","` between tokens from JSON, so that the text of a completion runs on. It loops over
 * bytes, which is faster than `replaceAll`.
 */
const withoutSeams = (bytes: Uint8Array): Uint8Array => {
  const joined = new Uint8Array(bytes.length)
  let length = 0
  for (let i = 0; i < bytes.length; ) {
    if (bytes[i] === QUOTE && bytes[i + 1] === COMMA && bytes[i + 2] === QUOTE) i += 3
    else joined[length++] = bytes[i++]!
  }
  return joined.subarray(0, length)
}

/** Finds the lines of a block that may have a text, by the bytes of the JSON. */
const candidates = (block: Block, wanted: string): readonly Line[] => {
  const joined = (bytes: Uint8Array): string => decoder.decode(withoutSeams(bytes)).toLowerCase()
  if (!joined(block.text).includes(wanted)) return []
  return [...linesOf(block)].filter(({ bytes }) => joined(bytes).includes(wanted))
}

/** The log file of a run folder, and the file of its index. */
interface LogFiles {
  readonly path: string
  readonly index: string
}

/**
 * Makes a log of trajectories.jsonl, which may grow. It keeps an index beside the log: the numbers
 * of each rollout and the places of its turns. An index that does not describe the file is made
 * again. Without permission to write, the index is only in memory.
 *
 * Errors   calls reject if the file cannot be read, a line is not JSON, or a record is of a newer
 *          format.
 */
export const fileRollouts = (files: Files, { path, index }: LogFiles): RolloutLog => {
  let state: IndexedLog | undefined
  let listed: { readonly of: IndexedLog; readonly rollouts: readonly Rollout[] } | undefined
  let last: Promise<unknown> = Promise.resolve()
  /** Bytes of the log that the file of the index describes. */
  let written = 0

  const withFile = async <T>(use: (file: OpenFile) => Promise<T>): Promise<T> => {
    const file = orThrow(await files.open(path)())
    try {
      return await use(file)
    } finally {
      orThrow(await file.close())
    }
  }

  const look = async (): Promise<IndexedLog> => {
    const times = await fileTimes(path)
    if (times === null) return EMPTY
    if (state?.size === times.bytes && state.modified === times.modified) return state
    const next = await withFile(async (file) => {
      const known = state ?? (await readIndex(files, index))
      const isCurrent = known !== undefined && (await fits(known, file, times.modified))
      if (!isCurrent) written = 0
      else if (state === undefined) written = known.bytes
      if (isCurrent && file.size === known.size) return known
      const made = await extended(file, path, isCurrent ? known : EMPTY)
      if (await writeIndex(files, index, { index: made, written })) written = made.bytes
      return made
    })
    state = next
    return next
  }

  /** Looks at the file, one call after the other. */
  const current = (): Promise<IndexedLog> => {
    const next = last.then(look, look)
    last = next.catch(() => undefined) // the caller gets the error
    return next
  }

  return {
    rollouts: async () => {
      const log = await current()
      if (listed?.of !== log) listed = { of: log, rollouts: log.rows.map((row) => ({ row })) }
      return listed.rollouts
    },
    turns: async (requested) => {
      if (requested.length === 0) return []
      const { places } = await current()
      const own = requested.map(({ row }) => [...pairs(places[row.index] ?? [])])
      const found = await withFile((file) => readRanges(file, own.flat()))
      return own.map((ranges) => ranges.map(([start]) => parse(found.get(start)!, path))) // read above
    },
    search: async (text) => {
      const { rows, places } = await current()
      const [plain, quoted] = [text.toLowerCase(), JSON.stringify(text).slice(1, -1).toLowerCase()]
      const starts = new Set<number>()
      await withFile(async (file) => {
        for await (const block of blocks(file, 0))
          for (const { start, bytes } of candidates(block, quoted))
            if (turnHas(parse(bytes, path), plain)) starts.add(start)
      })
      const hits = rows.filter(({ index: at }) => [...pairs(places[at]!)].some(([start]) => starts.has(start)))
      return new Set(hits.map(({ id }) => id))
    },
  }
}
