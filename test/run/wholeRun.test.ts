/**
 * The whole run in this process, on real folders: order of events, resuming, and a disk that fills
 * up.
 */
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { relative } from 'node:path'
import { FailureError, type FileFailure, type Files, fileFailure, keyFromSeed, rowFailure } from '@tandem-rl/base'
import { liveFiles } from '@tandem-rl/host'
import * as E from 'fp-ts/lib/Either.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { beforeAll, describe, expect, it } from 'vitest'
import { wordProblems } from '../../src/data/datasets/wordProblems/wordProblems.js'
import type { TaskSource } from '../../src/data/task.js'
import { EMBEDDED_MODEL } from '../../src/live/embeddedModel.js'
import type { RunEvent } from '../../src/run/train/events.js'
import { useEngine } from '../kit/engine.js'
import {
  contentsOf,
  type Flags,
  parseJsonLines,
  smallSettings,
  useTemporaryFolder,
  withoutSeconds,
  writeAnsweringModel,
} from '../kit/runs.js'
import { runEvents, sourceEvents, storedSettings } from '../kit/trainingRuns.js'

useEngine({ threads: 1 })
const path = useTemporaryFolder()

let model = ''
beforeAll(async () => {
  model = await writeAnsweringModel(path('model'))
})

/** Other settings than the small ones, and when the run should stop. */
interface Wish {
  readonly flags?: Flags
  /** The run is asked to stop at this event. */
  readonly stopAt?: (event: RunEvent) => boolean
}

const allOf = async (events: AsyncIterable<RunEvent>): Promise<readonly RunEvent[]> => {
  const all: RunEvent[] = []
  for await (const event of events) all.push(event)
  return all
}

const start = (name: string, { flags, ...options }: Wish = {}): Promise<readonly RunEvent[]> =>
  allOf(runEvents(path(name), smallSettings(model, flags), options))

const resume = async (name: string, { flags, ...options }: Wish = {}): Promise<readonly RunEvent[]> =>
  allOf(runEvents(path(name), await storedSettings(path(name), flags), options))

/** Events by type and step. */
const outline = (events: readonly RunEvent[]): readonly string[] =>
  events.flatMap((event) => {
    if (event.type === 'samples') return []
    return ['step' in event ? `${event.type} ${event.step}` : event.type]
  })

/**
 * All that a run leaves behind after its last step, without times, and without lengths of logs:
 * they contain times.
 */
const remains = (name: string, steps = 4) => {
  const text = (file: string): string => readFileSync(path(`${name}/${file}`), 'utf8')
  const checkpoint = `checkpoints/step-${String(steps).padStart(6, '0')}`
  const state: object = JSON.parse(text(`${checkpoint}/state.json`))
  const files = contentsOf(path(`${name}/${checkpoint}`))
  return {
    metrics: withoutSeconds(parseJsonLines(text('metrics.jsonl'))),
    trajectories: text('trajectories.jsonl'),
    state: withoutSeconds([{ ...state, metrics: null, digest: null }]),
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
      ...{ status: 'finished', steps: 4, policyVersion: 4 },
      evaluated: [{ name: 'held out', score: 'accuracy', tasks: 4 }],
      rewardCurve: steps.map((step) => step.reward),
    })
    expect(steps.map((step) => step.policyVersion)).toEqual([0, 1, 2, 3])
  })

  it('learns something: the weights are not those that it began with', () => {
    expect(remains('whole').weights).not.toBe(contentsOf(model)['model.safetensors'])
  })

  it('gives its events in order with the model that comes with the package', async () => {
    const events = await start('embedded', { flags: { model: EMBEDDED_MODEL, steps: 1 } })
    expect(outline(events)).toEqual([
      ...['start', 'evaluating 0', 'evaluation 0', 'step 1', 'evaluating 1', 'evaluation 1', 'checkpoint 1', 'end'],
    ])
  })

  it('repeats: equal settings give equal weights, metrics and trajectories', async () => {
    await start('again')
    expect(remains('again')).toEqual(remains('whole'))
  })

  it('with another seed is another run', async () => {
    await start('otherSeed', { flags: { seed: 2, steps: 1 } })
    const [first] = remains('whole').trajectories.split('\n')
    expect(remains('otherSeed', 1).trajectories).not.toContain(first)
  })

  it('frees everything when its reader stops reading', async () => {
    for await (const event of runEvents(path('left'), smallSettings(model))) if (event.type === 'step') break
    expect(readFileSync(path('left/metrics.jsonl'), 'utf8')).not.toBe('') // the check for leaks does the rest
  })

  it('ends with the failure of a row that cannot be read', async () => {
    const failure = rowFailure('rows', { first: { row: 4, reason: 'torn' } })
    const problems = wordProblems(keyFromSeed(1), { split: 'rl' })
    const source: TaskSource = { ...problems, at: (i) => (i < 3 ? problems.at(i) : E.left(failure)) }
    const error: unknown = await allOf(sourceEvents(path('badRow'), source, smallSettings(model))).catch(
      (thrown: unknown) => thrown,
    )
    expect(error).toBeInstanceOf(FailureError)
    expect(String(error)).toContain('rows, line 4: torn')
  })
})

describe('a run that was stopped', () => {
  it.each([2, 3])('after step %d resumes to the same end, bit for bit', async (stop) => {
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
    await start('short', { flags: { steps: 2 } })
    expect(outline(await resume('short', { flags: { steps: 4 } }))).toContain('step 3')
    const { weights, optimizer, trajectories } = remains('whole')
    expect(remains('short')).toMatchObject({ weights, optimizer, trajectories })
  })
})

const noSpace = (operation: string, path: string): FileFailure =>
  fileFailure(operation, path, { code: 'ENOSPC', reason: 'the disk is full' })

/**
 * A disk that is full at the n-th write and from then on: of a text it takes half, of a folder the
 * first file.
 */
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

const SHORT = { steps: 2, checkpointEvery: 1, evalTasks: 1 }

/**
 * Runs on a disk that is full at the n-th write; answers with the failure and the path of that
 * write, or nothing if it was never full.
 */
const runOnFullDisk = async (name: string, n: number) => {
  const { files, tried } = fullDisk(n)
  try {
    await allOf(runEvents(path(name), smallSettings(model, SHORT), { store: { files } }))
    return undefined
  } catch (error) {
    return { error, path: tried[n - 1]! }
  }
}

describe('a disk that fills up', () => {
  it('at any write ends the run by name, and with space the run resumes to the same end', async () => {
    await start('space', { flags: SHORT })
    const paths = new Set<string>()
    for (let n = 1; ; n++) {
      const name = `full${n}`
      const full = await runOnFullDisk(name, n)
      if (full === undefined) break
      expect(full.error).toBeInstanceOf(FailureError)
      expect(full.error).toMatchObject({ failure: { code: 'ENOSPC', path: full.path } })
      expect(String(full.error)).toContain(full.path)
      if (existsSync(path(`${name}/config.json`))) await resume(name)
      else await start(name, { flags: SHORT })
      expect(remains(name, 2)).toEqual(remains('space', 2))
      expect(readdirSync(path(`${name}/checkpoints`))).toEqual(['step-000001', 'step-000002'])
      paths.add(relative(path(name), full.path))
    }
    expect([...paths].sort()).toEqual([
      ...['checkpoints/step-000001', 'checkpoints/step-000002', 'config.json', 'machine.json', 'metrics.jsonl'],
      ...['report.html', 'summary.json', 'trajectories.jsonl'],
    ])
  })
})
