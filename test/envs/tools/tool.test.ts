/** Tools made from a schema and a function. */
import * as E from 'fp-ts/lib/Either.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import { keyFromSeed } from '../../../src/core/key.js'
import { tool, toolFailure } from '../../../src/envs/tools/tool.js'

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

  it('tells every argument that does not fit, and does not run', async () => {
    const result = await count.call({ by: 'two', other: 1 }, context)()
    expect(result).toMatchObject(E.left({ _tag: 'ToolFailure', tool: 'count', kind: 'arguments' }))
    expect(JSON.stringify(result)).toMatch(/other.*by/s)
  })

  it('tells what its function threw, and what it failed with', async () => {
    const parts = { name: 'bad', description: '', parameters: {}, initial: null }
    const throws = tool({ ...parts, run: () => Promise.reject(new Error('no paper left')) })
    expect(await throws.call({}, context)()).toEqual(E.left(toolFailure('bad', 'failed', 'no paper left')))
    const dead = tool({ ...parts, run: () => TE.left(toolFailure('bad', 'infrastructure', 'no server')) })
    expect(await dead.call({}, context)()).toEqual(E.left(toolFailure('bad', 'infrastructure', 'no server')))
  })
})
