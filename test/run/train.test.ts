/** The whole run in this process, on real folders: order of events, resuming, and a disk that fills up. */
import { readdirSync, readFileSync } from 'node:fs'
import { relative } from 'node:path'
import * as E from 'fp-ts/lib/Either.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { beforeAll, describe, expect, it } from 'vitest'
import type { Files } from '../../src/core/capabilities.js'
import { FailureError, type FileFailure } from '../../src/core/failure.js'
import type { RowFailure, TaskSource } from '../../src/data/task.js'
import { EMBEDDED_MODEL } from '../../src/live/embeddedModel.js'
import { liveFiles } from '../../src/live/files.js'
import type { RunEvent } from '../../src/run/events.js'
import { prepareRun } from '../../src/run/prepare.js'
import type { RunSettings } from '../../src/run/settings.js'
import { train } from '../../src/run/train.js'
import { useEngine } from '../kit/engine.js'
import { rightOf } from '../kit/results.js'
import {
  contentsOf,
  parseJsonLines,
  smallSettings,
  useTemporaryFolder,
  withoutSeconds,
  writeAnsweringModel,
} from '../kit/runs.js'

useEngine({ threads: 1 })
const path = useTemporaryFolder()

let model = ''
beforeAll(async () => {
  model = await writeAnsweringModel(path('model'))
})

/** What somebody wants of a run: its settings, and when it should stop. */
interface Wish {
  readonly settings?: Partial<RunSettings>
  readonly files?: Files
  /** The run is asked to stop at this event. */
  readonly stopAt?: (event: RunEvent) => boolean
}

const follow = async (request: Parameters<typeof prepareRun>[0], wish: Wish): Promise<readonly RunEvent[]> => {
  const abort = new AbortController()
  const run = await rightOf(prepareRun(request, { files: wish.files ?? liveFiles }))
  const events: RunEvent[] = []
  for await (const event of train({ ...run, signal: abort.signal })) {
    events.push(event)
    if (wish.stopAt?.(event) === true) abort.abort()
  }
  return events
}

const start = (name: string, wish: Wish = {}): Promise<readonly RunEvent[]> =>
  follow({ _tag: 'New', folder: path(name), settings: smallSettings(model, wish.settings) }, wish)

const resume = (name: string, wish: Wish = {}): Promise<readonly RunEvent[]> =>
  follow({ _tag: 'Resume', folder: path(name), asked: wish.settings ?? {} }, wish)

/** Events by type and step. */
const outline = (events: readonly RunEvent[]): readonly string[] =>
  events.map((event) => ('step' in event ? `${event.type} ${event.step}` : event.type))

/** All that a run leaves behind after its last step, without times, and without lengths of logs: they contain times. */
const remains = (name: string, steps = 4) => {
  const text = (file: string): string => readFileSync(path(`${name}/${file}`), 'utf8')
  const checkpoint = `checkpoints/step-${String(steps).padStart(6, '0')}`
  const state: object = JSON.parse(text(`${checkpoint}/state.json`))
  const files = contentsOf(path(`${name}/${checkpoint}`))
  return {
    metrics: withoutSeconds(parseJsonLines(text('metrics.jsonl'))),
    trajectories: text('trajectories.jsonl'),
    state: withoutSeconds([{ ...state, metricsBytes: 0 }]),
    weights: files['model.safetensors'],
    optimizer: files['optimizer.safetensors'],
  }
}

/** What the summary says, without times and without what the engine did. */
const summaryOf = (events: readonly RunEvent[]) => {
  const last = events.at(-1)
  if (last?.type !== 'end') throw new Error('the run has no end')
  const { evaluations, seconds, secondsTotal, tokensPerSecond, engine, ...summary } = last.summary
  return { ...summary, evaluations: withoutSeconds(evaluations) }
}

const rewardOf = (record: object): readonly unknown[] => ('reward' in record ? [record.reward] : [])

describe('a run', () => {
  it('gives its events in order, and its summary agrees with them', async () => {
    const events = await start('whole')
    expect(outline(events)).toEqual([
      ...['start', 'evaluating 0', 'evaluation 0', 'step 1', 'step 2', 'checkpoint 2', 'step 3', 'step 4'],
      ...['evaluating 4', 'evaluation 4', 'checkpoint 4', 'end'],
    ])
    const steps = events.filter((event) => event.type === 'step')
    expect(summaryOf(events)).toMatchObject({
      ...{ status: 'finished', steps: 4, policyVersion: 4, evalProblems: 4 },
      rewardCurve: steps.map((step) => step.reward),
    })
    expect(steps.map((step) => step.policyVersion)).toEqual([0, 1, 2, 3])
  })

  it('learns something: the weights are not those that it began with', () => {
    expect(remains('whole').weights).not.toBe(contentsOf(model)['model.safetensors'])
  })

  it('gives its events in order with the model that comes with the package', async () => {
    const events = await start('embedded', { settings: { model: EMBEDDED_MODEL, steps: 1 } })
    expect(outline(events)).toEqual([
      ...['start', 'evaluating 0', 'evaluation 0', 'step 1', 'evaluating 1', 'evaluation 1', 'checkpoint 1', 'end'],
    ])
  })

  it('repeats: equal settings give equal weights, metrics and trajectories', async () => {
    await start('again')
    expect(remains('again')).toEqual(remains('whole'))
  })

  it('with another seed is another run', async () => {
    await start('otherSeed', { settings: { seed: 2, steps: 1 } })
    const [first] = remains('whole').trajectories.split('\n')
    expect(remains('otherSeed', 1).trajectories).not.toContain(first)
  })

  it('frees everything when its reader stops reading', async () => {
    const settings = smallSettings(model)
    const run = await rightOf(prepareRun({ _tag: 'New', folder: path('left'), settings }))
    for await (const event of train(run)) if (event.type === 'step') break
    expect(readFileSync(path('left/metrics.jsonl'), 'utf8')).not.toBe('') // the check for leaks does the rest
  })

  it('ends with the failure of a row that cannot be read', async () => {
    const run = await rightOf(prepareRun({ _tag: 'New', folder: path('badRow'), settings: smallSettings(model) }))
    const failure: RowFailure = { _tag: 'RowFailure', source: 'rows', row: 4, reason: 'torn' }
    const tasks: TaskSource = { ...run.tasks, at: (i) => (i < 3 ? run.tasks.at(i) : E.left(failure)) }
    const reading = async (): Promise<void> => {
      for await (const _ of train({ ...run, tasks }));
    }
    const error: unknown = await reading().catch((thrown: unknown) => thrown)
    expect(error).toBeInstanceOf(FailureError)
    expect(String(error)).toContain('rows, line 4: torn')
  })
})

describe('a run that was stopped', () => {
  it.each([2, 3])('after step %d goes on to the same end, bit for bit', async (stop) => {
    const name = `stopped${stop}`
    const events = await start(name, { stopAt: (event) => event.type === 'step' && event.step === stop })
    expect(outline(events).slice(-3)).toEqual([`step ${stop}`, `checkpoint ${stop}`, 'end'])
    expect(summaryOf(events)).toMatchObject({ status: 'interrupted', steps: stop })
    const rest = await resume(name)
    expect(outline(rest).slice(0, 2)).toEqual(['start', `step ${stop + 1}`])
    expect(remains(name)).toEqual(remains('whole'))
    expect(summaryOf(rest)).toMatchObject({ rewardCurve: remains('whole').metrics.flatMap(rewardOf) })
  })

  it('before its first step is not evaluated twice', async () => {
    const events = await start('early', { stopAt: (event) => event.type === 'evaluation' })
    expect(outline(events)).toEqual(['start', 'evaluating 0', 'evaluation 0', 'checkpoint 0', 'end'])
    await resume('early')
    expect(remains('early')).toEqual(remains('whole'))
  })

  it('at its end is at its end: nothing is done twice', async () => {
    expect(outline(await resume('whole'))).toEqual(['start', 'end'])
    expect(remains('whole')).toEqual(remains('again'))
  })

  it('at its end goes on if it is given more steps', async () => {
    await start('short', { settings: { steps: 2 } })
    expect(outline(await resume('short', { settings: { steps: 4 } }))).toContain('step 3')
    const { weights, optimizer, trajectories } = remains('whole')
    expect(remains('short')).toMatchObject({ weights, optimizer, trajectories })
  })
})

const noSpace = (operation: string, path: string): FileFailure => ({
  ...{ _tag: 'FileFailure', code: 'ENOSPC', reason: 'the disk is full' },
  ...{ operation, path },
})

/** A disk that is full at the n-th write and from then on: of a text it takes half, of a folder the first file. */
const fullDisk = (n: number) => {
  const tried: string[] = []
  const guard = <R>(path: string, whole: () => R, part: () => R): R => {
    tried.push(path)
    return tried.length < n ? whole() : part()
  }
  const refuse = (operation: string, path: string, part: TE.TaskEither<FileFailure, void>) =>
    TE.chain(() => TE.left(noSpace(operation, path)))(part)
  const half = (contents: string | Uint8Array): string | Uint8Array => contents.slice(0, contents.length / 2)
  const files: Files = {
    ...liveFiles,
    write: (path, contents) =>
      guard(
        path,
        () => liveFiles.write(path, contents),
        () => refuse('write', path, liveFiles.write(`${path}.tmp-1`, 'half')),
      ),
    append: (path, contents) =>
      guard(
        path,
        () => liveFiles.append(path, contents),
        () => refuse('append to', path, liveFiles.append(path, half(contents))),
      ),
    writeFolder: (path, contents) =>
      guard(
        path,
        () => liveFiles.writeFolder(path, contents),
        () => refuse('write', path, liveFiles.writeFolder(`${path}.tmp-1`, { 'config.json': '{' })),
      ),
  }
  return { files, tried }
}

const SHORT = { steps: 2, checkpointEvery: 1, evalProblems: 1 }

/** Runs on a disk that is full at the n-th write; answers with the failure and the path of that write, or nothing if it was never full. */
const runOnFullDisk = async (name: string, n: number) => {
  const { files, tried } = fullDisk(n)
  const run = await rightOf(prepareRun({ _tag: 'New', folder: path(name), settings: smallSettings(model, SHORT) }))
  try {
    for await (const _ of train({ ...run, files }));
    return undefined
  } catch (error) {
    return { error, path: tried[n - 1]! }
  }
}

describe('a disk that fills up', () => {
  it('at any write ends the run by name, and with space the run goes on to the same end', async () => {
    await start('space', { settings: SHORT })
    const paths = new Set<string>()
    for (let n = 1; ; n++) {
      const name = `full${n}`
      const full = await runOnFullDisk(name, n)
      if (full === undefined) break
      expect(full.error).toBeInstanceOf(FailureError)
      expect(full.error).toMatchObject({ failure: { code: 'ENOSPC', path: full.path } })
      expect(String(full.error)).toContain(full.path)
      await resume(name)
      expect(remains(name, 2)).toEqual(remains('space', 2))
      expect(readdirSync(path(`${name}/checkpoints`))).toEqual(['step-000001', 'step-000002'])
      paths.add(relative(path(name), full.path))
    }
    expect([...paths].sort()).toEqual([
      ...['checkpoints/step-000001', 'checkpoints/step-000002', 'metrics.jsonl', 'trajectories.jsonl'],
    ])
  })
})
