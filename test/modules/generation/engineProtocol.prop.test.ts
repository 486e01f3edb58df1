/**
 * The protocol over a channel between two ends in one thread: whatever readers do, they get what
 * the engine gives.
 */
import { MessageChannel } from 'node:worker_threads'
import { keyFromSeed, type ThreadPort } from '@tandem-rl/base'
import { liveClock } from '@tandem-rl/base/host'
import type { GenerationEvent, GenerationRequest, LLMEngine } from '@tandem-rl/text'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { messagePort } from '../../../packages/host/src/threads.js'
import { type EngineConnection, engineConnection } from '../../../src/modules/generation/engineConnection.js'
import type { EngineGreeting, EngineReply } from '../../../src/modules/generation/engineMessages.js'
import { eventQueue } from '../../../src/modules/generation/eventQueue.js'
import { serveEngine } from '../../../src/modules/generation/serveEngine.js'
import { keyedEngine, keyedRequest } from '../../kit/keyedEngine.js'
import { rightOf } from '../../kit/results.js'

/** Runs `f` with an engine and a connection to it; `onPost` sees what the engine's end posts. */
const connected = async <T>(
  window: number,
  onPost: (message: EngineGreeting | EngineReply) => void,
  f: (connection: EngineConnection, engine: LLMEngine) => Promise<T>,
): Promise<T> => {
  const engine = await rightOf(keyedEngine({}))
  const { port1, port2 } = new MessageChannel()
  const [there, here] = [messagePort(port1), messagePort(port2)]
  const watched: ThreadPort = {
    ...there,
    post: (message, transfer) => {
      onPost(message as EngineGreeting | EngineReply) // `serveEngine` posts nothing else
      there.post(message, transfer)
    },
  }
  serveEngine(watched, engine)
  const connection = engineConnection(here, window)
  here.listen((message) => {
    const said = message as EngineGreeting | EngineReply // likewise
    if (said._tag !== 'Ready' && said._tag !== 'Refused') connection.receive(said)
  })
  try {
    return await f(connection, engine)
  } finally {
    port1.close()
    port2.close()
  }
}

/** The actions of one reader. */
interface Plan {
  readonly n: number
  readonly maxTokens: number
  /** Turns of the event loop between two reads. */
  readonly slowness: number
  /** After how many events the reader acts. */
  readonly after: number
  readonly act: 'read on' | 'return' | 'abort'
}

const plans: fc.Arbitrary<Plan> = fc.record({
  n: fc.integer({ min: 1, max: 3 }),
  maxTokens: fc.integer({ min: 1, max: 12 }),
  slowness: fc.integer({ min: 0, max: 2 }),
  after: fc.integer({ min: 0, max: 20 }),
  act: fc.constantFrom('read on', 'return', 'abort'),
})

const requestOf = ({ n, maxTokens }: Plan, i: number): GenerationRequest =>
  keyedRequest(`request ${i}`, { n, maxTokens, key: keyFromSeed(i) })

/** Everything that the engine itself says to a request. */
const spoken = async (engine: LLMEngine, request: GenerationRequest): Promise<readonly GenerationEvent[]> => {
  const events: GenerationEvent[] = []
  for await (const event of engine.generate(request)) events.push(event)
  return events
}

const follow = async (
  connection: EngineConnection,
  request: GenerationRequest,
  { slowness, after, act, onRead }: Plan & { readonly onRead: () => void },
): Promise<readonly GenerationEvent[]> => {
  const controller = new AbortController()
  const doIt = async (): Promise<void> => {
    if (act === 'abort') controller.abort()
    if (act === 'return') await reader.return?.()
  }
  if (after === 0 && act === 'abort') controller.abort()
  const reader = connection.open(request, controller.signal)
  const events: GenerationEvent[] = []
  if (after === 0) await doIt()
  for (let next = await reader.next(); next.done !== true; next = await reader.next()) {
    onRead()
    if (events.push(next.value) === after) await doIt()
    for (let turn = 0; turn < slowness; turn++) await liveClock.breathe()
  }
  return events
}

const tokensOf = (events: readonly GenerationEvent[]): readonly GenerationEvent[] =>
  events.filter(({ _tag }) => _tag === 'Tokens')

describe('an engine behind a port', () => {
  it('says to every reader what it says in its own thread, as far as they read, and nothing keeps running', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(plans, { minLength: 1, maxLength: 6 }),
        fc.integer({ min: 1, max: 8 }),
        async (readers, window) => {
          const sent = new Map<number, number>()
          const read = readers.map(() => 0)
          let most = 0
          const onPost = (message: EngineGreeting | EngineReply): void => {
            if (message._tag !== 'Items') return
            for (const { stream, event } of message.items) {
              if (event === null) continue
              sent.set(stream, (sent.get(stream) ?? 0) + 1)
              most = Math.max(most, sent.get(stream)! - read[stream]!) // streams are numbered in the order of `open`
            }
          }
          await connected(window, onPost, async (connection, engine) => {
            const expected = await Promise.all(readers.map((plan, i) => spoken(engine, requestOf(plan, i))))
            const heard = await Promise.all(
              readers.map((plan, i) => follow(connection, requestOf(plan, i), { ...plan, onRead: () => read[i]!++ })),
            )
            for (const [i, { after, act }] of readers.entries()) {
              if (act === 'read on') expect(heard[i]).toEqual(expected[i])
              else if (act === 'return') expect(heard[i]).toEqual(expected[i]!.slice(0, after))
              else {
                expect(tokensOf(heard[i]!)).toEqual(tokensOf(expected[i]!).slice(0, tokensOf(heard[i]!).length))
                expect(heard[i]!.at(-1)).toMatchObject({ _tag: 'Finished' })
              }
            }
            expect(await connection.call({ method: 'metrics' })).toMatchObject({ running: 0 })
          })
          expect(most).toBeLessThanOrEqual(window)
        },
      ),
      { numRuns: 50 },
    )
  })

  it('ends its streams when it closes, even those that nobody reads', async () => {
    await connected(
      2,
      () => undefined,
      async (connection) => {
        const readers = Array.from({ length: 3 }, (_, i) =>
          connection.open(keyedRequest(`${i}`, { key: keyFromSeed(i), maxTokens: null }), undefined),
        )
        await readers[0]!.next()
        await connection.call({ method: 'close' })
        for (const reader of readers) {
          const events: GenerationEvent[] = []
          for (let next = await reader.next(); next.done !== true; next = await reader.next()) events.push(next.value)
          expect(events.at(-1)).toMatchObject({ _tag: 'Finished', finishReason: 'abort' })
        }
      },
    )
  })

  it('ends a stream on `return` also while the next event is being waited for', async () => {
    await connected(
      4,
      () => undefined,
      async (connection) => {
        await connection.call({ method: 'pause', options: { mode: 'keep', cache: 'keep' } })
        const reader = connection.open(keyedRequest('paused', { key: keyFromSeed(1) }), undefined)
        expect(await reader.next()).toMatchObject({ value: { _tag: 'Started' } })
        const pending = reader.next()
        await reader.return?.()
        expect(await pending).toEqual({ done: true, value: undefined })
        expect(await connection.call({ method: 'metrics' })).toMatchObject({ running: 0 })
      },
    )
  })

  it('returns the error of a method, with its class', async () => {
    await connected(
      4,
      () => undefined,
      async (connection) => {
        const pausing = connection.call({ method: 'pause', options: { mode: 'wait', cache: 'keep' } })
        await expect(pausing).rejects.toThrow(new RangeError('this engine cannot wait'))
      },
    )
  })

  it('reports a failure of everything at the end, with the first reason only', async () => {
    await connected(
      4,
      () => undefined,
      async (connection) => {
        const reader = connection.open(keyedRequest('open', { key: keyFromSeed(1) }), undefined)
        const answer = connection.call({ method: 'version' })
        const failure = { _tag: 'GenerationFailure', kind: 'closed', reason: 'first' } as const
        connection.finish(failure)
        connection.finish({ ...failure, reason: 'second' })
        await expect(answer).rejects.toMatchObject({ failure })
        for (const each of [reader, connection.open(keyedRequest('late', { key: keyFromSeed(1) }), undefined)]) {
          expect(await each.next()).toEqual({ done: false, value: { _tag: 'Failed', failure } })
          expect(await each.next()).toEqual({ done: true, value: undefined })
          expect(await each.return?.()).toEqual({ done: true, value: undefined })
        }
        await expect(connection.call({ method: 'version' })).rejects.toMatchObject({ failure })
      },
    )
  })
})

describe('a queue of events', () => {
  it('gives everything that was pushed before the end, in order, whenever it is read', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(fc.constantFrom('push', 'read'), { maxLength: 40 }), async (steps) => {
        const queue = eventQueue<number>()
        const reads: Promise<IteratorResult<number, undefined>>[] = []
        let pushed = 0
        for (const step of steps) {
          if (step === 'push') queue.push(pushed++)
          else reads.push(queue.next())
        }
        queue.end()
        queue.push(-1)
        for (let rest = pushed - reads.length; rest >= 0; rest--) reads.push(queue.next())
        const results = await Promise.all(reads)
        expect(results.flatMap(({ done, value }) => (done === true ? [] : [value]))).toEqual(
          Array.from({ length: pushed }, (_, i) => i),
        )
        expect(results.at(-1)).toEqual({ done: true, value: undefined })
      }),
    )
  })
})
