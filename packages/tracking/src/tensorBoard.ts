/** Writes events to files for TensorBoard. */
import { cell, type FileFailure, type Files, joinBytes } from '@tandem-rl/base'
import { liveFiles } from '@tandem-rl/host'
import { pipe } from 'fp-ts/lib/function.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { type BoardEvent, encodeBoardEvent } from './boardFile.js'
import { nothingToClose, type Sink, type SinkFailure, sinkFailure, type TrackedEvent } from './sink.js'

/** Makes Markdown that shows a text verbatim. */
const literal = (text: string): string => text.replace(/^/gm, '    ')

const prefixed = (prefix: string, values: Readonly<Record<string, number>>): Readonly<Record<string, number>> =>
  Object.fromEntries(Object.entries(values).map(([name, value]) => [`${prefix}${name}`, value]))

/** Converts an event to TensorBoard's events. */
const boardEvents = (event: TrackedEvent): readonly BoardEvent[] => {
  const seconds = event.at / 1000
  switch (event.type) {
    case 'start': {
      const at = { seconds, step: event.from }
      const settings = literal(JSON.stringify({ run: event.run, ...event.settings }, undefined, 2))
      return [
        { ...at, what: 'restart' },
        { ...at, what: 'texts', values: { settings } },
      ]
    }
    case 'scalars': {
      const values = { ...event.values, ...prefixed('time/', event.seconds) }
      return [{ seconds, step: event.step, what: 'scalars', values }]
    }
    case 'samples': {
      const values = Object.fromEntries(event.samples.map(({ name, text }) => [`samples/${name}`, literal(text)]))
      return [{ seconds, step: event.step, what: 'texts', values }]
    }
    case 'saved':
      return [{ seconds, step: event.step, what: 'texts', values: { [`saved/${event.what}`]: literal(event.path) } }]
    case 'alarm':
      return [{ seconds, step: event.step, what: 'texts', values: { [`alarms/${event.name}`]: literal(event.text) } }]
    case 'failure':
      return [{ seconds, step: event.step, what: 'texts', values: { [`failures/${event.name}`]: literal(event.text) } }]
    case 'end':
      return [{ seconds, step: event.step, what: 'texts', values: { status: event.status } }]
  }
}

const PREFIX = 'events.out.tfevents.'

/** Returns a file name that sorts after all others, because TensorBoard reads files by name. */
const nextName = (names: readonly string[], at: number): string => {
  const earlier = names.filter((name) => name.startsWith(PREFIX))
  const seconds = (name: string): number => Number(/^\d+/.exec(name.slice(PREFIX.length))?.[0] ?? 0)
  const now = Math.max(Math.floor(at / 1000), ...earlier.map((name) => seconds(name) + 1))
  return `${PREFIX}${String(now).padStart(10, '0')}.tandem`
}

/** The file of a session and its number of valid bytes. */
interface EventFile {
  readonly path: string
  readonly bytes: number
}

const beginFile = (folder: string, at: number, files: Files): TE.TaskEither<FileFailure, EventFile> =>
  pipe(
    files.makeFolder(folder),
    TE.chain(() => files.list(folder)),
    TE.map((names) => ({ path: `${folder}/${nextName(names, at)}`, bytes: 0 })),
  )

/**
 * Truncates the file to its valid bytes, because a failed write may have left a part of a record.
 */
const cutToGood = ({ path, bytes }: EventFile, files: Files): TE.TaskEither<FileFailure, void> =>
  pipe(
    files.append(path, ''),
    TE.chain(() => files.truncate(path, bytes)),
  )

/**
 * Makes a sink that writes event files for TensorBoard: scalars by name, seconds under `time/`, and
 * samples, settings, alarms and paths as texts.
 *
 * Every session has its own file. A resumed session marks that steps from `from` on are repeated,
 * so steps after the last checkpoint of a killed session are not shown twice. TensorBoard skips
 * incomplete records left by a kill. After a failed write, the file is truncated to its last whole
 * record.
 *
 * Errors   `Left(SinkFailure)` with `later` and the FileFailure.
 * Effects  creates the folder and appends to one file in it.
 *
 * @example
 * tensorBoardSink('runs/first/tensorboard').name // 'tensorboard'
 */
export const tensorBoardSink = (folder: string, files: Files = liveFiles): Sink => {
  const file = cell<EventFile | null>(null)
  const write = (events: readonly TrackedEvent[]): TE.TaskEither<FileFailure, void> => {
    const [first] = events
    if (first === undefined) return TE.right(undefined)
    return pipe(
      TE.fromIO(file.get),
      TE.chain((open) => (open === null ? beginFile(folder, first.at, files) : TE.right(open))),
      TE.chainFirstIOK((open) => () => file.set(open)),
      TE.chainFirst((open) => cutToGood(open, files)),
      TE.chain((open) => {
        const version: BoardEvent = { what: 'version', seconds: first.at / 1000, step: 0 }
        const reported = [...(open.bytes === 0 ? [version] : []), ...events.flatMap(boardEvents)]
        const bytes = joinBytes(reported.map(encodeBoardEvent))
        return pipe(
          files.append(open.path, bytes),
          TE.map(() => file.set({ ...open, bytes: open.bytes + bytes.length })),
        )
      }),
    )
  }
  return {
    name: 'tensorboard',
    write: (events) =>
      pipe(
        write(events),
        TE.mapLeft((cause): SinkFailure => sinkFailure('tensorboard', 'later', cause)),
      ),
    close: nothingToClose,
  }
}
