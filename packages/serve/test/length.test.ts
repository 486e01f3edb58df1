/** Too long prompts are rejected without encoding all of them, and do not block other requests. */
import { describe, expect, it } from 'vitest'
import { failingTokenizer, UNENCODABLE } from '../../../test/kit/hostileTokenizer.js'
import { post, saying, served, servedText, tokenizer } from '../../../test/kit/served.js'
import { tooLong } from '../src/requests/length.js'

/** A tokenizer that counts the characters it encodes. */
const counting = () => {
  let characters = 0
  let longest = 0
  const encode: typeof tokenizer.encode = (text, options) => {
    characters += text.length
    longest = Math.max(longest, text.length)
    return tokenizer.encode(text, options)
  }
  return { encode, characters: () => characters, longest: () => longest }
}

const HUGE = 'x'.repeat(10_000_000)

describe('a prompt that is too long by far', () => {
  it.each<readonly [string, object]>([
    ['a text', { prompt: HUGE }],
    ['one of several texts', { prompt: ['a', HUGE] }],
    ['a message', { messages: [{ role: 'user', content: HUGE }] }],
    [
      'parts of messages',
      { messages: Array(2000).fill({ role: 'user', content: [{ type: 'text', text: 'x'.repeat(5000) }] }) },
    ],
    ['the description of a tool', { messages: [], tools: [{ function: { description: HUGE } }] }],
    ['to be truncated', { prompt: HUGE, truncate_prompt_tokens: 5 }],
  ])('%s is refused after as many tokens as there is room for, in slices', async (_, body) => {
    const counted = counting()
    const refused = await tooLong(body, { maxModelLength: 10_000, tokenizer: counted })
    expect(refused).toMatchObject({ status: 400, param: 'input_tokens' })
    expect(counted.characters()).toBeLessThan(60_000)
    expect(counted.longest()).toBeLessThan(10_000)
  })

  it('of ids is counted alone', async () => {
    const counted = counting()
    const ids = Array(20_000).fill(1)
    for (const body of [{ prompt: ids }, { prompt: [[1], ids] }, { token_ids: ids }, { tokens: ids }])
      expect(await tooLong(body, { maxModelLength: 10_000, tokenizer: counted })).toBeDefined()
    expect(counted.characters()).toBe(0)
  })

  it('lets others be answered meanwhile', async () => {
    let turns = 0
    const refusing = tooLong({ prompt: HUGE }, { maxModelLength: 100_000, tokenizer })
    const turn = setInterval(() => turns++, 0)
    await refusing
    clearInterval(turn)
    expect(turns).toBeGreaterThan(3)
  })

  it.each(['/v1/completions', '/tokenize'])('is a bad request to %s', async (path) => {
    const { status, json } = await post(served(saying('x')), path, { prompt: 'x'.repeat(100_000) })
    expect([status, JSON.stringify(json)]).toEqual([400, expect.stringContaining('maximum context length is')])
  })
})

it.each(['/v1/completions', '/tokenize'])(
  'a prompt that the tokenizer of a hostile model needs too much work for is a bad request to %s',
  async (path) => {
    const text = { ...servedText, tokenizer: failingTokenizer() }
    const { status, json } = await post(served(saying('x'), { text }), path, { prompt: UNENCODABLE })
    expect([status, JSON.stringify(json)]).toEqual([400, expect.stringContaining('the tokenizer needs more than')])
  },
)

describe('a prompt that fits', () => {
  it('or is a little too long is left to be encoded as a whole', async () => {
    for (const body of [
      { prompt: 'x'.repeat(9000) },
      { prompt: Array(100).fill('x'.repeat(9000)) },
      { prompt: [1, 2] },
      {},
    ])
      expect(await tooLong(body, { maxModelLength: 10_000, tokenizer })).toBeUndefined()
  })
})
