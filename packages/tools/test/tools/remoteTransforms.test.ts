/** Tools outside the process in conversations: messages to the policy. */
import { InMemoryTransport } from '@modelcontextprotocol/sdk/inMemory.js'
import { keyFromSeed } from '@tandem-rl/base'
import { message, type ToolCall, textOf } from '@tandem-rl/text'
import { own } from '@tandem-rl/tfjs-onnxruntime/scope'
import { right } from 'fp-ts/lib/Either.js'
import { pipe } from 'fp-ts/lib/function.js'
import { describe, expect, it } from 'vitest'
import { data } from '../../../../src/data/tensorDict/leaf.js'
import { get, TensorDict } from '../../../../src/data/tensorDict/tensorDict.js'
import { ChatEnv } from '../../../../src/envs/chatEnv.js'
import { append } from '../../../../src/envs/transforms/transform.js'
import { answered, asking } from '../../../../test/kit/conversation.js'
import { useEngine } from '../../../../test/kit/engine.js'
import { closesTools, openTools } from '../../../../test/kit/mcp.js'
import { makeMcpServer } from '../../../../test/kit/mcpServer.mjs'
import { callOf } from '../../../../test/kit/tools.js'
import type { Browser } from '../../src/tools/browser.js'
import { BrowserTransform } from '../../src/tools/browserTool.js'
import { MCPToolTransform } from '../../src/tools/mcpToolTransform.js'
import type { SimpleToolTransform } from '../../src/tools/simpleToolTransform.js'

useEngine()
closesTools()

/** Plays messages with calls in one conversation: what was said last after each. */
const play = async (transform: ReturnType<typeof SimpleToolTransform>, ...turns: readonly (readonly ToolCall[])[]) => {
  const env = pipe(ChatEnv({ batchSize: 1 }), append(transform))
  const heard: string[] = []
  let held = own(await answered(env.reset(asking('Q'), keyFromSeed(0))))
  for (const toolCalls of turns) {
    const action = TensorDict({ history: { response: data([message('assistant', '', { toolCalls })]) } }, [1])
    const next = own(await answered(env.step(held.value, action)))
    held.release()
    held = next as typeof held // a stepped state is a state
    heard.push(textOf(get(held.value, 'history', 'prompt').items.get(0)!.messages.last()!))
  }
  held.release()
  return heard
}

describe('MCPToolTransform', () => {
  it('puts what the tools of a server say behind the calls', async () => {
    const open = async () => {
      const [ours, theirs] = InMemoryTransport.createLinkedPair()
      await makeMcpServer({ die: () => theirs.close() }).connect(theirs)
      return ours
    }
    const mcp = await openTools({ servers: { near: { kind: 'transport', open } } })
    const transform = MCPToolTransform(mcp)
    expect(transform.name).toBe('MCPToolTransform')
    const heard = await play(
      transform,
      [callOf('near.add', { a: 1, b: 2 })],
      [callOf('near.fail')],
      [callOf('near.nothing')],
      [callOf('near.add', { a: 'x' })],
    )
    expect(heard).toEqual([
      '3',
      'error: no such customer',
      expect.stringContaining('there is no tool "near.nothing"; available: near.add, '),
      expect.stringMatching(/^error: .*validation/i),
    ])
  })
})

describe('BrowserTransform', () => {
  it('keeps which page a conversation has in its state, from one call to the next', async () => {
    const seen: unknown[] = []
    const browser: Browser = {
      act: async (ref, action) => {
        seen.push([ref, action.action])
        return { _tag: 'Done', result: right(`did ${action.action}`), page: { page: 'p', step: ref.step + 1 } }
      },
      pages: () => 1,
      close: async () => {},
    }
    const turns = [
      [callOf('browser', { action: 'navigate', url: 'https://a.test' })],
      [
        callOf('browser', { action: 'scroll' }),
        callOf('browser', { action: 'click' }),
        callOf('browser', { action: 'extract' }),
      ],
    ]
    expect(await play(BrowserTransform(browser), ...turns)).toEqual(['did navigate', 'did extract'])
    expect(seen).toEqual([
      [{ page: null, step: 0 }, 'navigate'],
      [{ page: 'p', step: 1 }, 'scroll'],
      [{ page: 'p', step: 2 }, 'extract'],
    ])
  })
})
