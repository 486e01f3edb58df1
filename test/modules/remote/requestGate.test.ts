import { keyFromSeed } from '@tandem-rl/base'
import type { GenerationEvent, GenerationRequest } from '@tandem-rl/text'
import { describe, expect, it } from 'vitest'
import { DEFAULT_SAMPLING } from '../../../src/modules/generation/sampling/params.js'
import { makeRequestGate } from '../../../src/modules/remote/requestGate.js'

const requestOf = (rest: Partial<GenerationRequest> = {}): GenerationRequest => ({
  id: 'r',
  prompt: Int32Array.of(1),
  sampling: { ...DEFAULT_SAMPLING, key: keyFromSeed(1), n: 2 },
  adapter: null,
  cacheSalt: '',
  ...rest,
})

/** A gate, and a server behind it that answers each request on demand. */
const behind = () => {
  const gate = makeRequestGate()
  const seen: (readonly [adapter: string | null, salt: string, version: number])[] = []
  const answers: (() => void)[] = []
  async function* send(request: GenerationRequest, version: number): AsyncGenerator<GenerationEvent> {
    seen.push([request.adapter, request.cacheSalt, version])
    await new Promise<void>((resolve) => answers.push(resolve))
    yield { _tag: 'Finished', index: 0, finishReason: 'stop', stopReason: null }
  }
  const ask = async (rest?: Partial<GenerationRequest>, signal?: AbortSignal): Promise<readonly string[]> => {
    const events: string[] = []
    for await (const event of gate.pass(requestOf(rest), signal ? { signal } : {}, send)) {
      events.push(event._tag === 'Finished' ? event.finishReason : event._tag)
    }
    return events
  }
  return { gate, seen, ask, answerAll: () => answers.splice(0).forEach((answer) => void answer()) }
}

const settle = () => new Promise<void>((resolve) => setImmediate(resolve))

describe('makeRequestGate', () => {
  it('gives a request of a policy the weights of the moment it is sent, not of the moment it was asked for', async () => {
    const { gate, seen, ask, answerAll } = behind()
    const first = ask()
    const release = gate.hold()
    const second = ask()
    await settle()
    gate.serve({ version: 3, adapter: 'policy-v3', cacheSalt: 'v3' })
    release()
    await settle()
    answerAll()
    expect(await Promise.all([first, second])).toEqual([['stop'], ['stop']])
    expect(seen).toEqual([
      [null, '', 0],
      ['policy-v3', 'v3', 3],
    ])
  })

  it('sends a request with an adapter or a salt of its own as it is, held or not', async () => {
    const { gate, seen, ask, answerAll } = behind()
    gate.hold()
    gate.hold('refuse')
    const probes = [ask({ cacheSalt: 'probe' }), ask({ adapter: 'next' })]
    await settle()
    answerAll()
    await Promise.all(probes)
    expect(seen).toEqual([
      [null, 'probe', 0],
      ['next', '', 0],
    ])
  })

  it('opens only when every hold is released, and a release twice counts once', async () => {
    const { gate, seen, ask, answerAll } = behind()
    const [one, two] = [gate.hold(), gate.hold()]
    const asked = ask()
    one()
    one()
    await settle()
    expect(seen).toEqual([])
    two()
    await settle()
    answerAll()
    expect(await asked).toEqual(['stop'])
  })

  it('refuses waiting and new requests while sampling is paused', async () => {
    const { gate, ask, answerAll } = behind()
    const release = gate.hold()
    const waiting = ask()
    await settle()
    const allow = gate.hold('refuse')
    expect(await waiting).toEqual(['Failed'])
    expect(await ask()).toEqual(['Failed'])
    release()
    allow()
    const after = ask()
    await settle()
    answerAll()
    expect(await after).toEqual(['stop'])
  })

  it('ends a request that waits as aborted, one event for each completion, when its signal aborts', async () => {
    const { gate, seen, ask } = behind()
    gate.hold()
    const control = new AbortController()
    const waiting = ask({}, control.signal)
    await settle()
    control.abort()
    expect(await waiting).toEqual(['abort', 'abort'])
    expect(await ask({}, control.signal)).toEqual(['abort', 'abort'])
    expect(seen).toEqual([])
  })

  it('counts what was sent and is not finished, by adapter, and forgets a reader that leaves', async () => {
    const { gate, ask, answerAll } = behind()
    gate.serve({ version: 1, adapter: 'a', cacheSalt: '' })
    const first = ask()
    await settle()
    gate.serve({ version: 2, adapter: 'b', cacheSalt: '' })
    const second = ask()
    await settle()
    expect([gate.inFlight(), gate.inFlight('a'), gate.inFlight('b'), gate.inFlight('c')]).toEqual([2, 1, 1, 0])
    answerAll()
    await Promise.all([first, second])
    expect(gate.inFlight()).toBe(0)
    async function* endless(): AsyncGenerator<GenerationEvent> {
      for (;;) yield { _tag: 'Started', cachedTokens: 0, promptLogProbs: null }
    }
    for await (const _ of gate.pass(requestOf(), {}, endless)) break
    expect(gate.inFlight()).toBe(0)
  })
})
