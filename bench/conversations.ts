/**
 * Measures thousands of conversations at once from one process, against a scripted server with a
 * fixed number of slots: the load of the server, the cost of a request for the client, and memory
 * over time. `--peer` runs the same requests through undici alone.
 *
 *     npm run bench -- conversations --peer
 *
 * The server's slots are busy while there is a request for each: a load below 100 % is the delay
 * of the client.
 */
import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { child, describe, type Key, keyFromSeed, uniformInteger } from '@tandem-rl/base'
import { host } from '@tandem-rl/base/host'
import { liveTransport } from '@tandem-rl/host'
import { Command } from 'commander'
import { isLeft } from 'fp-ts/lib/Either.js'
import { Agent } from 'undici'
import { data, ragged, raggedRow } from '../src/data/tensorDict/leaf.js'
import { get, TensorDict } from '../src/data/tensorDict/tensorDict.js'
import { vLLMClient } from '../src/modules/remote/vllm/client.js'
import { vLLMWrapper } from '../src/modules/remote/vllm/vLLMWrapper.js'
import type { SlotReport } from './shared/slotServer.js'

interface Options {
  readonly conversations: number
  readonly turns: number
  readonly slots: number
  readonly msPerToken: number
  readonly peer?: true
}

const options = new Command()
  .description('Runs many conversations at once against a scripted server.')
  .option('--conversations <n>', 'conversations at a time', Number, 2000)
  .option('--turns <n>', 'turns of each', Number, 6)
  .option('--slots <n>', 'requests that the server works on at a time', Number, 512)
  .option('--ms-per-token <n>', 'milliseconds of the server for a token', Number, 10)
  .option('--peer', 'the same requests through undici alone, besides')
  .parse()
  .opts<Options>()

const LENGTHS = [32, 64, 128, 256]
const PROMPT = 64
/** Tokens of the environment between two turns. */
const BETWEEN = 16

interface Scripted {
  readonly url: string
  readonly report: () => Promise<SlotReport>
  readonly stop: () => void
}

const message = async (process: ChildProcess): Promise<unknown> => (await once(process, 'message'))[0]

const startServer = async (): Promise<Scripted> => {
  const server = fork('bench/shared/slotServer.ts', [String(options.slots), String(options.msPerToken)], {
    execArgv: ['--import', 'tsx'],
  })
  const port = await message(server)
  return {
    url: `http://127.0.0.1:${port}`,
    report: async () => {
      const told = message(server)
      server.send('report')
      return (await told) as SlotReport // sent by slotServer.ts
    },
    stop: () => void server.kill(),
  }
}

/** Replies with `length` tokens to a prompt. */
type Say = (prompt: Int32Array, length: number, key: Key) => Promise<ArrayLike<number>>

const lengthOf = (key: Key): number => LENGTHS[uniformInteger(key, LENGTHS.length)]!

const converse = async (say: Say, key: Key): Promise<void> => {
  let tokens = Int32Array.from({ length: PROMPT }, (_, t) => t % 100)
  for (let turn = 0; turn < options.turns; turn++) {
    const own = child(key, turn)
    const response = await say(tokens, lengthOf(own), own)
    tokens = Int32Array.from([...tokens, ...Array.from(response), ...new Array<number>(BETWEEN).fill(9)])
  }
}

const policySays = (url: string): { readonly say: Say; readonly close: () => Promise<void> } => {
  const transport = liveTransport({ url, connections: options.conversations })
  const client = vLLMClient({ transport, model: 'scripted', vocabularySize: 512, endTokens: [] })
  const policy = vLLMWrapper({ clients: [client], limits: { maxConcurrent: options.conversations } })
  const byLength = new Map(LENGTHS.map((length) => [length, policy.withSampling({ maxTokens: length })]))
  return {
    say: async (prompt, length, key) => {
      const state = TensorDict({ tokens: { prompt: ragged('int32', [prompt]), spans: data([[]]) } }, [1])
      const action = await byLength.get(length)!.act(state, key)()
      if (isLeft(action)) throw new Error(describe(action.left))
      return raggedRow(get(action.right, 'tokens', 'response'), 0)
    },
    close: policy.close,
  }
}

const undiciSays = (url: string): { readonly say: Say; readonly close: () => Promise<void> } => {
  const agent = new Agent({ connections: options.conversations, pipelining: 1, keepAliveTimeout: 4000 })
  return {
    say: async (prompt, length) => {
      const body = {
        model: 'scripted',
        token_ids: Array.from(prompt),
        sampling_params: { n: 1, max_tokens: length, temperature: 1, logprobs: 0 },
      }
      const reply = await agent.request({
        origin: url,
        path: '/inference/v1/generate',
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify(body),
      })
      const json = (await reply.body.json()) as { readonly choices: readonly [{ readonly token_ids: number[] }] } // slotServer.ts
      return json.choices[0].token_ids
    },
    close: () => agent.close(),
  }
}

const megabytes = (bytes: number): number => Math.round(bytes / 2 ** 20)

/** Heap in use after a collection, where the process may ask for one. */
const heap = (): number => {
  globalThis.gc?.()
  return megabytes(process.memoryUsage().heapUsed)
}

const measure = async (name: string, make: typeof policySays): Promise<void> => {
  const server = await startServer()
  const { say, close } = make(server.url)
  const run = (count: number, key: Key): Promise<unknown> =>
    Promise.all(Array.from({ length: count }, (_, i) => converse(say, child(key, i))))
  await run(options.slots, keyFromSeed(0)) // connections, compiled code
  const before = heap()
  await server.report()
  const used = process.cpuUsage()
  const heaps: number[] = []
  // Each conversation that ends is followed by another, so that all are always there; the last ones run out while the server is not measured.
  let isOver = false
  let [started, finished] = [0, 0]
  const lane = async (i: number): Promise<void> => {
    for (let round = 0; !isOver; round++) {
      started++
      await converse(say, child(child(keyFromSeed(1), i), round))
      finished++
    }
  }
  const lanes = Promise.all(Array.from({ length: options.conversations }, (_, i) => lane(i)))
  for (let part = 0; part < 4; part++) {
    const goal = finished + options.conversations / 2
    while (finished < goal) await new Promise((resolve) => setTimeout(resolve, 50))
    heaps.push(heap())
  }
  const cpu = process.cpuUsage(used)
  const report = await server.report()
  isOver = true
  await lanes
  const after = heap()
  const cpuMs = (cpu.user + cpu.system) / 1000
  console.log(
    JSON.stringify({
      name,
      conversations: options.conversations,
      slots: options.slots,
      msPerToken: options.msPerToken,
      started,
      requests: report.requests,
      requestsPerSecond: Math.round(report.requests / report.seconds),
      serverBusy: Number(report.busy.toFixed(4)),
      meanInFlight: Math.round(report.meanInFlight),
      clientCpuMsPerRequest: Number((cpuMs / report.requests).toFixed(3)),
      heapMegabytes: { before, during: heaps, after },
      rssMegabytes: megabytes(process.memoryUsage().rss),
    }),
  )
  await close()
  server.stop()
}

console.log(JSON.stringify(host()))
await measure('vLLMWrapper', policySays)
if (options.peer) await measure('undici alone', undiciSays)
