/** Jobs on another thread. */
import { requireLeft } from '@tandem-rl/testing'
import { describe, expect, it } from 'vitest'
import { threadJobs } from '../src/threadJobs.js'

const PROGRAM = { module: new URL('../../../test/kit/threadPrograms.ts', import.meta.url).href, exportName: 'jobs' }

const LIMITS = { limitMs: 60_000, mostSize: 100, heapMegabytes: 64, idleMs: 1000 }

interface Answer {
  readonly thread: number
  readonly value: unknown
}

const jobs = (limits: Partial<typeof LIMITS> = {}) =>
  threadJobs<object, Answer>(PROGRAM, { input: null, ...LIMITS, ...limits })

const right = async (job: object, at: ReturnType<typeof jobs>): Promise<Answer> => {
  const answer = await at.run(job, { size: 1 })
  if (answer._tag === 'Left') throw new Error(answer.left.reason)
  return answer.right
}

describe('jobs on a thread', () => {
  it('are answered in order by one thread, and buffers are moved to it', async () => {
    const thread = jobs()
    const bytes = new Uint8Array(8).fill(3)
    const all = [right({ echo: 1 }, thread), right({ echo: 2 }, thread)]
    const moved = thread.run({ sum: bytes }, { size: 8, transfer: [bytes.buffer] })
    const [first, second] = await Promise.all(all)
    expect([first!.value, second!.value]).toEqual([1, 2])
    expect(await moved).toMatchObject({ right: { value: 24, thread: first!.thread } })
    expect([second!.thread, bytes.length]).toEqual([first!.thread, 0])
  })

  it('that never end are stopped, and the next one has another thread', async () => {
    const thread = jobs({ limitMs: 5000 })
    const { thread: before } = await right({ echo: 1 }, thread)
    const [stuck, next] = await Promise.all([thread.run({ spin: true }, { size: 1 }), right({ echo: 2 }, thread)])
    expect(requireLeft(stuck)).toMatchObject({ kind: 'timeout' })
    expect(next.thread).not.toBe(before)
  })

  it('that throw or need too much memory fail alone', async () => {
    const thread = jobs()
    expect(requireLeft(await thread.run({ throw: 'no' }, { size: 1 }))).toMatchObject({ kind: 'error' })
    expect(requireLeft(await thread.run({ fill: true }, { size: 1 }))).toMatchObject({ kind: 'memory' })
    expect((await right({ echo: 4 }, thread)).value).toBe(4)
  })

  it('wait up to a total size', async () => {
    const thread = jobs()
    const first = thread.run({ echo: 1 }, { size: 500 }) // alone
    expect(requireLeft(await thread.run({ echo: 2 }, { size: 1 }))).toMatchObject({ kind: 'busy' })
    expect(await first).toMatchObject({ right: { value: 1 } })
    expect((await right({ echo: 3 }, thread)).value).toBe(3)
  })

  it('have a new thread after a time without jobs', async () => {
    const thread = jobs({ idleMs: 10 })
    const { thread: before } = await right({ echo: 1 }, thread)
    await new Promise((resolve) => setTimeout(resolve, 500))
    expect((await right({ echo: 2 }, thread)).thread).not.toBe(before)
  })
})
