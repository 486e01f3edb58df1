import { expect, it } from 'vitest'
import { failureLog } from '../../src/run/parts/failureLog.js'

it('equal failures of attempts are written once and counted', () => {
  const lines: string[] = []
  const log = failureLog((line) => void lines.push(line))
  for (let i = 0; i < 41; i++) log.note({ task: `t${i}`, reason: `refused on port ${i}` })
  log.note({ task: 'x', reason: 'no such tool' })
  expect(lines).toEqual(['agent: task t0: refused on port 0', 'agent: task x: no such tool'])
  log.flush()
  log.flush()
  log.note({ task: 'y', reason: 'no such tool' })
  log.flush()
  expect(lines.slice(2)).toEqual([
    'agent: 40 more failed attempts: refused on port #',
    'agent: 1 more failed attempts: no such tool',
  ])
})
