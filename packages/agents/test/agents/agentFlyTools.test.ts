/** AgentFly's examples of tools, environments, search, agents of one's own and monitoring. */
import { readFileSync } from 'node:fs'
import { keyFromSeed, orThrow, type ResourceSpec } from '@tandem-rl/base'
import {
  answerTool,
  bm25Index,
  documentedTool,
  retrievalTool,
  type ShopState,
  shopSolution,
  shopTasks,
  shopWorld,
  tool,
  toolEnvironment,
} from '@tandem-rl/tools'
import * as E from 'fp-ts/lib/Either.js'
import Keyv from 'keyv'
import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import { reward } from '../../../../src/envs/rewards/rewardFunction.js'
import { scriptedBackend } from '../../../../test/kit/chains.js'
import { useEngine } from '../../../../test/kit/engine.js'
import { rightOf } from '../../../../test/kit/results.js'
import { taskGoal } from '../../../tools/src/tools/worldTool.js'
import { Agent } from '../../src/agents/agent.js'
import { CodeAgent, HFAgent, ReactAgent } from '../../src/agents/agents.js'
import type { ChainEvent } from '../../src/agents/events.js'
import { type AgentKind, between, textCall, textTool } from '../../src/agents/kinds/kind.js'
import { agentMetrics } from '../../src/agents/metrics.js'

useEngine()

const modelNameOrPath = 'Qwen/Qwen2.5-3B-Instruct'
const native = (name: string, args: object) => `<tool_call>${JSON.stringify({ name, arguments: args })}</tool_call>`

/**
 * Multiplies two numbers.
 *
 * @param a the first number
 * @param b the second number
 */
const multiply = (a: number, b: number): string => String(a * b)

/** The environment of the example: one shop per conversation. */
class WebShop {
  readonly #world = shopWorld()
  #state: ShopState | undefined
  score = 0

  reset(goal: unknown): void {
    const started = this.#world.start(goal)
    if (E.isLeft(started)) throw new Error(started.left)
    this.#state = started.right.state
    this.score = 0
  }

  step(action: string): { readonly observation: string; readonly done: boolean } {
    const view = this.#world.act(this.#state!, action) // after `reset`
    this.#state = view.state
    this.score = view.score
    return view
  }
}

describe('tools', () => {
  it('of a function: the schema is that of its types and its comment', async () => {
    const source = readFileSync(new URL(import.meta.url), 'utf8')
    const calculate = await rightOf(documentedTool({ run: multiply, source, name: 'calculate' }))
    const backendConfig = scriptedBackend([native('calculate', { a: 6, b: 7 }), '42'])
    const agent = HFAgent({ modelNameOrPath, tools: [calculate], backendConfig })
    const { trajectories } = await orThrow(agent.run({ messages: [{ role: 'user', content: '6 * 7?' }] }))
    expect(trajectories[0]!.calls).toMatchObject([{ name: 'calculate', outcome: 'ok' }])
    expect(calculate).toMatchObject({ description: 'Multiplies two numbers.', parameters: { required: ['a', 'b'] } })
  })

  it('with an environment from a pool, which the reward shares', async () => {
    const spec: ResourceSpec<WebShop> = {
      name: 'webshop',
      start: () => async () => E.right(new WebShop()),
      end: async () => {},
    }
    const environment = toolEnvironment(spec, {
      poolSize: 4,
      prepare: async (shop, episode) => shop.reset(taskGoal(episode!.task!)), // calls of agents have both
    })
    const webshopBrowser = tool({
      name: 'webshop_browser',
      description: 'Acts in the shop.',
      parameters: { action: z.string() },
      initial: null,
      environment,
      maxLength: 2048,
      run: async ({ action }, { environment: shop }) => {
        const { observation, done } = shop.step(action)
        return { content: observation, status: done ? 'finish' : 'success', state: null }
      },
    })
    const webshopReward = reward(({ environment: shop }) => shop.score, { environment })
    const task = orThrow(shopTasks(keyFromSeed(1)).at(0))
    const acts = shopSolution(task).map((action) => `Action: webshop_browser\nInput: ${action}`)
    const backendConfig = scriptedBackend([...acts, 'Final Answer: I give up.'])
    const agent = ReactAgent({ modelNameOrPath, tools: [webshopBrowser], rewardFn: webshopReward, backendConfig })
    const messages = [{ question: task.query, goal: task.goal }]
    const { rewards } = await orThrow(agent.run({ messages, maxTurns: 15, numChains: 2, maxConcurrentChains: 1 }))
    expect([rewards, environment.pool.stats().leased]).toEqual([[1, 0], 0])
    await environment.close()
  })

  it('for search, with a cache, and an answer that ends the chain', async () => {
    const index = await rightOf(bm25Index([{ title: 'Nile', text: 'The Nile is 6,650 km long.' }]))
    const store = new Keyv()
    const search = retrievalTool({ index, cache: { store } })
    const backendConfig = scriptedBackend([
      native('search', { query: 'Nile' }),
      native('answer_qa', { answer: '6,650 km' }),
    ])
    const agent = HFAgent({
      modelNameOrPath,
      tools: [search, answerTool('answer_qa')],
      rewardFn: ({ prediction, answer }) => (prediction === answer ? 1 : 0),
      backendConfig,
    })
    const { trajectories, rewards } = await orThrow(
      agent.run({ messages: [{ question: 'How long is the Nile?', answer: '6,650 km' }] }),
    )
    expect([trajectories[0]!.finishReason, rewards]).toEqual(['terminal', [1]])
  })
})

describe('an agent of your own', () => {
  it('is a way to read replies', async () => {
    const TAGS: AgentKind = {
      name: 'tags',
      tools: 'prompt',
      systemPrompt: 'Call a tool by <call></call>.',
      reader: (tools) => {
        const target = textTool('tags', tools, 'code_interpreter')
        return (text) => {
          const code = between(text, 'call')
          return { calls: code === undefined ? [] : [textCall(target, code)], end: 'continue' }
        }
      },
      results: { role: 'user', prefix: 'Result: ' },
    }
    const calculate = tool({
      ...{ name: 'code_interpreter', description: '', parameters: { code: z.string() }, initial: null },
      run: async ({ code }) => ({ content: `<${code}>`, state: null }),
    })
    const agent = Agent(TAGS, {
      modelNameOrPath,
      tools: [calculate],
      backendConfig: scriptedBackend(['<call>1</call>', 'Done.']),
    })
    const { trajectories } = await orThrow(agent.run({ messages: [{ role: 'user', content: 'Go.' }] }))
    expect(trajectories[0]!.messages.map(({ role }) => role)).toEqual([
      'system',
      'user',
      'assistant',
      'user',
      'assistant',
    ])
  })
})

describe('streaming and monitoring', () => {
  it('passes events to observers, and reports metrics under the names of AgentFly', async () => {
    const calculate = tool({
      ...{ name: 'code_interpreter', description: '', parameters: { code: z.string() }, initial: null },
      run: async () => ({ content: '42', state: null }),
    })
    const agent = CodeAgent({
      modelNameOrPath,
      tools: [calculate],
      rewardFn: ({ prediction }) => (prediction === '42' ? 1 : 0),
      backendConfig: scriptedBackend(['```python\nprint(6 * 7)\n```', '42']),
    })
    const events: ChainEvent[] = []
    const result = await orThrow(
      agent.run({ messages: [{ role: 'user', content: '6 * 7?' }], observers: [(event) => void events.push(event)] }),
    )
    expect([...new Set(events.map(({ type }) => type))]).toEqual([
      ...['chain_start', 'generation_start', 'generation_chunk', 'generation_end', 'tool_call_start', 'tool_call_end'],
      ...['observation', 'reward', 'chain_end'],
    ])
    expect(agentMetrics(result)).toMatchObject({
      ...{ 'agent/rollout/avg_turns': 2, 'agent/rollout/avg_tool_calls': 1, 'agent/rollout/reward/mean': 1 },
      ...{ 'agent/rollout/tool_calls/code_interpreter': 1, 'agent/rollout/avg_segments': 1 },
    })
  })
})
