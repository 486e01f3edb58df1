import { resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import type { Thread, ThreadOptions } from '@tandem-rl/base'
import { afterEach, describe, expect, it } from 'vitest'
import { leftOf, rightOf } from '../../../test/kit/results.js'
import type * as programs from '../../../test/kit/threadPrograms.js'
import { liveThreads } from '../src/threads.js'

const module = pathToFileURL(resolve('test/kit/threadPrograms.ts')).href

const started: Thread[] = []

afterEach(async () => {
  await Promise.all(started.splice(0).map(({ stop }) => stop(Promise.resolve(), 0)))
})

const start = async (exportName: keyof typeof programs, options: Partial<ThreadOptions> = {}): Promise<Thread> => {
  const thread = await rightOf(liveThreads.start({ module, exportName }, { input: null, ...options }))
  started.push(thread)
  return thread
}

/** The next `count` messages; rejects if the thread is gone before. */
const hear = (thread: Thread, count: number): Promise<readonly unknown[]> =>
  new Promise((done, reject) => {
    const heard: unknown[] = []
    thread.listen((message) => {
      if (heard.push(message) === count) done(heard)
    })
    void thread.ended.then(({ reason }) => reject(new Error(reason)))
  })

describe('a thread', () => {
  it('runs a program of a TypeScript module, and messages go both ways in order', async () => {
    const thread = await start('echo', { input: { words: ['first', new Map([[1, 2]])] } })
    const heard = hear(thread, 3)
    thread.post('second')
    thread.post(Float32Array.of(3))
    expect(await heard).toEqual([{ words: ['first', new Map([[1, 2]])] }, 'second', Float32Array.of(3)])
  })

  it('ends with the code of process.exit, after what it said before', async () => {
    const thread = await start('leave')
    const heard = hear(thread, 1)
    expect(await thread.ended).toEqual({
      _tag: 'ThreadFailure',
      kind: 'exit',
      reason: 'the thread ended with code 3',
    })
    expect(await heard).toEqual(['last words'])
  })

  it('ends with the uncaught exception', async () => {
    const { ended } = await start('fail')
    expect(await ended).toMatchObject({ kind: 'error', reason: 'the thread threw RangeError: no such number' })
  })

  it('ends when its heap is full', async () => {
    const { ended } = await start('hoard', { heapMegabytes: 16 })
    expect(await ended).toMatchObject({ kind: 'memory', reason: expect.stringContaining('out of memory') })
  })

  it('ends when its module or its function is missing', async () => {
    expect(await (await start('notAFunction')).ended).toMatchObject({
      reason: expect.stringContaining("exports no function 'notAFunction'"),
    })
    const thread = await rightOf(
      liveThreads.start({ module: new URL('none.ts', module).href, exportName: 'echo' }, { input: null }),
    )
    expect(await thread.ended).toMatchObject({ reason: expect.stringContaining('none.ts') })
  })

  it('is stopped after the limit while it computes without a pause, and posting to it then does nothing', async () => {
    const thread = await start('spin')
    await hear(thread, 1)
    await thread.stop(new Promise(() => undefined), 10)
    expect(await thread.ended).toMatchObject({
      kind: 'timeout',
      reason: 'the thread was ended after 10 ms of waiting',
    })
    thread.post('hello?')
  })

  it('is ended if it says nothing for longer than it may, but not once it has said something', async () => {
    const { ended } = await start('write', { firstWordMs: 1 })
    expect(await ended).toMatchObject({ kind: 'timeout', reason: 'the thread sent no message within 1 ms' })
    const thread = await start('echo', { input: 'here', firstWordMs: 60_000 })
    expect(await hear(thread, 1)).toEqual(['here'])
  })

  it('is stopped at once when what was waited for is done, even if that failed', async () => {
    const thread = await start('echo')
    await thread.stop(Promise.reject(new Error('whatever')), 2 ** 31 - 1)
    expect(await thread.ended).toMatchObject({ kind: 'exit' })
  })

  it('copies arrays, moves those that are transferred, and shares those in shared memory', async () => {
    const thread = await start('write')
    const heard = hear(thread, 3)
    const [copied, moved, shared] = [
      new Float32Array(4),
      new Float32Array(5),
      new Float32Array(new SharedArrayBuffer(24)),
    ]
    thread.post(copied)
    thread.post(moved, [moved.buffer])
    thread.post(shared)
    expect(await heard).toEqual([4, 5, 6])
    expect([copied[0], moved.length, shared[0]]).toEqual([0, 0, 7])
  })

  it('does not start with an input that cannot be cloned, or from a module that is no file', async () => {
    expect(await leftOf(liveThreads.start({ module, exportName: 'echo' }, { input: () => 1 }))).toMatchObject({
      _tag: 'ThreadFailure',
      kind: 'start',
      reason: expect.stringContaining('could not be cloned'),
    })
    expect(await leftOf(liveThreads.start({ module: 'somewhere', exportName: 'echo' }, { input: null }))).toMatchObject(
      { kind: 'start' },
    )
  })
})
