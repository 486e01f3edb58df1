/**
 * 1,000 conversations with tools at once: every one is played to its end or called off, and nothing
 * stays behind.
 */
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { createServer, type Server } from 'node:http'
import { type AddressInfo, connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { keyFromSeed, type Limiter, limiter, orThrow, type Timers } from '@tandem-rl/base'
import { liveTimers } from '@tandem-rl/base/host'
import { scriptedPolicy } from '@tandem-rl/testing'
import { textOf } from '@tandem-rl/text'
import { pipe } from 'fp-ts/lib/function.js'
import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import { LLMCollector } from '../../../src/collectors/llmCollector.js'
import type { TextPrompt } from '../../../src/data/policy.js'
import { get, type TensorDict } from '../../../src/data/tensorDict/tensorDict.js'
import { DatasetChatEnv } from '../../../src/envs/datasetChatEnv.js'
import { TemplateTransform } from '../../../src/envs/transforms/templateTransform.js'
import { Tokenizer } from '../../../src/envs/transforms/tokenizer.js'
import { append } from '../../../src/envs/transforms/transform.js'
import { END_OF_TURN, tasks, template, tokenizer } from '../../../test/kit/conversation.js'
import { useEngine } from '../../../test/kit/engine.js'
import { SimpleToolTransform } from '../src/tools/simpleToolTransform.js'
import { type Tool, tool } from '../src/tools/tool.js'
import { ToolRegistry } from '../src/tools/toolRegistry.js'

useEngine()

const CONVERSATIONS = 1000
const GROUP = 50
const FOLDER = 'tandem-note-'

const KINDS = ['TCPSocketWrap', 'TCPServerWrap', 'PipeWrap', 'ProcessWrap']

/** Handles and memory that a forgotten call would keep. */
interface Held {
  readonly folders: readonly string[]
  /** Sockets, pipes and processes, by kind. */
  readonly resources: Readonly<Record<string, number>>
}

const held = async (): Promise<Held> => {
  const resources: Record<string, number> = {}
  for (const kind of process.getActiveResourcesInfo()) {
    if (KINDS.includes(kind)) resources[kind] = (resources[kind] ?? 0) + 1
  }
  return { folders: (await readdir(tmpdir())).filter((name) => name.startsWith(`${FOLDER}${process.pid}`)), resources }
}

/** Timers that count those that are set. */
const counted = (): Timers & { readonly set: () => number } => {
  const set = new Set<object>()
  return {
    after: (ms, ring) => {
      const bell = {}
      set.add(bell)
      const cancel = liveTimers.after(ms, () => {
        set.delete(bell)
        ring()
      })
      return () => {
        set.delete(bell)
        cancel()
      }
    },
    set: () => set.size,
  }
}

/** Keeps a text in a folder of its own for as long as the call takes. */
const note = tool({
  name: 'note',
  description: 'Writes a text to a file and reads it again.',
  parameters: { text: z.string() },
  initial: null,
  run: async ({ text }) => {
    const folder = await mkdtemp(join(tmpdir(), `${FOLDER}${process.pid}-`))
    try {
      await writeFile(join(folder, 'note'), text)
      return { content: await readFile(join(folder, 'note'), 'utf8'), state: null }
    } finally {
      await rm(folder, { recursive: true })
    }
  },
})

/** Counts how often this conversation asked. */
const count = tool({
  name: 'count',
  description: 'Counts.',
  parameters: {},
  initial: 0,
  run: async (_, { state }) => ({ content: String(state + 1), state: state + 1 }),
})

/**
 * Opens a connection and waits until all are there; the connection ends with the call, however that
 * ends.
 */
const meeting = (server: Server, size: number) => {
  let open = 0
  let close: () => void = () => {}
  const complete = new Promise<void>((resolve) => {
    close = resolve
  })
  return {
    complete,
    tool: tool({
      name: 'meet',
      description: 'Waits for the others.',
      parameters: {},
      initial: null,
      run:
        (_, { signal }) =>
        async () => {
          const socket = connect((server.address() as AddressInfo).port) // it listens on a port
          const ended = new Promise((resolve) => socket.once('close', resolve))
          try {
            await new Promise((resolve, reject) => socket.once('connect', resolve).once('error', reject))
            open++
            if (open === size) close()
            await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }))
            return { _tag: 'Right' as const, right: { content: 'nobody came', state: null } }
          } finally {
            socket.destroy()
            await ended
            open--
          }
        },
    }),
    open: () => open,
  }
}

const call = (name: string, args: object = {}): string =>
  `<tool_call>${JSON.stringify({ name, arguments: args })}</tool_call>`

interface Setup {
  readonly tools: readonly Tool[]
  readonly places: Limiter
  readonly timers: Timers
  /** The policy's reply after a number of results. */
  readonly turns: readonly string[]
}

const collectorOf = ({ tools, places, timers, turns }: Setup) => {
  const registry = ToolRegistry(tools)
  const words = turns.map((text) => [...tokenizer.encode(text + END_OF_TURN)])
  return LLMCollector({
    env: (task) =>
      pipe(
        DatasetChatEnv({ source: tasks(CONVERSATIONS), prompts: 1, repeats: GROUP, start: task }),
        append(SimpleToolTransform({ registry, format: 'hermes', limiter: places, timers })),
        append(TemplateTransform({ template, endOfTurn: END_OF_TURN })),
        append(Tokenizer({ tokenizer })),
      ),
    policy: scriptedPolicy({
      // The conversation contains its turn: each one has its own.
      answers: (state) => {
        const [asked = ''] = get(state as TensorDict as TensorDict<TextPrompt>, 'text', 'prompt').items // the chain makes it
        return words[asked.split('<|im_start|>assistant').length - 2]!
      },
    }),
    key: keyFromSeed(1),
    concurrent: { tasks: CONVERSATIONS / GROUP, maxInFlight: CONVERSATIONS },
  })
}

describe('1,000 conversations with tools at once', () => {
  it('are played to their end, each with its own results, and leave no folder, socket, timer or place behind', async () => {
    const before = await held()
    const [places, timers] = [limiter(64), counted()]
    const turns = [call('count'), call('count') + call('note', { text: 'è' }), 'Done.']
    const run = collectorOf({ tools: [count, note], places, timers, turns }).begin()
    let played = 0
    for (let taken = orThrow(await run.next()); taken._tag === 'Batch'; taken = orThrow(await run.next())) {
      using batch = taken.batch
      expect(taken.failed).toEqual([])
      const ends = get(batch.value, 'next', 'history', 'prompt').items
      const over = get(batch.value, 'next', 'done').dataSync()
      for (const [row, history] of ends.entries()) {
        if (over[row] === 0) continue
        played++
        const heard = history.messages.filter(({ role }) => role === 'tool').map(textOf)
        expect(heard.toArray()).toEqual(['1', '2', 'è'])
      }
    }
    await run.close()
    expect(played).toBe(CONVERSATIONS)
    expect([places.active(), timers.set(), run.inFlight()]).toEqual([0, 0, 0])
    expect(await held()).toEqual(before)
  }, 300_000)

  it('are called off in the middle of their calls, and every connection that they hold is closed', async () => {
    const server = createServer()
    const connections = new Set<object>()
    server.on('connection', (socket) => {
      connections.add(socket)
      socket.once('close', () => connections.delete(socket))
      socket.resume()
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', 4096, resolve))
    const before = await held()
    const [places, timers, met] = [limiter(CONVERSATIONS), counted(), meeting(server, CONVERSATIONS)]
    const run = collectorOf({ tools: [met.tool], places, timers, turns: [call('meet'), 'Done.'] }).begin()
    const asked = run.next()
    await met.complete // all 1,000 wait at the same time
    expect([run.inFlight(), met.open(), timers.set()]).toEqual([CONVERSATIONS, CONVERSATIONS, CONVERSATIONS])
    const closed = await run.close()
    await asked
    expect(closed).toMatchObject({ _tag: 'End', why: 'cancelled' })
    while (met.open() > 0 || connections.size > 0) await new Promise((resolve) => setImmediate(resolve))
    expect([places.active(), timers.set(), run.inFlight()]).toEqual([0, 0, 0])
    expect(await held()).toEqual(before)
    await new Promise((resolve) => server.close(resolve))
  }, 300_000)
})
