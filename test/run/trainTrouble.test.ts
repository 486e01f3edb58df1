/** Failures that end a step, or occur while another is reported: none hides the others. */
import { readFileSync } from 'node:fs'
import { FailureError, type Files, fileFailure, keyFromSeed, rowFailure } from '@tandem-rl/base'
import { liveFiles } from '@tandem-rl/host'
import * as E from 'fp-ts/lib/Either.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { beforeAll, describe, expect, it } from 'vitest'
import { wordProblems } from '../../src/data/datasets/wordProblems/wordProblems.js'
import type { TaskSource } from '../../src/data/task.js'
import { runFolder } from '../../src/run/store/store.js'
import type { RunEvent } from '../../src/run/train/events.js'
import { useEngine } from '../kit/engine.js'
import { type Flags, smallSettings, useTemporaryFolder, writeAnsweringModel } from '../kit/runs.js'
import { sourceEvents } from '../kit/trainingRuns.js'

useEngine({ threads: 1 })
const path = useTemporaryFolder()

let model = ''
beforeAll(async () => {
  model = await writeAnsweringModel(path('model'))
})

const follow = async (
  name: string,
  flags: Flags,
  {
    files = liveFiles,
    source = wordProblems(keyFromSeed(1), { split: 'rl' }),
  }: { readonly files?: Files; readonly source?: TaskSource },
): Promise<{ readonly events: readonly RunEvent[]; readonly error: unknown }> => {
  const events: RunEvent[] = []
  const store = runFolder(path(name), { files })
  try {
    for await (const event of sourceEvents(path(name), source, smallSettings(model, flags), { store }))
      events.push(event)
    return { events, error: null }
  } catch (error) {
    return { events, error }
  }
}

/** A disk that has no room for batches. */
const full: Files = {
  ...liveFiles,
  writeFolder: (folder, contents) =>
    folder.includes('/alarms/')
      ? TE.left(fileFailure('write', folder, { code: 'ENOSPC', reason: 'the disk is full' }))
      : liveFiles.writeFolder(folder, contents),
}

/** Word problems whose row 3 cannot be read: it comes in the second step. */
const torn = (source: TaskSource): TaskSource => {
  let asked = 0
  return {
    ...source,
    at: (index) =>
      asked++ === 3 ? E.left(rowFailure('rows', { first: { row: index, reason: 'it is torn' } })) : source.at(index),
  }
}

const alarmsOf = (events: readonly RunEvent[]) => events.flatMap((event) => (event.type === 'alarm' ? [event] : []))

describe('trouble while trouble is reported', () => {
  it('is told beside it: the loss that is no number, and the disk that has no room for its batch', async () => {
    const told = await follow('exploded', { learningRate: 1e38, epochs: 2 }, { files: full })
    expect(told.error).toBeInstanceOf(FailureError)
    const [alarm] = alarmsOf(told.events)
    expect(alarm).toMatchObject({ alarm: 'non-finite', path: null })
    expect(alarm?.message).toContain('lower the learning rate')
    expect(alarm?.message).toContain('the disk is full')
  })

  it('ends a run that goes on otherwise, after its alarm is told', async () => {
    const told = await follow('warned', { maxNewTokens: 1 }, { files: full })
    expect(alarmsOf(told.events)).toMatchObject([{ alarm: 'truncation', path: null }])
    expect(told.error).toBeInstanceOf(FailureError)
    expect(String(told.error)).toContain('the disk is full')
  })
})

describe('a batch that cannot be collected', () => {
  it('is named by an alarm, with where it begins, and its failure ends the run', async () => {
    const told = await follow('torn', {}, { source: torn(wordProblems(keyFromSeed(1), { split: 'rl' })) })
    expect(told.error).toBeInstanceOf(FailureError)
    const [alarm] = alarmsOf(told.events)
    expect(alarm).toMatchObject({ alarm: 'failed', step: 2, since: 2, path: path('torn/alarms/step-000002') })
    expect(alarm?.message).toContain('it is torn')
    const record: unknown = JSON.parse(readFileSync(path('torn/alarms/step-000002/record.json'), 'utf8'))
    expect(record).toMatchObject({ step: 2, position: { batch: 1 } })
  })
})
