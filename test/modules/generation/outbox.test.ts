import type { GeneratedToken, GenerationEvent } from '@tandem-rl/text'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { makeOutbox } from '../../../src/modules/generation/outbox.js'

const token = (id: number): GeneratedToken => ({
  id,
  rawLogProb: -1,
  temperedLogProb: -1,
  processedLogProb: -1,
  rank: 0,
  top: [],
  version: 1,
})

const tokens = (index: number, id: number): GenerationEvent => ({
  _tag: 'Tokens',
  index,
  tokens: [token(id)],
  text: `${id} `,
})

/** Each number is a completion that gets a token; null is a read. */
const script = fc.array(fc.option(fc.nat(3)), { maxLength: 40 })

describe('the stream of a request', () => {
  it('brings every token of each completion in order, whenever they are read, and never holds more than one event for each', async () => {
    await fc.assert(
      fc.asyncProperty(script, async (steps) => {
        const outbox = makeOutbox(() => {})
        const pushed: number[][] = [[], [], [], []]
        const reads: Promise<IteratorResult<GenerationEvent, undefined>>[] = []
        for (const [id, step] of steps.entries()) {
          if (step === null) reads.push(outbox.reader.next())
          else {
            pushed[step]!.push(id)
            outbox.push(tokens(step, id))
          }
          expect(outbox.size()).toBeLessThanOrEqual(4)
        }
        outbox.end()
        for (let i = 0; i < 5; i++) reads.push(outbox.reader.next())
        const events = (await Promise.all(reads)).flatMap(({ done, value }) => (done ? [] : [value as GenerationEvent])) // not done
        for (const index of pushed.keys()) {
          const mine = events.flatMap((event) => (event._tag === 'Tokens' && event.index === index ? [event] : []))
          expect(mine.flatMap((event) => event.tokens.map(({ id }) => id))).toEqual(pushed[index])
          expect(mine.map(({ text }) => text).join('')).toBe(pushed[index]!.map((id) => `${id} `).join(''))
        }
      }),
    )
  })

  it('keeps other events in their places', async () => {
    const outbox = makeOutbox(() => {})
    outbox.push({ _tag: 'Started', cachedTokens: 2, promptLogProbs: null })
    outbox.push(tokens(0, 1))
    outbox.push(tokens(1, 2))
    outbox.push({ _tag: 'Finished', index: 1, finishReason: 'stop', stopReason: null })
    outbox.push(tokens(0, 3))
    outbox.end()
    const events: GenerationEvent[] = []
    for await (const event of { [Symbol.asyncIterator]: () => outbox.reader }) events.push(event)
    expect(events.map(({ _tag }) => _tag)).toEqual(['Started', 'Tokens', 'Tokens', 'Finished'])
    expect(events[1]).toMatchObject({ index: 0, text: '1 3 ' })
  })

  it('tells once when its reader turns away, and holds nothing after that', async () => {
    let left = 0
    const outbox = makeOutbox(() => {
      left++
    })
    outbox.push(tokens(0, 1))
    await outbox.reader.return!()
    await outbox.reader.return!()
    outbox.push(tokens(0, 2))
    expect([left, outbox.size()]).toEqual([1, 0])
    expect(await outbox.reader.next()).toEqual({ done: true, value: undefined })
  })

  it('does not tell when its reader has seen the end', async () => {
    let left = 0
    const outbox = makeOutbox(() => {
      left++
    })
    const waiting = outbox.reader.next()
    outbox.end()
    expect((await waiting).done).toBe(true)
    await outbox.reader.return!()
    expect(left).toBe(0)
  })
})
