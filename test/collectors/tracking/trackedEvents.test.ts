import { describe, expect, it } from 'vitest'
import { DEFAULT_SETTINGS } from '../../../src/collectors/run/settings.js'
import { trackedEvents } from '../../../src/collectors/tracking/trackedEvents.js'

const session = { run: 'first', isResumed: false, at: 5 }

describe('trackedEvents', () => {
  it('begins a new run at step 0, and a resumed one at its first step', () => {
    const settings = { model: 'm', ...DEFAULT_SETTINGS }
    const event = { type: 'start', parameters: 1, trained: 1, firstStep: 7, settings } as const
    expect(trackedEvents(event, session)).toEqual([{ type: 'start', at: 5, run: 'first', from: 0, settings }])
    expect(trackedEvents(event, { ...session, isResumed: true })).toMatchObject([{ from: 7 }])
  })

  it('names the numbers of an evaluation and its seconds', () => {
    const numbers = { problems: 4, accuracy: 0.5, worked: 0.25, completionTokens: 9 }
    expect(trackedEvents({ type: 'evaluation', step: 3, ...numbers, seconds: 2 }, session)).toEqual([
      {
        ...{ type: 'scalars', at: 5, step: 3, seconds: { evaluation: 2 } },
        values: { 'eval/problems': 4, 'eval/accuracy': 0.5, 'eval/worked': 0.25, 'eval/completionTokens': 9 },
      },
    ])
  })

  it('tells nothing of progress within an evaluation', () => {
    expect(trackedEvents({ type: 'evaluating', step: 3, done: 1, problems: 4 }, session)).toEqual([])
  })
})
