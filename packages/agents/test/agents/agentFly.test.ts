/** AgentFly's examples, line by line: the names are its own in camel case. */
import { writeFileSync } from 'node:fs'
import { describe as describeFailure, keyFromSeed, orThrow } from '@tandem-rl/base'
import { calculator, shopSolution, shopTasks, shopWorld, tool, worldTool } from '@tandem-rl/tools'
import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import { AGENT_ROWS, type AgentRowTask } from '../../../../src/data/datasets/agentRows.js'
import { openDataset } from '../../../../src/data/datasets/open.js'
import { reward } from '../../../../src/envs/rewards/rewardFunction.js'
import { worldReward } from '../../../../src/envs/rewards/worldReward.js'
import { saying, scriptedBackend, smallText } from '../../../../test/kit/chains.js'
import { useEngine } from '../../../../test/kit/engine.js'
import { leftOf, rightOf } from '../../../../test/kit/results.js'
import { useTemporaryFolder } from '../../../../test/kit/runs.js'
import { saying as engineSaying, served, useServers } from '../../../../test/kit/served.js'
import { AutoAgent, HFAgent, ReactAgent } from '../../src/agents/agents.js'
import { AsyncVerlConfig, AsyncVLLMConfig, ClientConfig } from '../../src/agents/backends/configs.js'

useEngine()
const listen = useServers()
const at = useTemporaryFolder()
const call = '<tool_call>{"name": "calculator", "arguments": {"expression": "1 + 1"}}</tool_call>'

describe('the first example of AgentFly', () => {
  it('an agent with a tool and a reward, several chains', async () => {
    const backendConfig = scriptedBackend([call, call, 'It is 2.', 'It is 3.'])
    // 9 lines, as the original
    const messages = [{ messages: [{ role: 'user', content: 'What is the result of 1 + 1?' }], answer: '2' }]
    const agent = HFAgent({
      modelNameOrPath: 'Qwen/Qwen2.5-3B-Instruct',
      tools: [calculator()],
      template: smallText().template, // 'qwen2.5' with a model of that family
      rewardFn: ({ prediction, answer }) => (prediction.includes(answer) ? 1 : 0),
      backendConfig,
    })
    const { rewards } = await orThrow(agent.run({ messages, maxTurns: 3, numChains: 2 }))
    expect(rewards).toEqual([1, 0])
  })
})

describe('the configurations of backends', () => {
  it('AsyncVLLMConfig takes engine arguments', () => {
    const agent = ReactAgent({
      modelNameOrPath: 'Qwen/Qwen2.5-3B-Instruct',
      tools: [calculator()],
      template: 'qwen2.5',
      backend: 'async_vllm',
      backendConfig: AsyncVLLMConfig({
        gpuMemoryUtilization: 0.8,
        maxModelLen: 8192,
        tensorParallelSize: 1,
        trustRemoteCode: true,
      }),
    })
    expect([agent.backend.name, agent.name]).toEqual(['async_vllm', 'react'])
  })

  it('ClientConfig speaks to a server', async () => {
    const { url } = await listen(served(engineSaying('Final Answer: 2', { maxModelLength: 4096 })))
    const agent = ReactAgent({
      modelNameOrPath: 'cat',
      tools: [calculator()],
      backend: 'client',
      backendConfig: ClientConfig({
        ...{ baseUrl: `${url}/v1`, apiKey: 'EMPTY', maxRequestsPerMinute: 200, timeout: 300 },
        ...{ temperature: 0.7, maxNewTokens: 1024 },
      }),
    })
    const { trajectories } = await orThrow(agent.run({ messages: [{ role: 'user', content: '1 + 1?' }] }))
    expect(trajectories[0]).toMatchObject({ finishReason: 'terminal', failure: null })
    await agent.close()
  })

  it('AsyncVerlConfig is the engine of the trainer', async () => {
    const text = smallText()
    const agent = HFAgent({
      modelNameOrPath: 'policy',
      backend: 'async_verl',
      backendConfig: AsyncVerlConfig({ engine: saying(['Hello.'], text), text }),
    })
    const { trajectories } = await orThrow(agent.run({ messages: [{ role: 'user', content: 'Hi' }] }))
    expect(trajectories[0]!.finishReason).toBe('no_tool_calls')
  })
})

describe('tools, rewards and data', () => {
  const search = tool({
    name: 'search',
    description: 'Searches.',
    parameters: { query: z.string() },
    initial: null,
    run: async ({ query }) => ({ content: `about ${query}`, state: null }),
  })

  it('a reward takes fields of the row by name and returns parts', async () => {
    const qa = reward<AgentRowTask, 'calls'>(
      ({ prediction, trajectory, answer, level }) => ({
        reward: prediction === answer ? Number(level) : 0,
        calls: trajectory.filter(({ role }) => role === 'tool').length,
      }),
      { parts: ['calls'] },
    )
    const backendConfig = scriptedBackend([
      '<tool_call>{"name": "search", "arguments": {"query": "cats"}}</tool_call>',
      'soft',
    ])
    const agent = HFAgent({ modelNameOrPath: 'small', tools: [search], rewardFn: qa, backendConfig })
    const { rewards, rewardExtras } = await orThrow(
      agent.run({ messages: [{ question: 'Cats?', answer: 'soft', level: 3 }] }),
    )
    expect(rewards).toEqual([3])
    expect(rewardExtras).toEqual([{ calls: 1, success: 1 }])
  })

  it('a data set is a JSON list with a question and optional fields', async () => {
    writeFileSync(at('rows.json'), JSON.stringify([{ question: 'What is 2 + 2?', answer: '4', level: 1 }]))
    const source = await rightOf(openDataset(at('rows.json'), AGENT_ROWS))
    expect(orThrow(source.at(0))).toMatchObject({ query: 'What is 2 + 2?', answer: '4', row: { level: 1 } })
    writeFileSync(at('bad.json'), JSON.stringify([{ question: 'Fine?' }, { answer: '4' }]))
    expect(describeFailure(await leftOf(openDataset(at('bad.json'), AGENT_ROWS)))).toMatch(
      /row 2: .*expected messages or one of prompt, question/s,
    )
  })

  it('a shop whose goal is a field of the row', async () => {
    const task = orThrow(shopTasks(keyFromSeed(1)).at(0))
    const acts = shopSolution(task).map((action) => `Action: shop\nInput: ${action}`)
    const agent = ReactAgent({
      modelNameOrPath: 'Qwen/Qwen2.5-3B-Instruct',
      tools: [worldTool(shopWorld())],
      rewardFn: worldReward({ tool: 'shop' }),
      backendConfig: scriptedBackend(acts),
    })
    const { rewards, trajectories } = await orThrow(
      agent.run({ messages: [{ question: task.query, goal: task.goal }] }),
    )
    expect([trajectories[0]!.failure, rewards]).toEqual([null, [1]])
  })

  it('AutoAgent makes an agent by the name of its kind', () => {
    const agent = AutoAgent.fromConfig({ agentType: 'react', modelNameOrPath: 'small', tools: [search] })
    expect(agent.systemPrompt).toContain('"name":"search"')
    expect(AutoAgent.names).toEqual([
      'hf',
      'react',
      'code',
      'searchr1',
      'action',
      'bash_swe',
      'qwen3coder_swe',
      'function_swe',
    ])
  })
})
