import { execFileSync, spawn } from 'node:child_process'
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { dirname, join, resolve } from 'node:path'
import { createInterface } from 'node:readline'
import { describe as sentence } from '@tandem-rl/base'
import fc from 'fast-check'
import * as E from 'fp-ts/lib/Either.js'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { fileBytes } from '../src/byteSource.js'
import { liveFiles } from '../src/files.js'

let folder = ''
const at = (...names: readonly string[]): string => join(folder, ...names)

beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'tandem-files-'))
})

afterEach(async () => {
  await rm(folder, { recursive: true, force: true })
})

const isDone = (result: E.Either<unknown, unknown>): void => {
  expect(result).toMatchObject({ _tag: 'Right' })
}

/** Mounts a file system of 64 KiB, or returns the reason for its absence. */
const mountSmallDisk = (place: string): string | undefined => {
  try {
    execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=64k', 'tmpfs', place], { stdio: 'pipe' })
    return undefined
  } catch (error) {
    return `mount is not permitted here: ${error instanceof Error ? error.message : String(error)}`
  }
}

/** Runs a test in a small file system. */
const onSmallDisk =
  (run: (disk: string) => Promise<void>) =>
  async (context: { readonly skip: (condition: boolean, note?: string) => void }): Promise<void> => {
    const disk = at('disk')
    await mkdir(disk)
    const problem = mountSmallDisk(disk)
    context.skip(problem !== undefined, problem)
    try {
      await run(disk)
    } finally {
      execFileSync('umount', [disk])
    }
  }

describe('write', () => {
  it('what is written is read back, bytes and text', async () => {
    const law = fc.asyncProperty(
      fc.uint8Array({ maxLength: 100 }),
      fc.string({ maxLength: 50 }),
      async (bytes, text) => {
        isDone(await liveFiles.write(at('bytes'), bytes)())
        isDone(await liveFiles.write(at('text'), text)())
        expect(await liveFiles.readBytes(at('bytes'))()).toEqual(E.right(Buffer.from(bytes)))
        expect(await liveFiles.readText(at('text'))()).toEqual(E.right(text))
      },
    )
    await fc.assert(law, { numRuns: 20 })
    expect(await readdir(folder)).toEqual(['bytes', 'text'])
  })

  it('pieces become one file, and a piece that cannot be made leaves the old one and nothing else', async () => {
    isDone(await liveFiles.write(at('file'), [Uint8Array.of(1), Uint8Array.of(), Uint8Array.of(2, 3)])())
    expect([...(await readFile(at('file')))]).toEqual([1, 2, 3])
    const broken = {
      *[Symbol.iterator]() {
        yield Uint8Array.of(9)
        throw new Error('no more')
      },
    }
    expect(await liveFiles.write(at('file'), broken)()).toMatchObject({
      left: { operation: 'write', reason: 'no more' },
    })
    expect([...(await readFile(at('file')))]).toEqual([1, 2, 3])
    expect(await readdir(folder)).toEqual(['file'])
  })

  it('a path that is a folder is refused, and the folder stays as it was', async () => {
    await mkdir(at('taken'))
    await writeFile(at('taken', 'inside'), 'old')
    const result = await liveFiles.write(at('taken'), 'new')()
    expect(result).toEqual(
      E.left({
        _tag: 'FileFailure',
        operation: 'write',
        path: at('taken'),
        code: 'EISDIR',
        where: `could not write ${at('taken')}`,
        reason: 'this is a folder',
      }),
    )
    expect(await readdir(folder)).toEqual(['taken'])
    expect(await readFile(at('taken', 'inside'), 'utf8')).toBe('old')
  })

  it('a folder that does not exist is not made', async () => {
    const result = await liveFiles.write(at('none', 'file'), 'new')()
    expect(result).toMatchObject({ left: { code: 'ENOENT', reason: 'there is no such file or folder' } })
    expect(await readdir(folder)).toEqual([])
  })

  it('a file in the place of a folder is named as that', async () => {
    await writeFile(at('file'), 'old')
    const result = await liveFiles.write(at('file', 'deeper'), 'new')()
    expect(result).toMatchObject({ left: { code: 'ENOTDIR', reason: 'a part of the path is not a folder' } })
    expect(await readFile(at('file'), 'utf8')).toBe('old')
  })

  it('many writes of one file at once all succeed, and one of them is there whole', async () => {
    const contents = Array.from({ length: 8 }, (_, i) => String(i).repeat(100_000 + i))
    const results = await Promise.all(contents.map((text) => liveFiles.write(at('file'), text)()))
    for (const result of results) isDone(result)
    expect(contents).toContain(await readFile(at('file'), 'utf8'))
    expect(await readdir(folder)).toEqual(['file'])
  })

  it('a process that is killed while it writes leaves whole contents', async () => {
    const program = `
      import { liveFiles } from ${JSON.stringify(resolve('packages/host/src/files.ts'))}
      for (let i = 0; ; i++) {
        const result = await liveFiles.write(process.argv[1], 'ab'[i % 2].repeat(2 ** 20))()
        console.log(result._tag)
      }`
    const child = spawn(process.execPath, ['--import', 'tsx', '--input-type=module', '--eval', program, at('file')], {
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    const ended = new Promise((done) => child.once('close', done))
    let written = 0
    for await (const line of createInterface(child.stdout)) {
      expect(line).toBe('Right')
      if (++written === 3) break
    }
    child.kill('SIGKILL')
    await ended
    expect(await readFile(at('file'), 'utf8')).toMatch(/^(a{1048576}|b{1048576})$/)
  })

  it(
    'a full disk is named with a hint, the old contents stay, and nothing else is left',
    onSmallDisk(async (disk) => {
      isDone(await liveFiles.write(join(disk, 'state.json'), 'old')())
      const result = await liveFiles.write(join(disk, 'state.json'), 'x'.repeat(200_000))()
      expect(result).toMatchObject({
        left: { operation: 'write', code: 'ENOSPC', reason: 'the disk is full; free some space and run again' },
      })
      expect(await readFile(join(disk, 'state.json'), 'utf8')).toBe('old')
      expect(await readdir(disk)).toEqual(['state.json'])
      isDone(await liveFiles.write(join(disk, 'state.json'), 'new')())
    }),
  )

  it(
    'a read-only file system is named, and the old contents stay',
    onSmallDisk(async (disk) => {
      isDone(await liveFiles.write(join(disk, 'state.json'), 'old')())
      execFileSync('mount', ['-o', 'remount,ro', disk])
      const readOnly = { left: { code: 'EROFS', reason: 'the file system is read-only' } }
      expect(await liveFiles.write(join(disk, 'state.json'), 'new')()).toMatchObject(readOnly)
      expect(await liveFiles.writeFolder(join(disk, 'folder'), { a: '1' })()).toMatchObject(readOnly)
      expect(await liveFiles.makeFolder(join(disk, 'a', 'b'))()).toMatchObject(readOnly)
      expect(await readFile(join(disk, 'state.json'), 'utf8')).toBe('old')
      expect(await readdir(disk)).toEqual(['state.json'])
    }),
  )
})

describe('writeFolder', () => {
  it('replaces a folder whole: files that are not given are gone', async () => {
    isDone(await liveFiles.writeFolder(at('step'), { a: 'old', b: Uint8Array.of(1, 2) })())
    isDone(await liveFiles.writeFolder(at('step'), { a: 'new', c: '' })())
    expect(await readdir(at('step'))).toEqual(['a', 'c'])
    expect(await readFile(at('step', 'a'), 'utf8')).toBe('new')
    expect(await readdir(folder)).toEqual(['step'])
  })

  it('makes the folders above it, and can be empty', async () => {
    isDone(await liveFiles.writeFolder(at('a', 'b', 'c'), {})())
    expect(await liveFiles.list(at('a', 'b', 'c'))()).toEqual(E.right([]))
  })

  it('that fails at its second file leaves the old folder and nothing else', async () => {
    isDone(await liveFiles.writeFolder(at('step'), { a: 'old' })())
    const result = await liveFiles.writeFolder(at('step'), { a: 'new', 'a/b': 'new' })() // a file is no folder
    expect(result).toMatchObject({ left: { operation: 'write', path: at('step'), code: 'EEXIST' } })
    expect(await readFile(at('step', 'a'), 'utf8')).toBe('old')
    expect(await readdir(folder)).toEqual(['step'])
  })

  it('makes the folders that are in the names of files', async () => {
    isDone(await liveFiles.writeFolder(at('step'), { 'in/b': 'new' })())
    expect(await readFile(at('step', 'in', 'b'), 'utf8')).toBe('new')
  })

  it(
    'on a full disk leaves the old folder and nothing else',
    onSmallDisk(async (disk) => {
      isDone(await liveFiles.writeFolder(join(disk, 'step'), { a: 'old' })())
      const result = await liveFiles.writeFolder(join(disk, 'step'), { a: 'new', b: 'x'.repeat(200_000) })()
      expect(result).toMatchObject({ left: { code: 'ENOSPC' } })
      expect(await readdir(disk)).toEqual(['step'])
      expect(await readdir(join(disk, 'step'))).toEqual(['a'])
      expect(await readFile(join(disk, 'step', 'a'), 'utf8')).toBe('old')
    }),
  )
})

describe('writeFolder over a folder that cannot be moved', () => {
  it(
    'fails, and the old folder keeps its files',
    onSmallDisk(async (disk) => {
      await writeFile(join(disk, 'a'), 'old')
      expect(await liveFiles.writeFolder(disk, { a: 'new' })()).toMatchObject({ left: { code: 'EBUSY' } })
      expect(await readdir(disk)).toEqual(['a'])
      expect(await readFile(join(disk, 'a'), 'utf8')).toBe('old')
      expect(await readdir(folder)).toEqual(['disk'])
    }),
  )
})

describe('append and truncate', () => {
  it('cutting to the length before takes back what was appended', async () => {
    const law = fc.asyncProperty(fc.string({ maxLength: 30 }), fc.string({ maxLength: 30 }), async (a, b) => {
      isDone(await liveFiles.write(at('log'), '')())
      isDone(await liveFiles.append(at('log'), a)())
      isDone(await liveFiles.append(at('log'), b)())
      expect(await liveFiles.readText(at('log'))()).toEqual(E.right(a + b))
      isDone(await liveFiles.truncate(at('log'), Buffer.byteLength(a))())
      expect(await liveFiles.readText(at('log'))()).toEqual(E.right(a))
    })
    await fc.assert(law, { numRuns: 20 })
  })

  it('append makes a file that is not there', async () => {
    isDone(await liveFiles.append(at('new'), 'line\n')())
    expect(await readFile(at('new'), 'utf8')).toBe('line\n')
  })

  it('a file that is shorter than it should be cut to is refused with both lengths, and left alone', async () => {
    await writeFile(at('log'), '12345')
    const result = await liveFiles.truncate(at('log'), 9)()
    const reason = 'the file has 5 bytes, fewer than the 9 it should be cut to'
    expect(result).toMatchObject({ left: { operation: 'truncate', path: at('log'), reason } })
    expect(await readFile(at('log'), 'utf8')).toBe('12345')
  })

  it.each([-1, 0.5, Number.NaN])('a cut to %d bytes is refused, and the file left alone', async (length) => {
    await writeFile(at('log'), '12345')
    expect(E.isLeft(await liveFiles.truncate(at('log'), length)())).toBe(true)
    expect(await readFile(at('log'), 'utf8')).toBe('12345')
  })

  it(
    'a disk that is full is named by append',
    onSmallDisk(async (disk) => {
      expect(await liveFiles.append(join(disk, 'log'), 'x'.repeat(200_000))()).toMatchObject({
        left: { operation: 'append to', path: join(disk, 'log'), code: 'ENOSPC' },
      })
    }),
  )
})

describe('open', () => {
  it('reads any range, and reports the end of a file that is too short', async () => {
    await writeFile(at('file'), Uint8Array.of(0, 1, 2, 3, 4))
    const result = await liveFiles.open(at('file'))()
    if (E.isLeft(result)) throw new Error(result.left.reason)
    const { size, read, close } = result.right
    expect(size).toBe(5)
    const target = new Uint8Array(3)
    isDone(await read(target, 2)())
    expect([...target]).toEqual([2, 3, 4])
    isDone(await read(new Uint8Array(0), 5)())
    const reason = 'the file ends at byte 5, before byte 6'
    expect(await read(target, 3)()).toMatchObject({ left: { operation: 'read', path: at('file'), reason } })
    isDone(await close())
    expect(await read(target, 0)()).toMatchObject({ left: { operation: 'read' } })
  })

  it('of what is no file is refused at once: a pipe that nobody writes to, a device, a folder', async () => {
    execFileSync('/bin/sh', ['-c', 'mkfifo "$0"', at('pipe')])
    for (const path of [at('pipe'), '/dev/null', folder]) {
      const opened = await liveFiles.open(path)()
      expect(opened).toMatchObject({ left: { _tag: 'FileFailure', path } })
      expect(await fileBytes(path)()).toEqual(opened)
    }
  })

  it('that fails names the path', async () => {
    expect(await liveFiles.open(at('none'))()).toMatchObject({
      left: { operation: 'open', code: 'ENOENT', path: at('none') },
    })
    expect(await liveFiles.open(folder)()).toMatchObject({ left: { operation: 'open', code: 'EISDIR', path: folder } })
  })
})

describe('reading, listing, removing', () => {
  it('a failure names the attempt, the place and the cause in one sentence', async () => {
    const result = await liveFiles.readText(at('none'))()
    expect(E.isLeft(result) && sentence(result.left)).toBe(
      `could not read ${at('none')}: there is no such file or folder`,
    )
  })

  it('each kind of wrong path has its code', async () => {
    await writeFile(at('file'), '')
    expect(await liveFiles.readBytes(folder)()).toMatchObject({ left: { code: 'EISDIR', reason: 'this is a folder' } })
    expect(await liveFiles.readText(at('file', 'x'))()).toMatchObject({ left: { code: 'ENOTDIR' } })
    expect(await liveFiles.list(at('file'))()).toMatchObject({ left: { operation: 'list', code: 'ENOTDIR' } })
    expect(await liveFiles.append(folder, 'x')()).toMatchObject({ left: { code: 'EISDIR' } })
    expect(await liveFiles.truncate(at('none'), 0)()).toMatchObject({ left: { code: 'ENOENT' } })
  })

  it('a code without a hint comes with what the system says', async () => {
    const result = await liveFiles.readText(at('x'.repeat(300)))()
    expect(result).toMatchObject({ left: { code: 'ENAMETOOLONG', reason: expect.stringContaining('name too long') } })
  })

  it('list is sorted, and empty for a folder that does not exist', async () => {
    for (const name of ['b', 'B', 'a', '10', '9']) await writeFile(at(name), '')
    expect(await liveFiles.list(folder)()).toEqual(E.right(['10', '9', 'B', 'a', 'b']))
    expect(await liveFiles.list(at('none'))()).toEqual(E.right([]))
  })

  it('exists sees files and folders, and what is not there', async () => {
    await writeFile(at('file'), '')
    const paths = [at('file'), folder, at('none'), at('file', 'x')]
    const found = await Promise.all(paths.map((path) => liveFiles.exists(path)()))
    expect(found).toEqual([true, true, false, false].map(E.right))
  })

  it('makeFolder makes all folders of a path, and remove takes all of them away; both twice', async () => {
    for (const _ of [1, 2]) isDone(await liveFiles.makeFolder(at('a', 'b'))())
    expect(await readdir(dirname(at('a', 'b')))).toEqual(['b'])
    for (const _ of [1, 2]) isDone(await liveFiles.remove(at('a'))())
    expect(await readdir(folder)).toEqual([])
  })
})
