/** Numbers that the reward of an agent returns beside `reward`, in the batches of runs. */
import { keyFromSeed } from '@tandem-rl/base'
import { describe, expect, it } from 'vitest'
import { LLMCollector } from '../../../../src/collectors/llmCollector.js'
import { taskList } from '../../../../src/data/task.js'
import { tokenEnv } from '../../../../src/envs/tokenEnv.js'
import { batchMetrics, trajectoryNumbers } from '../../../../src/run/metrics/batchMetrics.js'
import { saying, smallText } from '../../../../test/kit/chains.js'
import { useEngine } from '../../../../test/kit/engine.js'
import { rightOf } from '../../../../test/kit/results.js'
import { ActionAgent } from '../../src/agents/agents.js'

useEngine()
const text = smallText()

describe('a batch of an agent whose reward has extras', () => {
  it('has them as parts of its trajectories and as metrics, 0 where a reward lacks them', async () => {
    const agent = ActionAgent({
      modelNameOrPath: 'small',
      systemPrompt: '',
      rewardFn: ({ prediction }) => (prediction.includes('right') ? { reward: 1, 'style.brief': 0.5 } : { reward: 0 }),
    })
    const source = taskList('one', [{ query: 'Go.' }])
    const env = tokenEnv(agent.env({ source, prompts: 1, repeats: 2, maxTurns: 4 }), text)
    const policy = saying(['<summarize>a</summarize>', 'end task', 'right, end task'], text)
    const collector = LLMCollector({ env, policy, key: keyFromSeed(1) })
    using batch = (await rightOf(collector.collect(collector.start))).batch
    const rows = batch.value as never // read by names
    expect(trajectoryNumbers(rows).map(({ parts }) => parts)).toEqual([
      { success: 1, rewardStyleBrief: 0.5 },
      { success: 0, rewardStyleBrief: 0 },
    ])
    expect(batchMetrics(rows).parts).toEqual({ success: 0.5, rewardStyleBrief: 0.25 })
  })
})
