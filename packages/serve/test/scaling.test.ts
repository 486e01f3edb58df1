/** Requests with many small parts take time in proportion to their size. */
import { orThrow } from '@tandem-rl/base'
import * as E from 'fp-ts/lib/Either.js'
import { describe, expect, it } from 'vitest'
import { cpuSeconds, expectLinear } from '../../../test/kit/scaling.js'
import { post, saying, served, servedText, tokenizer } from '../../../test/kit/served.js'
import { continueConversation, makeAnswers, rememberAnswer } from '../src/capture/continuation.js'
import { tooLong } from '../src/requests/length.js'
import { conversation } from '../src/requests/messages.js'
import { responseMemory } from '../src/requests/responseMemory.js'
import { chatOfResponses } from '../src/requests/responses.js'

const chat = (count: number) =>
  Array.from({ length: count }, (_, i) => ({
    role: i % 2 === 0 ? ('user' as const) : ('assistant' as const),
    content: 'x',
  }))

describe('the CPU time grows as the number of messages for', () => {
  it('the items of a request of the Responses API', () => {
    expectLinear((count) => {
      const input = [
        ...Array(count).fill({ role: 'assistant', content: 'x' }),
        ...Array(count).fill({ type: 'function_call', call_id: 'a', name: 'f', arguments: '{}' }),
      ]
      return cpuSeconds(() => expect(E.isRight(chatOfResponses({ input }, responseMemory()))).toBe(true))
    }, 4000)
  })

  it('a captured conversation that continues none of the answers', () => {
    const answers = makeAnswers()
    const first = orThrow(conversation(servedText, { messages: chat(1) }))
    const answer = {
      ids: new Int32Array(),
      stopReason: null,
      callIds: new Set<string>(),
      answer: { text: 'y', calls: [] },
    }
    rememberAnswer(answers, { fields: { messages: chat(1) }, conversation: first }, answer)
    expectLinear((count) => {
      const fields = { messages: chat(count) }
      const rendered = orThrow(conversation(servedText, fields))
      return cpuSeconds(() => {
        const continued = continueConversation(servedText, fields, { conversation: rendered, answers, endTokens: [] })
        expect(continued.from).toBe('render')
      })
    }, 2000)
  })
})

describe('a conversation of more messages than the context has tokens', () => {
  it.each([
    ['/v1/chat/completions', { messages: chat(40_000) }],
    ['/v1/messages', { messages: chat(40_000), max_tokens: 1 }],
    ['/v1/messages/count_tokens', { messages: chat(40_000) }],
    ['/v1/responses', { input: chat(40_000) }],
    ['/tokenize', { messages: chat(40_000) }],
  ])('is refused by %s before it is rendered', async (path, body) => {
    const { status, text } = await post(served(saying('x')), path, body)
    expect([status, text]).toEqual([400, expect.stringContaining('your conversation contains 40000 messages')])
  })

  it('may have four times as many if the prompt is to be truncated', async () => {
    const at = { maxModelLength: 10, tokenizer }
    expect(await tooLong({ messages: chat(10) }, at)).toBeUndefined()
    expect(await tooLong({ messages: chat(11) }, at)).toBeDefined()
    expect(await tooLong({ messages: chat(40), truncate_prompt_tokens: 5 }, at)).toBeUndefined()
    expect(await tooLong({ messages: chat(41), truncate_prompt_tokens: 5 }, at)).toBeDefined()
  })
})
