import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { runChatScenario } from '../../../kit/chatRecordings.js'
import { type Recording, replayingTransport } from '../../../kit/recordings.js'

/** Made by `scripts/make/exchanges.ts` from a `transformers serve` that really ran. */
const recording: Recording = JSON.parse(readFileSync('test/golden/engines/transformers-5.19.0/chat.json', 'utf8'))

describe('exchanges with a real transformers serve', () => {
  it('are asked for and understood as when they were recorded', async () => {
    const transport = replayingTransport(recording)
    expect(JSON.parse(JSON.stringify(await runChatScenario(transport, '/models/policy')))).toEqual(recording.results)
    expect(transport.left()).toBe(0)
  })

  it('hold nothing of a machine', () => {
    expect(JSON.stringify(recording)).not.toMatch(/\/(work|root|home|tmp|Users)\/|[Bb]earer|api.?key|127\.0\.0\.1/)
  })

  it('have an answer to each question, and a refusal of what the server cannot do', () => {
    for (const [name, result] of Object.entries(recording.results)) {
      if (name.startsWith('refused')) expect(result).toMatchObject({ kind: 'asked' })
      else expect(result).toBeInstanceOf(Array)
    }
  })

  it('show that the server answers once where it is asked for several answers, so that the others are asked for again', () => {
    const counts = recording.exchanges.map(({ json }) => (json as { readonly n?: number }).n)
    expect(counts.filter((n) => n !== undefined)).toEqual([3])
    expect(recording.results['several answers to one question']).toHaveLength(3)
  })
})
