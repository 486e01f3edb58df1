import { describe } from 'vitest'
import { memoryQueueLog } from '../../../src/collectors/queues/queueLog.js'
import { rolloutQueueSuite } from '../../kit/rolloutQueueSuite.js'

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
