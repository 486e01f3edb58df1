import { appendFileSync, readdirSync, readFileSync } from 'node:fs'
import { type Files, fileFailure } from '@tandem-rl/base'
import { liveFiles } from '@tandem-rl/host'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { describe, expect, it } from 'vitest'
import { leftOf, rightOf } from '../../../test/kit/results.js'
import { useTemporaryFolder } from '../../../test/kit/runs.js'
import { type BoardEvent, encodeBoardEvent } from '../src/boardFile.js'
import type { TrackedEvent } from '../src/sink.js'
import { tensorBoardSink } from '../src/tensorBoard.js'

const path = useTemporaryFolder()

const start = (from: number): TrackedEvent => ({ type: 'start', at: 5000, run: 'first', from, settings: { seed: 1 } })
const scalars = (step: number): TrackedEvent => ({
  type: 'scalars',
  at: 6000,
  step,
  values: { 'train/loss': step / 8 },
  seconds: { training: 2 },
})

const settings = '    {\n      "run": "first",\n      "seed": 1\n    }'
const begin = (from: number): readonly BoardEvent[] => [
  { what: 'version', seconds: 5, step: 0 },
  { what: 'restart', seconds: 5, step: from },
  { what: 'texts', seconds: 5, step: from, values: { settings } },
]
const board = (step: number): BoardEvent => ({
  what: 'scalars',
  seconds: 6,
  step,
  values: { 'train/loss': step / 8, 'time/training': 2 },
})
const bytesOf = (told: readonly BoardEvent[]): Buffer => Buffer.concat(told.map(encodeBoardEvent))

const filesIn = (folder: string): readonly string[] => readdirSync(folder).sort()

describe('tensorBoardSink', () => {
  it('writes a version, a restart, the settings and scalars, and appends what comes later', async () => {
    const folder = path('one')
    const sink = tensorBoardSink(folder)
    await rightOf(sink.write([start(0), scalars(1)]))
    await rightOf(sink.write([scalars(2)]))
    expect(filesIn(folder)).toEqual(['events.out.tfevents.0000000005.tandem'])
    expect(readFileSync(`${folder}/events.out.tfevents.0000000005.tandem`)).toEqual(
      bytesOf([...begin(0), board(1), board(2)]),
    )
  })

  it('writes samples, alarms and paths as texts that Markdown leaves alone', async () => {
    const folder = path('texts')
    await rightOf(
      tensorBoardSink(folder).write([
        { type: 'samples', at: 1000, step: 3, samples: [{ name: '0', text: '# no\n<b>' }] },
        { type: 'alarm', at: 2000, step: 3, name: 'entropy', text: 'it fell' },
        { type: 'saved', at: 3000, step: 3, what: 'checkpoint', path: 'a/b' },
        { type: 'end', at: 4000, step: 3, status: 'finished' },
      ]),
    )
    const texts = (seconds: number, values: Readonly<Record<string, string>>): BoardEvent => ({
      ...{ what: 'texts', seconds, step: 3, values },
    })
    expect(readFileSync(`${folder}/events.out.tfevents.0000000001.tandem`)).toEqual(
      bytesOf([
        { what: 'version', seconds: 1, step: 0 },
        texts(1, { 'samples/0': '    # no\n    <b>' }),
        texts(2, { 'alarms/entropy': '    it fell' }),
        texts(3, { 'saved/checkpoint': '    a/b' }),
        texts(4, { status: 'finished' }),
      ]),
    )
  })

  it('gives every session a file that comes after the others, also if the clock went back', async () => {
    const folder = path('sessions')
    await rightOf(tensorBoardSink(folder).write([start(0)]))
    appendFileSync(`${folder}/events.out.tfevents.0000000005.tandem`, bytesOf([board(1)]).subarray(0, 30)) // a kill
    await rightOf(tensorBoardSink(folder).write([start(7), scalars(7)]))
    const [, second] = filesIn(folder)
    expect(second).toBe('events.out.tfevents.0000000006.tandem')
    expect(readFileSync(`${folder}/${second}`)).toEqual(bytesOf([...begin(7), board(7)]))
  })

  it('has no half record and none twice after writes that failed in their middle', async () => {
    const folder = path('full')
    const full = fileFailure('append to', '', { code: 'ENOSPC', reason: 'full' })
    let room = 1
    const files: Files = {
      ...liveFiles,
      append: (name, contents) => {
        if (contents.length === 0 || room-- > 0) return liveFiles.append(name, contents)
        appendFileSync(name, contents.slice(0, 9))
        return TE.left(full)
      },
    }
    const sink = tensorBoardSink(folder, files)
    await rightOf(sink.write([start(0)]))
    expect(await leftOf(sink.write([scalars(1)]))).toMatchObject({ again: 'later', cause: full })
    expect(await leftOf(sink.write([scalars(1), scalars(2)]))).toMatchObject({ again: 'later' })
    room = 1
    await rightOf(sink.write([scalars(1), scalars(2)]))
    const [name] = filesIn(folder)
    expect(readFileSync(`${folder}/${name}`)).toEqual(bytesOf([...begin(0), board(1), board(2)]))
  })

  it('fails with what the system said where no folder can be made', async () => {
    const failure = await leftOf(tensorBoardSink('/dev/null/no').write([start(0)]))
    expect(failure).toMatchObject({ again: 'later', cause: { _tag: 'FileFailure', path: '/dev/null/no' } })
  })
})
