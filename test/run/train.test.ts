/** Whole runs on real folders: order of events, bit-exact resume, refusals and replay. */
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import * as T from '../../src/index.js'
import { trainOptionsOf } from '../../src/run/define/choices.js'
import { useEngine } from '../kit/engine.js'
import { contentsOf, useTemporaryFolder } from '../kit/runs.js'
import { smallPolicySettings, smallRun } from '../kit/training.js'

useEngine({ threads: 1 })
const path = useTemporaryFolder()

interface Wish {
  readonly settings?: object
  readonly stopAt?: (event: T.RunEvent) => boolean
}

/** Runs to the end in a folder and returns the events. */
const follow = async (name: string, { settings: changes = {}, stopAt }: Wish = {}): Promise<readonly T.RunEvent[]> => {
  const settings = smallPolicySettings(changes)
  const abort = new AbortController()
  const run = await smallRun(settings)
  const events: T.RunEvent[] = []
  const options = { ...trainOptionsOf(settings), store: T.runFolder(path(name)), signal: abort.signal }
  for await (const event of T.train(run, options)) {
    events.push(event)
    if (stopAt?.(event) === true) abort.abort()
  }
  return events
}

const outline = (events: readonly T.RunEvent[]): readonly string[] =>
  events.flatMap((event) => {
    if (event.type === 'samples') return []
    return ['step' in event ? `${event.type} ${event.step}` : event.type]
  })

describe('train', () => {
  it('gives its events in order, with the parts of the reward and the metrics of the run', async () => {
    const events = await follow('whole')
    expect(outline(events)).toEqual([
      ...['start', 'evaluating 0', 'evaluation 0', 'step 1', 'step 2', 'checkpoint 2', 'step 3', 'step 4'],
      ...['evaluating 4', 'evaluation 4', 'checkpoint 4', 'end'],
    ])
    const step = events.find((event) => event.type === 'step')
    expect(step).toMatchObject({ metrics: { ours: 1 }, turns: 1, trajectories: 12, groupsUsed: 3 })
    expect(Object.keys(step?.type === 'step' ? step.parts : {})).toContain('rewardAnswer')
    const evaluation = events.find((event) => event.type === 'evaluation')
    expect(evaluation).toMatchObject({ name: 'held out', score: 'accuracy', tasks: 4 })
    expect(readdirSync(path('whole'))).toEqual(expect.arrayContaining(['report.html', 'summary.json', 'config.json']))
  })

  it('warns by name when it resumes with another number of threads', async () => {
    const file = path('whole/machine.json')
    const was = JSON.parse(readFileSync(file, 'utf8')) as object // written by the run
    expect(was).toMatchObject({ processor: expect.any(String), threads: expect.any(String) })
    expect((await follow('whole')).map(({ type }) => type)).not.toContain('warning')
    writeFileSync(file, JSON.stringify({ ...was, threads: '7' }))
    const warnings = (await follow('whole')).filter(({ type }) => type === 'warning')
    expect(warnings).toEqual([
      { type: 'warning', message: expect.stringMatching(/threads \S+ instead of 7: results may differ/) },
    ])
  })

  it('records its start in config.json, and keeps it when it resumes', async () => {
    const file = path('whole/config.json')
    const { start, ...older } = JSON.parse(readFileSync(file, 'utf8')) as { start: { at: string } } // written by the run
    const word = expect.stringMatching(/\S/)
    expect(start).toEqual({ at: word, version: word, command: word, processor: word, node: process.version })
    writeFileSync(file, JSON.stringify({ ...older, start: { ...start, version: '0.0.1' } }))
    await follow('whole')
    expect(JSON.parse(readFileSync(file, 'utf8'))).toEqual({ ...older, start: { ...start, version: '0.0.1' } })
    writeFileSync(file, JSON.stringify(older))
    await follow('whole')
    expect(JSON.parse(readFileSync(file, 'utf8'))).toEqual(older)
  })

  it('refuses a folder that a run has open, and changes nothing in it', async () => {
    const settings = smallPolicySettings({})
    const first = T.train(await smallRun(settings), { steps: 2, store: T.runFolder(path('open')) })
    await first.next()
    const before = contentsOf(path('open'))
    const second = T.train(await smallRun(settings), { steps: 2, store: T.runFolder(path('open')) })
    await expect(second.next()).rejects.toThrow(/run\.lock: in use by process \d+/)
    expect(contentsOf(path('open'))).toEqual(before)
    await first.return(undefined)
    expect(readdirSync(path('open'))).not.toContain('run.lock')
  })

  it('refuses a folder of other parts, naming what differs', async () => {
    const other = smallPolicySettings({ learner: { learningRate: 0.02 } })
    const run = await smallRun(other)
    const reading = async (): Promise<void> => {
      for await (const _ of T.train(run, { steps: 5, store: T.runFolder(path('whole')) }));
    }
    await expect(reading()).rejects.toThrow(/learner\.optimizer\.options\.learningRate was 0\.01 and is 0\.02/)
  })

  it('refuses a checkpoint with a changed byte, and names the one before it', async () => {
    await follow('flipped', { settings: { steps: 4 } })
    const file = path('flipped/checkpoints/step-000004/model.safetensors')
    const bytes = readFileSync(file)
    bytes[bytes.length - 1]! ^= 1
    writeFileSync(file, bytes)
    const error: unknown = await follow('flipped', { settings: { steps: 5 } }).catch((thrown: unknown) => thrown)
    expect(String(error)).toContain('its bytes are not those that were saved')
    expect(String(error)).toContain('step-000002')
  })

  it('refuses options that it does not have, with the nearest one', async () => {
    const run = await smallRun(smallPolicySettings())
    const wrong = { steps: 1, evry: { evaluate: 2 } }
    const reading = async (): Promise<void> => {
      for await (const _ of T.train(run, wrong));
    }
    await expect(reading()).rejects.toThrow("unknown option 'evry': did you mean 'every'?")
  })

  it('runs without a store, and keeps nothing', async () => {
    const run = await smallRun(smallPolicySettings())
    const seen: string[] = []
    for await (const event of T.train(run, { steps: 1 })) seen.push(event.type)
    expect(seen).not.toContain('checkpoint')
    expect(seen.at(-1)).toBe('end')
  })
})
