/** A whole run on real folders: order of events, resuming bit for bit, refusals, and replay. */
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import * as T from '../../src/index.js'
import { trainOptionsOf } from '../../src/training/choices.js'
import { useEngine } from '../kit/engine.js'
import { contentsOf, parseJsonLines, useTemporaryFolder, withoutSeconds } from '../kit/runs.js'
import { smallPolicySettings, smallRun } from '../kit/training.js'

useEngine({ threads: 1 })
const path = useTemporaryFolder()

interface Wish {
  readonly settings?: object
  readonly stopAt?: (event: T.RunEvent) => boolean
}

/** Follows a run in a folder to its end. */
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

/** What a run leaves behind after its last step, without times. */
const remains = (name: string, steps = 4) => {
  const text = (file: string): string => readFileSync(path(`${name}/${file}`), 'utf8')
  const files = contentsOf(path(`${name}/checkpoints/step-${String(steps).padStart(6, '0')}`))
  return {
    metrics: withoutSeconds(parseJsonLines(text('metrics.jsonl'))),
    trajectories: text('trajectories.jsonl'),
    weights: files['model.safetensors'],
    optimizer: files['optimizer.safetensors'],
  }
}

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

  it('repeats: equal settings give equal weights, metrics and trajectories', async () => {
    await follow('again')
    expect(remains('again')).toEqual(remains('whole'))
  })

  it.each([2, 3])('goes on after step %d to the same end, bit for bit', async (stop) => {
    const name = `stopped${stop}`
    const events = await follow(name, { stopAt: (event) => event.type === 'step' && event.step === stop })
    expect(outline(events).slice(-3)).toEqual([`step ${stop}`, `checkpoint ${stop}`, 'end'])
    const rest = await follow(name)
    expect(outline(rest).slice(0, 2)).toEqual(['start', `step ${stop + 1}`])
    expect(remains(name)).toEqual(remains('whole'))
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

describe('replay', () => {
  const replayed = async (name: string, batch: string): Promise<readonly T.ReplayEvent[]> => {
    const run = await smallRun(
      smallPolicySettings({ keep: { evalEvery: 4, evalTasks: 4, checkpointEvery: 2, saveBatches: 1, alarms: 'off' } }),
    )
    const events: T.ReplayEvent[] = []
    for await (const event of T.replay(run, { store: T.runFolder(path(name)), batch })) events.push(event)
    return events
  }

  it('does a step again on its kept batch, and sampled again, bit for bit', async () => {
    await follow('kept', {
      settings: { keep: { evalEvery: 4, evalTasks: 4, checkpointEvery: 2, saveBatches: 2, alarms: 'off' } },
    })
    const kept = await replayed('kept', '4')
    expect(kept.at(-1)).toMatchObject({ type: 'replayed', batch: 'kept', differences: [] })
    const last = kept.at(-1)
    expect(last?.type === 'replayed' ? last.compared : []).toContain('weights')
    expect((await replayed('kept', '3')).at(-1)).toMatchObject({ type: 'replayed', batch: 'sampled', differences: [] })
  })

  it('refuses a step that the run does not have', async () => {
    await expect(replayed('kept', '9')).rejects.toThrow('the run has 4 steps: there is no step 9 to do again')
  })
})
