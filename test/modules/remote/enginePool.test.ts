import { keyFromSeed } from '@tandem-rl/base'
import { requireLeft, requireRight } from '@tandem-rl/testing'
import type { GenerationEvent, GenerationFailure, GenerationRequest } from '@tandem-rl/text'
import fc from 'fast-check'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { afterEach, describe, expect, it } from 'vitest'
import type { EngineAbilities, EngineClient, EngineFailure } from '../../../src/data/engineClient.js'
import { type Generated, generateAll } from '../../../src/modules/generation/generateAll.js'
import { enginePolicy } from '../../../src/modules/generation/policy/enginePolicy.js'
import { DEFAULT_SAMPLING } from '../../../src/modules/generation/sampling/params.js'
import { type EnginePool, type EnginePoolOptions, enginePool } from '../../../src/modules/remote/enginePool.js'
import { localClient } from '../../../src/modules/remote/localClient.js'
import { type EventEngine, eventEngine, goodEvents, HANG, started, tokenOf, tokensOf } from '../../kit/eventEngine.js'
import { scriptedEngine as plannedEngine } from '../../kit/plannedEngine.js'
import { leftOf, rightOf } from '../../kit/results.js'
import { byteTokenizer, scriptedEngine } from '../../kit/scriptedEngine.js'
import { tokenPrompt } from '../../kit/small.js'

type Answer = Parameters<typeof eventEngine>[0]

interface Told extends EventEngine, EngineClient {
  health: EngineClient['health']
  state: EngineClient['state']
  connect: EngineClient['connect']
}

const down: EngineFailure = { _tag: 'EngineFailure', engine: 'x', kind: 'unreachable', reason: 'no route' }

/** A scripted member. */
const member = (name: string, answer: Answer = goodEvents, abilities: Partial<EngineAbilities> = {}): Told => {
  const never = TE.left(down)
  const inner = localClient(plannedEngine({ tokenizer: byteTokenizer, endToken: 0, says: () => '' }), name)
  return {
    ...inner,
    ...eventEngine(answer, abilities),
    name,
    health: TE.right(undefined),
    state: TE.right({ version: 0, isPaused: false, adapters: [] }),
    abort: () => never,
  }
}

const pools: EnginePool[] = []
afterEach(() => {
  for (const pool of pools.splice(0)) pool.close()
})

const poolOf = (clients: readonly EngineClient[], options: EnginePoolOptions = {}): EnginePool => {
  const pool = enginePool(clients, { healthMs: 2, ...options })
  pools.push(pool)
  return pool
}

let names = 0
const request = (changes: Partial<GenerationRequest> = {}): GenerationRequest => ({
  ...{ id: `r${names++}`, prompt: Int32Array.of(1), sampling: { ...DEFAULT_SAMPLING, maxTokens: 3 } },
  ...{ adapter: null, cacheSalt: '' },
  ...changes,
})

const failed = (kind: GenerationFailure['kind']): GenerationEvent => ({
  _tag: 'Failed',
  failure: { _tag: 'GenerationFailure', kind, reason: `it is ${kind}` },
})

const ask = async (pool: EnginePool, asked = request()) => (await generateAll(pool, [asked]))[0]!
const good = async (pool: EnginePool, asked = request()): Promise<Generated> => requireRight(await ask(pool, asked))

const stateOf = (pool: EnginePool, name: string) => pool.members().find((each) => each.name === name)!
const until = async (holds: () => boolean): Promise<void> => {
  while (!holds()) await new Promise((go) => setTimeout(go, 1))
}

describe('a pool', () => {
  it.each<readonly [string, Answer]>([
    ['is dead', () => [failed('unreachable')]],
    ['is closed', () => [failed('closed')]],
    ['is full', () => [failed('overloaded')]],
    ['lies', () => [started, failed('protocol')]],
    ['dies before its first token', () => [started, new Error('socket hang up')]],
    ['ends without a final event', () => [started]],
    ['hangs', () => [HANG]],
    ['hangs after it has begun', () => [started, HANG]],
  ])('answers by another member where one %s, and nothing is told twice', async (_, answer) => {
    const [bad, well] = [member('bad', answer), member('well')]
    const pool = poolOf([bad, well], { idleMs: 20 })
    const { completions } = await good(pool)
    expect(completions.map(({ tokens }) => tokens.map(({ id }) => id))).toEqual([[7]])
    expect([bad.seen.length, well.seen.length]).toEqual([1, 1])
    expect(pool.members().map(({ inFlight }) => inFlight)).toEqual([0, 0])
  })

  it('fails a request of which tokens were told, whatever befell it: another member would draw others', async () => {
    for (const end of [failed('unreachable'), new Error('reset'), HANG] as const) {
      const [bad, well] = [member('bad', () => [started, tokensOf(0, [tokenOf(7)]), end]), member('well')]
      const pool = poolOf([bad, well], { idleMs: 20 })
      expect(requireLeft(await ask(pool))._tag).toBe('GenerationFailure')
      expect(well.seen).toEqual([])
    }
  })

  it('does not ask others what is wrong with any', async () => {
    const [first, second] = [member('first', () => [failed('invalid')]), member('second')]
    const pool = poolOf([first, second])
    expect(requireLeft(await ask(pool)).kind).toBe('invalid')
    expect([second.seen.length, stateOf(pool, 'first').failures]).toEqual([0, 0])
  })

  it('reports every reason if all members fail', async () => {
    const pool = poolOf([member('a', () => [failed('closed')]), member('b', () => [failed('unreachable')])])
    expect(requireLeft(await ask(pool))).toMatchObject({ kind: 'unreachable' })
    const failure = requireLeft(await ask(pool, request()))
    pool.withdraw('b', 'its weights are not known')
    const last = requireLeft(await ask(pool))
    for (const word of ['a is withdrawn: it is closed', 'b is withdrawn: its weights are not known'])
      expect(last.reason).toContain(word)
    expect(failure.reason).toContain('it is unreachable')
  })

  it('ends with the signal, at the member too', async () => {
    const hanging = member('hanging', () => [started, HANG])
    const pool = poolOf([hanging, member('other')])
    const controller = new AbortController()
    const reading = generateAll(pool, [request()], { signal: controller.signal })
    await until(() => hanging.seen.length === 1)
    controller.abort()
    await reading
    expect([hanging.aborted(), stateOf(pool, 'hanging').inFlight, stateOf(pool, 'other').requests]).toEqual([1, 0, 0])
  })
})

describe('routing', () => {
  it('keeps a conversation, and prompts that begin alike, where their caches are; other requests go to the idlest', async () => {
    const all = ['a', 'b', 'c'].map((name) => member(name))
    const pool = poolOf(all)
    const given = (): readonly number[] => all.map(({ seen }) => seen.length)
    const hanging = member('hanging', () => [started, HANG])
    const prompt = Int32Array.from({ length: 64 }, (_, i) => i + 1)
    for (let i = 0; i < 3; i++) await good(pool, request({ conversation: 'talk' }))
    expect(given()).toEqual([3, 0, 0])
    pool.withdraw('a', 'away')
    for (let i = 0; i < 3; i++) await good(pool, request({ prompt: prompt.slice(0, 32 * (i + 1)) }))
    expect(given()).toEqual([3, 3, 0])
    pool.restore('a')
    await good(pool, request({ prompt }))
    expect(given()).toEqual([3, 4, 0])
    const busy = poolOf([hanging, all[2]!])
    const controller = new AbortController()
    const stuck = generateAll(busy, [request()], { signal: controller.signal })
    await until(() => hanging.seen.length === 1)
    await good(busy)
    expect(all[2]!.seen).toHaveLength(1)
    controller.abort()
    await stuck
  })
})

describe('a member', () => {
  it('is withdrawn after failures in a row, not in all, and comes back when it is well and has its weights', async () => {
    let answer: Answer = () => [failed('unreachable')]
    const bad = member('bad', (...asked) => answer(...asked))
    bad.health = TE.left(down)
    const pool = poolOf([bad, member('well')], { patience: 2 })
    await good(pool)
    answer = goodEvents
    await good(pool)
    answer = () => [failed('protocol')]
    await good(pool)
    expect(stateOf(pool, 'bad')).toMatchObject({ withdrawn: null, failures: 2 })
    await good(pool)
    expect(stateOf(pool, 'bad').withdrawn).toEqual({ by: 'failure', reason: 'it is protocol' })
    await until(() => stateOf(pool, 'bad').health === 'down')
    const before = bad.seen.length
    await Promise.all(Array.from({ length: 5 }, () => good(pool)))
    expect(bad.seen).toHaveLength(before)
    bad.state = TE.right({ version: 3, isPaused: false, adapters: [] })
    bad.health = TE.right(undefined)
    await until(() => stateOf(pool, 'bad').health === 'up')
    expect(stateOf(pool, 'bad').withdrawn).not.toBeNull()
    bad.state = TE.right({ version: 0, isPaused: false, adapters: [] })
    answer = goodEvents
    await until(() => stateOf(pool, 'bad').withdrawn === null)
    await Promise.all([good(pool), good(pool)])
    expect(bad.seen.length).toBeGreaterThan(before)
  })

  it('that serves an adapter comes back only when it has it', async () => {
    const bad = member('bad', () => [failed('unknown-adapter')])
    bad.serve({ version: 4, adapter: 'policy-v4', cacheSalt: '' })
    const pool = poolOf([bad, member('well')])
    await good(pool)
    await until(() => stateOf(pool, 'bad').health === 'up')
    expect(stateOf(pool, 'bad').withdrawn).not.toBeNull()
    bad.state = TE.right({ version: 0, isPaused: false, adapters: ['policy-v4'] })
    await until(() => stateOf(pool, 'bad').withdrawn === null)
  })

  it('withdrawn by order gets nothing until it is restored, or until whoever decides takes it back', async () => {
    const [a, b] = [member('a'), member('b')]
    const pool = poolOf([a, b])
    pool.withdraw('a', 'push failed')
    await until(() => stateOf(pool, 'a').health === 'up')
    await good(pool)
    expect([a.seen.length, stateOf(pool, 'a').withdrawn?.by]).toEqual([0, 'order'])
    pool.restore('a')
    await good(pool)
    expect(a.seen).toHaveLength(1)
    expect(() => pool.withdraw('c', 'typo')).toThrow("no member 'c'")
    const reconciling = poolOf([a, b], { readmit: () => TE.right(undefined) })
    reconciling.withdraw('a', 'push failed')
    await until(() => stateOf(reconciling, 'a').withdrawn === null)
  })

  it('whose health check hangs is asked again, in its time', async () => {
    let asked = 0
    const bad = member('bad', () => [failed('closed')])
    bad.health = () => {
      asked++
      return new Promise(() => {})
    }
    const pool = poolOf([bad, member('well')], { deadlineMs: 2 })
    await good(pool)
    await until(() => asked > 2)
    expect(stateOf(pool, 'bad').health).toBe('down')
    pool.close()
    const end = asked + 1
    for (let i = 0; i < 5; i++) await new Promise((go) => setTimeout(go, 3))
    expect(asked).toBeLessThanOrEqual(end)
  })
})

describe('what a pool can', () => {
  it('is what all of its members can; those that do not answer are withdrawn', async () => {
    const dead = member('dead')
    dead.connect = TE.left(down)
    const pool = poolOf([
      member('a', goodEvents, { maxModelLength: 20, logProbs: 'all', updates: ['adapter', 'full'] }),
      member('b', goodEvents, { maxConcurrent: 4, logProbs: 'raw', updates: ['full'], promptLogProbs: 'no' }),
      dead,
    ])
    expect(await rightOf(pool.connect)).toMatchObject({
      ...{
        maxModelLength: 20,
        maxConcurrent: 4,
        logProbs: 'raw',
        updates: ['full'],
        promptLogProbs: 'no',
        stamps: 'yes',
      },
    })
    expect(stateOf(pool, 'dead').withdrawn).toEqual({ by: 'failure', reason: 'no route' })
  })

  it.each<readonly [string, Partial<EngineAbilities>]>([
    ['different things', { logProbs: 'processed' }],
    ['different sizes', { vocabularySize: 99 }],
    ['different end tokens', { endTokens: [1] }],
  ])('is nothing where members have %s', async (word, abilities) => {
    const pool = poolOf([
      member('a', goodEvents, { logProbs: 'raw' }),
      member('b', goodEvents, { logProbs: 'raw', ...abilities }),
    ])
    expect(await leftOf(pool.connect)).toMatchObject({ kind: 'refused', reason: expect.stringContaining(word) })
  })

  it('is nothing where all refuse, which is nothing to wait for', async () => {
    const strangers = ['a', 'b'].map((name) => {
      const stranger = member(name)
      stranger.connect = TE.left({ ...down, kind: 'refused', reason: 'no such model' })
      return stranger
    })
    const pool = poolOf(strangers)
    expect(await leftOf(pool.connect)).toMatchObject({
      kind: 'refused',
      reason: expect.stringContaining('no such model'),
    })
    await until(() => pool.members().every(({ health }) => health === 'up'))
    expect(pool.members().map(({ withdrawn }) => withdrawn?.by)).toEqual(['failure', 'failure'])
  })

  it('is nothing where nobody answers in time, and names must differ', async () => {
    const hanging = member('hanging')
    hanging.connect = () => new Promise(() => {})
    const failure = await leftOf(poolOf([hanging], { deadlineMs: 2 }).connect)
    expect(failure).toMatchObject({ kind: 'unreachable', reason: expect.stringContaining('no answer within 2 ms') })
    expect(() => enginePool([member('a'), member('a')])).toThrow('unique names')
    expect(() => enginePool([])).toThrow('at least one')
  })
})

describe('a policy over a pool', () => {
  it('answers the same as over one engine, while members die one after the other', async () => {
    const prompts = [[3, 1], [3, 1], [4], [5], [6], [7, 7]]
    const sampling = { maxTokens: 5 }
    const only = localClient(scriptedEngine().engine, 'one')
    const one = enginePolicy({ engine: only, sampling })
    const wanted = await rightOf(one.act(tokenPrompt(prompts), keyFromSeed(2)))
    await only.close()
    const deaths = fc.array(fc.constantFrom('a', 'b', 'c'), { maxLength: 3 })
    await fc.assert(
      fc.asyncProperty(deaths, async (dying) => {
        const clients = ['a', 'b', 'c'].map((name) => localClient(scriptedEngine().engine, name))
        const pool = poolOf(clients)
        const policy = enginePolicy({ engine: pool, sampling })
        await rightOf(pool.connect)
        for (const name of dying) await clients.find((client) => client.name === name)!.close()
        const answer = await policy.act(tokenPrompt(prompts), keyFromSeed(2))()
        if (new Set(dying).size === 3) expect(requireLeft(answer).kind).toBe('infrastructure')
        else expect(requireRight(answer)).toEqual(wanted)
        await Promise.all(clients.map((client) => client.close()))
      }),
      { numRuns: 12 },
    )
  })
})
