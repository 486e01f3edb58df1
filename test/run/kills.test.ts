/**
 * `kill -9` in the middle of what a run writes and does: 50 kills are in
 * test/learning/kills.test.ts.
 */
import { beforeAll, describe, expect, it } from 'vitest'
import { type KillMoment, type KillPhase, playKilled, remainsOfRun } from '../kit/kills.js'
import { smallSettings, useTemporaryFolder, writeAnsweringModel } from '../kit/runs.js'

const path = useTemporaryFolder()

const at = (phase: KillPhase, nth: number): KillMoment => ({ at: 'phase', phase, nth })

/** Files that tear: the settings, a log, a checkpoint. */
const MOMENTS = [at('inside a file', 1), at('inside a log', 4), at('inside a checkpoint', 5)]

describe('a run that is killed in the middle of a file, a log and a checkpoint', () => {
  let model = ''
  beforeAll(async () => {
    model = await writeAnsweringModel(path('model'))
  })

  it('ends, taken up each time, as one that was never stopped: bit for bit, nothing lost, nothing twice, nothing unfinished', async () => {
    const settings = smallSettings(model, { evalEvery: 2, checkpointEvery: 1 })
    const [, kills] = await Promise.all([
      playKilled(path('whole'), settings, []),
      playKilled(path('killed'), settings, MOMENTS),
    ])
    expect(kills).toEqual(['inside a file', 'inside a log', 'inside a checkpoint'])
    expect(remainsOfRun(path('killed'))).toEqual(remainsOfRun(path('whole')))
  })
})
