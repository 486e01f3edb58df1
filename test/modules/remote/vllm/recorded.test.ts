import { readdirSync, readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { type Recording, replayingTransport, runScenario } from '../../../kit/recordings.js'

const FOLDER = 'test/golden/engines/vllm'

/** Made by `scripts/make/exchanges.ts` from servers that really ran. */
const recordings = readdirSync(FOLDER).map(
  (file) => [file, JSON.parse(readFileSync(`${FOLDER}/${file}`, 'utf8'))] as const,
)

describe.each<readonly [string, Recording]>(recordings)('exchanges with a real server, %s', (_, recording) => {
  it('are asked for and understood as when they were recorded', async () => {
    const transport = replayingTransport(recording)
    expect(JSON.parse(JSON.stringify(await runScenario(transport, 'policy')))).toEqual(recording.results)
    expect(transport.left()).toBe(0)
  })

  it('hold nothing of a machine', () => {
    expect(JSON.stringify(recording)).not.toMatch(/\/(work|root|home|tmp|Users)\/|[Bb]earer|api.?key|127\.0\.0\.1/)
  })

  it('have every result that was hoped for', () => {
    const failed = Object.entries(recording.results).filter(
      ([name, result]) => /"_tag":"(Failed|Left)"/.test(JSON.stringify(result)) && !/^(no such|unload)/.test(name),
    )
    expect(failed).toEqual([])
  })
})
