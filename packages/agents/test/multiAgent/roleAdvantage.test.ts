/** Advantages of roles: each is compared with itself, and baselines do not favor a seat. */
import { keyFromSeed, orThrow, uniform } from '@tandem-rl/base'
import { gameTokenEnv } from '@tandem-rl/games'
import { kuhnPoker } from '@tandem-rl/games/rules'
import { scriptedPolicy } from '@tandem-rl/testing'
import { discard, scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import { describe, expect, it } from 'vitest'
import { LLMCollector } from '../../../../src/collectors/llmCollector.js'
import { raggedRows } from '../../../../src/data/tensorDict/leaf.js'
import { get } from '../../../../src/data/tensorDict/tensorDict.js'
import { CHAT_ML_SPEECH } from '../../../../test/kit/agents.js'
import { useEngine } from '../../../../test/kit/engine.js'
import { roleAdvantage } from '../../src/multiAgent/roleAdvantage.js'

useEngine()

const { tokenizer, endOfTurn } = CHAT_ML_SPEECH
const game = kuhnPoker()
const seats = ['player_0', 'player_1']

const collected = async (prompts: number) => {
  const env = gameTokenEnv({ game, prompts, text: { memory: 'turn' } }, CHAT_ML_SPEECH)
  const policy = scriptedPolicy({
    answers: (_, key) => [...tokenizer.encode(uniform(key) < 0.5 ? '[Bet]' : '[Pass]'), tokenizer.idOf(endOfTurn)!],
  })
  const collector = LLMCollector({ env, policy, key: keyFromSeed(3) })
  return orThrow(await collector.collect(collector.start)()).batch
}

/** The first advantage of each row, the agent of the row and its reward. */
const rowsOf = (batch: Parameters<ReturnType<typeof roleAdvantage>>[0]) => {
  const agents = get(batch, 'agent').items.toArray()
  const rewards = get(batch, 'next', 'reward').dataSync()
  const prompts = raggedRows(get(batch, 'tokens', 'prompt' as never) as never).map((row) => Array.from(row).join())
  return raggedRows(get(batch, 'advantage' as never) as never).map((row, i) => ({
    ...{ advantage: row[0]!, agent: agents[i]!, reward: rewards[i]!, prompt: prompts[i]! },
  }))
}

describe('roleAdvantage', () => {
  it('compares each role with itself: the advantages of the games of a role add up to 0', async () => {
    using batch = await collected(24)
    const rated = scope(() => roleAdvantage({ agents: seats })(batch.value as never)) as never
    for (const seat of seats) {
      const rows = rowsOf(rated).filter(({ agent }) => agent === seat)
      const ids = get(rated as typeof batch.value, 'trajectoryId').items.toArray()
      const own = rowsOf(rated)
        .map((row, i) => ({ ...row, id: ids[i]! }))
        .filter(({ agent }) => agent === seat)
      const firsts = own.filter(({ id }, i) => own.findIndex((each) => each.id === id) === i)
      expect(rows.length).toBeGreaterThanOrEqual(24)
      expect(firsts).toHaveLength(24)
      expect(firsts.reduce((sum, { advantage }) => sum + advantage, 0)).toBeCloseTo(0, 4)
    }
    discard(rated, batch.value)
  })

  it('compares turns with equal prompts by what followed them', async () => {
    using batch = await collected(24)
    const rated = scope(() => roleAdvantage({ agents: seats, baseline: 'prompt' })(batch.value as never)) as never
    const groups = new Map<string, { readonly advantage: number; readonly reward: number }[]>()
    for (const { agent, prompt, ...row } of rowsOf(rated))
      groups.set(`${agent} ${prompt}`, [...(groups.get(`${agent} ${prompt}`) ?? []), row])
    expect(groups.size).toBeGreaterThan(6)
    for (const rows of groups.values()) {
      const mean = rows.reduce((sum, { reward }) => sum + reward, 0) / rows.length
      const scale = rows.length / Math.max(1, rows.length - 1)
      for (const { advantage, reward } of rows) expect(advantage).toBeCloseTo((reward - mean) * scale, 4)
    }
    discard(rated, batch.value)
  })

  it('leaves out who is not named, and refuses a batch without those who are', async () => {
    using batch = await collected(4)
    const one = scope(() => roleAdvantage({ agents: ['player_1'] })(batch.value as never)) as never
    expect(new Set(rowsOf(one).map(({ agent }) => agent))).toEqual(new Set(['player_1']))
    discard(one, batch.value)
    expect(() => roleAdvantage({ agents: ['nobody'] })(batch.value as never)).toThrow(/no rows of nobody/)
    expect(() => roleAdvantage({ agents: [] })).toThrow(/must not be empty/)
  })
})
