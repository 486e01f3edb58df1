/** Scripted policies and environments, the clock that is moved by hand, and faults on purpose. */
import { type Clock, child, keyFromSeed, uniformInteger } from '@tandem-rl/base'
import { message } from '@tandem-rl/text'
import fc from 'fast-check'
import * as E from 'fp-ts/lib/Either.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { LLMCollector, MCAdvantage, type TextPrompt } from 'tandem-rl'
import { trajectoryReturns } from 'tandem-rl/async'
import { data, get, ragged, raggedRows, TensorDict } from 'tandem-rl/tensordict'
import { describe, expect, it } from 'vitest'
import { useEngine, valuesOf } from '../../../test/kit/engine.js'
import { leftOf, rightOf } from '../../../test/kit/results.js'
import { tokenPrompt } from '../../../test/kit/small.js'
import { envLaws } from '../src/envLaws.js'
import { fakeClock } from '../src/fakeClock.js'
import { type FaultyCall, failNth, withFaults } from '../src/faults.js'
import { checkLaws } from '../src/law.js'
import { type ScriptedEpisode, scriptedEnv } from '../src/scriptedEnv.js'
import { policyFailure, scriptedHistoryPolicy, scriptedPolicy, scriptedTextPolicy } from '../src/scriptedPolicy.js'

useEngine()

const key = keyFromSeed(1)

const promptOf = (...rows: readonly (readonly number[])[]) => tokenPrompt(rows)

const textOf = (...texts: readonly string[]): TensorDict<TextPrompt> =>
  TensorDict({ text: { prompt: data(texts) } }, [texts.length])

describe('a scripted policy', () => {
  it('replays its list, element by element and call by call, and fails at its end without losing the rest', async () => {
    const policy = scriptedPolicy({ answers: [[5], [6, 7], [8]] })
    const action = await rightOf(policy.act(promptOf([1], [2]), key))
    expect(raggedRows(get(action, 'tokens', 'response'))).toEqual([[5], [6, 7]])
    expect(raggedRows(get(action, 'logProbs', 'response'))).toEqual([[-1], [-1, -1]])
    const failure = await leftOf(policy.act(promptOf([1], [2]), key))
    expect(failure.reason).toBe('the script has 3 answers; 2 were used and 2 more are requested')
    const last = await rightOf(policy.act(promptOf([1]), key))
    expect(raggedRows(get(last, 'tokens', 'response'))).toEqual([[8]])
  })

  it('ends a wait when the signal aborts, uses nothing of its list, and fails with the kind that a test requests', async () => {
    const clock = fakeClock()
    const gone = policyFailure('gone', 'ScriptedPolicy', 'infrastructure')
    const policy = scriptedPolicy({
      answers: [[5]],
      faults: (call) => {
        if (call === 0) return { _tag: 'Wait', until: () => clock.reaches(5) }
        return call === 1 ? { _tag: 'Fail', failure: gone } : undefined
      },
    })
    const control = new AbortController()
    const waiting = policy.act(promptOf([1]), key, { signal: control.signal })()
    control.abort()
    expect(await waiting).toMatchObject({ _tag: 'Left', left: { kind: 'cancelled' } })
    expect(await leftOf(policy.act(promptOf([1]), key))).toEqual(gone)
    expect(await leftOf(policy.act(promptOf([1]), key, { signal: control.signal }))).toMatchObject({
      kind: 'cancelled',
    })
    const action = await rightOf(policy.act(promptOf([1]), key))
    expect(raggedRows(get(action, 'tokens', 'response'))).toEqual([[5]])
  })

  it('answers each element from its own state and its own key', async () => {
    const policy = scriptedPolicy({
      answers: (state, own) => [...raggedRows(get(state, 'tokens', 'prompt'))[0]!, uniformInteger(own, 100)],
    })
    const action = await rightOf(policy.act(promptOf([1], [2]), key))
    expect(raggedRows(get(action, 'tokens', 'response'))).toEqual([
      [1, uniformInteger(child(key, 0), 100)],
      [2, uniformInteger(child(key, 1), 100)],
    ])
  })

  it('stamps its samples as configured', async () => {
    const policy = scriptedPolicy({
      answers: [{ ids: [5, 6], logProbs: [-0.5, -0.25], stopReason: 'length' }],
      policyVersion: 3,
      sampling: { temperature: 0.5 },
    })
    const action = await rightOf(policy.act(promptOf([1]), key))
    expect(raggedRows(get(action, 'logProbs', 'response'))).toEqual([[-0.5, -0.25]])
    expect(get(action, 'stopReason').items.toArray()).toEqual(['length'])
    expect(get(action, 'policyVersion').items.toArray()).toEqual([3])
    expect(get(action, 'sampling').items.first()).toMatchObject({ temperature: 0.5, topK: null })
  })

  it('remembers what it was asked, also where it failed', async () => {
    const policy = scriptedPolicy({ answers: [[5]] })
    const states = [promptOf([1]), promptOf([2])]
    for (const state of states) await policy.act(state, key)()
    expect(policy.calls()).toEqual(states.map((state) => ({ state, key })))
    policy.act(promptOf([3]), key) // a task that does not run is no call
    expect(policy.calls()).toHaveLength(2)
  })

  it('speaks text and messages', async () => {
    const texts = scriptedTextPolicy({ answers: ['four', { text: 'fi', stopReason: 'length' }] })
    const said = await rightOf(texts.act(textOf('2+2?', '2+3?'), key))
    expect(get(said, 'text', 'response').items.toArray()).toEqual(['four', 'fi'])
    expect(get(said, 'stopReason').items.toArray()).toEqual(['stop', 'length'])
    const cut = message('assistant', 'fi', { isComplete: false })
    const messages = scriptedHistoryPolicy({ answers: ['four', cut] })
    const replies = await rightOf(messages.act(TensorDict({ history: { prompt: data([]) } }, [0]), key))
    expect(get(replies, 'history', 'response').items.size).toBe(0)
    const two = TensorDict({ history: { prompt: data([{}, {}]) } }, [2]) as never // no message is read
    expect(get(await rightOf(messages.act(two, key)), 'history', 'response').items.toArray()).toEqual([
      message('assistant', 'four'),
      cut,
    ])
  })

  it('fails, throws and waits by its plan', async () => {
    const clock = fakeClock()
    const plan = [
      { _tag: 'Fail', failure: policyFailure('overloaded') },
      { _tag: 'Throw', error: new Error('broken') },
      { _tag: 'Wait', until: () => clock.reaches(50) },
    ] as const
    const policy = scriptedPolicy({ answers: [[5], [6]], faults: (call) => plan[call] })
    expect((await leftOf(policy.act(promptOf([1]), key))).reason).toBe('overloaded')
    await expect(policy.act(promptOf([1]), key)()).rejects.toThrow('broken')
    const order: string[] = []
    const slow = policy
      .act(promptOf([1]), key)()
      .then(() => order.push('slow'))
    const fast = policy
      .act(promptOf([1]), key)()
      .then(() => order.push('fast'))
    await fast
    clock.advance(50)
    await slow
    expect(order).toEqual(['fast', 'slow'])
  })

  it('refuses a turn with another number of log-probabilities than ids, and a state without a batch axis', async () => {
    const policy = scriptedPolicy({ answers: [{ ids: [1, 2], logProbs: [-1] }] })
    await expect(policy.act(promptOf([1]), key)()).rejects.toThrow('1 log-probabilities for 2 ids')
    await expect(policy.act(TensorDict({}, []) as never, key)()).rejects.toThrow('no batch axis') // wrong on purpose
  })
})

const episodes: fc.Arbitrary<readonly ScriptedEpisode[]> = fc.array(
  fc.record(
    {
      rewards: fc.array(fc.integer({ min: -4, max: 4 }), { minLength: 1, maxLength: 3 }),
      prompt: fc.array(fc.nat(9), { minLength: 1, maxLength: 3 }),
      end: fc.constantFrom('terminated' as const, 'truncated' as const),
    },
    { requiredKeys: ['rewards'] },
  ),
  { minLength: 1, maxLength: 4 },
)

const talking = () => scriptedPolicy({ answers: (_, own) => [2 + uniformInteger(own, 5), 9] })

describe('a scripted environment', () => {
  const samples = fc.tuple(episodes, fc.nat(3)).map(([script, steps]) => ({
    env: scriptedEnv(script),
    act: () =>
      TensorDict(
        {
          tokens: {
            response: ragged(
              'int32',
              script.map(() => [5, 9]),
            ),
          },
        },
        [script.length],
      ) as never, // all that is read
    steps,
  }))
  checkLaws(it, envLaws(samples))

  it('plays the rewards, lengths and ends of its script, through the collector', async () => {
    await fc.assert(
      fc.asyncProperty(episodes, async (script) => {
        const collector = LLMCollector({ env: scriptedEnv(script), policy: talking(), key })
        using batch = (await rightOf(collector.collect(collector.start))).batch
        const td = batch.value
        expect(valuesOf(get(td, 'next', 'reward'))).toEqual(script.flatMap(({ rewards }) => rewards))
        expect(trajectoryReturns(td).map(({ rows }) => rows.length)).toEqual(
          script.map(({ rewards }) => rewards.length),
        )
        const ends = script.map(({ end = 'terminated' }) => end)
        for (const end of ['terminated', 'truncated'] as const) {
          const expected = script.flatMap(({ rewards }, i) =>
            rewards.map((_, t) => (t === rewards.length - 1 && ends[i] === end ? 1 : 0)),
          )
          expect(valuesOf(get(td, 'next', end))).toEqual(expected)
        }
        expect(raggedRows(get(td, 'tokens', 'prompt'))[0]).toEqual(script[0]!.prompt ?? [1])
      }),
      { numRuns: 12 },
    )
  })

  it('puts episodes of one group together, for advantages', async () => {
    const script = [1, 0, 0.5, 0.5].map((reward, i) => ({ rewards: [reward], groupId: i < 2 ? 'a' : 'b' }))
    const collector = LLMCollector({ env: scriptedEnv(script), policy: talking(), key })
    using batch = (await rightOf(collector.collect(collector.start))).batch
    const rated = MCAdvantage({ groupSize: 2, normalize: 'mean' })(batch.value)
    expect(raggedRows(get(rated, 'advantage')).map(([first]) => first)).toEqual([0.5, -0.5, 0, 0])
  })

  it.each<[string, readonly ScriptedEpisode[]]>([
    ['no episode', []],
    ['an episode without a turn', [{ rewards: [1] }, { rewards: [] }]],
    ['an episode without a prompt', [{ rewards: [1], prompt: [] }]],
  ])('refuses %s', (_, script) => {
    expect(() => scriptedEnv(script)).toThrow(RangeError)
  })
})

describe('fakeClock', () => {
  it('moves only on demand, and never back', async () => {
    const clock = fakeClock(5)
    await clock.breathe()
    expect(clock.now()).toBe(5)
    clock.advance(2.5)
    expect(clock.now()).toBe(7.5)
    for (const ms of [-1, Number.NaN, Number.POSITIVE_INFINITY]) expect(() => clock.advance(ms)).toThrow(RangeError)
  })

  it('lets those go on, in the order of their moments, who waited for a moment up to now', async () => {
    const moments = fc.array(fc.nat(20), { minLength: 1, maxLength: 6 })
    await fc.assert(
      fc.asyncProperty(moments, fc.nat(20), async (wanted, now) => {
        const clock = fakeClock()
        const reached: number[] = []
        for (const ms of wanted) void clock.reaches(ms).then(() => reached.push(ms))
        clock.advance(now)
        await clock.reaches(now)
        expect([...reached].sort((a, b) => a - b)).toEqual(wanted.filter((ms) => ms <= now).sort((a, b) => a - b))
        const later = reached.filter((ms) => ms > 0)
        expect(later).toEqual([...later].sort((a, b) => a - b))
      }),
    )
  })
})

describe('withFaults', () => {
  const counter = (): { readonly add: (n: number) => TE.TaskEither<string, number>; readonly now: Clock['now'] } => ({
    add: (n) => TE.right(n + 1),
    now: () => 7,
  })

  it('lets through what is not planned, and disturbs what is', async () => {
    const faulty = withFaults(counter(), failNth('add', 1, 'second'))
    expect([await faulty.add(1)(), await faulty.add(2)(), await faulty.add(3)()]).toEqual([
      E.right(2),
      E.left('second'),
      E.right(4),
    ])
    expect(faulty.now()).toBe(7)
  })

  it('counts a call when it runs, for each operation by itself, with its arguments', async () => {
    const seen: FaultyCall<{ readonly add: unknown }>[] = []
    const faulty = withFaults({ ...counter(), sub: (n: number) => TE.right(n - 1) }, (call) => {
      seen.push(call as never) // all operations are seen
      return undefined
    })
    faulty.add(0)
    await faulty.sub(1)()
    const task = faulty.add(2)
    await task()
    await task()
    expect(seen.map(({ operation, number, args }) => [operation, number, ...args])).toEqual([
      ['sub', 0, 1],
      ['add', 0, 2],
      ['add', 1, 2],
    ])
  })

  it('does not begin a call before its wait is over', async () => {
    const clock = fakeClock()
    const order: string[] = []
    const noted = { add: () => TE.fromIO<void, never>(() => void order.push('call')) }
    const faulty = withFaults(noted, () => ({ _tag: 'Wait', until: () => clock.reaches(1) }))
    const running = faulty.add()()
    order.push('waiting')
    clock.advance(1)
    await running
    expect(order).toEqual(['waiting', 'call'])
  })

  it.each([-1, 0.5])('has no call with the number %d', (number) => {
    expect(() => failNth('add', number, 'no')).toThrow(RangeError)
  })
})
