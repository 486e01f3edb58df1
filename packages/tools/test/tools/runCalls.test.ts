/** Calls of one message: their order, their limits, and the error of each that fails. */
import { keyFromSeed, limiter, uniform } from '@tandem-rl/base'
import { liveTimers } from '@tandem-rl/base/host'
import type { ToolCall } from '@tandem-rl/text'
import fc from 'fast-check'
import * as E from 'fp-ts/lib/Either.js'
import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import { manualTime, settle } from '../../../../test/kit/manualTime.js'
import { adder, callOf, echo, failing, waiting } from '../../../../test/kit/tools.js'
import { type LateCall, type RunCallsOptions, runCalls, type ToolStates } from '../../src/tools/runCalls.js'
import { tool } from '../../src/tools/tool.js'
import { ToolRegistry, toolSpecs } from '../../src/tools/toolRegistry.js'

const key = keyFromSeed(1)
const signal = new AbortController().signal

const options = (more: Partial<RunCallsOptions> = {}): RunCallsOptions => ({
  order: 'parallel',
  onError: 'continue',
  timeoutMs: 60_000,
  timers: liveTimers,
  limiter: limiter(8),
  onLate: () => {},
  ...more,
})

const registry = ToolRegistry([adder, echo, failing])

const given = (calls: readonly ToolCall[], states: ToolStates = {}) => ({ calls, states, key, signal })

const contents = async (calls: readonly ToolCall[], more: Partial<RunCallsOptions> = {}) => {
  const ran = await runCalls(registry, given(calls), options(more))()
  return E.map(({ observations }: { readonly observations: readonly { readonly content: unknown }[] }) =>
    observations.map(({ content }) => content),
  )(ran)
}

describe('ToolRegistry', () => {
  it('tells templates its tools as servers know them', () => {
    expect(toolSpecs(ToolRegistry([echo]))).toEqual([
      { type: 'function', function: { name: 'echo', description: 'Says it again.', parameters: echo.parameters } },
    ])
  })

  it('refuses names that are empty or there twice, all at once', () => {
    const nameless = { ...echo, name: '' }
    expect(() => ToolRegistry([echo, nameless, echo, adder, adder])).toThrow(
      "ToolRegistry: tool 1 has no name; 2 tools are named 'echo'; 2 tools are named 'add'",
    )
  })
})

describe('runCalls', () => {
  it.each(['sequence', 'parallel'] as const)(
    'law: gives one result for each call, in their order (%s)',
    async (order) => {
      const call = fc.oneof(
        fc.integer({ min: -9, max: 9 }).map((by) => callOf('add', { by })),
        fc.string().map((text) => callOf('echo', { text })),
        fc.constantFrom('failed', 'throw').map((kind) => callOf('fail', { kind })),
        fc.string().map((name) => callOf(`?${name}`)),
      )
      await fc.assert(
        fc.asyncProperty(fc.array(call, { maxLength: 12 }), fc.integer(), async (calls, start) => {
          const ran = await runCalls(registry, given(calls, { add: start }), options({ order }))()
          if (E.isLeft(ran)) throw new Error(ran.left.reason)
          const { observations, states } = ran.right
          expect(observations.map((each) => each.call)).toEqual(calls)
          let sum = start
          for (const [i, { name, arguments: args }] of calls.entries()) {
            const { outcome, content } = observations[i]!
            if (name === 'add') sum += Number(args.by)
            if (name === 'add') expect([outcome, content]).toEqual(['ok', String(sum)])
            else if (name === 'echo') expect([outcome, content]).toEqual(['ok', args.text])
            else
              expect([outcome, String(content).startsWith('error: ')]).toEqual([
                name === 'fail' ? 'failed' : 'unknown',
                true,
              ])
          }
          expect(states).toEqual({ ...(calls.some(({ name }) => name === 'echo') && { echo: null }), add: sum })
        }),
      )
    },
  )

  it('reports the mistake in a call', async () => {
    const calls = [
      callOf('add', { by: 'two' }),
      callOf('fail', { kind: 'failed' }),
      callOf('fail', { kind: 'throw' }),
      callOf('minus'),
      callOf('__proto__'),
      callOf('\ud800'.repeat(1000)),
    ]
    const right = await contents(calls)
    if (E.isLeft(right)) throw new Error('there are observations')
    expect(right.right[0]).toMatch(/^error: invalid arguments: .*by/s)
    expect(right.right.slice(1, 5)).toEqual([
      'error: as failed as can be',
      'error: it broke',
      'error: there is no tool "minus"; available: add, echo, fail',
      'error: there is no tool "__proto__"; available: add, echo, fail',
    ])
    expect(right.right[5]).toMatch(/^error: there is no tool "(\\ud800){13}\\\.\.\.; available: add, echo, fail$/)
  })

  it('leaves out what follows a call that did not succeed, if it is to stop', async () => {
    const calls = [callOf('add', { by: 1 }), callOf('fail', { kind: 'failed' }), callOf('add', { by: 1 })]
    const stopped = await contents(calls, { order: 'sequence', onError: 'stop' })
    const last = 'error: not run, because an earlier call did not succeed'
    expect(stopped).toEqual(E.right(['1', 'error: as failed as can be', last]))
    expect(await contents(calls, { order: 'sequence' })).toEqual(E.right(['1', 'error: as failed as can be', '2']))
  })

  it('makes a tool that is dead a failure, and calls off what still runs', async () => {
    const slow = waiting()
    const tools = ToolRegistry([slow.tool, failing])
    const calls = [callOf('wait', { text: 'a' }), callOf('fail', { kind: 'infrastructure' })]
    const ran = await runCalls(tools, given(calls), options())()
    expect(ran).toMatchObject(E.left({ kind: 'infrastructure', tool: 'fail', reason: 'as infrastructure as can be' }))
    expect(slow.aborted()).toEqual(['a'])
  })

  it('ends a call at its limit, aborts its signal, and tells of the reply that comes late', async () => {
    const [slow, time, late] = [waiting(), manualTime(), [] as LateCall[]]
    const tools = ToolRegistry([slow.tool, echo])
    const calls = [callOf('wait', { text: 'a' }), callOf('echo', { text: 'b' })]
    const running = runCalls(
      tools,
      given(calls),
      options({ timeoutMs: 1000, timers: time, onLate: (each) => late.push(each) }),
    )()
    await slow.hasBegun(1)
    time.pass(999)
    await settle()
    expect(slow.aborted()).toEqual([])
    time.pass(1)
    const ran = await running
    expect(E.map(({ observations }: { readonly observations: unknown }) => observations)(ran)).toEqual(
      E.right([
        { call: calls[0], outcome: 'timeout', content: 'error: no answer within 1000 ms' },
        { call: calls[1], outcome: 'ok', content: 'b' },
      ]),
    )
    expect([slow.aborted(), late, time.waits()]).toEqual([['a'], [], []])
    slow.answer('a')
    await settle()
    expect(late).toEqual([{ tool: 'wait', call: calls[0], outcome: 'ok' }])
  })

  it('runs no more calls at a time than the limiter has places, and counts their time from when they begin', async () => {
    const [slow, time] = [waiting(), manualTime()]
    const calls = ['a', 'b', 'c', 'd'].map((text) => callOf('wait', { text }))
    const running = runCalls(
      ToolRegistry([slow.tool]),
      given(calls),
      options({ limiter: limiter(2), timeoutMs: 1000, timers: time }),
    )()
    await slow.hasBegun(2)
    time.pass(900)
    slow.answer('b')
    await slow.hasBegun(3)
    expect([slow.began(), time.waits()]).toEqual([
      ['a', 'b', 'c'],
      [100, 1000],
    ])
    slow.answer('c')
    await slow.hasBegun(4)
    slow.answer('d')
    slow.answer('a')
    expect(await running).toMatchObject(
      E.right({ observations: calls.map(({ arguments: { text } }) => ({ content: text })) }),
    )
  })

  it('is cancelled by its signal: running calls are aborted, waiting calls do not start', async () => {
    const [slow, caller] = [waiting(), new AbortController()]
    const calls = ['a', 'b'].map((text) => callOf('wait', { text }))
    const all = { calls, states: {}, key, signal: caller.signal }
    const running = runCalls(ToolRegistry([slow.tool]), all, options({ limiter: limiter(1) }))()
    await slow.hasBegun(1)
    caller.abort()
    expect(await running).toMatchObject(E.left({ kind: 'infrastructure', reason: 'the call was cancelled' }))
    expect([slow.began(), slow.aborted()]).toEqual([['a'], ['a']])
  })

  it('gives each call randomness of its own, the same for equal keys', async () => {
    const dice = tool({
      name: 'dice',
      description: '',
      parameters: { sides: z.number() },
      initial: null,
      run: async ({ sides }, context) => ({ content: String(Math.floor(uniform(context.key) * sides)), state: null }),
    })
    const calls = Array.from({ length: 20 }, () => callOf('dice', { sides: 1e9 }))
    const roll = () => runCalls(ToolRegistry([dice]), given(calls), options())()
    const [first, again] = [await roll(), await roll()]
    expect(first).toEqual(again)
    if (E.isLeft(first)) throw new Error(first.left.reason)
    expect(new Set(first.right.observations.map(({ content }) => content)).size).toBe(20)
  })
})
