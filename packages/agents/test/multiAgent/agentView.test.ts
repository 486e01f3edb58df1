import { appendMessage, type History, message, textOf } from '@tandem-rl/text'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { agentView, type OthersAs } from '../../src/multiAgent/agentView.js'
import { type AgentTurn, byMention, roundRobin, simultaneous } from '../../src/multiAgent/turnOrder.js'

const lines = (history: History): readonly string[] =>
  history.messages.map((each) => `${each.role}| ${textOf(each)}`).toArray()

const turn = (agent: string, text: string, saw: number): AgentTurn => ({
  agent,
  message: message('assistant', text),
  saw,
})

const turns = [turn('ann', 'Hi.', 0), turn('bob', 'Ho.', 1), turn('cat', 'Hm.', 2), turn('ann', 'Ha.', 3)]
const scene = (agent: string, sees = turns.length) => ({ query: 'Talk.', turns, agent, sees })

describe('agentView', () => {
  it('shows own messages as the assistant, and those of others as one of a user', () => {
    expect(lines(agentView({ ...scene('ann', 3), systemPrompt: 'You are ann.' }))).toEqual([
      'system| You are ann.',
      'user| Talk.',
      'assistant| Hi.',
      'user| bob: Ho.\n\ncat: Hm.',
      'assistant| Ha.',
    ])
    expect(lines(agentView(scene('bob')))).toEqual([
      'user| Talk.\n\nann: Hi.',
      'assistant| Ho.',
      'user| cat: Hm.\n\nann: Ha.',
    ])
  })

  it('shows the name of each author in a message, if requested', () => {
    const view = agentView(scene('cat'), 'separate')
    expect(lines(view)).toEqual(['user| Talk.', 'user| ann: Hi.', 'user| bob: Ho.', 'assistant| Hm.', 'user| ann: Ha.'])
    expect(view.messages.map(({ name }) => name).toArray()).toEqual([undefined, 'ann', 'bob', undefined, 'ann'])
  })

  it('puts what was written at the same time behind the own message, whoever came first', () => {
    const round = [turn('ann', 'rock', 0), turn('bob', 'paper', 0), turn('ann', 'again', 2), turn('bob', 'why', 2)]
    const view = (agent: string, sees: number) => lines(agentView({ query: '?', turns: round, agent, sees }))
    expect(view('bob', 4)).toEqual([
      'user| ?',
      'assistant| paper',
      'user| ann: rock',
      'assistant| why',
      'user| ann: again',
    ])
    expect(lines(agentView({ query: '?', turns: round.slice(0, 1), agent: 'bob', sees: 0 }))).toEqual(['user| ?'])
  })

  it('keeps pictures, and no thoughts of others', () => {
    const picture = { type: 'image' as const, source: { url: 'https://example.org/a.png' } }
    const shown: AgentTurn = { agent: 'ann', message: message('assistant', [picture], { reasoning: 'secret' }), saw: 0 }
    const view = agentView({ query: '?', turns: [shown, turn('ann', 'See?', 1)], agent: 'bob', sees: 2 })
    expect(view.messages.get(0)!.content).toEqual([
      { type: 'text', text: '?\n\nann: ' },
      picture,
      { type: 'text', text: 'ann: See?' },
    ])
    expect(JSON.stringify(view)).not.toContain('secret')
  })

  it('law: the next view of an agent begins with its view before and what it wrote', () => {
    const orders = fc.constantFrom(roundRobin(), simultaneous(), byMention())
    const texts = fc.array(fc.oneof(fc.string(), fc.constantFrom('@ann', '@bob')), { maxLength: 12 })
    fc.assert(
      fc.property(orders, texts, fc.constantFrom<OthersAs>('merged', 'separate'), (order, written, others) => {
        let known: readonly AgentTurn[] = []
        const left = new Map<string, History>()
        for (const text of written) {
          const next = order(known, ['ann', 'bob', 'cat'], '')
          if (next === 'end') return
          const view = agentView({ query: 'Q', turns: known, ...next }, others)
          const before = left.get(next.agent)
          if (before !== undefined) expect(lines(view).slice(0, before.messages.size)).toEqual(lines(before))
          const said = message('assistant', text)
          left.set(next.agent, appendMessage(view, said))
          known = [...known, { agent: next.agent, message: said, saw: next.sees }]
        }
      }),
    )
  })
})
