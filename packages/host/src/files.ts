/** The file system. */
import * as fs from 'node:fs/promises'
import { dirname, join, relative, resolve, sep } from 'node:path'
import {
  errorMessage,
  type FileContents,
  type FileFailure,
  type Files,
  fileFailure,
  type OpenFile,
  sizeProblem,
} from '@tandem-rl/base'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { flush } from './flush.js'
import { isBelow } from './paths.js'

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
  ELOOP: 'the path leads through a link',
  ENXIO: 'this is not a file, but a pipe, a socket or a device',
}

const attempt = <T>(operation: string, path: string, run: () => Promise<T>): TE.TaskEither<FileFailure, T> =>
  TE.tryCatch(run, (error) => {
    const code = codeOf(error)
    const reason = HINTS[code] ?? errorMessage(error)
    return fileFailure(operation, path, { code, reason })
  })

/** Writes a file that does not exist yet, so that the name cannot be a link to another one. */
const writeThrough = async (path: string, contents: FileContents): Promise<void> => {
  const file = await fs.open(path, 'wx')
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

const isFolder = (path: string): Promise<boolean> =>
  fs.stat(path).then(
    (found) => found.isDirectory(),
    () => false,
  )

/**
 * Makes a folder and its parents. Node's recursive `mkdir` reports ENOENT instead of the system's
 * EROFS, and never ends in /proc, which reports ENOENT for a folder that exists.
 */
const makeFolder = async (path: string): Promise<void> => {
  try {
    await fs.mkdir(path)
  } catch (error) {
    if (await isFolder(path)) return
    if (codeOf(error) !== 'ENOENT' || (await isFolder(dirname(path)))) throw error
    await makeFolder(dirname(path))
    await makeFolder(path)
  }
}

/** Writes a file atomically. */
export const writeWhole = async (path: string, contents: FileContents): Promise<void> => {
  const temporary = temporaryName(path)
  await fs.rm(temporary, { force: true })
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

/** Reads bytes from `position` until the target is full or the file ends. Returns their number. */
const fill = async (file: fs.FileHandle, target: Uint8Array, position: number): Promise<number> => {
  let done = 0
  while (done < target.length) {
    const length = Math.min(target.length - done, READ_BYTES)
    const { bytesRead } = await file.read(target, done, length, position + done)
    if (bytesRead === 0) break
    done += bytesRead
  }
  return done
}

const readAt = async (file: fs.FileHandle, target: Uint8Array, position: number): Promise<void> => {
  const done = await fill(file, target, position)
  if (done < target.length)
    throw new Error(`the file ends at byte ${position + done}, before byte ${position + target.length}`)
}

const { O_RDONLY, O_WRONLY, O_APPEND, O_CREAT } = fs.constants

/** Flags that not every system has: to open a pipe without waiting, and not to follow a link. */
const { O_NONBLOCK = 0, O_NOFOLLOW = 0 }: Partial<typeof fs.constants> = fs.constants

/** Links in the last part of a path: followed, or refused. */
type Links = 'followed' | 'refused'

interface OpenedFile {
  readonly file: fs.FileHandle
  readonly size: number
}

/** Opens a file. Fails at once for anything that is not a regular file, such as a pipe. */
const openRegular = async (path: string, links: Links, flags = O_RDONLY, mode?: number): Promise<OpenedFile> => {
  const file = await fs.open(path, flags | O_NONBLOCK | (links === 'refused' ? O_NOFOLLOW : 0), mode)
  try {
    const found = await file.stat()
    if (found.isDirectory()) throw Object.assign(new Error('this is a folder'), { code: 'EISDIR' })
    if (!found.isFile()) throw Object.assign(new Error('not a file'), { code: 'ENXIO' })
    return { file, size: found.size }
  } catch (error) {
    await file.close()
    throw error
  }
}

/** Reads the bytes that a regular file has when it is opened. Fails if there are too many. */
const readRegular = async (path: string, as: 'text' | 'bytes', links: Links): Promise<Buffer> => {
  const { file, size } = await openRegular(path, links)
  try {
    const problem = sizeProblem(path, { bytes: size, as })
    if (problem !== null) throw new Error(problem)
    const target = Buffer.allocUnsafeSlow(size) // not of the pool: callers may use the buffer
    return target.subarray(0, await fill(file, target, 0))
  } finally {
    await file.close()
  }
}

/** Reads the text of a regular file. Fails if it is too long. */
export const readRegularText = async (path: string, links: Links = 'followed'): Promise<string> =>
  (await readRegular(path, 'text', links)).toString('utf8')

const openFile = async (path: string, links: Links): Promise<OpenFile> => {
  const { file, size } = await openRegular(path, links)
  return {
    size,
    read: (target, position) => attempt('read', path, () => readAt(file, target, position)),
    close: attempt('close', path, () => file.close()),
  }
}

/** Changes a regular file that is opened with `flags`. */
const change = async (
  path: string,
  { links, flags, mode }: { readonly links: Links; readonly flags: number; readonly mode?: number },
  edit: (opened: OpenedFile) => Promise<void>,
): Promise<void> => {
  const opened = await openRegular(path, links, flags, mode)
  try {
    await edit(opened)
  } finally {
    await opened.file.close()
  }
}

const cut = async ({ file, size }: OpenedFile, length: number): Promise<void> => {
  if (size < length) throw new Error(`the file has ${size} bytes, fewer than the ${length} it should be cut to`)
  await file.truncate(length)
}

/** Throws if a part of a path below `root` is a link. Returns the flag for its last part. */
const checkLinks = async (root: string | null, path: string): Promise<Links> => {
  const whole = resolve(path)
  if (root === null || whole === root || !isBelow(root, whole)) return 'followed'
  let place = root
  for (const part of relative(root, whole).split(sep)) {
    place = join(place, part)
    const found = await fs.lstat(place).catch(() => null) // the operation itself reports what is missing
    if (found === null) break
    if (found.isSymbolicLink())
      throw new Error(`${place} is a link, and links below ${root} are not followed: put the file or folder there`)
  }
  return 'refused'
}

/** Makes the functions of files. Below `root`, no link is followed. */
const filesOf = (root: string | null): Files => {
  const at = <T>(operation: string, path: string, run: (links: Links) => Promise<T>): TE.TaskEither<FileFailure, T> =>
    attempt(operation, path, async () => run(await checkLinks(root, path)))
  return {
    readBytes: (path) => at('read', path, (links) => readRegular(path, 'bytes', links)),
    readText: (path) => at('read', path, (links) => readRegularText(path, links)),
    open: (path) => at('open', path, (links) => openFile(path, links)),
    write: (path, contents) => at('write', path, () => writeWhole(path, contents)),
    writeFolder: (path, files) => at('write', path, () => writeFolder(path, files)),
    append: (path, contents, access) =>
      at('append to', path, (links) => {
        const flags = O_WRONLY | O_APPEND | O_CREAT
        return change(path, { links, flags, mode: access === 'private' ? 0o600 : 0o666 }, ({ file }) =>
          file.appendFile(contents),
        )
      }),
    truncate: (path, length) =>
      at('truncate', path, (links) => {
        if (!Number.isSafeInteger(length) || length < 0) throw new RangeError(`a file cannot be cut to ${length} bytes`)
        return change(path, { links, flags: O_WRONLY }, (opened) => cut(opened, length))
      }),
    makeFolder: (path) => at('make folder', path, () => makeFolder(path)),
    list: (path) =>
      at('list', path, async () => {
        try {
          return (await fs.readdir(path)).sort()
        } catch (error) {
          if (codeOf(error) === 'ENOENT') return []
          throw error
        }
      }),
    exists: (path) =>
      at('look for', path, () =>
        fs.access(path).then(
          () => true,
          () => false,
        ),
      ),
    remove: (path) => at('remove', path, () => fs.rm(path, { recursive: true, force: true })),
  }
}

/**
 * Files through Node. Only regular files are read and changed, without waiting: a pipe, a socket or
 * a device is refused. `readBytes` and `readText` refuse files above the limit of their name.
 */
export const liveFiles: Files = filesOf(null)

/**
 * Files through Node that follow no link below a folder, for folders that may come from elsewhere.
 * The folder itself may be a link. Paths outside of it are as those of `liveFiles`.
 *
 * Errors   `Left(FileFailure)` that names the link.
 */
export const filesBelow = (folder: string): Files => filesOf(resolve(folder))
