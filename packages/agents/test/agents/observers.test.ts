/** The output of observers, and the counts of metrics. */
import { orThrow } from '@tandem-rl/base'
import { calculator } from '@tandem-rl/tools'
import { type Sink, type TrackedEvent, trackLoop } from '@tandem-rl/tracking'
import { describe, expect, it } from 'vitest'
import { scriptedBackend } from '../../../../test/kit/chains.js'
import { useEngine } from '../../../../test/kit/engine.js'
import { HFAgent } from '../../src/agents/agents.js'
import { agentMetrics } from '../../src/agents/metrics.js'
import { consoleObserver, progressLine, progressObserver } from '../../src/agents/observers.js'

useEngine()

const ask = [{ role: 'user', content: '6 * 7?' }]
const call = (expression: string) =>
  `<tool_call>${JSON.stringify({ name: 'calculator', arguments: { expression } })}</tool_call>`

const agent = (...answers: readonly string[]) =>
  HFAgent({
    modelNameOrPath: 'small',
    tools: [calculator()],
    backendConfig: scriptedBackend(answers),
    rewardFn: () => 0.5,
  })

describe('consoleObserver', () => {
  it('prints a chain without control characters', async () => {
    let text = ''
    const observer = consoleObserver((piece) => {
      text += piece
    })
    await orThrow(agent(call('6 * 7'), 'It is\u001b[31m 42.').run({ messages: ask, observers: [observer] }))
    expect(text.replaceAll(/\d+\.\d\d s/g, 'T')).toBe(
      [
        '--- 0:messages-0/0',
        `[turn 1] ${call('6 * 7')}`,
        '  call calculator({"expression":"6 * 7"})',
        '  ok after T',
        '  tool: 42',
        '[turn 2] It is\\u001b[31m 42.',
        'reward 0.5',
        'no_tool_calls after T\n',
      ].join('\n'),
    )
  })

  it('prints chains that are played at once line by line, each line after the id of its chain', async () => {
    let text = ''
    const observer = consoleObserver((piece) => {
      text += piece
    })
    const played = agent(call('6 * 7'), 'a\nb', 'c', 'd').run({ messages: ask, numChains: 3, observers: [observer] })
    const { trajectories } = await orThrow(played)
    expect(trajectories.map(({ reward }) => reward)).toEqual([0.5, 0.5, 0.5])
    const lines = text.trimEnd().split('\n')
    expect(lines[0]).toBe('--- 0:messages-0/0')
    for (const chain of [1, 2]) {
      const own = lines.filter((line) => line.startsWith(`[0:messages-0/${chain}] `))
      expect(own[0]).toContain('--- 0:messages-0/')
      expect(own.at(-1)).toMatch(/no_tool_calls after \d/)
    }
    const others = lines.filter((line) => !line.startsWith('['))
    expect(others.every((line) => line.startsWith('---') || /^\[turn 1\]/.test(line))).toBe(true)
  })
})

describe('progressObserver', () => {
  it('counts chains, turns and calls', async () => {
    const lines: string[] = []
    const observer = progressObserver({ total: 2, onProgress: (progress) => lines.push(progressLine(progress)) })
    await orThrow(
      agent(call('1'), 'a', 'b').run({ messages: ask, numChains: 2, maxConcurrentChains: 1, observers: [observer] }),
    )
    expect(lines).toEqual([
      '1 of 2 chains, 0 running, 0 failed, 2 turns, 1 tool call, mean reward 0.500',
      '2 of 2 chains, 0 running, 0 failed, 3 turns, 1 tool call, mean reward 0.500',
    ])
  })
})

describe('agentMetrics', () => {
  it('counts turns, calls by tool with their failures, tokens by author and ends, and goes to sinks', async () => {
    const result = await orThrow(
      agent(call('6 * 7'), call('1 / 0'), 'done', 'b').run({ messages: ask, numChains: 3, maxConcurrentChains: 1 }),
    )
    const metrics = agentMetrics(result)
    expect(metrics).toMatchObject({
      'agent/chains/total': 3,
      'agent/chains/failed': 1, // the script has no more answers
      'agent/chains/no_tool_calls': 2,
      'agent/rollout/avg_turns': 2,
      'agent/rollout/avg_tool_calls': 1,
      'agent/rollout/tool_calls/calculator': 2,
      'agent/rollout/tool_failures/calculator': 1,
      'agent/rollout/reward/mean': 0.5,
      'agent/rollout/reward_extra/success/max': 0,
    })
    expect(metrics['agent/rollout/tokens/policy']).toBeGreaterThan(1)
    expect(metrics['agent/rollout/tokens/others']).toBeGreaterThan(metrics['agent/rollout/tokens/policy']!)
    const events: TrackedEvent[] = []
    const sink: Sink = {
      name: 'list',
      write: (more) => async () => {
        events.push(...more)
        return { _tag: 'Right', right: undefined }
      },
      close: async () => ({ _tag: 'Right', right: undefined }),
    }
    const tracker = trackLoop([sink], { run: 'chains' })
    tracker.step(1, metrics)
    await tracker.end('finished')
    expect(events.find(({ type }) => type === 'scalars')).toMatchObject({ values: { 'agent/chains/total': 3 } })
  })
})
