/** Finds logs of other programs in folders. */
import type { Files } from '@tandem-rl/base'
import * as E from 'fp-ts/lib/Either.js'
import { agentEventsReader } from './agentEvents.js'
import { arenaReader } from './arena.js'
import { capturedReader } from './captured.js'
import type { ForeignReader } from './foreignLog.js'
import { inspectReader } from './inspect.js'
import { trlReader } from './trl.js'
import { verifiersReader } from './verifiers.js'
import { verlReader } from './verl.js'

/** All readers. The first one that has the name of a file reads it. */
const READERS: readonly ForeignReader[] = [
  ...[trlReader, verifiersReader, inspectReader, verlReader, arenaReader, capturedReader, agentEventsReader],
]

/** A log and its reader. */
export interface FoundLog {
  readonly reader: ForeignReader
  /** The file, or the folder for logs of several files. */
  readonly place: string
  readonly paths: readonly string[]
}

const decoder = new TextDecoder()

/** Checks the first bytes of a file. */
const startsWith = async (files: Files, path: string, start: string): Promise<boolean> => {
  const opened = await files.open(path)()
  if (E.isLeft(opened)) return false
  const file = opened.right
  const bytes = new Uint8Array(Math.min(start.length, file.size))
  const read = await file.read(bytes, 0)()
  await file.close()
  return E.isRight(read) && decoder.decode(bytes) === start
}

const readerOf = async (files: Files, path: string, name: string): Promise<ForeignReader | undefined> => {
  for (const reader of READERS) {
    if (!reader.hasName(name)) continue
    if (reader.startsWith === undefined || (await startsWith(files, path, reader.startsWith))) return reader
  }
  return undefined
}

/** Finds the log in a file, by its name. */
export const logInFile = async (files: Files, path: string): Promise<FoundLog | null> => {
  const reader = await readerOf(files, path, path.split('/').at(-1) ?? path)
  return reader === undefined ? null : { reader, place: path, paths: [path] }
}

/** Finds the logs among the files of a folder. */
export const logsInFolder = async (
  files: Files,
  folder: string,
  names: readonly string[],
): Promise<readonly FoundLog[]> => {
  const found: FoundLog[] = []
  const whole = new Map<ForeignReader, string[]>()
  for (const name of names) {
    const path = `${folder}/${name}`
    const reader = await readerOf(files, path, name)
    if (reader === undefined) continue
    if (reader.unit === 'file') found.push({ reader, place: path, paths: [path] })
    else whole.set(reader, [...(whole.get(reader) ?? []), path])
  }
  // TRL writes its files to a subfolder of the run's folder.
  const place = folder.replace(/\/completions$/, '')
  return [...found, ...[...whole].map(([reader, paths]) => ({ reader, place, paths }))]
}
