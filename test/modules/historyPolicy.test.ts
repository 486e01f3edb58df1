/** Conversations over a policy of tokens. */
import { keyFromSeed, orThrow } from '@tandem-rl/base'
import {
  checkLaws,
  historyActionSpec,
  policyFailure,
  policyLaws,
  type ScriptedCall,
  scriptedPolicy,
} from '@tandem-rl/testing'
import {
  appendMessage,
  chatTemplate,
  History,
  MALFORMED_CALL,
  message,
  renderText,
  textOf,
  toolResult,
} from '@tandem-rl/text'
import fc from 'fast-check'
import * as E from 'fp-ts/lib/Either.js'
import { describe, expect, it } from 'vitest'
import type { HistoryPrompt, TokenPrompt } from '../../src/data/policy.js'
import { data, raggedRows } from '../../src/data/tensorDict/leaf.js'
import { get, TensorDict } from '../../src/data/tensorDict/tensorDict.js'
import { type HistoryPolicyOptions, historyPolicy } from '../../src/modules/historyPolicy.js'
import { useEngine } from '../kit/engine.js'
import { failingTokenizer, UNENCODABLE } from '../kit/hostileTokenizer.js'
import { leftOf, rightOf } from '../kit/results.js'
import { byteText } from '../kit/small.js'

useEngine()

const { tokenizer, template, endOfTurn } = byteText()
const key = keyFromSeed(1)
const end = tokenizer.idOf(endOfTurn)!

const asked = (...histories: readonly History[]): TensorDict<HistoryPrompt> =>
  TensorDict({ history: { prompt: data(histories) } }, [histories.length])

const question = (text: string): History => History([message('user', text)])

/** A policy that replies with these texts, each ended by the end of a turn. */
const saying = (texts: readonly string[], options: Partial<HistoryPolicyOptions> = {}) => {
  const tokens = scriptedPolicy({ answers: texts.map((text) => [...tokenizer.encode(text), end]) })
  return { tokens, policy: historyPolicy({ policy: tokens, tokenizer, template, ...options }) }
}

const promptsOf = ([call]: readonly ScriptedCall<TokenPrompt>[]): readonly string[] =>
  raggedRows(get(call!.state, 'tokens', 'prompt')).map((ids) => tokenizer.decode(ids, 'keep'))

describe('a policy of conversations over one of tokens', () => {
  it('renders each conversation with the template, and answers with the message and its ids', async () => {
    const { tokens, policy } = saying(['four', 'six'])
    const action = await rightOf(policy.act(asked(question('2 + 2'), question('3 + 3')), key))
    const texts = [question('2 + 2'), question('3 + 3')].map((history) =>
      orThrow(renderText(template, history, { generationPrompt: 'add' })),
    )
    expect(promptsOf(tokens.calls())).toEqual(texts)
    const messages = get(action, 'history', 'response').items.toArray()
    expect(messages).toEqual([message('assistant', 'four'), message('assistant', 'six')])
    expect(raggedRows(get(action, 'tokens', 'response'))[0]).toEqual([...tokenizer.encode('four'), end])
    expect(raggedRows(get(action, 'tokens', 'prompt'))[1]).toEqual([...tokenizer.encode(texts[1]!)])
    expect(get(action, 'stopReason').items.toArray()).toEqual(['stop', 'stop'])
    expect(raggedRows(get(action, 'logProbs', 'response'))[1]).toHaveLength('six'.length + 1)
  })

  it('leaves a message unfinished that ran into the limit of tokens', async () => {
    const policy = scriptedPolicy({ answers: [{ ids: [...tokenizer.encode('fou')], stopReason: 'length' }] })
    const action = await rightOf(historyPolicy({ policy, tokenizer, template }).act(asked(question('2 + 2')), key))
    expect(get(action, 'history', 'response').items.get(0)).toEqual(message('assistant', 'fou', { isComplete: false }))
  })

  it('fails for a conversation that the tokenizer of a hostile model needs too much work for', async () => {
    const { policy } = saying(['no'], { tokenizer: failingTokenizer() })
    const { reason } = await leftOf(policy.act(asked(question(UNENCODABLE)), key))
    expect(reason).toContain('conversation 0: the tokenizer needs more than')
  })

  it('reads no control token of a text that the conversation brings', async () => {
    const { tokens, policy } = saying(['no'])
    await rightOf(policy.act(asked(question(`say ${endOfTurn}`)), key))
    const [ids] = raggedRows(get(tokens.calls()[0]!.state, 'tokens', 'prompt'))
    expect(ids!.filter((id) => id === end)).toHaveLength(1)
  })

  it('finds calls of tools, numbered so that the next message can answer them', async () => {
    const { policy } = saying(['Let me see. <tool_call>{"name": "add", "arguments": {"a": 1}}</tool_call>'], {
      toolCalls: 'hermes',
    })
    const action = await rightOf(policy.act(asked(question('1 + 1')), key))
    const said = get(action, 'history', 'response').items.get(0)!
    expect(said.toolCalls).toEqual([{ id: 'call_1_0', name: 'add', arguments: { a: 1 } }])
    expect(textOf(said)).toBe('Let me see. ')
    const longer = appendMessage(appendMessage(question('1 + 1'), said), toolResult(said.toolCalls[0]!, '2'))
    expect(longer.messages.get(2)!.toolCallId).toBe('call_1_0')
  })

  it('keeps an invalid call as marked text, with the reason', async () => {
    const { policy } = saying(['<tool_call>{"name": "add", "arguments": {"a": 1'], { toolCalls: 'hermes' })
    const action = await rightOf(policy.act(asked(question('1 + 1')), key))
    const said = get(action, 'history', 'response').items.get(0)!
    expect(said.toolCalls).toEqual([])
    expect(textOf(said)).toBe(`${MALFORMED_CALL} add({"a": 1)`)
    expect(get(action, 'malformedCalls').items.get(0)![0]).toBe("the call of 'add': the text ends before the call does")
  })

  it('reads calls as the template teaches them, where there are tools', async () => {
    const teaching = orThrow(chatTemplate(`{{ tools | tojson }} <tool_call> ${template.source}`))
    const call = '<tool_call>{"name": "now"}</tool_call>'
    const tools = [{ type: 'function', function: { name: 'now' } }]
    const read = await rightOf(saying([call], { template: teaching, tools }).policy.act(asked(question('when?')), key))
    expect(get(read, 'history', 'response').items.get(0)!.toolCalls).toHaveLength(1)
    const plain = await rightOf(saying([call], { template: teaching }).policy.act(asked(question('when?')), key))
    expect(textOf(get(plain, 'history', 'response').items.get(0)!)).toBe(call)
  })

  it.each([
    ['<think>hm</think> four', 'hm', 'four'],
    ['<think>hm', 'hm', ''],
    ['four', undefined, 'four'],
  ])('takes thoughts out of %j', async (text, reasoning, rest) => {
    const { policy } = saying([text], { thoughts: ['<think>', '</think>'] })
    const said = get(await rightOf(policy.act(asked(question('?')), key)), 'history', 'response').items.get(0)!
    expect(said.reasoning).toBe(reasoning)
    expect(textOf(said)).toBe(rest)
  })

  it('knows thoughts that the template has opened', async () => {
    const opening = orThrow(chatTemplate(`${template.source}{{ '<think>\n' if add_generation_prompt }}`))
    const { policy } = saying(['hm</think>four'], { template: opening, thoughts: ['<think>', '</think>'] })
    const said = get(await rightOf(policy.act(asked(question('?')), key)), 'history', 'response').items.get(0)!
    expect([said.reasoning, textOf(said)]).toEqual(['hm', 'four'])
  })

  it('reports every conversation that cannot be rendered, and sends none', async () => {
    const refusing = orThrow(chatTemplate("{{ raise_exception('no ' + messages[0].content) }}"))
    const { tokens, policy } = saying([], { template: refusing })
    const open = History([message('assistant', 'go', { isComplete: false })])
    const failure = await leftOf(policy.act(asked(question('a'), question('b'), open), key))
    expect(failure.kind).toBe('asked')
    expect(failure.reason).toMatch(
      /conversation 0: .*no a.*; conversation 1: .*no b.*; conversation 2: .*must be finished/,
    )
    expect(tokens.calls()).toEqual([])
  })

  it('passes the failure and the signal of the policy of tokens on', async () => {
    const failure = { ...policyFailure('the server is gone'), kind: 'infrastructure' as const }
    const seen: unknown[] = []
    const policy = historyPolicy({
      policy: {
        name: 'gone',
        act: (_state, _key, options) => async () => {
          seen.push(options?.signal)
          return E.left(failure)
        },
      },
      tokenizer,
      template,
    })
    const { signal } = new AbortController()
    expect(await leftOf(policy.act(asked(question('a')), key, { signal }))).toEqual(failure)
    expect(seen).toEqual([signal])
  })
})

describe('the laws of policies, for conversations over tokens', () => {
  const answers = (state: TensorDict<TokenPrompt>) => raggedRows(get(state, 'tokens', 'prompt'))[0]!.slice(0, 5)
  const policy = historyPolicy({ policy: scriptedPolicy({ answers }), tokenizer, template })
  const state = () => asked(question('a'), question('b'), question('a'))
  checkLaws((name, check) => it(name, check), policyLaws(fc.constant({ policy, state, spec: historyActionSpec })))
})
