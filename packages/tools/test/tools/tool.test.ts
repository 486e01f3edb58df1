/** Tools made from a schema and a function. */
import { keyFromSeed } from '@tandem-rl/base'
import type { ContentPart } from '@tandem-rl/text'
import * as E from 'fp-ts/lib/Either.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import { tool, toolFailure } from '../../src/tools/tool.js'

const context = { state: 0, key: keyFromSeed(0), signal: new AbortController().signal }

const count = tool({
  name: 'count',
  description: 'Counts.',
  parameters: { by: z.number().int().describe('how many'), note: z.string().default('') },
  initial: 0,
  run: async ({ by, note }, { state }) => ({ content: `${note}${state + by}`, state: state + by }),
})

describe('tool', () => {
  it('has the JSON schema of its arguments', () => {
    expect(count.parameters).toMatchObject({
      type: 'object',
      properties: { by: { type: 'integer', description: 'how many' }, note: { type: 'string', default: '' } },
      required: ['by'],
      additionalProperties: false,
    })
  })

  it('gives its reply and its next state, with the defaults of the schema', async () => {
    expect(await count.call({ by: 2 }, { ...context, state: 40 })()).toEqual(E.right({ content: '42', state: 42 }))
  })

  it('is a name, the arguments and a function in short, whose text is the result', async () => {
    const shout = tool('shout', z.object({ text: z.string() }).describe('Shouts.'), async ({ text }) =>
      text.toUpperCase(),
    )
    expect(shout).toMatchObject({ name: 'shout', description: 'Shouts.', initial: null })
    expect(shout.parameters).toMatchObject({ properties: { text: { type: 'string' } }, required: ['text'] })
    expect(await shout.call({ text: 'hi' }, { ...context, state: null })()).toEqual(
      E.right({ content: 'HI', state: null }),
    )
    expect(await shout.call({ txt: 'hi' }, context)()).toMatchObject({ left: { kind: 'arguments' } })
    expect(tool('plain', z.object({}), () => '').description).toBe('plain')
    expect(() => tool('bad', { text: z.string() } as never, () => '')).toThrow('must be a z.object')
    expect(() => tool('bad', z.object({}), 'x' as never)).toThrow('must be a function, got string')
  })

  it('keeps its state where the result has none, and needs no initial one', async () => {
    const parts = { name: 'kept', description: '', parameters: {} }
    const results = ['text', { content: 'text' }, { content: 'text', status: 'finish' as const }]
    for (const result of results) {
      const kept = tool({ ...parts, initial: 1, run: () => result })
      expect(await kept.call({}, { ...context, state: 7 })()).toMatchObject(E.right({ content: 'text', state: 7 }))
    }
    expect(tool({ ...parts, run: () => '' }).initial).toBeNull()
  })

  it('reports every argument that does not fit, and does not run', async () => {
    const result = await count.call({ by: 'two', other: 1 }, context)()
    expect(result).toMatchObject(E.left({ _tag: 'ToolFailure', tool: 'count', kind: 'arguments' }))
    expect(JSON.stringify(result)).toMatch(/other.*by/s)
  })

  it('truncates the text of long results, with a note that counts the rest', async () => {
    const parts = { name: 'long', description: '', parameters: {}, initial: null, maxLength: 4 }
    const said = async (content: string | readonly ContentPart[]) => {
      const ran = await tool({ ...parts, run: async () => ({ content, state: null }) }).call({}, context)()
      return E.isRight(ran) ? ran.right.content : ran.left
    }
    expect(await said('abcd')).toBe('abcd')
    expect(await said('abc\ud83d\ude00ef')).toBe('abc...\n[4 more characters]')
    const [text, image] = [{ type: 'text', text: 'abc' } as const, { type: 'image', source: { url: 'a.png' } } as const]
    expect(await said([text, image])).toEqual([text, image])
    expect(await said([text, image, text, text])).toEqual([
      ...[text, image, { type: 'text', text: 'a' }, { type: 'text', text: '\n[5 more characters]' }],
    ])
    expect(() => tool({ ...parts, maxLength: 0, run: async () => ({ content: '', state: null }) })).toThrow(
      'tool: maxLength must be at least 1, got 0',
    )
  })

  it('fails with the error that its function threw or returned', async () => {
    const parts = { name: 'bad', description: '', parameters: {}, initial: null }
    const throws = tool({ ...parts, run: () => Promise.reject(new Error('no paper left')) })
    expect(await throws.call({}, context)()).toEqual(E.left(toolFailure('bad', 'failed', 'no paper left')))
    const dead = tool({ ...parts, run: () => TE.left(toolFailure('bad', 'infrastructure', 'no server')) })
    expect(await dead.call({}, context)()).toEqual(E.left(toolFailure('bad', 'infrastructure', 'no server')))
  })
})
