/** Writes events to a file of JSON Lines. */
import { cell, type FileFailure, type Files, type FormatFailure } from '@tandem-rl/base'
import { liveFiles } from '@tandem-rl/host'
import * as E from 'fp-ts/lib/Either.js'
import { pipe } from 'fp-ts/lib/function.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { eventLine, parseEventLine } from './eventLines.js'
import { nothingToClose, type Sink, sinkFailure, type TrackedEvent } from './sink.js'

type JsonlFailure = FileFailure | FormatFailure

const bytesOf = (text: string): number => new TextEncoder().encode(text).length

const linesOf = (events: readonly TrackedEvent[]): string => events.map((event) => `${eventLine(event)}\n`).join('')

const TORN = '{"type":"'

/** Classifies the text after the last whole line: an event, a part of one, or foreign text. */
const tailOf = (tail: string): 'none' | 'event' | 'torn' | 'foreign' => {
  if (tail === '') return 'none'
  if (E.isRight(parseEventLine(tail))) return 'event'
  return tail.startsWith(TORN) || TORN.startsWith(tail) ? 'torn' : 'foreign'
}

const foreign = (path: string, reason: string): FormatFailure => ({
  _tag: 'FormatFailure',
  format: 'tracked events',
  where: path,
  reason: `this is no file of tracked events: ${reason}`,
})

const decoded = (path: string, bytes: Uint8Array): E.Either<FormatFailure, string> =>
  E.tryCatch(
    () => new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes),
    () => foreign(path, 'it is not UTF-8'),
  )

/** Reads the whole lines of the file, and removes an incomplete last line. */
const openLines = (path: string, files: Files): TE.TaskEither<JsonlFailure, string> =>
  pipe(
    files.append(path, ''),
    TE.chain(() => files.readBytes(path)),
    TE.chainW((bytes) => {
      const length = bytes.lastIndexOf(10) + 1
      const whole = TE.fromEither(decoded(path, bytes.subarray(0, length)))
      const tail = new TextDecoder().decode(bytes.subarray(length)) // the last character may be incomplete
      switch (tailOf(tail)) {
        case 'none':
          return whole
        case 'event':
          return pipe(
            files.append(path, '\n'),
            TE.chainW(() => whole),
            TE.map((text) => `${text}${tail}\n`),
          )
        case 'torn':
          return pipe(
            files.truncate(path, length),
            TE.chainW(() => whole),
          )
        case 'foreign':
          return TE.left(foreign(path, 'its last line is no event'))
      }
    }),
  )

/**
 * Removes events that the session of `start` will report again. Lines that are not events are kept.
 */
const withoutRepeats = (
  lines: readonly string[],
  start: Extract<TrackedEvent, { readonly type: 'start' }>,
): string[] => {
  let run: string | undefined
  return lines.filter((line) => {
    const parsed = parseEventLine(line)
    if (E.isLeft(parsed)) return true
    if (parsed.right.type !== 'start') return run !== start.run || parsed.right.step < start.from
    run = parsed.right.run
    return true
  })
}

/** Returns the file's text after adding events. */
const repeated = (text: string, events: readonly TrackedEvent[]): string => {
  let lines = text.split('\n').slice(0, -1)
  for (const event of events) {
    if (event.type === 'start') lines = withoutRepeats(lines, event)
    lines.push(eventLine(event))
  }
  return lines.map((line) => `${line}\n`).join('')
}

/**
 * Makes a sink that appends events to a file, one JSON line each, in the format of `eventLine`.
 *
 * A session that resumes a run removes earlier events of the steps that it repeats. A new run is
 * always appended. Incomplete lines, left by a kill or a failed write, are removed.
 *
 * Errors   `Left(SinkFailure)`: `later` with the FileFailure, for example for a missing folder;
 *          `never` with a FormatFailure if the file is not UTF-8 or does not end with an event.
 * Effects  creates the file and appends to it. A resumed session may rewrite the file atomically.
 * Cost     the first write of a session reads the file.
 *
 * @example
 * jsonlSink('runs/first/events.jsonl').name // 'jsonl'
 */
export const jsonlSink = (path: string, files: Files = liveFiles): Sink => {
  /** Number of valid bytes, or `null` before the first write. */
  const good = cell<number | null>(null)
  const append = (text: string, bytes: number): TE.TaskEither<FileFailure, void> =>
    pipe(
      files.truncate(path, bytes),
      TE.chain(() => files.append(path, text)),
      TE.map(() => good.set(bytes + bytesOf(text))),
    )
  const begin = (events: readonly TrackedEvent[]): TE.TaskEither<JsonlFailure, void> =>
    pipe(
      openLines(path, files),
      TE.chainW((text) => {
        good.set(bytesOf(text))
        const [added, wanted] = [linesOf(events), repeated(text, events)]
        if (wanted === text + added) return append(added, bytesOf(text))
        return pipe(
          files.write(path, wanted),
          TE.map(() => good.set(bytesOf(wanted))),
        )
      }),
    )
  const write = (events: readonly TrackedEvent[]): TE.TaskEither<JsonlFailure, void> => {
    const bytes = good.get()
    if (bytes === null) return begin(events)
    if (!events.some(({ type }) => type === 'start')) return append(linesOf(events), bytes)
    return pipe(
      files.truncate(path, bytes),
      TE.chainW(() => begin(events)),
    )
  }
  return {
    name: 'jsonl',
    write: (events) =>
      pipe(
        TE.of(undefined),
        TE.chain(() => (events.length === 0 ? TE.right(undefined) : write(events))),
        TE.mapLeft((cause) => sinkFailure('jsonl', cause._tag === 'FileFailure' ? 'later' : 'never', cause)),
      ),
    close: nothingToClose,
  }
}
