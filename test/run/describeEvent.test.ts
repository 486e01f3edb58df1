/** Events as lines of text. */
import { expect, it } from 'vitest'
import { describeEvent } from '../../src/run/train/describeEvent.js'
import { evaluationRecord, stepRecord } from '../kit/records.js'

it('counts one step as one', () => {
  expect(describeEvent(evaluationRecord(1, 0.5))).toMatch(/^after 1 step {2}/)
  expect(describeEvent(evaluationRecord(2, 0.5))).toMatch(/^after 2 steps {2}/)
})

it('has a speed only where tokens are counted, and truncated completions only where they are many', () => {
  const { update, ...rest } = stepRecord(1)
  const { tokens: _, ...uncounted } = update
  expect(describeEvent({ ...rest, update })).toContain(' tokens/s')
  expect(describeEvent({ ...rest, update: uncounted })).not.toContain('tokens/s')
  expect(describeEvent({ ...rest, update, truncated: 0.2 })).not.toContain('truncated')
  expect(describeEvent({ ...rest, update, truncated: 0.69 })).toContain('truncated 69.0 %')
})
