/** Metrics of agents in training. */
import { keyFromSeed, orThrow } from '@tandem-rl/base'
import { tool, toolEnvironment } from '@tandem-rl/tools'
import * as E from 'fp-ts/lib/Either.js'
import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import { LLMCollector } from '../../../../src/collectors/llmCollector.js'
import { taskList } from '../../../../src/data/task.js'
import type { TensorDict } from '../../../../src/data/tensorDict/tensorDict.js'
import { tokenEnv } from '../../../../src/envs/tokenEnv.js'
import { saying, scriptedBackend, smallText } from '../../../../test/kit/chains.js'
import { useEngine } from '../../../../test/kit/engine.js'
import type { Agent } from '../../src/agents/agent.js'
import { HFAgent } from '../../src/agents/agents.js'
import { agentMetrics } from '../../src/agents/metrics.js'
import { agentMonitor } from '../../src/agents/monitor.js'

useEngine({ threads: 1 })

const text = smallText()
const call = (by: number) => `<tool_call>${JSON.stringify({ name: 'add', arguments: { by } })}</tool_call>`

/** A tool with an environment, which fails for negative numbers. */
const adding = () => {
  const environment = toolEnvironment({
    name: 'counter',
    start: () => async () => E.right({ count: 0 }),
    end: async () => {},
  })
  const add = tool({
    ...{ name: 'add', description: 'Adds.', parameters: { by: z.number() }, initial: null, environment },
    run: async ({ by }, { environment: counter }) => {
      if (by < 0) throw new RangeError('by must be positive')
      counter.count += by
      return { content: String(counter.count), state: null }
    },
  })
  return { add, environment }
}

/** A clock that advances by 5 ms with each reading. */
const steadyClock = () => {
  let now = 0
  return { now: () => (now += 5), breathe: async () => {} }
}

const ANSWERS = [call(2), call(-1), 'It is 2.', 'It is 0.']

/** Plays all conversations of an agent token by token, and returns the metrics of each batch. */
const measured = async <T>(agent: Agent, answers: readonly string[], metrics: (batch: TensorDict) => T) => {
  const source = taskList('questions', [{ query: '2?' }])
  const collector = LLMCollector({
    env: tokenEnv(agent.env({ source, prompts: 1, repeats: 2, text }), { ...text, tools: agent.toolSpecs }),
    policy: saying(answers, text),
    key: keyFromSeed(1),
    batches: { totalDialogTurns: 4 },
  })
  const all: T[] = []
  for await (const batch of collector) all.push(metrics(batch as unknown as TensorDict)) // a batch of more entries
  return all
}

describe('agentMonitor', () => {
  it('reports turns, tokens by author, calls by tool and environments in use of each batch', async () => {
    const { add, environment } = adding()
    const monitor = agentMonitor({ pools: [environment.pool], clock: steadyClock() })
    const agent = HFAgent({
      ...{ modelNameOrPath: 'small', tools: [add], backendConfig: scriptedBackend([]) },
      toolOptions: { onCall: monitor.onCall },
    })
    const read = (batch: TensorDict) => [monitor.metrics(batch), monitor.metrics(batch)]
    const all = (await measured(agent, ANSWERS, read)).flat()
    expect(all).toHaveLength(2)
    const [first, second] = all
    expect(first).toMatchObject({
      'agent/chains/total': 2,
      'agent/rollout/avg_turns': 2,
      'agent/rollout/avg_tool_calls': 1,
      'agent/rollout/tool_calls/add': 2,
      'agent/rollout/tool_failures/add': 1,
      'agent/environments/most_in_use/counter': 2,
    })
    expect(first!['agent/rollout/tool_ms/add']).toBeGreaterThan(0)
    const policy = ANSWERS.map((answer) => text.tokenizer.encode(`${answer}[end]`).length)
    expect(first!['agent/rollout/tokens/policy']).toBe(policy.reduce((a, b) => a + b) / 2)
    expect(second).toMatchObject({ 'agent/rollout/avg_tool_calls': 0, 'agent/environments/most_in_use/counter': 0 })
    expect(second).not.toHaveProperty(['agent/rollout/tool_calls/add'])
    await environment.close()
  })

  it('counts tokens as agentMetrics does', async () => {
    const { add, environment } = adding()
    const backendConfig = scriptedBackend([call(2), 'It is 2.'], text)
    const agent = HFAgent({ modelNameOrPath: 'small', tools: [add], backendConfig })
    const played = agentMetrics(await orThrow(agent.run({ messages: [{ role: 'user', content: '2?' }] })))
    const [trained] = await measured(agent, [call(2), call(2), 'It is 2.', 'It is 2.'], agentMonitor().metrics)
    for (const author of ['policy', 'others'])
      expect(trained![`agent/rollout/tokens/${author}`]).toBe(played[`agent/rollout/tokens/${author}`])
    await environment.close()
  })
})
