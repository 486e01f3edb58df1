/** Files that are not regular, too large, or behind links. */
import {
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { createServer, type Server } from 'node:net'
import { type Files, sizeProblem } from '@tandem-rl/base'
import { afterAll, beforeEach, describe, expect, it } from 'vitest'
import { SOURCE_FOLDERS, typeScriptBelow } from '../../../scripts/kit/workspace.js'
import { loadText } from '../../../src/modules/pretrained/pretrained.js'
import { makePipe } from '../../../test/kit/pipes.js'
import { useTemporaryFolder } from '../../../test/kit/runs.js'
import { FILE_LIMITS } from '../../base/src/fileLimits.js'
import { filesBelow, liveFiles } from '../src/files.js'
import { liveLocks, lockState } from '../src/lock.js'

const path = useTemporaryFolder()

const servers: Server[] = []
afterAll(() => Promise.all(servers.map((server) => new Promise((done) => server.close(done)))))

/** Things that are not regular files, by name. */
const IRREGULAR: Readonly<Record<string, (place: string) => Promise<void> | void>> = {
  'a named pipe': makePipe,
  'an endless device': (place) => symlinkSync('/dev/zero', place),
  'a terminal': (place) => symlinkSync('/dev/ptmx', place),
  'a socket': (place) => {
    const server = createServer()
    servers.push(server)
    return new Promise((done) => void server.listen(place, done))
  },
  'a folder': (place) => void mkdirSync(place),
}

type Operation = (files: Files, place: string) => () => Promise<{ readonly _tag: 'Left' | 'Right' }>

const READS: Readonly<Record<string, Operation>> = {
  readBytes: (files, place) => files.readBytes(place),
  readText: (files, place) => files.readText(place),
  open: (files, place) => files.open(place),
}

const CHANGES: Readonly<Record<string, Operation>> = {
  append: (files, place) => files.append(place, 'more'),
  truncate: (files, place) => files.truncate(place, 0),
}

beforeEach(() => {
  for (const name of ['inside', 'outside', 'strange']) rmSync(path(name), { recursive: true, force: true })
  mkdirSync(path('inside'))
  mkdirSync(path('outside'))
})

describe('files', () => {
  it.each(Object.keys(IRREGULAR))('refuse %s at once, for every operation', async (name) => {
    await IRREGULAR[name]!(path('strange'))
    for (const [operation, run] of Object.entries({ ...READS, ...CHANGES }))
      expect(await run(liveFiles, path('strange'))(), operation).toMatchObject({
        left: { reason: expect.stringMatching(/^this is (a folder|not a file, but a pipe, a socket or a device)$/) },
      })
  })

  it.each(Object.keys(IRREGULAR))('of a model refuse %s', async (name) => {
    for (const file of ['config.json', 'tokenizer.json', 'chat_template.jinja']) {
      const folder = path(`inside/${file}`)
      mkdirSync(folder)
      for (const each of ['config.json', 'tokenizer.json', 'tokenizer_config.json'])
        if (each !== file) writeFileSync(`${folder}/${each}`, readFileSync(`models/word-problems/${each}`))
      await IRREGULAR[name]!(`${folder}/${file}`)
      expect(await loadText(folder)(), file).toMatchObject({ left: { reason: expect.stringMatching(/^this is /) } })
    }
  })

  it.each(Object.keys(IRREGULAR))('that lock are neither waited for nor followed if they are %s', async (name) => {
    await IRREGULAR[name]!(path('inside/run.lock'))
    expect(await lockState(path('inside/run.lock'))).toBe('free')
    expect(await liveLocks.take(path('inside/run.lock'))()).toMatchObject({ left: { _tag: 'LockFailure' } })
    expect(readdirSync(path('inside'))).toEqual(['run.lock'])
  })

  it.each(FILE_LIMITS)('whose name ends with "%s" are read up to %d bytes', async (end, bytes) => {
    const place = path(`inside/file${end}`)
    expect(sizeProblem(place, { bytes, as: 'text' })).toBeNull()
    writeFileSync(place, '')
    truncateSync(place, bytes + 1)
    expect(await liveFiles.readText(place)()).toMatchObject({
      left: { reason: `the file has ${bytes + 1} bytes, more than the ${bytes} that are read of a file of this name` },
    })
  })

  it('are read as bytes up to 4 GiB', async () => {
    writeFileSync(path('inside/weights'), '')
    truncateSync(path('inside/weights'), 2 ** 32 + 1)
    expect(await liveFiles.readBytes(path('inside/weights'))()).toMatchObject({ left: { reason: expect.any(String) } })
  })
})

/** Sources that read files themselves, and what they read. */
const READERS: Readonly<Record<string, string>> = {
  'packages/host/src/lock.ts': 'files of /proc, beside the lock by `readRegularText`',
  'packages/host/src/descriptors.ts': 'files of /proc',
  'packages/host/src/reservations.ts': 'files of /proc, for engines that have ended',
  'packages/tfjs-onnxruntime/src/profile/sessions.ts': 'records of onnxruntime, in a folder of this process',
  'packages/tools/src/sandbox/bubblewrap.ts': 'files of /proc',
  'packages/tools/src/sandbox/controlGroup.ts': 'files of /proc and of cgroups',
  'packages/tools/src/sandbox/launch.ts': 'files of /proc',
  'packages/tools/src/sandbox/watched.ts': 'files of /proc and of cgroups',
  'packages/host/src/hubCache.ts': 'blobs, for their digest',
  'src/live/userModules.ts': 'the manifest of this package',
  'src/cli/init.ts': 'the template of this package',
}

describe('functions of Node that read files', () => {
  it('are called by a few files, and by all others through `Files`', () => {
    const own = /\b(?:readFile|readFileSync|createReadStream)\(/
    const found = SOURCE_FOLDERS.flatMap(typeScriptBelow).filter((file) => own.test(readFileSync(file, 'utf8')))
    expect(found.sort()).toEqual(Object.keys(READERS).sort())
  })
})

const WRITES: Readonly<Record<string, Operation>> = {
  ...CHANGES,
  write: (files, place) => files.write(place, 'new'),
  writeFolder: (files, place) => files.writeFolder(place, { a: 'new' }),
  makeFolder: (files, place) => files.makeFolder(`${place}/more`),
  remove: (files, place) => files.remove(place),
}

const OTHERS: Readonly<Record<string, Operation>> = {
  list: (files, place) => files.list(place),
  exists: (files, place) => files.exists(place),
}

describe('files below a folder', () => {
  it.each(Object.keys({ ...READS, ...WRITES, ...OTHERS }))('refuse links: %s', async (name) => {
    const run = { ...READS, ...WRITES, ...OTHERS }[name]!
    writeFileSync(path('outside/file'), 'kept')
    symlinkSync(path('outside/file'), path('inside/file'))
    symlinkSync(path('outside'), path('inside/folder'))
    symlinkSync(path('outside/none'), path('inside/broken'))
    const files = filesBelow(path('inside'))
    for (const place of ['file', 'folder', 'broken', 'folder/file', 'folder/new', './x/../folder/new'])
      expect(await run(files, `${path('inside')}/${place}`)(), place).toMatchObject({
        left: { reason: expect.stringContaining(' is a link, and links below ') },
      })
    expect(readdirSync(path('outside'))).toEqual(['file'])
    expect(readFileSync(path('outside/file'), 'utf8')).toBe('kept')
  })

  it('may be reached by a link above the folder, and are as others outside of it', async () => {
    symlinkSync(path('outside'), path('strange'))
    const files = filesBelow(path('strange'))
    expect(await files.write(path('strange/file'), 'new')()).toMatchObject({ _tag: 'Right' })
    expect(readFileSync(path('outside/file'), 'utf8')).toBe('new')
    symlinkSync(path('outside/file'), path('inside/file'))
    expect(await files.readText(path('inside/file'))()).toMatchObject({ right: 'new' })
  })

  it('are written and read as others', async () => {
    const files = filesBelow(path('inside'))
    for (const place of ['log', 'log']) await files.append(path(`inside/${place}`), 'line\n', 'private')()
    await files.truncate(path('inside/log'), 5)()
    expect(await files.readText(path('inside/log'))()).toMatchObject({ right: 'line\n' })
    await files.writeFolder(path('inside/a/b'), { c: 'new' })()
    expect(await files.list(path('inside/a/b'))()).toMatchObject({ right: ['c'] })
    await files.remove(path('inside/a'))()
    expect(existsSync(path('inside/a'))).toBe(false)
  })
})
