/** Each agent of a conversation trains on its own turns, with its observations. */
import { keyFromSeed, orThrow } from '@tandem-rl/base'
import { textOf } from '@tandem-rl/text'
import { discard, scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { LLMCollector } from '../../../../src/collectors/llmCollector.js'
import { type CollectedBatch, trajectoryReturns } from '../../../../src/collectors/rollouts/turnRows.js'
import { CHAT_ML_SPEECH, discussion, speaker } from '../../../../test/kit/agents.js'
import { itemsAt, numbersAt, rowsAt } from '../../../../test/kit/conversation.js'
import { useEngine } from '../../../../test/kit/engine.js'
import { learnedRows } from '../../../../test/kit/learners.js'
import { givenId } from '../../../../test/kit/rollouts.js'
import { agentRows } from '../../src/multiAgent/agentRows.js'
import type { AgentRewards, MultiAgentState, Verdict } from '../../src/multiAgent/multiAgentEnv.js'
import { byMention, roundRobin, simultaneous, type TurnOrder } from '../../src/multiAgent/turnOrder.js'

useEngine()

const agents = [{ name: 'ann' }, { name: 'bob' }, { name: 'cat' }]

/**
 * Each turn rewards all agents, also those that did not speak: `ann` by the length of the message,
 * `bob` by its negative, `cat` by the number of turns.
 */
const judge = ({
  turns,
}: {
  readonly turns: readonly { readonly message: Parameters<typeof textOf>[0] }[]
}): Verdict => {
  const length = textOf(turns.at(-1)!.message).length
  return { rewards: { ann: length, bob: -length, cat: turns.length } }
}

const collected = async (order: TurnOrder, seed: number, repeats = 2) => {
  const env = discussion({ agents, order, judge }, CHAT_ML_SPEECH, { repeats })
  const collector = LLMCollector({ env, policy: speaker(CHAT_ML_SPEECH), key: keyFromSeed(seed) })
  return orThrow(await collector.collect(collector.start)()).batch
}

const totals = (batch: CollectedBatch<MultiAgentState>): Readonly<Record<string, number>> => {
  const all = itemsAt(batch, 'next', 'agentRewards') as readonly AgentRewards[] // by its schema
  return Object.fromEntries(agents.map(({ name }) => [name, all.reduce((sum, got) => sum + got[name]!, 0)]))
}

describe('agentRows', () => {
  it('law: an agent has exactly its own rows, all that it got, and an end at its last turn', async () => {
    const orders = fc.constantFrom(roundRobin({ rounds: 2 }), simultaneous({ rounds: 2 }), byMention({ rounds: 1 }))
    await fc.assert(
      fc.asyncProperty(
        orders,
        fc.nat(1000),
        fc.subarray(['ann', 'bob', 'cat'], { minLength: 1 }),
        async (order, seed, of) => {
          using batch = await collected(order, seed)
          const rows = scope(() => agentRows(batch.value, of))
          const writers = itemsAt(batch.value, 'agent')
          const own = of.flatMap((agent) => [...writers.keys()].filter((row) => writers[row] === agent))
          expect(itemsAt(rows, 'agent')).toEqual(own.map((row) => writers[row]))
          for (const path of [
            ['tokens', 'full'],
            ['logProbs', 'response'],
            ['masks', 'assistant'],
          ] as const) {
            expect(rowsAt(rows, ...path)).toEqual(own.map((row) => rowsAt(batch.value, ...path)[row]))
          }
          const returns = trajectoryReturns(rows)
          const sum = (agent: string) =>
            returns
              .filter((each) => itemsAt(rows, 'agent')[each.rows[0]!] === agent)
              .reduce((all, each) => all + each.return, 0)
          expect(of.map(sum)).toEqual(of.map((agent) => totals(batch.value)[agent]))
          const done = numbersAt(rows, 'next', 'done')
          for (const each of returns)
            expect(each.rows.map((row) => done[row])).toEqual(
              each.rows.map((_, t) => Number(t === each.rows.length - 1)),
            )
          expect(itemsAt(rows, 'turn')).toEqual(returns.flatMap((each) => [...each.rows.keys()]))
          discard(rows, batch.value)
        },
      ),
      { numRuns: 8 },
    )
  })

  it('compares an agent with itself only, and learns what it sampled itself', async () => {
    using batch = await collected(roundRobin({ rounds: 2 }), 3)
    const rows = scope(() => agentRows(batch.value, ['cat', 'ann']))
    expect(new Set((itemsAt(rows, 'groupId') as readonly string[]).map(givenId))).toEqual(
      new Set(['0:t0/cat', '0:t0/ann']),
    )
    expect(learnedRows(rows as never, 2).completions).toEqual(
      // with the group ids of the primer
      rowsAt(rows, 'tokens', 'response').map((row) => Int32Array.from(row)),
    )
    discard(rows, batch.value)
  })

  it('gives an agent what the others did before its first turn and after its last', async () => {
    const order: TurnOrder = (turns) => {
      const next = ['ann', 'bob', 'ann', 'cat'][turns.length]
      return next === undefined ? 'end' : { agent: next, sees: turns.length }
    }
    using batch = await collected(order, 5, 1)
    const [bob, ann] = [scope(() => agentRows(batch.value, ['bob'])), scope(() => agentRows(batch.value, ['ann']))]
    const each = itemsAt(batch.value, 'next', 'agentRewards') as readonly AgentRewards[] // by its schema
    expect(numbersAt(bob, 'next', 'reward')).toEqual([each.reduce((sum, got) => sum + got.bob!, 0)])
    expect(numbersAt(ann, 'next', 'reward')).toEqual([each[0]!.ann! + each[1]!.ann!, each[2]!.ann! + each[3]!.ann!])
    expect([numbersAt(bob, 'next', 'terminated'), numbersAt(ann, 'next', 'terminated')]).toEqual([[1], [0, 1]])
    discard([bob, ann], batch.value)
  })

  it('refuses agents that never wrote, and none', async () => {
    using batch = await collected(roundRobin({ rounds: 1 }), 1, 1)
    expect(() => agentRows(batch.value, ['ann', 'eve'])).toThrow(
      'agentRows: no rows of eve; there are those of ann, bob, cat',
    )
    expect(() => agentRows(batch.value, [])).toThrow('agentRows: no rows of no agent')
  })

  it('takes batches of the asynchronous collector as well', async () => {
    const env = (task: number) =>
      discussion({ agents, order: roundRobin({ rounds: 1 }), judge }, CHAT_ML_SPEECH, { repeats: 2, start: task })
    for await (const batch of LLMCollector({
      env,
      policy: speaker(CHAT_ML_SPEECH),
      key: keyFromSeed(2),
      concurrent: { tasks: 2, maxInFlight: 4 },
    })) {
      const rows = scope(() => agentRows(batch, ['bob']))
      expect(rows.batchShape).toEqual([batch.batchShape[0]! / 3])
      discard(rows, batch)
    }
  })
})
