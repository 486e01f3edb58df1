/** `kill -9` at 50 moments of a run, each session taken up by the next one. */
import { keyFromSeed } from '@tandem-rl/base'
import { describe, expect, it } from 'vitest'
import { histogramOf, killMoments, playKilled, remainsOfRun } from '../kit/kills.js'
import { parseJsonLines, smallSettings, useTemporaryFolder, writeAnsweringModel } from '../kit/runs.js'

const path = useTemporaryFolder()

const KILLS = 50
/** More than so many sessions do before they are killed. */
const STEPS = 200

describe(`a run that is killed ${KILLS} times`, () => {
  it('ends with the parameters of one that was never stopped, bit for bit; no trajectory is lost or twice', async () => {
    const model = await writeAnsweringModel(path('model'))
    const settings = smallSettings(model, { steps: STEPS, evalEvery: 2, checkpointEvery: 2, alarms: 'off' })
    const whole = path('whole')
    const killed = path('killed')
    await playKilled(whole, settings, [])
    const kills = await playKilled(killed, settings, killMoments(keyFromSeed(8), KILLS))
    const histogram = histogramOf(kills)
    console.log(`${kills.length} kills: ${JSON.stringify(histogram)}`)
    expect(kills.length).toBe(KILLS)
    expect(Object.keys(histogram).filter((phase) => histogram[phase] === 0)).toEqual([])
    const [a, b] = [remainsOfRun(whole), remainsOfRun(killed)]
    expect(b.files).toEqual(a.files)
    expect(b.states).toEqual(a.states)
    expect(b.metrics).toEqual(a.metrics)
    expect(b).toEqual(a)
    const steps = parseJsonLines(b.trajectories).map(({ step }) => step)
    expect(steps).toEqual(Array.from({ length: STEPS }, (_, i) => Array(settings.keep.trajectories).fill(i + 1)).flat())
  })
})
