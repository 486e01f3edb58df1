import { keyFromSeed } from '@tandem-rl/base'
import { checkLaws, envLaws } from '@tandem-rl/testing'
import { type History, History as historyOf, message, textOf } from '@tandem-rl/text'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { data } from '../../../../src/data/tensorDict/leaf.js'
import { TensorDict } from '../../../../src/data/tensorDict/tensorDict.js'
import {
  answered,
  asking,
  empty,
  freeing,
  itemsAt,
  numbersAt,
  refused,
  replies,
} from '../../../../test/kit/conversation.js'
import { useEngine } from '../../../../test/kit/engine.js'
import { type Discussion, MultiAgentEnv, type Verdict } from '../../src/multiAgent/multiAgentEnv.js'
import { byMention, roundRobin, simultaneous } from '../../src/multiAgent/turnOrder.js'

useEngine()

const key = keyFromSeed(6)
const agents = [{ name: 'ann' }, { name: 'bob', systemPrompt: (query: string) => `About ${query}` }]

/** Whoever says a number gets it, and the other its negative; 9 ends the talk. */
const judge = ({ turns, agents: names }: Discussion): Verdict => {
  const { agent, message: said } = turns.at(-1)!
  const [n, other] = [Number.parseInt(textOf(said), 10), names.find((name) => name !== agent)!]
  return Number.isNaN(n) ? {} : { rewards: { [agent]: n, [other]: -n }, ...(n === 9 && { end: 'truncated' }) }
}

const env = (batchSize = 1) => MultiAgentEnv({ batchSize, agents, order: roundRobin({ rounds: 2 }), judge })
const spoken = (state: TensorDict, i = 0): readonly string[] =>
  (itemsAt(state, 'history', 'prompt')[i] as History).messages.map((m) => `${m.role}| ${textOf(m)}`).toArray() // by its schema

describe('MultiAgentEnv', () => {
  checkLaws(
    it,
    envLaws(
      fc
        .tuple(
          fc.array(fc.string(), { minLength: 1, maxLength: 3 }),
          fc.constantFrom(roundRobin({ rounds: 1 }), simultaneous({ rounds: 2 }), byMention({ rounds: 2 })),
          fc.array(fc.constantFrom('1', '9', 'so', '@bob', '@ann go'), { minLength: 3, maxLength: 3 }),
        )
        .map(([queries, order, texts]) => ({
          env: MultiAgentEnv({ batchSize: queries.length, agents, order, judge }),
          request: () => asking(...queries),
          act: (state) => replies(...texts.slice(0, state.batchShape[0])),
          steps: 5,
        })),
    ),
  )

  it('asks one agent after the other, each in its own view, and says who got what', () =>
    freeing(async (keep) => {
      const first = keep(await answered(env().reset(asking('pens'), key)))
      const second = keep(await answered(env().step(first, replies('3 pens'))))
      const third = keep(await answered(env().step(second as never, replies('No.')))) // a stepped state is a state
      const states = [first, second, third]
      expect(states.map((state) => itemsAt(state, 'agent')[0])).toEqual(['ann', 'bob', 'ann'])
      expect(states.map((state) => spoken(state))).toEqual([
        ['user| pens'],
        ['system| About pens', 'user| pens\n\nann: 3 pens'],
        ['user| pens', 'assistant| 3 pens', 'user| bob: No.'],
      ])
      expect(states.map((state) => itemsAt(state, 'agentRewards')[0])).toEqual([
        { ann: 0, bob: 0 },
        { ann: 3, bob: -3 },
        { ann: 0, bob: 0 },
      ])
      expect([numbersAt(second, 'reward'), numbersAt(third, 'reward'), numbersAt(third, 'done')]).toEqual([
        [3],
        [0],
        [0],
      ])
    }))

  it('ends by its order, which terminates, or by its judge, who says how; then the last agent reads all', () =>
    freeing(async (keep) => {
      const two = MultiAgentEnv({ batchSize: 2, agents, order: roundRobin({ rounds: 1 }), judge })
      const first = keep(await answered(two.reset(asking('a', 'b'), key)))
      const second = keep(await answered(two.step(first, replies('9', 'x'))))
      expect([numbersAt(second, 'truncated'), numbersAt(second, 'done')]).toEqual([
        [1, 0],
        [1, 0],
      ])
      const third = keep(await answered(two.step(second as never, replies('ignored', '2')))) // a stepped state is a state
      expect([numbersAt(third, 'truncated'), numbersAt(third, 'terminated')]).toEqual([
        [1, 0],
        [0, 1],
      ])
      expect(numbersAt(third, 'reward')).toEqual([0, 2])
      expect([spoken(third, 0), spoken(third, 1)]).toEqual([
        ['user| a', 'assistant| 9'],
        ['system| About b', 'user| b\n\nann: x', 'assistant| 2'],
      ])
      expect(itemsAt(third, 'agent')).toEqual(['ann', 'bob'])
    }))

  it('shows agents what a view of its own lets them see', () =>
    freeing(async (keep) => {
      const blind = MultiAgentEnv({
        batchSize: 1,
        agents,
        view: ({ agent, turns }) => historyOf([message('user', `${agent}, move ${turns.length}`)]),
      })
      const first = keep(await answered(blind.reset(asking('?'), key)))
      expect(spoken(keep(await answered(blind.step(first, replies('x')))))).toEqual(['user| bob, move 1'])
    }))

  it.each([
    ['no query', empty(1)],
    ['queries of another number', asking('a', 'b')],
    ['queries that are no text', TensorDict({ query: data([1]) }, [1])],
  ])('refuses a request with %s', async (_, request) => {
    expect((await refused(env().reset(request, key))).reason).toBe("reset needs 'query', 1 strings, in its request")
  })

  it('refuses agents with equal names, all problems at once', () => {
    const names = ['x', 'x', '', 'y', 'y'].map((name) => ({ name }))
    expect(() => MultiAgentEnv({ batchSize: 1, agents: names })).toThrow(
      "MultiAgentEnv: an agent has no name; two agents are named 'x'; two agents are named 'y'",
    )
    expect(() => MultiAgentEnv({ batchSize: 1, agents: [] })).toThrow('MultiAgentEnv: agents is empty')
  })

  it('refuses rewards of unknown agents and rewards that are not numbers', async () => {
    const wrong = MultiAgentEnv({ batchSize: 1, agents, judge: () => ({ rewards: { eve: 1, ann: Number.NaN } }) })
    const state = await answered(wrong.reset(asking('?'), key))
    await expect(async () => wrong.step(state, replies('x'))()).rejects.toThrow(
      "MultiAgentEnv: judge: 'eve' is not one of the agents ann, bob; the reward of 'ann' is NaN",
    )
  })

  it('an order without a first turn is a failure', async () => {
    const never = MultiAgentEnv({ batchSize: 1, agents, order: () => 'end' })
    expect((await refused(never.reset(asking('?'), key))).reason).toBe('the turn order returned no first turn')
  })
})
