/** Tools of real MCP servers that are processes of their own, good ones and bad ones. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Transport } from '@modelcontextprotocol/sdk/shared/transport.js'
import { liveProcesses } from '@tandem-rl/host'
import * as E from 'fp-ts/lib/Either.js'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import {
  closesTools,
  lyingProgram,
  mcpProgram,
  type OpenedTools,
  openTools,
  refusalOf,
} from '../../../../test/kit/mcp.js'
import { mcpTools } from '../../src/tools/mcpTools.js'
import type { Tool } from '../../src/tools/tool.js'

const folder = mkdtempSync(join(tmpdir(), 'tandem-mcp-'))
afterAll(() => rmSync(folder, { recursive: true }))
closesTools()

describe('tools of a server that is a process', () => {
  const told: string[][] = []
  let one: OpenedTools
  beforeAll(async () => {
    process.env.TANDEM_TEST_SECRET = 'of-this-process'
    const onTools = (now: readonly Tool[]) => told.push(now.map(({ name }) => name))
    one = await openTools({ servers: { one: mcpProgram({ API_TOKEN: 's3cret' }) }, onTools })
    delete process.env.TANDEM_TEST_SECRET
  })

  it('have the names, descriptions and schemas of the server, and give its answers', async () => {
    expect(one.tools().find(({ name }) => name === 'one.add')).toMatchObject({
      description: 'Does add.',
      parameters: { type: 'object', properties: { a: { type: 'number' } }, required: ['a', 'b'] },
      initial: null,
    })
    expect(await one.call('one.add', { a: 2, b: 40 })).toEqual(E.right({ content: '42', state: null }))
    expect(await one.call('one.echo', { text: 'ñ\u2028 \ud800 "' })).toMatchObject(
      E.right({ content: 'ñ\u2028 \ud800 "' }),
    )
    expect(await one.call('one.add', { a: 'two' })).toMatchObject(E.left({ kind: 'failed' }))
    expect(await one.call('one.fail')).toMatchObject(E.left({ kind: 'failed', reason: 'no such customer' }))
    expect(await one.call('one.picture')).toMatchObject(
      E.right({
        content: [
          { type: 'text', text: 'a dot' },
          { type: 'image', source: { base64: 'iVBORw0KGgo=', mediaType: 'image/png' } },
          { type: 'text', text: 'note' },
          { type: 'text', text: '[file:///data.bin: 3 bytes of application/zip]' },
          { type: 'text', text: '[link](https://example.org/)' },
        ],
      }),
    )
  })

  it('are cancelled at the server when the caller is gone', async () => {
    const mine = new AbortController()
    const given = one.call('one.sleep', {}, mine.signal)
    const calls = async () => JSON.stringify(await one.call('one.calls'))
    await expect.poll(calls).toContain('sleep\\":1')
    mine.abort()
    expect(await given).toMatchObject(E.left({ kind: 'timeout' }))
    await expect.poll(calls).toContain('cancelled\\":1')
  })

  it('are notified of changes', async () => {
    expect(told).toEqual([])
    await one.call('one.grow')
    await expect.poll(() => told.at(-1)).toContain('one.grown')
    expect(one.tools().map(({ name }) => name)).toContain('one.grown')
    expect(await one.call('one.grown')).toMatchObject(E.right({ content: 'new' }))
  })

  it('get no variables but those that they are given and need, and no error or answer shows them', async () => {
    const seen = await one.call('one.environment')
    expect(JSON.stringify(seen)).toContain('API_TOKEN')
    expect(JSON.stringify(seen)).not.toMatch(/s3cret|TANDEM_TEST_SECRET/)
    expect(await one.call('one.die')).toMatchObject(
      E.left({
        kind: 'infrastructure',
        reason: expect.stringMatching(/lost during the call: it ended with code 3; .*the disk is full, says \*\*\*/),
      }),
    )
  })

  it('work again after the server died; a call that may be repeated does not even fail', async () => {
    expect(one.connects()).toEqual({ one: 1 })
    expect(await one.call('one.dieOnce', { file: join(folder, 'mark') })).toMatchObject(E.right({ content: 'alive' }))
    expect(one.connects()).toEqual({ one: 3 })
    const died = await Promise.all([1, 2, 3].map(() => one.call('one.die')))
    for (const each of died) expect(each).toMatchObject(E.left({ kind: 'infrastructure' }))
    expect(await one.call('one.add', { a: 1, b: 1 })).toMatchObject(E.right({ content: '2' }))
    expect(one.connects()).toEqual({ one: 4 })
  })

  it('may be called otherwise, but no two the same; then nothing is left running', async () => {
    const servers = { one: lyingProgram('error'), two: lyingProgram('error') }
    const { tools } = await openTools({ servers, nameOf: (server, tool) => `${tool}_${server}` })
    expect(tools().map(({ name }) => name)).toEqual(['do_one', 'do_two'])
    expect(await refusalOf({ servers, nameOf: (_, tool) => tool })).toMatchObject({
      reason: expect.stringContaining("two tools are called 'do'"),
    })
  })
})

const quick = { attempts: 1, pingMs: 300 }

describe('a server that never answers', () => {
  it('is waited for once, not once for each attempt', async () => {
    const limits = { connectMs: 300, attempts: 5, pauseMs: 1, graceMs: 100 }
    let connects = 0
    const processes = {
      ...liveProcesses,
      converse: (program: Parameters<typeof liveProcesses.converse>[0]) => {
        connects++
        return liveProcesses.converse(program)
      },
    }
    const failure = await refusalOf({ servers: { mute: lyingProgram('mute') }, limits, world: { processes } })
    expect(failure).toMatchObject({ kind: 'unreachable' })
    expect(connects).toBe(1)
  })

  it.each<readonly [string, () => Promise<Transport>]>([
    ['opens', () => new Promise(() => {})],
    ['closes', async () => ({ start: async () => {}, send: async () => {}, close: () => new Promise(() => {}) })],
  ])('is given up if its own transport never %s', async (_, open) => {
    const limits = { connectMs: 50, attempts: 2, pauseMs: 1, graceMs: 50 }
    const failure = await refusalOf({ servers: { own: { kind: 'transport', open } }, limits })
    expect(failure).toMatchObject({ kind: 'unreachable' })
  })
})

describe('a server that lies', () => {
  it.each([
    ['circle', 'protocol', 'its list of tools has a cycle'],
    ['endless', 'protocol', 'more than 20 tools'],
    ['twice', 'protocol', 'lists the tool "a" twice'],
    ['shapeless', 'protocol', 'expected array'],
    ['version', 'protocol', 'protocol version is not supported: 1999-01-01'],
    ['mute', 'unreachable', 'was not initialized within 300 ms'],
  ])('about itself (%s) is refused, and ended', async (way, kind, reason) => {
    const limits = { ...quick, maxTools: 20, graceMs: 100, connectMs: way === 'mute' ? 300 : 60_000 }
    expect(await refusalOf({ servers: { liar: lyingProgram(way) }, limits })).toMatchObject({
      ...{ _tag: 'McpFailure', server: 'liar', kind },
      reason: expect.stringContaining(reason),
    })
  })

  it.each([
    ['error', 'failed', 'out of paper'],
    ['shape', 'infrastructure', 'its result violates the protocol'],
    ['dies', 'infrastructure', 'it ended with code 1'],
    ['half', 'infrastructure', 'it ended with code 0'],
    ['huge', 'infrastructure', 'a message of more than 100000 bytes'],
    ['flood', 'infrastructure', '1001 lines that are not messages'],
    ['wrongId', 'timeout', 'no answer within'],
    ['deaf', 'timeout', 'no answer within'],
  ])('in an answer (%s) fails the call as %s', async (way, kind, reason) => {
    const callMs = kind === 'timeout' ? 300 : 60_000
    const { call } = await openTools({
      servers: { liar: lyingProgram(way) },
      limits: { ...quick, maxBytes: 100_000, callMs },
    })
    expect(await call('liar.do')).toMatchObject(E.left({ kind, reason: expect.stringContaining(reason) }))
  })

  it('with malformed lines is reported, and its answers count', async () => {
    const notes: string[] = []
    const { call } = await openTools({ servers: { liar: lyingProgram('garbage') }, onNote: (note) => notes.push(note) })
    expect(await call('liar.do')).toMatchObject(E.right({ content: 'after garbage' }))
    expect(notes.length).toBe(4)
    expect(notes[0]).toMatch(/^liar: .*JSON/)
  })

  it('that hears nothing any more is ended after the ping, and started again', async () => {
    const { call, connects } = await openTools({
      servers: { liar: lyingProgram('deaf') },
      limits: { ...quick, callMs: 200 },
    })
    await call('liar.do')
    await expect.poll(async () => [await call('liar.do'), connects().liar].at(-1)).toBe(2)
  })

  it('with a long answer is cut, with a mark', async () => {
    const { call } = await openTools({ servers: { liar: lyingProgram('long') }, limits: { maxText: 10 } })
    expect(await call('liar.do')).toMatchObject(E.right({ content: `${'é'.repeat(10)}\n[cut: 10 of 5000 characters]` }))
  })

  it('that does not want to end is ended', async () => {
    const { close } = await openTools({ servers: { liar: lyingProgram('stubborn') }, limits: { graceMs: 50 } })
    await close()
  })

  it('that dies again and again is left alone for a while', async () => {
    const { call, connects } = await openTools({
      servers: { liar: lyingProgram('dies') },
      limits: { ...quick, connectsPerMinute: 3 },
    })
    await call('liar.do')
    expect(await call('liar.do')).toMatchObject(
      E.left({ kind: 'infrastructure', reason: expect.stringContaining('3 times within a minute') }),
    )
    expect(connects()).toEqual({ liar: 3 })
  })
})

describe('mcpTools', () => {
  it('names the program that cannot be started, after some attempts', async () => {
    const servers = { none: { kind: 'stdio', command: '/no/such/server' } as const }
    expect(await refusalOf({ servers, limits: { attempts: 2, pauseMs: 1 } })).toMatchObject({
      kind: 'unreachable',
      reason: "the MCP server 'none': /no/such/server: there is no such program",
    })
  })

  it('reports the missing package', async () => {
    const load = () => Promise.reject(new Error('Cannot find package'))
    expect(await refusalOf({ servers: {}, world: { load } })).toMatchObject({
      kind: 'package',
      reason: expect.stringContaining('npm install @modelcontextprotocol/sdk'),
    })
  })

  it('refuses limits and addresses that cannot be used, and arguments that cannot be sent', async () => {
    const servers = {
      one: { kind: 'http', url: 'ftp://example.org' },
      two: { kind: 'http', url: 'https://ann:pass@example.org' },
    } as const
    expect(() => mcpTools({ servers, limits: { callMs: 0, maxText: Number.NaN } })).toThrow(
      /servers.one: url: .*; servers.two: url: pass a user and password in [^:]*; callMs must be above 0, got 0; maxText must be above 0, got NaN/,
    )
    const { call } = await openTools({ servers: { one: lyingProgram('error') }, limits: { maxBytes: 1000 } })
    expect(await call('one.do', { text: 'x'.repeat(2000) })).toMatchObject(E.left({ kind: 'arguments' }))
    const deep = JSON.parse(`${'['.repeat(6000)}${']'.repeat(6000)}`) as unknown
    expect(await call('one.do', { deep })).toMatchObject(E.left({ kind: 'arguments' }))
  })
})
