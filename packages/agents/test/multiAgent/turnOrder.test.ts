import { message } from '@tandem-rl/text'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { type AgentTurn, byMention, roundRobin, simultaneous, type TurnOrder } from '../../src/multiAgent/turnOrder.js'

const ABC = ['ann', 'bob', 'cat']

/** Plays an order with given texts, to the end or until the texts are used up. */
const playOrder = (order: TurnOrder, agents: readonly string[], texts: readonly string[]): readonly AgentTurn[] => {
  let turns: readonly AgentTurn[] = []
  for (const text of texts) {
    const next = order(turns, agents, '')
    if (next === 'end') return turns
    turns = [...turns, { agent: next.agent, message: message('assistant', text), saw: next.sees }]
  }
  return turns
}

const said = (agent: string, text: string): AgentTurn => ({ agent, message: message('assistant', text), saw: 0 })
const anyAgents = fc.uniqueArray(fc.stringMatching(/^[a-z]{1,4}$/), { minLength: 1, maxLength: 4 })
const anyTexts = fc.array(
  fc.oneof(fc.oneof(fc.string(), fc.constantFrom('\ud800', '😀')), fc.constantFrom('@ann', 'Ask @bob!', '@')),
  {
    maxLength: 9,
  },
)

describe('orders of turns', () => {
  it.each([
    ['roundRobin', roundRobin],
    ['simultaneous', simultaneous],
    ['byMention', byMention],
  ])('law: %s names agents only, ends after its rounds, and never shows an agent less than before', (_, make) => {
    fc.assert(
      fc.property(anyAgents, anyTexts, fc.integer({ min: 1, max: 3 }), (agents, texts, rounds) => {
        const turns = playOrder(make({ rounds }), agents, texts)
        expect(turns).toHaveLength(Math.min(texts.length, rounds * agents.length))
        for (const [i, { agent, saw }] of turns.entries()) {
          expect(agents).toContain(agent)
          expect(saw).toBeLessThanOrEqual(i)
          const before = turns.slice(0, i).findLast((turn) => turn.agent === agent)
          expect(saw).toBeGreaterThanOrEqual(before?.saw ?? 0)
        }
        if (turns.length === rounds * agents.length) expect(make({ rounds })(turns, agents, '')).toBe('end')
        else expect(make()(turns, agents, '')).not.toBe('end')
      }),
    )
  })

  it('one after the other: everyone in turn, who sees everything', () => {
    const turns = playOrder(roundRobin(), ABC, ['1', '2', '3', '4'])
    expect(turns.map(({ agent, saw }) => [agent, saw])).toEqual([
      ['ann', 0],
      ['bob', 1],
      ['cat', 2],
      ['ann', 3],
    ])
  })

  it('at once: nobody sees what is written in the same round', () => {
    const turns = playOrder(simultaneous(), ABC, ['1', '2', '3', '4', '5'])
    expect(turns.map(({ agent, saw }) => [agent, saw])).toEqual([
      ['ann', 0],
      ['bob', 0],
      ['cat', 0],
      ['ann', 3],
      ['bob', 3],
    ])
  })

  it.each([
    ['Ask @cat.', 'cat'],
    ['@cat or @bob?', 'cat'],
    ['nobody', 'bob'],
    ['@ann, that is me', 'bob'],
    ['@catherine is another', 'bob'],
    ['@cat\ud800', 'cat'],
    ['@catherine and then @cat', 'cat'],
    ['mail ann@cat.org', 'cat'],
    ['@CAT', 'bob'],
  ])('by mention: after ann said %j, it is the turn of %s', (text, agent) => {
    expect(byMention()([said('ann', text)], ABC, '')).toEqual({ agent, sees: 1 })
  })

  it('by mention: names of any characters are found as they are spelled', () => {
    const names = ['a.*', '$&', 'über', 'x']
    expect(names.map((name) => byMention()([said('x', `to @${name}`)], names, ''))).toEqual(
      ['a.*', '$&', 'über', 'a.*'].map((agent) => ({ agent, sees: 1 })),
    )
  })

  it('by mention: a long message of mentions is read in time', () => {
    const text = '@catt '.repeat(100_000)
    expect(byMention()([said('ann', text)], ABC, '')).toEqual({ agent: 'bob', sees: 1 })
  })

  it.each([roundRobin, simultaneous, byMention])('refuses no rounds', (make) => {
    expect(() => make({ rounds: 0 })).toThrow('rounds must be at least 1, got 0')
  })
})
