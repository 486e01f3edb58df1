/** Chains of agents: what they play, what they tell, and what becomes of failures. */
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { orThrow } from '@tandem-rl/base'
import { textOf } from '@tandem-rl/text'
import { liveTensors } from '@tandem-rl/tfjs-onnxruntime/scope'
import { calculator, tool, toolFailure } from '@tandem-rl/tools'
import * as E from 'fp-ts/lib/Either.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { describe, expect, it, vi } from 'vitest'
import { z } from 'zod'
import { END, PLAIN_TEMPLATE, saying, scriptedBackend, smallText } from '../../../../test/kit/chains.js'
import { useEngine } from '../../../../test/kit/engine.js'
import type { AgentOptions } from '../../src/agents/agent.js'
import {
  ActionAgent,
  type AgentFactory,
  AutoAgent,
  CodeAgent,
  HFAgent,
  ReactAgent,
  SearchR1Agent,
} from '../../src/agents/agents.js'
import { ClientConfig } from '../../src/agents/backends/configs.js'
import type { ChainEvent, ChainObserver } from '../../src/agents/events.js'
import { agentMetrics } from '../../src/agents/metrics.js'

useEngine()

const ask = [{ role: 'user', content: 'What is 6 * 7?' }]
const model = 'small'

const said = (answers: readonly string[], make: AgentFactory, options: Partial<AgentOptions> = {}) =>
  make({ modelNameOrPath: model, tools: [calculator()], backendConfig: scriptedBackend(answers), ...options })

const CALL = '<tool_call>{"name": "calculator", "arguments": {"expression": "6 * 7"}}</tool_call>'

describe('a chain', () => {
  it('of HFAgent calls tools in the format of the template, token by token', async () => {
    const agent = said([CALL, 'It is 42.'], HFAgent, {
      rewardFn: ({ prediction }) => (prediction.includes('42') ? 1 : 0),
    })
    const before = liveTensors()
    const { trajectories, rewards } = await orThrow(agent.run({ messages: ask, maxTurns: 3 }))
    expect(liveTensors()).toEqual(before)
    expect(rewards).toEqual([1])
    const [chain] = trajectories
    expect(chain).toMatchObject({ finishReason: 'no_tool_calls', chainIdx: 0, groupIdx: 0, failure: null })
    expect(chain!.messages.map(({ role }) => role)).toEqual(['user', 'assistant', 'tool', 'assistant'])
    expect(chain!.messages.map(textOf).slice(2)).toEqual(['42', 'It is 42.'])
    expect(chain!.calls).toMatchObject([{ name: 'calculator', outcome: 'ok' }])
    const { tokenizer } = smallText()
    const { ids, mask, logProbs } = chain!.segments[0]!.tokens!
    const own = ids.filter((_, t) => mask[t] === 1)
    expect(tokenizer.decode(own, 'keep')).toBe(`${CALL}${END}It is 42.${END}`)
    expect(logProbs.filter((x) => !Number.isNaN(x))).toEqual(own.map(() => -1))
    expect(tokenizer.decode(ids, 'keep')).toContain('[tool]42[end][assistant]It is 42.')
    expect(tokenizer.decode(ids, 'keep')).toContain('"name": "calculator"') // the template shows the tools
  })

  it('of ReactAgent, CodeAgent and SearchR1Agent calls tools by text, with the tools in the system prompt', async () => {
    const react = said(['Thought: ?\nAction: calculator\nInput: 6 * 7', 'Final Answer: 42'], ReactAgent)
    const code = said(['```python\n6 * 7\n```', '42'], CodeAgent)
    const search = said(['<search>6 * 7</search> and <search>1</search>', '<answer>42</answer>!'], SearchR1Agent)
    for (const [agent, finishReason, result] of [
      [react, 'terminal', 'Observation: 42'],
      [code, 'no_tool_calls', 'Output: 42'],
      [search, 'terminal', '42'],
    ] as const) {
      const { trajectories } = await orThrow(agent.run({ messages: ask }))
      expect(trajectories[0]).toMatchObject({ finishReason, failure: null })
      expect(trajectories[0]!.messages.map(({ role }) => role)).toEqual([
        'system',
        'user',
        'assistant',
        'user',
        'assistant',
      ])
      expect(textOf(trajectories[0]!.messages[3]!)).toBe(result)
    }
    expect(react.systemPrompt).toContain('"name":"calculator"')
  })

  it('is cut behind the first closing tag, and keeps the tokens that were sampled', async () => {
    const agent = said(['<search>6 * 7</search> I found 43.', '<answer>42</answer>'], SearchR1Agent)
    const [chain] = (await orThrow(agent.run({ messages: ask }))).trajectories
    expect(textOf(chain!.messages[2]!)).toBe('<search>6 * 7</search>')
    const { tokenizer } = smallText()
    expect(tokenizer.decode(chain!.turns[0]!.tokens!.response, 'keep')).toBe(`<search>6 * 7</search> I found 43.${END}`)
    expect(tokenizer.decode(chain!.turns[1]!.tokens!.prompt, 'keep')).not.toContain('43')
    const { ids, mask } = chain!.segments[0]!.tokens!
    expect(
      tokenizer.decode(
        ids.filter((_, t) => mask[t] === 1),
        'keep',
      ),
    ).toBe(`<search>6 * 7</search><answer>42</answer>${END}`)
  })

  it('answers a call without a readable name as malformed, and continues', async () => {
    const agent = said(['<tool_call>{bad</tool_call>', 'It is 42.'], HFAgent)
    const [chain] = (await orThrow(agent.run({ messages: ask }))).trajectories
    expect(textOf(chain!.messages[2]!)).toContain('it is not written in the format of the model')
    expect(textOf(chain!.messages[3]!)).toBe('It is 42.')
  })

  it('calls no tools in thoughts, and is not cut there', async () => {
    const search = said(
      [
        '<think><search>1</search></think><search>6 * 7</search> x',
        '<think><answer>1</answer></think><answer>42</answer>',
      ],
      SearchR1Agent,
    )
    const [chain] = (await orThrow(search.run({ messages: ask }))).trajectories
    expect(textOf(chain!.messages[2]!)).toBe('<think><search>1</search></think><search>6 * 7</search>')
    expect(textOf(chain!.messages[3]!)).toContain('42')
    const thought = `<think>${CALL}</think>`
    const quiet = said([`${thought}It is 42.`], HFAgent)
    expect((await orThrow(quiet.run({ messages: ask }))).trajectories[0]!.messages).toHaveLength(2)
    const loud = said([`${thought}`, 'It is 42.'], HFAgent, { thoughts: 'searched' })
    expect((await orThrow(loud.run({ messages: ask }))).trajectories[0]!.messages).toHaveLength(4)
    const unclosed = said(['<think><search>1</search>', '<answer>42</answer>'], SearchR1Agent)
    const [last] = (await orThrow(unclosed.run({ messages: ask }))).trajectories
    expect(textOf(last!.messages[3]!)).toContain('no closing tag')
  })

  it('folds its context into segments', async () => {
    const act = '<action>{"name": "calculator", "arguments": {"expression": "6 * 7"}}</action>'
    const agent = said([act, '<summarize>It is 42.</summarize>', 'end task'], ActionAgent, { contextTriggerTurns: 1 })
    const [chain] = (await orThrow(agent.run({ messages: ask }))).trajectories
    expect(chain!.failure).toBe(null)
    expect(chain).toMatchObject({ finishReason: 'terminal' })
    expect(chain!.turns.map(({ segment }) => segment)).toEqual([0, 0, 1])
    const [first, second] = chain!.segments
    expect(textOf(first!.messages[3]!)).toMatch(/^Result: 42\n\nThe conversation is long/)
    expect(second!.messages.map(textOf).slice(1)).toEqual([
      'What is 6 * 7?',
      'Summary of the conversation so far:\nIt is 42.',
      'end task',
    ])
    const { tokenizer } = smallText()
    expect(tokenizer.decode(second!.tokens!.ids, 'keep')).not.toContain('Result: 42')
    expect(first!.tokens!.mask.filter((m) => m === 1)).toHaveLength(
      tokenizer.encode(`${act}${END}<summarize>It is 42.</summarize>${END}`).length,
    )
  })

  it('ends at its turns, its tokens, a finishing tool or the stop rule', async () => {
    const endless = Array.from({ length: 9 }, () => CALL)
    const reason = async (options: Partial<AgentOptions>, maxTurns: number) => {
      const agent = said(endless, HFAgent, options)
      return (await orThrow(agent.run({ messages: ask, maxTurns, generation: { maxNewTokens: 10 } }))).trajectories[0]!
    }
    expect(await reason({}, 2)).toMatchObject({ finishReason: 'max_turns', turns: { length: 2 } })
    expect(await reason({ maxModelLen: 700 }, 9)).toMatchObject({ finishReason: 'max_model_len' })
    expect(await reason({ stopWhen: (text) => text.includes('6 * 7') }, 9)).toMatchObject({
      finishReason: 'terminal',
      calls: [],
    })
    const done = tool({
      name: 'calculator',
      description: 'Ends.',
      parameters: { expression: z.string() },
      initial: null,
      run: () => TE.right({ content: 'done', status: 'finish', state: null }),
    })
    expect(await reason({ tools: [done] }, 9)).toMatchObject({
      finishReason: 'terminal',
      calls: [{ outcome: 'finish' }],
    })
  })
})

describe('a run', () => {
  it('plays numChains for each prompt, whatever the concurrency', async () => {
    const rows = ['1 + 1', '2 + 2'].map((query, i) => ({
      messages: [{ role: 'user', content: query }],
      answer: String(2 * i + 2),
    }))
    const answers = (maxConcurrentChains: number) => {
      const agent = said(
        Array.from({ length: 6 }, () => '2'),
        HFAgent,
        {
          rewardFn: ({ prediction, answer }) => (prediction === answer ? 1 : 0),
        },
      )
      return orThrow(agent.run({ messages: rows, numChains: 3, maxConcurrentChains }))
    }
    const one = await answers(1)
    expect(one.rewards).toEqual([1, 1, 1, 0, 0, 0])
    expect(one.trajectories.map(({ groupIdx, chainIdx }) => [groupIdx, chainIdx])).toEqual([
      [0, 0],
      [0, 1],
      [0, 2],
      [1, 0],
      [1, 1],
      [1, 2],
    ])
    expect(new Set(one.trajectories.map(({ groupId }) => groupId)).size).toBe(2)
    expect(new Set(one.trajectories.map(({ chainId }) => chainId)).size).toBe(6)
    expect((await answers(6)).rewards).toEqual(one.rewards)
  })

  it('marks a failed chain, and continues with the others', async () => {
    const flaky = tool({
      name: 'calculator',
      description: 'Fails once.',
      parameters: { expression: z.string() },
      initial: null,
      run: ({ expression }) =>
        expression === '0'
          ? TE.left(toolFailure('calculator', 'infrastructure', 'the server is gone'))
          : TE.right({ content: '1', state: null }),
    })
    const broken = '<tool_call>{"name": "calculator", "arguments": {"expression": "0"}}</tool_call>'
    const agent = said(['fine', broken, 'fine', 'fine'], HFAgent, { tools: [flaky], rewardFn: () => 1 })
    const before = liveTensors()
    const { trajectories, rewards } = await orThrow(agent.run({ messages: ask, numChains: 4, maxConcurrentChains: 1 }))
    expect(rewards).toEqual([1, null, 1, 1])
    expect(trajectories[1]).toMatchObject({ finishReason: 'failed', failure: { _tag: 'EnvFailure' } })
    expect(liveTensors()).toEqual(before)
  })

  it('has numbers beside a reward as its parts, in chains, events and metrics', async () => {
    const events: ChainEvent[] = []
    const agent = said([CALL, '42', 'no'], HFAgent, {
      rewardFn: ({ prediction }) =>
        prediction === '42' ? { reward: 1, brevity: 0.5, 'tool.calls': 1 } : { reward: 0, hedges: 2 },
    })
    const played = await orThrow(
      agent.run({ messages: ask, numChains: 2, maxConcurrentChains: 1, observers: [(event) => events.push(event)] }),
    )
    expect(played.rewards).toEqual([1, 0])
    const [right, wrong] = [
      { brevity: 0.5, 'tool.calls': 1, success: 1 },
      { hedges: 2, success: 0 },
    ]
    expect(played.rewardExtras).toEqual([right, wrong])
    expect(events.flatMap((event) => (event.type === 'reward' ? [event.extras] : []))).toEqual([right, wrong])
    expect(agentMetrics(played)['agent/rollout/reward_extra/brevity/mean']).toBe(0.25)
  })

  it.each([
    ['a text', { reward: 1, note: 'fine' }, "the part 'note' must be a finite number, got a value of type string"],
    [
      'a number that is not finite',
      { reward: 1, loss: Number.NaN },
      "the part 'loss' must be a finite number, got NaN",
    ],
    ['a part named success', { reward: 1, success: 0 }, "the part 'success' needs another name"],
    ['two parts under one entry', { reward: 1, 'a.b': 1, a_b: 2 }, "the part 'a_b' is not the only one"],
    ['parts without a reward', { brevity: 1 }, 'reward must be a finite number, got undefined'],
  ])('fails by name where its reward has %s', async (_, value, reason) => {
    const agent = said(['fine'], HFAgent, { rewardFn: () => value as { readonly reward: number } }) // as a function in JavaScript
    const { trajectories, rewards } = await orThrow(agent.run({ messages: ask }))
    expect(rewards).toEqual([null])
    expect(trajectories[0]!.failure!.reason).toContain(reason)
  })

  it('marks chains whose reward throws', async () => {
    const agent = said(['a', 'b'], HFAgent, {
      rewardFn: ({ prediction }) => {
        if (prediction === 'a') throw new Error('no judge')
        return 1
      },
    })
    const { trajectories } = await orThrow(agent.run({ messages: ask, numChains: 2, maxConcurrentChains: 1 }))
    expect(trajectories.map(({ finishReason }) => finishReason)).toEqual(['failed', 'no_tool_calls'])
    expect(trajectories[0]!.failure!.reason).toContain('no judge')
  })

  it('plays the same chains, with whatever observers throw or reject at any event; other observers get all events', async () => {
    const warned = vi.spyOn(process, 'emitWarning').mockImplementation(() => {})
    const play = async (observers: readonly ChainObserver[]) => {
      const agent = said([CALL, '42', 'fine'], HFAgent, { rewardFn: () => 1 })
      const { trajectories } = await orThrow(
        agent.run({ messages: ask, numChains: 2, maxConcurrentChains: 1, observers }),
      )
      return trajectories.map(({ failure, reward, finishReason, calls }) => ({
        ...{ failure, reward, finishReason },
        calls: calls.map(({ name, outcome }) => `${name} ${outcome}`),
      }))
    }
    const plain = await play([])
    expect(plain.map(({ reward }) => reward)).toEqual([1, 1])
    const types = ['chain_start', 'generation_start', 'generation_end', 'tool_call_start', 'tool_call_end'] as const
    for (const type of [...types, 'observation', 'reward', 'chain_end'] as const) {
      const seen: string[] = []
      const throwing = (event: ChainEvent): void => {
        if (event.type === type) throw new Error(`no ${type}`)
      }
      const rejecting = async (event: ChainEvent): Promise<void> => throwing(event)
      expect(await play([throwing, rejecting, (event) => seen.push(event.type)])).toEqual(plain)
      expect(seen.filter((name) => name === 'chain_end')).toHaveLength(2)
    }
    const [[first] = []] = warned.mock.calls
    expect(first).toMatch(/an observer of chains threw Error: no chain_start \(at .*agent\.test\.ts:\d+:\d+\)/)
    expect(warned).toHaveBeenCalledTimes(1) // once for each place
    warned.mockRestore()
  })

  it('emits its events in order', async () => {
    const events: ChainEvent[] = []
    const agent = said([CALL, '42'], HFAgent, { rewardFn: () => 0.5 })
    await orThrow(agent.run({ messages: ask, observers: [(event) => events.push(event)] }))
    expect(events.map(({ type }) => type)).toEqual([
      ...['chain_start', 'generation_start', 'generation_chunk', 'generation_end', 'tool_call_start', 'tool_call_end'],
      ...['observation', 'generation_start', 'generation_chunk', 'generation_end', 'reward', 'chain_end'],
    ])
    expect(events.find(({ type }) => type === 'tool_call_end')).toMatchObject({ turn: 1, outcome: 'ok' })
  })

  it('streams for observers alone', async () => {
    const bodies: string[] = []
    const server = createServer((request, response) => {
      let body = ''
      request.setEncoding('utf8').on('data', (text: string) => {
        body += text
      })
      request.on('end', () => {
        bodies.push(body)
        const choice = { index: 0, message: { role: 'assistant', content: 'Hello.' }, finish_reason: 'stop' }
        const reply = { id: 'a', object: 'chat.completion', created: 1, model, choices: [choice] }
        response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(reply))
      })
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    const { port } = server.address() as AddressInfo // a server on TCP has an address with a port
    const backendConfig = ClientConfig({ baseUrl: `http://127.0.0.1:${port}/v1` })
    const agent = HFAgent({ modelNameOrPath: model, backendConfig })
    const { trajectories } = await orThrow(agent.run({ messages: ask }))
    expect(trajectories[0]!.failure).toBeNull()
    const seen = await orThrow(agent.run({ messages: ask, observers: [() => {}] })) // the server answers no streams
    expect(seen.trajectories[0]!.failure).toBeNull()
    expect(bodies.map((body) => body.includes('"stream":true')).slice(0, 2)).toEqual([false, true])
    await agent.close()
    server.close()
  })

  it('is called off by its signal', async () => {
    const controller = new AbortController()
    controller.abort()
    const { trajectories } = await orThrow(said(['a'], HFAgent).run({ messages: ask, signal: controller.signal }))
    expect(trajectories[0]!.finishReason).toBe('failed')
  })
})

describe('bad input', () => {
  it('is refused by name', async () => {
    expect(() => said([], HFAgent, { tools: [calculator(), calculator()] })).toThrow("2 tools are named 'calculator'")
    expect(() => said([], HFAgent, { backend: 'client' })).toThrow(
      "backend is 'client', and backendConfig is one of 'async_verl'",
    )
    expect(() => said([], CodeAgent, { contextTriggerTurns: 2 })).toThrow('contextTriggerTurns is for agents that fold')
    expect(() => HFAgent({ modelNameOrPath: 'a', tool: [] } as never)).toThrow("did you mean 'tools'?")
    expect(() => AutoAgent.fromConfig({ agentType: 'reakt', modelNameOrPath: 'a' })).toThrow("did you mean 'react'?")
    expect(() => said([], HFAgent).run({ messages: ask, numChains: 0 })).toThrow(
      'numChains must be an integer of at least 1, got 0',
    )
  })

  it('without a format of tool calls is a failure that names the remedy', async () => {
    const text = smallText(PLAIN_TEMPLATE)
    const agent = said([], HFAgent, { backendConfig: scriptedBackend(['a'], text) })
    const result = await agent.run({ messages: ask })()
    expect(result).toMatchObject({ left: { _tag: 'NoToolFormat' } })
    expect(() =>
      agent.env({ source: { name: 'none', size: 1, at: () => E.left(null as never) }, prompts: 1, text }),
    ).toThrow('set toolParserName')
    const named = said([], HFAgent, { backendConfig: scriptedBackend(['a'], text), toolParserName: 'hermes' })
    expect(E.isRight(await named.run({ messages: ask })())).toBe(true)
  })

  it('of messages names the row', async () => {
    const rows = [{ messages: ask }, { messages: [] }, { messages: [{ content: 'a' }] }]
    const result = await said([], HFAgent).run({ messages: rows as never })()
    expect(result).toMatchObject({
      left: { _tag: 'RowFailure', row: 2, reason: expect.stringContaining('row 3') as string },
    })
  })

  it('without an engine fails with what to give', async () => {
    const agent = HFAgent({ modelNameOrPath: 'embedded', backend: 'async_verl' })
    expect(await agent.run({ messages: ask })()).toMatchObject({
      left: { reason: expect.stringContaining('it has no engine') as string },
    })
    expect(ClientConfig().backend).toBe('client')
    expect(saying([]).name).toBe('ScriptedPolicy')
  })
})
