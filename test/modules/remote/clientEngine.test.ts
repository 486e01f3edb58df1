/** The engine of a client: end tokens that the server may not know. */
import { keyFromSeed, orThrow } from '@tandem-rl/base'
import type { GenerationEvent, SamplingParams } from '@tandem-rl/text'
import { describe, expect, it } from 'vitest'
import type { EngineClient } from '../../../src/data/engineClient.js'
import { DEFAULT_SAMPLING } from '../../../src/modules/generation/sampling/params.js'
import { clientEngine } from '../../../src/modules/remote/clientEngine.js'
import { eventEngine, started, tokenOf, tokensOf } from '../../kit/eventEngine.js'
import { byteText } from '../../kit/small.js'

/** Sends a request to a server that stops at `stopReason`; its stop tokens there, its events here. */
const generated = async (sampling: Partial<SamplingParams>, stopReason: number) => {
  const end: GenerationEvent = { _tag: 'Finished', index: 0, finishReason: 'stop', stopReason }
  const server = eventEngine(() => [started, tokensOf(0, [tokenOf(stopReason)]), end], { endTokens: [50, 51] })
  const abilities = orThrow(await server.connect())
  const engine = clientEngine(server as unknown as EngineClient, abilities, byteText()) // a request needs no more
  const events: GenerationEvent[] = []
  for await (const event of engine.generate({
    ...{ id: 'a', prompt: Int32Array.of(1), adapter: null, cacheSalt: '' },
    sampling: { ...DEFAULT_SAMPLING, key: keyFromSeed(1), ...sampling },
  }))
    events.push(event)
  return { asked: server.seen[0]!.sampling.stopTokens, last: events.at(-1) }
}

describe('clientEngine', () => {
  it('sends the end tokens of the model as stop tokens, and reports them as ends', async () => {
    const { asked, last } = await generated({ stopTokens: [7, 51] }, 50)
    expect(asked).toEqual([7, 51, 50])
    expect(last).toMatchObject({ _tag: 'Finished', stopReason: null })
  })

  it('reports a stop token of the request as the reason', async () => {
    expect((await generated({ stopTokens: [51] }, 51)).last).toMatchObject({ stopReason: 51 })
  })

  it('sends no end tokens if the request ignores them', async () => {
    expect((await generated({ stopTokens: [7], endTokens: 'ignore' }, 7)).asked).toEqual([7])
  })
})
