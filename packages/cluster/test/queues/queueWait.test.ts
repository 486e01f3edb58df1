/** Clients that start before the trainer that creates their queue. */
import { describe, expect, it } from 'vitest'
import { manualTime } from '../../../../test/kit/manualTime.js'
import { memoryQueueLog } from '../../src/queues/queueLog.js'
import type { QueueWait } from '../../src/queues/queueWait.js'
import { openRolloutQueue } from '../../src/queues/rolloutQueue.js'

/** Opens a queue that does not exist. */
const early = (wait: Omit<QueueWait, 'onWait'>) => {
  const log = memoryQueueLog()
  const time = manualTime()
  let waits = 0
  const onWait = () => void waits++
  const opening = openRolloutQueue(log, { name: 'worker', timers: time, wait: { ...wait, onWait } })()
  const second = async (): Promise<void> => {
    await expect.poll(() => time.waits()).toEqual([1000])
    time.pass(1000)
  }
  return { log, opening, second, waits: () => waits }
}

describe('a client that waits for its queue', () => {
  it('opens the queue once its trainer creates it', async () => {
    const { log, opening, second, waits } = early({ limitMs: 60_000 })
    await second()
    await second()
    await openRolloutQueue(log, { settings: { groupSize: 2, capacity: 1 }, name: 'trainer' })()
    await second()
    expect(await opening).toMatchObject({ _tag: 'Right' })
    expect(waits()).toBe(1)
  })

  it('fails after the limit', async () => {
    const { opening, second } = early({ limitMs: 2000 })
    await second()
    await second()
    expect(await opening).toMatchObject({
      left: { _tag: 'QueueFailure', kind: 'absent', reason: 'there is no queue, also after 2 s' },
    })
  })

  it('ends at once when its signal aborts', async () => {
    const stop = new AbortController()
    const { opening, waits } = early({ limitMs: 60_000, signal: stop.signal })
    await expect.poll(waits).toBe(1)
    stop.abort()
    expect(await opening).toMatchObject({ left: { kind: 'closed', reason: 'the wait for the queue was cancelled' } })
  })

  it('without a wait fails at once', async () => {
    expect(await openRolloutQueue(memoryQueueLog(), { name: 'worker' })()).toMatchObject({ left: { kind: 'absent' } })
  })
})
