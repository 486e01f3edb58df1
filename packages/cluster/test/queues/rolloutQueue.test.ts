import { describe } from 'vitest'
import { rolloutQueueSuite } from '../../../../test/kit/rolloutQueueSuite.js'
import { memoryQueueLog } from '../../src/queues/queueLog.js'

describe('a shared queue in memory', () => {
  rolloutQueueSuite({
    name: 'a log in memory',
    runs: 60,
    fresh: () => {
      const log = memoryQueueLog()
      return () => ({ ...log, close: () => Promise.resolve() }) // one of many clients goes
    },
  })
})
