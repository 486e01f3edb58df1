/**
 * Files in the private file system of an origin (OPFS), in place of `../files.ts`. They survive a
 * reload and belong to the site alone.
 */
import {
  errorMessage,
  type FileContents,
  type FileFailure,
  fileFailure,
  type OpenFile,
  sizeProblem,
} from '@tandem-rl/base'
import { browser, type FileHandle, type FolderHandle } from '@tandem-rl/base/host'
import * as TE from 'fp-ts/lib/TaskEither.js'
import type * as node from '../files.js'

/** Codes and reasons for the names of DOM exceptions. */
const KNOWN: Readonly<Record<string, readonly [code: string, reason: string]>> = {
  NotFoundError: ['ENOENT', 'there is no such file or folder'],
  TypeMismatchError: ['ENOTDIR', 'this is a folder instead of a file, or a file instead of a folder'],
  QuotaExceededError: ['ENOSPC', 'the browser gives this site no more space; remove some of its data'],
}

const attempt = <T>(operation: string, path: string, run: () => Promise<T>): TE.TaskEither<FileFailure, T> =>
  TE.tryCatch(run, (error) => {
    const [code, reason] = KNOWN[error instanceof Error ? error.name : ''] ?? ['UNKNOWN', errorMessage(error)]
    return fileFailure(operation, path, { code, reason })
  })

const isMissing = (error: unknown): boolean => error instanceof Error && error.name === 'NotFoundError'

const partsOf = (path: string): readonly string[] => path.split('/').filter((part) => part !== '' && part !== '.')

type Access = 'existing' | 'created'

const folderAt = async (parts: readonly string[], access: Access): Promise<FolderHandle> => {
  let folder = await browser.navigator.storage.getDirectory()
  for (const part of parts) folder = await folder.getDirectoryHandle(part, { create: access === 'created' })
  return folder
}

const fileAt = async (path: string, access: Access): Promise<FileHandle> => {
  const parts = partsOf(path)
  const folder = await folderAt(parts.slice(0, -1), 'existing')
  return folder.getFileHandle(parts.at(-1) ?? '', { create: access === 'created' })
}

/** Changes a file through a stream. A stream that is not closed leaves the old contents. */
const change = async (
  file: FileHandle,
  kept: 'kept' | 'replaced',
  edit: (writer: Awaited<ReturnType<FileHandle['createWritable']>>) => Promise<void>,
): Promise<void> => {
  const writer = await file.createWritable({ keepExistingData: kept === 'kept' })
  try {
    await edit(writer)
  } catch (error) {
    await writer.abort()
    throw error
  }
  await writer.close()
}

const replace = (file: FileHandle, contents: FileContents): Promise<void> =>
  change(file, 'replaced', async (writer) => {
    const parts = typeof contents === 'string' || contents instanceof Uint8Array ? [contents] : contents
    for (const part of parts) await writer.write(part)
  })

/** A file with this name beside a folder marks the folder as incomplete. */
const markOf = (name: string): string => `${name}.incomplete`

const namesIn = async (folder: FolderHandle): Promise<ReadonlySet<string>> => {
  const names = new Set<string>()
  for await (const name of folder.keys()) names.add(name)
  return names
}

/** Returns the names in a folder, without incomplete folders and their marks. */
const completeNames = async (folder: FolderHandle): Promise<readonly string[]> => {
  const names = await namesIn(folder)
  return [...names].filter((name) => !names.has(markOf(name)) && !name.endsWith(markOf(''))).sort()
}

const removeEntry = (folder: FolderHandle, name: string): Promise<void> =>
  folder.removeEntry(name, { recursive: true }).catch((error: unknown) => {
    if (!isMissing(error)) throw error
  })

/** Writes a folder behind a mark, because folders cannot be renamed here. */
const writeFolder = async (path: string, files: Readonly<Record<string, FileContents>>): Promise<void> => {
  const parts = partsOf(path)
  const name = parts.at(-1) ?? ''
  const parent = await folderAt(parts.slice(0, -1), 'created')
  await replace(await parent.getFileHandle(markOf(name), { create: true }), '')
  await removeEntry(parent, name)
  for (const [inside, contents] of Object.entries(files)) {
    const places = [...parts, ...partsOf(inside)]
    const folder = await folderAt(places.slice(0, -1), 'created')
    await replace(await folder.getFileHandle(places.at(-1) ?? '', { create: true }), contents)
  }
  await removeEntry(parent, markOf(name))
}

/** Runs `use` on the folder of a path, or returns `otherwise` if that folder does not exist. */
const inFolder = async <T>(
  parts: readonly string[],
  otherwise: T,
  use: (folder: FolderHandle) => Promise<T>,
): Promise<T> => {
  const folder = await folderAt(parts, 'existing').catch((error: unknown) => {
    if (isMissing(error)) return undefined
    throw error
  })
  return folder === undefined ? otherwise : use(folder)
}

const bytesOf = async (path: string, as: 'text' | 'bytes'): Promise<Uint8Array> => {
  const file = await (await fileAt(path, 'existing')).getFile()
  const problem = sizeProblem(path, { bytes: file.size, as })
  if (problem !== null) throw new Error(problem)
  return new Uint8Array(await file.arrayBuffer())
}

const openFile = async (path: string): Promise<OpenFile> => {
  const file = await (await fileAt(path, 'existing')).getFile()
  return {
    size: file.size,
    read: (target, position) =>
      attempt('read', path, async () => {
        const end = position + target.length
        if (end > file.size) throw new Error(`the file ends at byte ${file.size}, before byte ${end}`)
        target.set(new Uint8Array(await file.slice(position, end).arrayBuffer()))
      }),
    close: TE.right(undefined),
  }
}

export const liveFiles: typeof node.liveFiles = {
  readBytes: (path) => attempt('read', path, () => bytesOf(path, 'bytes')),
  readText: (path) => attempt('read', path, async () => new TextDecoder().decode(await bytesOf(path, 'text'))),
  open: (path) => attempt('open', path, () => openFile(path)),
  write: (path, contents) => attempt('write', path, async () => replace(await fileAt(path, 'created'), contents)),
  writeFolder: (path, files) => attempt('write', path, () => writeFolder(path, files)),
  append: (path, contents) =>
    attempt('append to', path, async () => {
      const file = await fileAt(path, 'created')
      const { size } = await file.getFile()
      await change(file, 'kept', async (writer) => {
        await writer.seek(size)
        await writer.write(contents)
      })
    }),
  truncate: (path, length) =>
    attempt('truncate', path, async () => {
      if (!Number.isSafeInteger(length) || length < 0) throw new RangeError(`a file cannot be cut to ${length} bytes`)
      const file = await fileAt(path, 'existing')
      const { size } = await file.getFile()
      if (size < length) throw new Error(`the file has ${size} bytes, fewer than the ${length} it should be cut to`)
      await change(file, 'kept', (writer) => writer.truncate(length))
    }),
  makeFolder: (path) => attempt('make folder', path, async () => void (await folderAt(partsOf(path), 'created'))),
  list: (path) => attempt('list', path, () => inFolder(partsOf(path), [], completeNames)),
  exists: (path) =>
    attempt('look for', path, () => {
      const parts = partsOf(path)
      return inFolder(parts.slice(0, -1), false, async (folder) =>
        (await completeNames(folder)).includes(parts.at(-1) ?? ''),
      )
    }),
  remove: (path) =>
    attempt('remove', path, () => {
      const parts = partsOf(path)
      return inFolder(parts.slice(0, -1), undefined, (folder) => removeEntry(folder, parts.at(-1) ?? ''))
    }),
}

/** There are no links in this file system. */
export const filesBelow: typeof node.filesBelow = () => liveFiles
