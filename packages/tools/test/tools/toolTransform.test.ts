/** Tools as a transform of an environment: what a message's calls make of the conversation, its state and its end. */
import { keyFromSeed, limiter, orThrow, describe as told } from '@tandem-rl/base'
import { checkLaws, envLaws, erased, scriptedHistoryPolicy, transformLaws } from '@tandem-rl/testing'
import { History, type Message, message, appendMessage as say, type ToolCall, textOf } from '@tandem-rl/text'
import { own, scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import fc from 'fast-check'
import { pipe } from 'fp-ts/lib/function.js'
import { describe, expect, it } from 'vitest'
import { dataSpec } from '../../../../src/data/spec.js'
import { data } from '../../../../src/data/tensorDict/leaf.js'
import { take } from '../../../../src/data/tensorDict/selecting.js'
import { get, TensorDict } from '../../../../src/data/tensorDict/tensorDict.js'
import { ChatEnv } from '../../../../src/envs/chatEnv.js'
import { rollout } from '../../../../src/envs/rollout.js'
import { StepCounter } from '../../../../src/envs/transforms/stepCounter.js'
import { append } from '../../../../src/envs/transforms/transform.js'
import { answered, asking, refused } from '../../../../test/kit/conversation.js'
import { useEngine } from '../../../../test/kit/engine.js'
import { adder, callOf, echo, failing, finisher, waiting } from '../../../../test/kit/tools.js'
import {
  ExecuteToolsInOrder,
  SimpleToolTransform,
  type SimpleToolTransformOptions,
} from '../../src/tools/simpleToolTransform.js'
import { ToolRegistry } from '../../src/tools/toolRegistry.js'

useEngine()

const registry = ToolRegistry([adder, echo, failing])
const key = keyFromSeed(3)

const calling = (...toolCalls: readonly ToolCall[]): Message => message('assistant', 'Let me see.', { toolCalls })
const act = (...messages: readonly Message[]) =>
  TensorDict({ history: { response: data(messages) } }, [messages.length])

const envOf = (batchSize: number, options: Partial<SimpleToolTransformOptions> = {}) =>
  pipe(ChatEnv({ batchSize }), append(SimpleToolTransform({ registry, ...options })))

type Env = ReturnType<typeof envOf>
type State =
  Awaited<ReturnType<ReturnType<Env['reset']>>> extends infer R ? (R extends { right: infer T } ? T : never) : never

const reset = (env: Env) =>
  answered(env.reset(asking(...Array.from({ length: env.batchSize }, (_, i) => `Q${i}`)), key))

/** The messages of the environment after the policy's last one. */
const said = (state: State, i = 0): readonly string[] =>
  get(state, 'history', 'prompt')
    .items.get(i)!
    .messages.toArray()
    .reverse()
    .reduce<readonly [string[], 'open' | 'closed']>(
      ([texts, is], each) =>
        is === 'closed' || each.role === 'assistant' ? [texts, 'closed'] : [[textOf(each), ...texts], 'open'],
      [[], 'open'],
    )[0]

/** Plays the messages of one conversation; gives what was said after each, and how the last step ended. */
const play = async (env: Env, ...messages: readonly Message[]) => {
  let held = own(await reset(env))
  const heard: (readonly string[])[] = []
  let end = {}
  for (const each of messages) {
    const next = own(await answered(env.step(held.value, act(each))))
    held.release()
    heard.push(said(next.value as State))
    end = Object.fromEntries(
      (['terminated', 'truncated', 'done'] as const).map((flag) => [flag, get(next.value, flag).dataSync()[0]]),
    )
    held = next as typeof held // a stepped state is a state
  }
  const [calls, errors] = (['toolCalls', 'toolErrors'] as const).map((name) => get(held.value, name).items.get(0))
  const counts = { calls, errors }
  held.release()
  return { heard, end, counts }
}

const OPEN = { terminated: 0, truncated: 0, done: 0 }

const asked = History([message('user', 'Go')])
const anyReply = fc
  .array(
    fc.oneof(
      fc.nat(9).map((by) => callOf('add', { by })),
      fc.constant(callOf('none')),
    ),
    { maxLength: 3 },
  )
  .map((calls) => calling(...calls))

const samples = fc.array(anyReply, { minLength: 1, maxLength: 3 }).map((messages) => ({
  inner: {
    observation: { history: { prompt: dataSpec<History>('History') } },
    action: { history: { response: dataSpec('Message') } },
  },
  state: () => TensorDict({ history: { prompt: data(messages.map(() => asked)) } }, [messages.length]),
  action: () => act(...messages),
  next: () => TensorDict({ history: { prompt: data(messages.map((each) => say(asked, each))) } }, [messages.length]),
}))

/** All laws but that of rows: each row draws a key of its own by its place, so that the members of a group throw other dice. */
const lawsOf = (t: ReturnType<typeof SimpleToolTransform>) =>
  transformLaws(fc.constant(erased(t)), samples).filter(({ name }) => !name.startsWith('rows:'))

describe('a reply that was cut off', () => {
  const open = '<tool_call>{"name": "add", "argum'
  const whole = '<tool_call>{"name": "add", "arguments": {"by": 1}}</tool_call>'

  it.each([
    ['in a call of its text', message('assistant', open, { isComplete: false }), 1],
    ['behind a call of its text', message('assistant', whole, { isComplete: false }), 1],
    ['in the second of two calls', message('assistant', whole + open, { isComplete: false }), 2],
    ['in a call of a message', { ...calling(callOf('add', {})), isComplete: false }, 1],
  ])('%s runs no call that did not end, and answers it as malformed', async (_, reply, count) => {
    const { heard, counts, end } = await play(envOf(1, { format: 'hermes' }), reply)
    expect(heard[0]!.at(-1)).toMatch(
      /^error: a call could not be parsed: the call of 'add': the (?:text ends|reply was cut)/,
    )
    expect(heard[0]).toHaveLength(count)
    expect([counts, end]).toEqual([{ calls: count, errors: 1 }, OPEN])
  })
})

describe('SimpleToolTransform', () => {
  checkLaws(it, lawsOf(SimpleToolTransform({ registry })))

  it('appends a result for each call of a message, and keeps the state of tools', async () => {
    const { heard, end, counts } = await play(
      envOf(1),
      calling(callOf('add', { by: 2 }), callOf('echo', { text: 'x' })),
      calling(callOf('add', { by: 40 })),
    )
    expect([heard, end, counts]).toEqual([[['2', 'x'], ['42']], OPEN, { calls: 3, errors: 0 }])
  })

  it('names the call and the tool in the message of a result', async () => {
    const env = envOf(1, { role: 'function' })
    const state = await reset(env)
    const next = own(await answered(env.step(state, act(calling({ ...callOf('echo', { text: 'x' }), id: 'c1' })))))
    const last = get(next.value, 'history', 'prompt').items.get(0)!.messages.last()
    expect(last).toMatchObject({ role: 'function', name: 'echo', toolCallId: 'c1' })
    next.release()
  })

  it('ends the episode with a message without a call, or lets it go on', async () => {
    const answer = message('assistant', 'It is 42.')
    expect((await play(envOf(1), answer)).end).toEqual({ terminated: 1, truncated: 0, done: 1 })
    expect(await play(envOf(1, { onNoCall: 'continue' }), answer)).toMatchObject({ end: OPEN, heard: [[]] })
  })

  it('terminates the episode of a call that replies with the status finish, and asks for no further turn', async () => {
    const answering = ToolRegistry([adder, finisher])
    const env = pipe(
      ChatEnv({ batchSize: 2 }),
      append(SimpleToolTransform({ registry: answering, onNoCall: 'continue' })),
    )
    const done = calling(callOf('answer', { text: '42' }))
    const policy = scriptedHistoryPolicy({ answers: [done, calling(callOf('add', { by: 1 })), done, done] })
    const request = asking('Q0', 'Q1')
    const steps = own(orThrow(await rollout(env, policy, { steps: 5, key, request })()))
    expect(policy.calls()).toHaveLength(2)
    expect(steps.value.batchShape).toEqual([2, 2])
    expect([...get(steps.value, 'next', 'terminated').dataSync()]).toEqual([1, 1, 0, 1])
    const ends = get(steps.value, 'next', 'history', 'prompt').items
    expect(textOf(ends.get(3)!.messages.last()!)).toBe('42')
    expect(get(steps.value, 'next', 'toolErrors').items.get(3)).toBe(0)
    steps.release()
  })

  it('skips the calls of a sequence after the one that ended the episode', async () => {
    const answering = ToolRegistry([adder, finisher])
    const env = pipe(ChatEnv({ batchSize: 1 }), append(ExecuteToolsInOrder({ registry: answering })))
    const { heard, end } = await play(env, calling(callOf('answer', { text: '1' }), callOf('add', { by: 1 })))
    expect(heard).toEqual([['1', 'error: not run, because an earlier call ended the episode']])
    expect(end).toMatchObject({ terminated: 1 })
  })

  it('runs a limited number of calls of a message, and returns an error for the others', async () => {
    const calls = [1, 2, 3].map((by) => callOf('add', { by }))
    const { heard, counts } = await play(envOf(1, { limits: { calls: 2 } }), calling(...calls), calling(calls[2]!))
    expect(heard).toEqual([['1', '3', 'error: not run: a message may have at most 2 calls'], ['6']])
    expect(counts).toEqual({ calls: 4, errors: 1 })
  })

  it('truncates an episode with more messages of calls than it may have, and does not run them', async () => {
    const call = calling(callOf('add', { by: 1 }))
    const limits = { rounds: 2 }
    expect(await play(envOf(1, { limits }), call, call)).toMatchObject({ heard: [['1'], ['2']], end: OPEN })
    const third = await play(envOf(1, { limits }), call, call, call)
    expect(third.heard).toEqual([['1'], ['2'], []])
    expect(third).toMatchObject({ end: { terminated: 0, truncated: 1, done: 1 }, counts: { calls: 2, errors: 0 } })
  })

  it('answers calls that could not be read, of a policy that speaks messages', async () => {
    const broken = message('assistant', '[malformed tool call] add({"by": 1)')
    const { heard, counts, end } = await play(envOf(1), broken)
    expect(heard).toEqual([['error: a call could not be parsed: it is cut off, or not written as a call']])
    expect([counts, end]).toEqual([{ calls: 1, errors: 1 }, OPEN])
  })

  it('answers the last call of a reply that was cut off as malformed, written in text or native', async () => {
    const cutOff = { isComplete: false }
    const texts = [
      '<tool_call>{"name": "add", "argum',
      '<tool_call>{"name": "add", "arguments": {"by": 2}}</tool_call>',
    ]
    for (const text of texts) {
      const { heard, counts } = await play(envOf(1, { format: 'hermes' }), message('assistant', text, cutOff))
      expect(heard).toEqual([[expect.stringMatching(/^error: a call could not be parsed: the call of 'add': /)]])
      expect(counts).toEqual({ calls: 1, errors: 1 })
    }
    const native = message('assistant', [], { toolCalls: [callOf('add', { by: 2 }), callOf('add')], ...cutOff })
    const { heard, counts } = await play(envOf(1), native)
    expect(heard[0]).toEqual(['2', expect.stringMatching(/^error: a call could not be parsed: .*cut off/)])
    expect(counts).toEqual({ calls: 2, errors: 1 })
  })

  it('reads calls out of text, given their format', async () => {
    const env = envOf(1, { format: 'hermes' })
    const text = (calls: string): Message => message('assistant', `Now. ${calls}`)
    const { heard, counts } = await play(
      env,
      text('<tool_call>{"name": "add", "arguments": {"by": 2}}</tool_call>\n<tool_call>{"name": "echo"}</tool_call>'),
      text('<tool_call>{"name": "add", "arguments": {"by": }}</tool_call>'),
      calling(callOf('add', { by: 3 })),
    )
    expect(heard[0]).toMatchObject(['2', /^error: invalid arguments/].map((each) => expect.stringMatching(each)))
    expect(heard[1]).toEqual([expect.stringMatching(/^error: a call could not be parsed: the call of 'add': /)])
    expect(heard[2]).toEqual(['5'])
    expect(counts).toEqual({ calls: 4, errors: 2 })
    expect((await play(env, text(''))).end).toMatchObject({ done: 1 })
  })

  it('reads arguments that have no types in the text as the schemas of the tools say', async () => {
    const text = '<tool_call>\n<function=add>\n<parameter=by>\n2\n</parameter>\n</function>\n</tool_call>'
    expect((await play(envOf(1, { format: 'qwen3_coder' }), message('assistant', text))).heard).toEqual([['2']])
  })

  it('answers a call by the id that its text has', async () => {
    const env = envOf(1, { format: 'mistral' })
    using held = own(await reset(env))
    const text = '[TOOL_CALLS][{"name": "add", "arguments": {"by": 2}, "id": "abcdefgh1"}]'
    using next = own(await answered(env.step(held.value, act(message('assistant', text)))))
    expect(get(next.value, 'history', 'prompt').items.get(0)!.messages.last()!.toolCallId).toBe('abcdefgh1')
  })

  it('law: a state that is stepped again, alone or among others, gives the same', async () => {
    const replies = fc.array(fc.tuple(anyReply, anyReply, anyReply), { minLength: 1, maxLength: 4 })
    await fc.assert(
      fc.asyncProperty(replies, fc.nat(), async (rows, pick) => {
        const env = envOf(rows.length, { onNoCall: 'continue' })
        const one = envOf(1, { onNoCall: 'continue' })
        const step = (state: State, turn: number, from: typeof rows) =>
          answered(env.step(state, act(...from.map((each) => each[turn]!)))) as Promise<State>
        const held = own(await step(await reset(env), 0, rows))
        const i = pick % rows.length
        const whole = own(await step(held.value, 1, rows))
        const alone = own(scope(() => take(held.value, [i])) as State)
        const fork = own(await answered(one.step(alone.value, act(rows[i]![1]))))
        const other = own(await answered(one.step(alone.value, act(rows[i]![2]))))
        const again = own(await answered(one.step(alone.value, act(rows[i]![1]))))
        for (const path of [['history', 'prompt'], ['toolCalls'], ['tools', 'states'], ['tools', 'keys']] as const) {
          const entry = (td: State, row: number) => get(td, ...(path as ['toolCalls'])).items.get(row) // all of them are Data
          expect(entry(fork.value as State, 0)).toEqual(entry(whole.value, i))
          expect(entry(again.value as State, 0)).toEqual(entry(whole.value, i))
        }
        for (const each of [held, whole, alone, fork, other, again]) each.release()
      }),
      { numRuns: 30 },
    )
  })

  it('runs nothing for an episode that is over', async () => {
    const slow = waiting()
    const env = pipe(
      ChatEnv({ batchSize: 1 }),
      append(StepCounter({ maxSteps: 1 })),
      append(SimpleToolTransform({ registry: ToolRegistry([slow.tool]) })),
    )
    const state = await answered(env.reset(asking('Q'), key))
    const held = own(state)
    const next = own(await answered(env.step(held.value, act(calling(callOf('wait', { text: 'a' }))))))
    expect(slow.began()).toEqual([])
    expect(get(next.value, 'history', 'prompt').items.get(0)!.messages.size).toBe(2)
    held.release()
    next.release()
  })

  it('fails with its cause where a tool is dead, and calls the other conversations of the batch off', async () => {
    const slow = waiting()
    const env = envOf(2, { registry: ToolRegistry([slow.tool, failing]) })
    const state = await reset(env)
    const action = act(calling(callOf('wait', { text: 'a' })), calling(callOf('fail', { kind: 'infrastructure' })))
    const failure = await refused(env.step(state, action))
    expect(told(failure)).toBe(
      "SimpleToolTransform: the tool 'fail' failed: the tool 'fail': as infrastructure as can be",
    )
    expect(slow.aborted()).toEqual(['a'])
  })

  it('calls its tools off when nobody waits for the step any more', async () => {
    const [slow, caller] = [waiting(), new AbortController()]
    const env = pipe(envOf(1, { registry: ToolRegistry([slow.tool]), limiter: limiter(1) }), append(StepCounter()))
    const state = own(await answered(env.reset(asking('Q'), key)))
    const action = act(calling(callOf('wait', { text: 'a' }), callOf('wait', { text: 'b' })))
    const running = refused(env.step(state.value, action, { signal: caller.signal }))
    await slow.hasBegun(1)
    caller.abort()
    expect((await running).cause).toMatchObject({ kind: 'infrastructure', reason: 'the call was cancelled' })
    expect([slow.began(), slow.aborted()]).toEqual([['a'], ['a']])
    state.release()
  })

  it('refuses limits below 1, all at once', () => {
    expect(() => SimpleToolTransform({ registry, limits: { calls: 0, rounds: 0.5, timeoutMs: Number.NaN } })).toThrow(
      'SimpleToolTransform: maxCalls must be at least 1, got 0; maxRounds must be at least 1, got 0.5; timeoutMs must be at least 1, got NaN',
    )
  })
})

describe('an environment with tools', () => {
  const conversations = fc.tuple(anyReply, anyReply).map((replies) => ({
    env: envOf(2),
    request: () => asking('Q0', 'Q1'),
    act: () => act(...replies),
    steps: 2,
  }))
  checkLaws(it, envLaws(conversations))
})

describe('ExecuteToolsInOrder', () => {
  checkLaws(it, lawsOf(ExecuteToolsInOrder({ registry, onError: 'stop' })))

  it('runs calls one after the other, and stops at the first that does not succeed, if it is to', async () => {
    const slow = waiting()
    const tools = ToolRegistry([slow.tool, failing])
    const env = pipe(ChatEnv({ batchSize: 1 }), append(ExecuteToolsInOrder({ registry: tools, onError: 'stop' })))
    const calls = [callOf('wait', { text: 'a' }), callOf('wait', { text: 'b' }), callOf('fail', { kind: 'failed' })]
    const running = answered(env.step(await reset(env as Env), act(calling(...calls, callOf('wait', { text: 'c' })))))
    await slow.hasBegun(1)
    expect(slow.began()).toEqual(['a'])
    slow.answer('a')
    await slow.hasBegun(2)
    slow.answer('b')
    const next = own(await running)
    expect(said(next.value as State)).toEqual([
      'a',
      'b',
      'error: as failed as can be',
      'error: not run, because an earlier call did not succeed',
    ])
    next.release()
  })
})
