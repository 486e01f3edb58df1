/** Alarms in a real run: emitted, saved, and able to end it. */
import { readdirSync, readFileSync } from 'node:fs'
import { FailureError } from '@tandem-rl/base'
import { beforeAll, describe, expect, it } from 'vitest'
import { readTensorDict } from '../../src/data/codecs/tensorDictFile.js'
import type { RunEvent } from '../../src/run/train/events.js'
import { useEngine } from '../kit/engine.js'
import { rightOf } from '../kit/results.js'
import {
  type Flags,
  parseJsonLines,
  type RunSettings,
  smallSettings,
  useTemporaryFolder,
  writeAnsweringModel,
} from '../kit/runs.js'
import { runEvents, storedSettings } from '../kit/trainingRuns.js'

useEngine({ threads: 1 })
const path = useTemporaryFolder()

let model = ''
beforeAll(async () => {
  model = await writeAnsweringModel(path('model'))
})

/** The events of a run, and its result. */
interface Told {
  readonly events: readonly RunEvent[]
  readonly error: unknown
}

const follow = async (name: string, settings: RunSettings): Promise<Told> => {
  const events: RunEvent[] = []
  try {
    for await (const event of runEvents(path(name), settings)) events.push(event)
    return { events, error: null }
  } catch (error) {
    return { events, error }
  }
}

const start = (name: string, flags: Flags): Promise<Told> => follow(name, smallSettings(model, flags))

const resume = async (name: string): Promise<Told> => follow(name, await storedSettings(path(name)))

const outline = ({ events }: Told): readonly string[] =>
  events.flatMap((event) => {
    if (event.type === 'alarm') return [`${event.alarm} ${event.step}`]
    return event.type === 'step' || event.type === 'checkpoint' ? [`${event.type} ${event.step}`] : []
  })

const json = (file: string): unknown => JSON.parse(readFileSync(path(file), 'utf8'))

/** Every completion is longer than a limit of one token allows. */
const CUT_OFF = { maxNewTokens: 1, prompts: 2, group: 2 }

/** So many completions that some of them earn a reward. */
const MANY = { prompts: 8, group: 16 }

describe('a run in trouble', () => {
  it('emits it once and keeps the batch of its start', async () => {
    const told = await start('warned', CUT_OFF)
    expect(told.error).toBeNull()
    expect(outline(told)).toEqual([
      ...['step 1', 'step 2', 'checkpoint 2', 'step 3', 'truncation 3', 'step 4', 'checkpoint 4'],
    ])
    const folder = 'warned/alarms/step-000001'
    expect(readdirSync(path(folder))).toEqual([...['alarms.json', 'batch.td', 'record.json', 'trajectories.jsonl']])
    expect(readdirSync(path('warned/alarms'))).toEqual(['step-000001'])
    const { type, path: place, ...alarm } = told.events.find((event) => event.type === 'alarm')!
    expect(alarm).toMatchObject({ step: 3, since: 1 })
    expect(place).toBe(path(folder))
    expect(json(`${folder}/alarms.json`)).toEqual([alarm])
    expect(json(`${folder}/record.json`)).toEqual(told.events.find((e) => e.type === 'step' && e.step === 1))
    const trajectories = parseJsonLines(readFileSync(path(`${folder}/trajectories.jsonl`), 'utf8'))
    expect(trajectories.map(({ stopReason }) => stopReason)).toEqual(['length', 'length', 'length', 'length'])
    using held = await rightOf(readTensorDict(path(`${folder}/batch.td`)))
    expect(held.value.batchShape).toEqual([4])
    expect(held.value.entries.keySeq().toArray()).toEqual(expect.arrayContaining(['tokens', 'logProbs', 'advantage']))
  })

  it('ends if it should, saved, and goes on when it is resumed', async () => {
    const told = await start('halted', { ...CUT_OFF, alarms: 'stop', checkpointEvery: 10 })
    expect(outline(told)).toEqual(['step 1', 'step 2', 'step 3', 'truncation 3', 'checkpoint 3'])
    expect(told.events.at(-1)).toMatchObject({ type: 'end', summary: { status: 'interrupted', steps: 3 } })
    const more = await resume('halted')
    expect(outline(more)).toEqual(['step 4', 'checkpoint 4']) // known trouble is not reported again
  })

  it('ends at a collapse of its first update, and names what to change', async () => {
    const flags = { ...MANY, learningRate: 1, steps: 8, checkpointEvery: 1, dynamicSampling: 1 }
    const told = await start('collapsed', flags)
    const alarm = told.events.find((event) => event.type === 'alarm' && event.alarm === 'reward-collapse')
    expect(alarm).toMatchObject({ step: 3, since: 2 })
    const { message } = alarm as { readonly message: string } // of an alarm
    expect(message).toContain('use a lower --learning-rate')
    expect(message).toContain('ends here, without a checkpoint from before: start it again')
    expect(told.events.at(-1)).toMatchObject({ type: 'end', summary: { status: 'interrupted', steps: 3 } })
    const warned = await start('collapsed warned', { ...flags, alarms: 'warn' })
    expect(warned.events.at(-1)).toMatchObject({ type: 'end', summary: { steps: 8 } })
    expect(outline(warned)).toContain('reward-collapse 3')
  })

  it('names the checkpoint before the update that a collapse begins with', async () => {
    const flags = { learningRate: 3e-3, steps: 6, checkpointEvery: 1, klAtZero: 'measure', keepMegabytes: 256 }
    const { events } = await start('drifting', { ...flags, alarms: 'warn' })
    const drift = events.flatMap((event) => (event.type === 'step' ? [event.update.klToRef ?? 0] : []))
    const limit = (drift[2]! + drift[3]!) / 2 // the KL from the start grows at first
    expect(drift[2]).toBeLessThan(limit)
    const told = await start('drifted', { ...flags, alarmLimits: { 'kl-explosion': limit } })
    const alarm = told.events.find((event) => event.type === 'alarm' && event.alarm === 'kl-explosion')
    expect(alarm).toMatchObject({ step: 5, since: 4 }) // sampled after three updates, of which the third is bad
    const { message } = alarm as { readonly message: string } // of an alarm
    expect(message).toContain('checkpoints/step-000002, from which a new run can go on (--model)')
  })

  it('is skipped without alarms', async () => {
    const told = await start('off', { ...CUT_OFF, alarms: 'off' })
    expect(outline(told)).not.toContain('truncation 3')
    expect(readdirSync(path('off'))).not.toContain('alarms')
  })

  it('keeps the batch whose loss is no number, names it, and ends with the failure', async () => {
    const told = await start('exploded', { learningRate: 1e38, epochs: 2 })
    expect(told.error).toBeInstanceOf(FailureError)
    const last = told.events.at(-1)
    if (last?.type !== 'alarm') throw new Error('the last event is no alarm')
    expect(last).toMatchObject({ alarm: 'non-finite', value: null, limit: null })
    expect(last.message).toContain('lower the learning rate')
    using held = await rightOf(readTensorDict(`${last.path}/batch.td`))
    expect(held.value.batchShape[0]).toBeGreaterThan(0)
  })
})
