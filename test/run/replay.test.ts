/** One step of a run again: the same, bit for bit, or what differs. */
import { readFileSync, writeFileSync } from 'node:fs'
import { beforeAll, describe, expect, it } from 'vitest'
import { runFolder } from '../../src/run/store/store.js'
import { type ReplayEvent, replay } from '../../src/run/train/replay.js'
import { useEngine } from '../kit/engine.js'
import { contentsOf, type Flags, smallSettings, useTemporaryFolder } from '../kit/runs.js'
import { storedSettings, useTrainingRuns, wordProblemRun } from '../kit/trainingRuns.js'

useEngine({ threads: 1 })
const path = useTemporaryFolder()
const runs = useTrainingRuns(path)

/**
 * Two updates in a step, in an order of their own, with noise, corrected: all that a step may learn
 * from.
 */
const RICH: Flags = {
  ...{ steps: 5, checkpointEvery: 1, saveBatches: 2, epochs: 2, miniBatches: 2, klCoefficient: 0.1, klIn: 'loss' },
  ...{ oldLogProbs: 'rescored', correction: 'token-truncated' },
}

type Replayed = Extract<ReplayEvent, { readonly type: 'replayed' | 'caught-up' }>

/** Returns the replayed steps. */
const again = async (name: string, batch: string): Promise<readonly Replayed[]> => {
  const events: Replayed[] = []
  const run = await wordProblemRun(await storedSettings(path(name)), { memory: 'ignore' })
  for await (const event of replay(run, { store: runFolder(path(name)), batch }))
    if (event.type !== 'from') events.push(event)
  return events
}

describe('a step that is done again', () => {
  beforeAll(async () => {
    await runs.start('rich', RICH)
  })

  it('on the batch that was kept gives loss, gradient norm and weights of the run, bit for bit, and changes nothing of it', async () => {
    const before = contentsOf(path('rich'))
    const events = await again('rich', '4') // the last two checkpoints are after steps 4 and 5
    expect(events.length).toBe(4) // from the beginning
    expect(events.flatMap(({ differences }) => differences)).toEqual([])
    expect(events.at(-1)).toMatchObject({ type: 'replayed', step: 4, batch: 'kept', end: null })
    expect(events.at(-1)).toMatchObject({
      compared: expect.arrayContaining(['update', 'updates', 'weights']),
    })
    expect(contentsOf(path('rich'))).toEqual(before)
  })

  it('is the whole step again where its batch was not kept: sampled again, from the checkpoint before it', async () => {
    const events = await again('rich', '5')
    expect(events).toMatchObject([{ type: 'replayed', step: 5, batch: 'sampled', differences: [] }])
    expect(events[0]).toMatchObject({ compared: expect.arrayContaining(['reward', 'update', 'sampling', 'weights']) })
  })

  it("reports each field that differs from the run's record", async () => {
    const file = path('rich/metrics.jsonl')
    const text = readFileSync(file, 'utf8')
    writeFileSync(file, text.replace(/("step":5,.*?"reward":)[\d.]+/, '$17'))
    const [event] = await again('rich', '5')
    writeFileSync(file, text)
    expect(event?.differences.map(({ what, was }) => [what, was])).toEqual([['reward', '7']])
  })

  it('that has no batch and no number is refused, and so are a step beyond the end and a folder without a run', async () => {
    await expect(again('rich', 'nowhere')).rejects.toThrow('nowhere')
    await expect(again('rich', '6')).rejects.toThrow('the run has 5 steps: there is no step 6 to replay')
    const run = await wordProblemRun(smallSettings(path('model')), { memory: 'ignore' })
    const events = replay(run, { store: runFolder(path('none')), batch: '1' })
    await expect(events.next()).rejects.toThrow('there is no run in this folder')
  })
})

describe('a step that ended a run', () => {
  it('ends again in the same way', async () => {
    await expect(runs.start('exploded', { learningRate: 1e38, epochs: 2 })).rejects.toThrow('the loss is NaN')
    const [event] = await again('exploded', 'alarms/step-000001')
    expect(event).toMatchObject({ type: 'replayed', step: 1, batch: 'kept', compared: ['end'], differences: [] })
    expect(event).toMatchObject({ end: expect.stringContaining('the loss is NaN') })
  })
})
