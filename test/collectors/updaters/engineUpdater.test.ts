/** The contract of updaters, case by case, on scripted servers. */
import { keyFromSeed } from '@tandem-rl/base'
import { requireLeft, requireRight } from '@tandem-rl/testing'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { engineUpdater } from '../../../src/collectors/updaters/engineUpdater.js'
import { drawProbes, probeGap } from '../../../src/collectors/updaters/probes.js'
import { DEFAULT_SAMPLING } from '../../../src/modules/generation/sampling/params.js'
import { rightOf } from '../../kit/results.js'
import { scriptedForms, scriptedSetup } from '../../kit/scriptedUpdater.js'

describe('engineUpdater', () => {
  it('refuses a version that is not newer, and the one that was just pushed', async () => {
    const { push } = scriptedSetup()
    requireRight(await push(3))
    for (const version of [3, 2, 3.5]) {
      const failure = requireLeft(await push(version))
      expect(failure.reason).toBe(`version ${version} is not newer than 3, which is in use`)
      expect(failure.report).toBeNull()
    }
  })

  it('keeps as many old adapters as requests may be old, and one more while it pushes', async () => {
    const { servers, push } = scriptedSetup({ sync: { maxStaleness: 1 }, maxAdapters: 3 })
    for (const version of [1, 2, 3, 4]) requireRight(await push(version))
    expect([...servers[0]!.truth.adapters.keys()]).toEqual(['policy-v3', 'policy-v4'])
    expect(servers[0]!.truth.done).not.toContain('pause')
  })

  it('leaves an adapter loaded that a request uses, and unloads it in a later push', async () => {
    const { servers, push, updater } = scriptedSetup({ sync: { maxStaleness: 0 } })
    const { client, truth } = servers[0]!
    requireRight(await push(1))
    const request = { id: 'r', prompt: Int32Array.of(1, 2), adapter: null, cacheSalt: '' }
    const events = client
      .generate({ ...request, sampling: { ...DEFAULT_SAMPLING, key: keyFromSeed(1) } })
      [Symbol.asyncIterator]()
    await events.next()
    requireRight(await push(2))
    expect([...truth.adapters.keys()]).toEqual(['policy-v1', 'policy-v2'])
    expect(updater.state().leftovers['server 0']).toEqual(['policy-v1'])
    await events.return?.()
    requireRight(await push(3))
    expect([...truth.adapters.keys()]).toEqual(['policy-v3'])
  })

  it('never uses a name twice, also when a version is pushed again after it failed', async () => {
    const { servers, push } = scriptedSetup()
    servers[0]!.script.push('none', 'none', 'spoils')
    expect(requireLeft(await push(1)).reason).toMatch(/^version 1 is not in use: server 0: probe \d is off by .* nats/)
    requireRight(await push(1))
    expect(servers[0]!.truth.done).toEqual(['adapter policy-v1', 'unload policy-v1', 'adapter policy-v1.2'])
  })

  it('asks for the state after a lost answer, and sends a call again only if it did nothing', async () => {
    const { servers, push } = scriptedSetup()
    servers[0]!.script.push('none', 'none', 'lost-done')
    requireRight(await push(1))
    servers[0]!.script.push('none', 'none', 'lost')
    requireRight(await push(2))
    expect(servers[0]!.truth.done).toEqual(['adapter policy-v1', 'adapter policy-v2'])
  })

  it('gives whole weights back to all servers when one of them got others, and says so', async () => {
    const { servers, push, updater, removed } = scriptedSetup({ count: 2, how: 'full' })
    requireRight(await push(1))
    servers[1]!.script.push('none', 'none', 'none', 'spoils')
    const { reason, receiver, report } = requireLeft(await push(2))
    expect(reason).toContain('server 1: probe')
    expect(receiver).toBe('server 1')
    expect(report!.servers.map(({ outcome }) => outcome)).toEqual(['restored', 'restored'])
    expect(report!.servers[1]!.gap!.worst).toBeGreaterThan(1e-3)
    expect(servers.map(({ truth }) => [truth.base, truth.label, truth.isPaused])).toEqual([
      [1, 1, false],
      [1, 1, false],
    ])
    expect(updater.state().version).toBe(1)
    expect(removed).toEqual([2])
  })

  it('loads the old weights behind a load that may still come, whatever the probes say before it comes', async () => {
    const { servers, push } = scriptedSetup({ how: 'full' })
    const [{ script, truth }] = servers as readonly [(typeof servers)[0], ...typeof servers]
    requireRight(await push(1))
    // Health, state, pause; the load is slow, the state says that nothing came of it, and the
    // second load is refused.
    script.push('none', 'none', 'none', 'slow', 'none', 'refused')
    requireLeft(await push(2))
    expect(truth.done.slice(-3)).toEqual(['load 2', 'load 1', 'resume'])
    expect([truth.base, truth.label, truth.isPaused]).toEqual([1, 1, false])
  })

  it('continues without a dead server, which refuses requests until it is reconciled', async () => {
    const { servers, push, updater, statuses } = scriptedSetup({ count: 2, how: 'full', sync: { onLost: 'withdraw' } })
    const [, dying] = servers
    dying!.script.push('none', 'none', 'none', 'none', 'none', 'dies')
    requireRight(await push(1))
    expect(updater.report()!.servers.map(({ outcome }) => outcome)).toEqual(['committed', 'lost'])
    const request = { id: 'r', prompt: Int32Array.of(1), adapter: null, cacheSalt: '' }
    const sampling = { ...DEFAULT_SAMPLING, key: keyFromSeed(1) }
    for await (const event of dying!.client.generate({ ...request, sampling })) expect(event._tag).toBe('Failed')
    requireRight(await push(2))
    Object.assign(dying!.truth, { isAlive: true, base: 0, label: 0, isPaused: false })
    expect(await rightOf(updater.reconcile(dying!.client))).toBe(2)
    expect(dying!.truth.base).toBe(2)
    expect(dying!.client.serving().version).toBe(2)
    expect(statuses.map(({ server, status }) => [server, status])).toEqual([
      ['server 1', 'lost'],
      ['server 1', 'current'],
    ])
  })

  it('ends a push that is cancelled: the old version is in use and nobody is paused', async () => {
    const { servers, push, updater } = scriptedSetup({ how: 'full' })
    const control = new AbortController()
    servers[0]!.script.push('none', 'none', 'none', 'none', 'none', 'hangs')
    const pushing = push(1, control.signal)
    setImmediate(() => control.abort())
    requireLeft(await pushing)
    expect(updater.state().version).toBe(0)
    expect([servers[0]!.truth.base, servers[0]!.truth.isPaused]).toEqual([0, false])
  })

  it('refuses to touch a server that somebody else paused', async () => {
    const { servers, push } = scriptedSetup({ how: 'full' })
    servers[0]!.truth.isPaused = true
    expect(requireLeft(await push(1)).reason).toContain('it was paused by someone else')
    expect(servers[0]!.truth.done).toEqual([])
  })

  it('recovers what a killed process left: resumes, unloads its adapters, loads the weights of the start', async () => {
    const { servers, updater } = scriptedSetup({ count: 2, how: 'full' })
    const [{ truth }] = servers as readonly [(typeof servers)[0], ...typeof servers]
    truth.adapters.set('policy-v7', 7).set('reference', 1)
    Object.assign(truth, { isPaused: true, base: 7.5, label: 7 })
    const recovered = await updater.recover()
    expect(recovered).toEqual([
      { server: 'server 0', wasPaused: 'yes', unloaded: ['policy-v7'], problem: null },
      { server: 'server 1', wasPaused: 'no', unloaded: [], problem: null },
    ])
    expect([truth.base, truth.label, truth.isPaused, [...truth.adapters.keys()]]).toEqual([0, 0, false, ['reference']])
    expect(updater.state().servers.map(({ status }) => status)).toEqual(['current', 'current'])
  })

  it('loads the weights of the start on a server that tells no version, which a killed process may have given others', async () => {
    const { servers, updater } = scriptedSetup({ how: 'full', label: 'untold' })
    const [{ truth }] = servers as readonly [(typeof servers)[0], ...typeof servers]
    truth.base = 7
    expect(await updater.recover()).toMatchObject([{ wasPaused: 'no', problem: null }])
    expect([truth.base, truth.isPaused]).toEqual([0, false])
  })

  it('throws for options that cannot be meant', () => {
    const { servers } = scriptedSetup({ count: 1 })
    const { forms: weights } = scriptedForms('full')
    const { client } = servers[0]!
    expect(() => engineUpdater({ clients: [], weights })).toThrow('at least one client')
    expect(() => engineUpdater({ clients: [client, client], weights })).toThrow('different names')
    expect(() => engineUpdater({ clients: [client], weights, verify: { probes: [[1, 64]] } })).toThrow('probes[0]')
    expect(() => engineUpdater({ clients: [client], weights, sync: { maxStaleness: -1 } })).toThrow('maxStaleness')
    expect(() => engineUpdater({ clients: [client], weights, sync: { pushMs: 0 } })).toThrow('pushMs')
  })
})

describe('drawProbes', () => {
  it('draws rows of ids of the vocabulary, the same for the same key', () => {
    fc.assert(
      fc.property(
        fc.nat(),
        fc.integer({ min: 2, max: 40 }),
        fc.integer({ min: 1, max: 999 }),
        (seed, longest, size) => {
          const shape = { count: 5, vocabularySize: size, longest }
          const rows = drawProbes(keyFromSeed(seed), shape)
          expect(rows).toEqual(drawProbes(keyFromSeed(seed), shape))
          for (const row of rows) {
            expect(row.length >= 2 && row.length <= longest).toBe(true)
            expect(row.every((id) => id >= 0 && id < size)).toBe(true)
          }
        },
      ),
    )
    expect(() => drawProbes(keyFromSeed(1), { count: 1, vocabularySize: 2, longest: 1 })).toThrow('at least 2')
  })
})

describe('probeGap', () => {
  it('counts a number that is missing as infinitely wrong', () => {
    expect(probeGap([[-1], [Number.NaN]], [[-1], [-1]])).toEqual({ worst: Infinity, mean: Infinity, probe: 1 })
  })
})
