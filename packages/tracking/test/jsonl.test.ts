import { appendFileSync, readFileSync, truncateSync, writeFileSync } from 'node:fs'
import fc from 'fast-check'
import * as E from 'fp-ts/lib/Either.js'
import { describe, expect, it } from 'vitest'
import { leftOf, rightOf } from '../../../test/kit/results.js'
import { useTemporaryFolder } from '../../../test/kit/runs.js'
import { anyTrackedEvent } from '../../../test/kit/trackedEvents.js'
import { eventLine, parseEventLine } from '../src/eventLines.js'
import { jsonlSink } from '../src/jsonl.js'
import type { TrackedEvent } from '../src/sink.js'

const path = useTemporaryFolder()
let made = 0
const newFile = (): string => path(`${made++}.jsonl`)

const start = (from: number, run = 'first'): TrackedEvent => ({
  type: 'start',
  at: 5,
  run,
  from,
  settings: { seed: 1 },
})
const scalars = (step: number): TrackedEvent => ({
  ...{ type: 'scalars', at: 6, step, values: { 'train/loss': step / 8, ümlaut: 1 }, seconds: { training: 2 } },
})
const end = (step: number): TrackedEvent => ({ type: 'end', at: 9, step, status: 'interrupted' })

const eventsIn = (file: string): readonly TrackedEvent[] =>
  readFileSync(file, 'utf8')
    .split('\n')
    .slice(0, -1)
    .map((line) => E.getOrElseW(() => null)(parseEventLine(line))!)

describe('eventLine', () => {
  it('is one line that is read as the same event, numbers that JSON does not have included', () => {
    fc.assert(
      fc.property(anyTrackedEvent, (event) => {
        const line = eventLine(event)
        expect(line).not.toContain('\n')
        expect(parseEventLine(line)).toEqual(E.right(event))
      }),
    )
  })

  it.each([
    '',
    '{',
    '[]',
    '{"type":"end"}',
    '{"type":"end","at":1,"step":1,"status":"gone"}',
    '{"type":"end","at":1,"step":1,"status":"failed","x":1}',
  ])('is not %s', (line) => {
    expect(parseEventLine(line)).toMatchObject({ _tag: 'Left', left: { _tag: 'FormatFailure' } })
  })
})

describe('jsonlSink', () => {
  it('removes the events of a killed session for steps that are repeated, a torn line included, and nothing else', async () => {
    const file = newFile()
    await rightOf(jsonlSink(file).write([start(0, 'other'), scalars(9)]))
    await rightOf(jsonlSink(file).write([start(0), ...[0, 1, 2, 3, 4].map(scalars)]))
    appendFileSync(file, eventLine(scalars(5)).slice(0, 70))
    await rightOf(jsonlSink(file).write([start(3), scalars(3), scalars(4), end(4)]))
    await rightOf(jsonlSink(file).write([start(5), scalars(5)]))
    expect(eventsIn(file)).toEqual([
      ...[start(0, 'other'), scalars(9), start(0), ...[0, 1, 2].map(scalars)],
      ...[start(3), scalars(3), scalars(4), end(4), start(5), scalars(5)],
    ])
  })

  it('cuts off what a kill left at any byte, and keeps an event that lacks its end of line alone', async () => {
    const file = newFile()
    await rightOf(jsonlSink(file).write([start(0), scalars(1)]))
    const whole = readFileSync(file)
    const last = whole.lastIndexOf(10, whole.length - 2) + 1
    for (let length = last; length <= whole.length; length++) {
      writeFileSync(file, whole)
      truncateSync(file, length)
      await rightOf(jsonlSink(file).write([start(2), scalars(2)]))
      const kept = length >= whole.length - 1 ? [scalars(1)] : []
      expect(eventsIn(file)).toEqual([start(0), ...kept, start(2), scalars(2)])
    }
  })

  it('appends a new run to whatever is there, and leaves lines of others alone', async () => {
    const file = newFile()
    writeFileSync(file, 'notes\n{"a":1}\n')
    await rightOf(jsonlSink(file).write([start(0), scalars(1), scalars(2)]))
    await rightOf(jsonlSink(file).write([start(2), scalars(2)]))
    expect(readFileSync(file, 'utf8')).toBe(
      `notes\n{"a":1}\n${[start(0), scalars(1), start(2), scalars(2)].map((event) => `${eventLine(event)}\n`).join('')}`,
    )
  })

  it.each([Buffer.from('no end of line'), Buffer.from([0xff, 0xfe, 10])])(
    'leaves a file of something else as it was: %j',
    async (bytes) => {
      const file = newFile()
      writeFileSync(file, bytes)
      expect(await leftOf(jsonlSink(file).write([start(0)]))).toMatchObject({
        ...{
          again: 'never',
          cause: { _tag: 'FormatFailure', where: file, reason: expect.stringContaining('no file of tracked') },
        },
      })
      expect(readFileSync(file)).toEqual(bytes)
    },
  )

  it('fails with what the system said where there is no folder', async () => {
    const failure = await leftOf(jsonlSink(path('no/folder/a.jsonl')).write([start(0)]))
    expect(failure).toMatchObject({ again: 'later', cause: { _tag: 'FileFailure', code: 'ENOENT' } })
  })
})
