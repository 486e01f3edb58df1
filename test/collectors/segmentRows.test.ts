/** Segments of folded conversations: their rewards, and what they are for advantages. */

import { ActionAgent } from '@tandem-rl/agents'
import { keyFromSeed } from '@tandem-rl/base'
import { own } from '@tandem-rl/tfjs-onnxruntime/scope'
import { describe, expect, it } from 'vitest'
import { LLMCollector } from '../../src/collectors/llmCollector.js'
import { trajectoryReturns } from '../../src/collectors/rollouts/turnRows.js'
import { segmentRows } from '../../src/collectors/segmentRows.js'
import type { AdvantageEntry } from '../../src/data/batch.js'
import { taskList } from '../../src/data/task.js'
import { type Data, raggedRows } from '../../src/data/tensorDict/leaf.js'
import { get, type TensorDict } from '../../src/data/tensorDict/tensorDict.js'
import { tokenEnv } from '../../src/envs/tokenEnv.js'
import { batchAdvantage } from '../../src/objectives/advantages/batchAdvantage.js'
import { MCAdvantage } from '../../src/objectives/advantages/mcAdvantage.js'
import { grpoAdvantage } from '../../src/objectives/advantages/outcome.js'
import { advantageOf } from '../../src/run/define/choices.js'
import { policySettings } from '../../src/run/parts/settings.js'
import { saying, smallText } from '../kit/chains.js'
import { useEngine } from '../kit/engine.js'
import { rightOf } from '../kit/results.js'

useEngine()
const key = keyFromSeed(1)
const text = smallText()

/** Two conversations of a group: the first folds twice and is right, the second answers at once. */
const collected = async () => {
  const agent = ActionAgent({
    modelNameOrPath: 'small',
    systemPrompt: '',
    rewardFn: ({ prediction }) => (prediction.includes('right') ? 1 : 0),
  })
  const source = taskList('one', [{ query: 'Go.' }])
  const env = tokenEnv(agent.env({ source, prompts: 1, repeats: 2, maxTurns: 4 }), text)
  const policy = saying(['<summarize>a</summarize>', 'end task', '<summarize>b</summarize>', 'right, end task'], text)
  const collector = LLMCollector({ env, policy, key })
  return (await rightOf(collector.collect(collector.start))).batch
}

describe('segmentRows', () => {
  it.each([
    ['last', [0, 0, 1]],
    ['each', [1, 1, 1]],
    ['uniform', [1 / 3, 1 / 3, 1 / 3]],
    [{ geometric: 0.5 }, [1 / 7, 2 / 7, 4 / 7]],
  ] as const)('gives segments their share by %o', async (rule, shares) => {
    using batch = await collected()
    using rows = own(segmentRows(batch.value as never, rule) as TensorDict)
    const returns = trajectoryReturns(rows.value as never)
    const [first, second, third] = shares
    expect(returns.map((each) => each.return)).toEqual([
      ...[first, second, third].map((x) => expect.closeTo(x, 6) as number),
      0,
    ])
    expect(get(rows.value as TensorDict<{ readonly turn: Data<number> }>, 'turn').items.toArray()).toEqual([0, 0, 0, 0])
  })

  it('gives each segment an advantage of its own; without it, all turns share that of the conversation', async () => {
    using batch = await collected()
    const perTurn = (rated: TensorDict): readonly number[] =>
      raggedRows(get(rated as TensorDict<AdvantageEntry>, 'advantage')).map((row) => row[0]!)
    const grpo = batchAdvantage((rows) => grpoAdvantage(rows))
    using whole = own(MCAdvantage({ groupSize: 2 })(batch.value as never) as TensorDict)
    using segments = own(segmentRows(batch.value as never, 'each') as TensorDict)
    using each = own(grpo(segments.value as never) as TensorDict)
    using lasts = own(segmentRows(batch.value as never, 'last') as TensorDict)
    using last = own(grpo(lasts.value as never) as TensorDict)
    const setting = advantageOf(policySettings.parse({ tasks: { group: 2 } }), 'last')
    using set = own(setting(batch.value as never) as TensorDict)
    expect(perTurn(set.value)).toEqual(perTurn(last.value))
    expect([setting.groupSize, setting.description, setting.dropped(batch.value as never)]).toEqual([
      ...[undefined, { advantage: 'segments', rule: 'last', of: { advantage: 'grpo' } }, []],
    ])
    expect(() => advantageOf(policySettings.parse({}), { geometric: 2 })).toThrow('geometric must be between 0 and 1')
    // Turn by turn: two summaries and the right answer, then the wrong answer of the other.
    expect(perTurn(whole.value).map((x) => x.toFixed(3))).toEqual(['0.707', '0.707', '0.707', '-0.707'])
    expect(perTurn(each.value).map((x) => Number(x.toFixed(3)))).toEqual([0.5, 0.5, 0.5, -1.5])
    expect(perTurn(last.value).map((x) => Number(x.toFixed(3)))).toEqual([-0.5, -0.5, 1.5, -0.5])
  })
})
