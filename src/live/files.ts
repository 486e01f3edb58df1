/**
 * The file system.
 *
 * This folder holds the real effects behind the capabilities of `src/core`: files, clock,
 * processes, threads, servers and the hub. It does not hold any decision of the layers above,
 * which receive these effects as arguments.
 */
import * as fs from 'node:fs/promises'
import { dirname, join } from 'node:path'
import * as TE from 'fp-ts/lib/TaskEither.js'
import type { FileContents, Files, OpenFile } from '../core/capabilities.js'
import { errorMessage, type FileFailure, fileFailure } from '../core/failure.js'
import { flush } from './flush.js'

const codeOf = (error: unknown): string =>
  error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : 'UNKNOWN'

const HINTS: Readonly<Record<string, string>> = {
  ENOENT: 'there is no such file or folder',
  ENOSPC: 'the disk is full; free some space and run again',
  EACCES: 'permission denied',
  EROFS: 'the file system is read-only',
  EISDIR: 'this is a folder',
  ENOTDIR: 'a part of the path is not a folder',
  EDQUOT: 'the disk quota is used up',
}

const attempt = <T>(operation: string, path: string, run: () => Promise<T>): TE.TaskEither<FileFailure, T> =>
  TE.tryCatch(run, (error) => {
    const code = codeOf(error)
    const reason = HINTS[code] ?? errorMessage(error)
    return fileFailure(operation, path, { code, reason })
  })

const writeThrough = async (path: string, contents: FileContents): Promise<void> => {
  const file = await fs.open(path, 'w')
  try {
    const parts = typeof contents === 'string' || contents instanceof Uint8Array ? [contents] : contents
    for (const part of parts) await file.writeFile(part)
    await flush(file)
  } finally {
    await file.close()
  }
}

/** Makes a rename durable, on systems that can sync a folder. */
const syncFolder = async (path: string): Promise<void> => {
  const folder = await fs.open(path, 'r').catch(() => undefined)
  if (folder === undefined) return
  try {
    await flush(folder).catch((error: unknown) => {
      if (!['EINVAL', 'EPERM', 'EISDIR', 'EBADF'].includes(codeOf(error))) throw error
    })
  } finally {
    await folder.close()
  }
}

let temporaries = 0

/** Returns a temporary name that is unique among all writes and processes. */
export const temporaryName = (path: string): string => `${path}.tmp-${process.pid}-${temporaries++}`

/**
 * Makes a folder and its parents. Node's recursive `mkdir` reports ENOENT instead of the system's
 * EROFS.
 */
const makeFolder = async (path: string): Promise<void> => {
  try {
    await fs.mkdir(path)
  } catch (error) {
    const code = codeOf(error)
    if (code === 'ENOENT' && dirname(path) !== path) {
      await makeFolder(dirname(path))
      await makeFolder(path)
    } else if (
      !(await fs.stat(path).then(
        (found) => found.isDirectory(),
        () => false,
      ))
    )
      throw error
  }
}

/** Writes a file atomically. */
export const writeWhole = async (path: string, contents: FileContents): Promise<void> => {
  const temporary = temporaryName(path)
  try {
    await writeThrough(temporary, contents)
    await fs.rename(temporary, path)
    await syncFolder(dirname(path))
  } catch (error) {
    await fs.rm(temporary, { force: true })
    throw error
  }
}

const writeFolder = async (path: string, files: Readonly<Record<string, FileContents>>): Promise<void> => {
  const temporary = temporaryName(path)
  await fs.rm(temporary, { recursive: true, force: true })
  try {
    await makeFolder(temporary)
    for (const [name, contents] of Object.entries(files)) {
      const place = join(temporary, name)
      await makeFolder(dirname(place))
      await writeThrough(place, contents)
      if (dirname(place) !== temporary) await syncFolder(dirname(place))
    }
    await syncFolder(temporary)
    await fs.rm(path, { recursive: true, force: true })
    await fs.rename(temporary, path)
    await syncFolder(dirname(path))
  } catch (error) {
    await fs.rm(temporary, { recursive: true, force: true })
    throw error
  }
}

/** Maximum number of bytes per read; the system's limit is 2 GiB. */
const READ_BYTES = 2 ** 30

const readAt = async (file: fs.FileHandle, target: Uint8Array, position: number): Promise<void> => {
  let done = 0
  while (done < target.length) {
    const length = Math.min(target.length - done, READ_BYTES)
    const { bytesRead } = await file.read(target, done, length, position + done)
    if (bytesRead === 0)
      throw new Error(`the file ends at byte ${position + done}, before byte ${position + target.length}`)
    done += bytesRead
  }
}

/** Flags that open a named pipe without waiting for a writer. */
const AT_ONCE = fs.constants.O_RDONLY | (fs.constants.O_NONBLOCK ?? 0) // not every system has it

const openFile = async (path: string): Promise<OpenFile> => {
  const file = await fs.open(path, AT_ONCE)
  try {
    const found = await file.stat()
    if (found.isDirectory()) throw Object.assign(new Error('this is a folder'), { code: 'EISDIR' })
    if (!found.isFile()) throw new Error('this is not a file, but a pipe, a socket or a device')
    return {
      size: found.size,
      read: (target, position) => attempt('read', path, () => readAt(file, target, position)),
      close: attempt('close', path, () => file.close()),
    }
  } catch (error) {
    await file.close()
    throw error
  }
}

/** Files through Node. */
export const liveFiles: Files = {
  readBytes: (path) => attempt('read', path, () => fs.readFile(path)),
  readText: (path) => attempt('read', path, () => fs.readFile(path, 'utf8')),
  open: (path) => attempt('open', path, () => openFile(path)),
  write: (path, contents) => attempt('write', path, () => writeWhole(path, contents)),
  writeFolder: (path, files) => attempt('write', path, () => writeFolder(path, files)),
  append: (path, contents, access) =>
    attempt('append to', path, () => fs.appendFile(path, contents, access === 'private' ? { mode: 0o600 } : {})),
  truncate: (path, length) =>
    attempt('truncate', path, async () => {
      if (!Number.isSafeInteger(length) || length < 0) throw new RangeError(`a file cannot be cut to ${length} bytes`)
      const { size } = await fs.stat(path)
      if (size < length) throw new Error(`the file has ${size} bytes, fewer than the ${length} it should be cut to`)
      await fs.truncate(path, length)
    }),
  makeFolder: (path) => attempt('make folder', path, () => makeFolder(path)),
  list: (path) =>
    attempt('list', path, async () => {
      try {
        return (await fs.readdir(path)).sort()
      } catch (error) {
        if (codeOf(error) === 'ENOENT') return []
        throw error
      }
    }),
  exists: (path) =>
    attempt('look for', path, () =>
      fs.access(path).then(
        () => true,
        () => false,
      ),
    ),
  remove: (path) => attempt('remove', path, () => fs.rm(path, { recursive: true, force: true })),
}
