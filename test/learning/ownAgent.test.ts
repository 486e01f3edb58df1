/** Agents that people have, trained as they are: the AI SDK, the Agents SDK, LangGraph, Anthropic's client, a process. */
import { beforeAll, describe, it } from 'vitest'
import type { Pretrained } from '../../src/modules/pretrained/pretrained.js'
import { policyRun } from '../../src/run/policyRun.js'
import { policySettings } from '../../src/run/settings.js'
import { train } from '../../src/run/train.js'
import { capture } from '../../src/serve/capture/agent.js'
import { useEngine } from '../kit/engine.js'
import { type AskAgent, aiSdk, anthropic, langGraph, openAIAgents } from '../kit/ownAgents/agents.js'
import { lookupModel, lookupTasks } from '../kit/ownAgents/model.js'

useEngine({ threads: 1 })

let model: Pretrained

beforeAll(async () => {
  const t = Date.now()
  model = await lookupModel()
  console.log('model', Date.now() - t)
})

const settings = policySettings.parse({
  steps: 20,
  tasks: { prompts: 4, group: 8 },
  sampling: { maxNewTokens: 24 },
  learner: { learningRate: 1e-3 },
  keep: { evalEvery: 20, evalTasks: 20 },
})

const AGENTS: Readonly<Record<string, AskAgent>> = { aiSdk, openAIAgents, langGraph, anthropic }

describe('an agent', () => {
  it.each(Object.keys(AGENTS))('%s', async (name) => {
    const ask = AGENTS[name]!
    const t = Date.now()
    const agent = capture({ name, run: ({ query }, { baseUrl }) => ask(query, baseUrl) })
    const run = await policyRun(settings, {
      model,
      agent,
      tasks: lookupTasks,
      reward: ({ prediction, answer }) => (prediction === answer ? 1 : 0),
      heldOut: [{ tasks: lookupTasks }],
    })
    const rewards: number[] = []
    let gap = 0
    for await (const event of train(run, { steps: settings.steps })) {
      if (event.type === 'evaluation') console.log(event.scores)
      if (event.type !== 'step') continue
      rewards.push(event.reward!)
      gap = Math.max(gap, event.update.maxLogProbGap!)
      console.log(
        JSON.stringify([
          event.step,
          event.reward,
          event.metrics,
          event.toolCalls,
          event.update.maxLogProbGap,
          event.seconds,
        ]),
      )
    }
    console.log(name, Date.now() - t, gap, rewards)
  })
})
