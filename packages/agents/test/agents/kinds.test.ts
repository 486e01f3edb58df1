/** Agents read replies, also malformed and hostile ones. */

import { calculator } from '@tandem-rl/tools'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { ACTION } from '../../src/agents/kinds/action.js'
import { BASH_SWE, CODE } from '../../src/agents/kinds/fenced.js'
import type { AgentKind } from '../../src/agents/kinds/kind.js'
import { REACT } from '../../src/agents/kinds/react.js'
import { SEARCH } from '../../src/agents/kinds/search.js'

const tools = [calculator({ name: 'search' })]
const read = (kind: AgentKind, text: string) => kind.reader!(tools)(text)
const call = (name: string, args: object) => ({ calls: [{ name, arguments: JSON.stringify(args) }], end: 'continue' })
const answer = { calls: [], end: 'continue' }
const final = { calls: [], end: 'terminal' }

describe('ReactAgent reads', () => {
  it.each([
    [
      'an input of JSON',
      'Thought: hm\nAction: search\nInput: {"expression": "1 + 1"}',
      call('search', { expression: '1 + 1' }),
      0,
    ],
    [
      'a plain input of a tool with one argument',
      'Action: search\nInput: 1 + 1',
      call('search', { expression: '1 + 1' }),
      1,
    ],
    ['the label of ReAct', 'Action: search\nAction Input: 2', call('search', { expression: '2' }), 1],
    [
      'an input in a fence',
      'Action: search\nInput:\n```json\n{"expression": "3"}\n```',
      call('search', { expression: '3' }),
      0,
    ],
    [
      'an input of several lines',
      'Action: search\nInput: 1\n+ 1\nObservation: 7',
      call('search', { expression: '1\n+ 1' }),
      1,
    ],
    [
      'the first of two actions',
      'Action: search\nInput: 1\nAction: search\nInput: 2',
      call('search', { expression: '1' }),
      1,
    ],
  ])('%s', (_, text, wanted, __) => {
    const { calls, end } = read(REACT, text)
    expect(calls.map((each) => ({ ...each, arguments: JSON.parse(each.arguments) as unknown }))).toEqual(
      wanted.calls.map((each) => ({ ...each, arguments: JSON.parse(each.arguments) as unknown })),
    )
    expect(end).toBe('continue')
  })

  it('an answer, and an action before a made-up answer', () => {
    expect(read(REACT, 'Thought: done\nFinal Answer: 4')).toEqual(final)
    expect(read(REACT, 'I do not know.')).toEqual(answer)
    expect(read(REACT, 'Action: search\nInput: 1\nFinal Answer: 1').calls).toHaveLength(1)
  })

  it('a tool that does not exist and an input that is no JSON as they were written', () => {
    expect(read(REACT, 'Action: oracle\nInput: what?').calls).toEqual([{ name: 'oracle', arguments: 'what?' }])
    expect(read(REACT, 'Action: search').calls).toEqual([{ name: 'search', arguments: '' }])
  })
})

describe('fenced agents read', () => {
  it('exactly one block of their language', () => {
    expect(read(CODE, 'So:\n```python\n6 * 7\n```')).toEqual(call('search', { expression: '6 * 7' }))
    expect(read(CODE, '```py\n1\n```\n```python\n2\n```')).toEqual(answer)
    expect(read(CODE, '```python\n1').calls).toMatchObject([{ problem: 'the block of code has no closing fence' }])
    expect(read(CODE, '```js\n1\n```')).toEqual(answer)
    expect(read(BASH_SWE, '```bash\nls -l\n```')).toEqual(call('search', { expression: 'ls -l' }))
  })
})

describe('SearchR1Agent reads', () => {
  it('the first closing tag', () => {
    expect(read(SEARCH, '<think>?</think><search> cats </search><answer>no</answer>')).toEqual(
      call('search', { expression: 'cats' }),
    )
    expect(read(SEARCH, '<answer>yes</answer><search>cats</search>')).toEqual(final)
    expect(read(SEARCH, 'search: cats')).toEqual(answer)
    const problem = '<search> has no closing tag </search>'
    expect(read(SEARCH, '<search>cats')).toEqual({ calls: [{ name: '', arguments: 'cats', problem }], end: 'continue' })
  })
})

describe('ActionAgent reads', () => {
  it('actions, summaries and the end', () => {
    expect(read(ACTION, '<action>{"name": "search", "arguments": {"expression": "1"}}</action>').calls).toEqual([
      { name: 'search', arguments: '{"expression": "1"}' },
    ])
    expect(read(ACTION, '<summarize> so far </summarize>')).toEqual(call('summarize', { summary: 'so far' }))
    expect(read(ACTION, 'All done, end task.')).toEqual(final)
    expect(read(ACTION, '<action>what?</action>').calls).toEqual([{ name: '', arguments: 'what?' }])
    for (const cut of ['<action>{"name": "search"', '<summarize>so f'])
      expect(read(ACTION, cut).calls).toMatchObject([{ name: '', problem: expect.stringContaining('no closing tag') }])
  })
})

describe('all readers', () => {
  const kinds = [REACT, CODE, BASH_SWE, SEARCH, ACTION]

  it('read any text', () => {
    const piece = fc.constantFrom(
      'Action:',
      'Input: {',
      '```python\n',
      '```',
      '<search>',
      '</search>',
      '<action>',
      '</action>',
      '{"name"',
      '\n',
      'a',
    )
    fc.assert(
      fc.property(fc.array(fc.oneof(piece, fc.string())), (pieces) => {
        for (const kind of kinds) expect(read(kind, pieces.join('')).calls.length).toBeLessThanOrEqual(1)
      }),
    )
  })

  it('need steps in proportion to the text', () => {
    for (const part of ['Action: a\nInput: {', '```python\n', '<search>', '<action>{"name": [[[', '</answer'])
      for (const kind of kinds) expect(read(kind, part.repeat(20_000)).calls.length).toBeLessThanOrEqual(1)
  })

  it('refuse tools that they cannot call', () => {
    const two = [calculator(), calculator({ name: 'other' })]
    expect(() => CODE.reader!(two)).toThrow(
      "code: expected a tool named 'code_interpreter' or a single tool, got calculator, other",
    )
    expect(() => SEARCH.reader!([])).toThrow('got none')
  })
})
