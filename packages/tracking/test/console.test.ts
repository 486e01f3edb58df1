import { Writable } from 'node:stream'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { leftOf, rightOf } from '../../../test/kit/results.js'
import { anyTrackedEvent } from '../../../test/kit/trackedEvents.js'
import { streamOutput } from '../../base/src/host/output.js'
import { consoleSink } from '../src/console.js'
import type { TrackedEvent } from '../src/sink.js'

/** An output and what was written to it. */
const kept = () => {
  const parts: string[] = []
  const stream = new Writable({
    decodeStrings: false,
    write: (text: string, _, done) => {
      parts.push(text)
      done()
    },
  })
  return { output: streamOutput(stream), text: () => parts.join('') }
}

/** Controls among other letters. */
const anyWords = fc.array(fc.nat({ max: 0x2ff }), { maxLength: 20 }).map((codes) => String.fromCodePoint(...codes))

const place = { at: 1000, step: 3 }

describe('consoleSink', () => {
  it('prints a line for each event', async () => {
    const { output, text } = kept()
    const sink = consoleSink({ output })
    await rightOf(
      sink.write([
        { type: 'start', at: 0, run: 'first', from: 0, settings: { seed: 1 } },
        {
          type: 'scalars',
          ...place,
          values: { 'train/loss': 0.123456, 'train/tokens': 8192, x: Number.NaN },
          seconds: { training: 1.5 },
        },
        { type: 'samples', ...place, samples: [{ name: '0', text: 'one\ntwo' }] },
        { type: 'alarm', ...place, name: 'truncation', text: 'cut off' },
        { type: 'failure', ...place, name: 'EnvFailure', text: 'gone' },
        { type: 'saved', ...place, what: 'checkpoint', path: 'a/b' },
      ]),
    )
    await rightOf(sink.write([{ type: 'end', ...place, status: 'finished' }]))
    expect(text().split('\n')).toEqual([
      'run first from step 0',
      'step 3  train/loss 0.1235  train/tokens 8192  x NaN  training 1.5 s',
      'sample 0 of step 3:',
      '    one',
      '    two',
      'alarm truncation in step 3: cut off',
      'failure EnvFailure in step 3: gone',
      'saved checkpoint a/b',
      'finished after step 3',
      '',
    ])
  })

  it('shows the scalars that are asked for in their order, and steps without them not at all', async () => {
    const { output, text } = kept()
    const sink = consoleSink({ output, names: ['b', 'a'] })
    await rightOf(sink.write([{ type: 'scalars', ...place, values: { c: 1 }, seconds: { x: 1 } }]))
    await rightOf(sink.write([{ type: 'scalars', ...place, values: { a: 1, b: 2, c: 3 }, seconds: {} }]))
    expect(text()).toBe('step 3  b 2  a 1\n')
  })

  it('prints nothing that a terminal obeys but ends of lines and tabs, whatever a text holds', async () => {
    await fc.assert(
      fc.asyncProperty(anyWords, anyTrackedEvent, async (words, event) => {
        const { output, text } = kept()
        const told: readonly TrackedEvent[] = [
          { type: 'samples', ...place, samples: [{ name: words, text: `\u001b[2J${words}` }] },
          { type: 'alarm', ...place, name: words, text: words },
          event,
        ]
        await rightOf(consoleSink({ output }).write(told))
        // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what must not be there
        expect(text()).not.toMatch(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f]/)
      }),
    )
  })

  it('fails where the reader has gone, and ends no process', async () => {
    const closed = new Writable({
      write: (_, __, done) => done(Object.assign(new Error('write EPIPE'), { code: 'EPIPE' })),
    })
    const sink = consoleSink({ output: streamOutput(closed) })
    for (let i = 0; i < 2; i++) {
      expect(await leftOf(sink.write([{ type: 'end', ...place, status: 'failed' }]))).toMatchObject({
        ...{ again: 'never', cause: { _tag: 'OutputFailure' } },
      })
    }
    await new Promise((go) => setImmediate(go))
    await new Promise((go) => setImmediate(go))
    expect(closed.listenerCount('error')).toBe(0)
  })
})
