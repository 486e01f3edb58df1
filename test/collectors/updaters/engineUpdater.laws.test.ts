/**
 * A machine of states: whatever goes wrong in a push, all servers that may be sampled from have the
 * same weights, and know it.
 */
import { keyFromSeed } from '@tandem-rl/base'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { EngineClient } from '../../../src/data/engineClient.js'
import { DEFAULT_SAMPLING } from '../../../src/modules/generation/sampling/params.js'
import type { Fault, ScriptedClient } from '../../kit/scriptedClient.js'
import { type Pushed, scriptedSetup } from '../../kit/scriptedUpdater.js'

/** Sends requests like a policy until stopped; resolves when every request has ended. */
const traffic = (clients: readonly EngineClient[]) => {
  let isOver = false
  let asked = 0
  const asker = async (client: EngineClient): Promise<void> => {
    while (!isOver) {
      const request = { id: `r${asked++}`, prompt: Int32Array.of(1, 2), adapter: null, cacheSalt: '' }
      const sampling = { ...DEFAULT_SAMPLING, key: keyFromSeed(1) }
      let events = 0
      for await (const _ of client.generate({ ...request, sampling })) events++
      expect(events).toBeGreaterThan(0)
      await new Promise((resolve) => setImmediate(resolve))
    }
  }
  const askers = clients.flatMap((client) => [asker(client), asker(client)])
  return async () => {
    isOver = true
    await Promise.all(askers)
  }
}

const FAULTS: readonly Fault[] = [
  ...(['refused', 'lost-done', 'lost', 'late', 'slow', 'dies', 'throws', 'hangs', 'hangs-done', 'spoils'] as const),
]

/** A few faults at calls of one push to one server. */
const anyScript: fc.Arbitrary<readonly Fault[]> = fc
  .array(fc.tuple(fc.nat({ max: 14 }), fc.constantFrom(...FAULTS)), { maxLength: 3 })
  .map((faults) => Array.from({ length: 15 }, (_, i) => faults.find(([at]) => at === i)?.[1] ?? 'none'))

const anyScenario = fc.record({
  how: fc.constantFrom('adapter' as const, 'full' as const),
  onLost: fc.constantFrom('fail' as const, 'withdraw' as const),
  label: fc.constantFrom('told' as const, 'untold' as const),
  cache: fc.constantFrom('reset' as const, 'salt' as const),
  /** Of each push, of each server. */
  scripts: fc.array(fc.tuple(anyScript, anyScript), { minLength: 1, maxLength: 3 }),
})

/** What must hold between pushes. `spoiled`: servers that told other versions than they had. */
const check = (servers: readonly ScriptedClient[], { updater, pushed }: Pushed): void => {
  const state = updater.state()
  const [accepted, old] = [pushed.at(-1)!, pushed.filter(({ ok }) => ok).at(-1)?.version ?? 0]
  expect(state.version).toBe(accepted.ok ? accepted.version : old)
  for (const [i, { client, truth }] of servers.entries()) {
    const { status } = state.servers[i]!
    if (accepted.ok && updater.report()!.servers[i]!.outcome === 'committed') expect(status).toBe('current')
    if (status === 'lost' || !truth.isAlive) continue
    const { version, adapter } = client.serving()
    expect(version).toBe(state.version)
    expect(truth.isPaused).toBe(false)
    expect(adapter === null ? truth.base : truth.adapters.get(adapter)).toBe(version)
  }
}

describe('engineUpdater', () => {
  it('keeps every server on one version, old or new, verified and running, for any sequence of faults', async () => {
    await fc.assert(
      fc.asyncProperty(anyScenario, async ({ how, onLost, label, cache, scripts }) => {
        const setup = scriptedSetup({ count: 2, how, label, sync: { onLost, cache } })
        const stop = traffic(setup.servers.map(({ client }) => client))
        for (const [i, parts] of scripts.entries()) {
          for (const [s, part] of parts.entries()) setup.servers[s]!.script.splice(0, 99, ...part)
          await setup.push(i + 1)
          for (const { script } of setup.servers) script.length = 0
          check(setup.servers, setup.pushed())
        }
        await stop()
        for (const { truth } of setup.servers) {
          for (const { version, contents } of truth.answered) {
            for (const content of contents) expect(content).toBe(version)
          }
        }
      }),
      { numRuns: 100 },
    )
  })
})
