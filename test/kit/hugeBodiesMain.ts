/**
 * Sends bodies of wrong elements to each route of a server without sockets, and prints the CPU time
 * and the memory that each took, as JSON lines. The only argument is the kind of the server.
 */
import { mkdtempSync, readFileSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { keyFromSeed, orThrow, protobufWriter } from '@tandem-rl/base'
import { liveTimers } from '@tandem-rl/base/host'
import { liveFiles } from '@tandem-rl/host'
import { captureApp, serveApp } from '@tandem-rl/serve'
import { tinkerApp } from '@tandem-rl/tinker/server'
import { openEnvApp } from '../../packages/serve/src/openEnv/app.js'
import { rewardApp } from '../../packages/serve/src/rewards/app.js'
import { viewApp } from '../../packages/view/src/app.js'
import { eventHub } from '../../packages/view/src/events.js'
import { envOfTask } from '../../src/envs/envOfTask.js'
import { GSM8KEnv } from '../../src/envs/gsm8kEnv.js'
import { EMBEDDED_MODEL } from '../../src/live/embeddedModel.js'
import { loadPretrained, loadText } from '../../src/modules/pretrained/pretrained.js'
import { scriptedEngine } from './plannedEngine.js'

/** A result of one body. */
export interface HugeBodyResult {
  readonly route: string
  readonly status: number
  readonly cpuSeconds: number
  readonly peakMegabytes: number
  /** Turns of the event loop meanwhile. */
  readonly turns: number
  readonly answerBytes: number
}

const SIZE = 32 * 2 ** 20

/** Wrong elements of a list. The last two are few enough to be parsed. */
const ITEMS = ['0', '{}', '"abcdefgh"', '{"a":{"b":[]}}', '0.1234567890123456', `"${'x'.repeat(60)}"`]

/** Fills the body between `head` and `tail` with items. */
const filled = (head: string, tail: string, item: string): Uint8Array<ArrayBuffer> => {
  const body = Buffer.alloc(SIZE - 1000, `${item},`)
  const end = body.lastIndexOf(`${item},`) + item.length
  return new Uint8Array(Buffer.concat([Buffer.from(head), body.subarray(0, end), Buffer.from(tail)]))
}

interface Sending {
  readonly path: string
  readonly method?: string
  readonly type?: string
  readonly body: () => Uint8Array<ArrayBuffer>
  readonly name: string
}

/** Bodies with wrong items between a head and a tail, such as `{"messages":[` and `]}`. */
const lists = (path: string, head: string, tail = ']}', method = 'POST'): readonly Sending[] =>
  ITEMS.map((item) => ({ path, method, name: `${head}${item}`, body: () => filled(head, tail, item) }))

/** Bodies with wrong fields. */
const fields = (path: string, head: string, tail = '}}', method = 'POST'): readonly Sending[] =>
  ['0', '{}', '"abcdefgh"'].map((item) => ({
    ...{ path, method, name: `${head}"1":${item}` },
    body: () => filled(head, tail, `"1":${item}`),
  }))

const PROMPTS: readonly Sending[] = [
  ...lists('/v1/chat/completions', '{"messages":['),
  ...lists('/v1/chat/completions', '{"messages":[{"role":"user","content":[', ']}]}'),
  ...lists('/v1/chat/completions', '{"messages":[{"role":"assistant","tool_calls":[', ']}]}'),
  ...lists('/v1/chat/completions', '{"messages":[],"tools":['),
  ...lists('/v1/chat/completions', '{"messages":[],"stop":['),
  ...fields('/v1/chat/completions', '{"messages":[],"logit_bias":{'),
  ...lists('/v1/completions', '{"prompt":['),
  ...lists('/v1/completions', '{"prompt":[[', ']]}'),
  ...lists('/v1/responses', '{"input":['),
  ...lists('/v1/responses', '{"input":[{"role":"user","content":[', ']}]}'),
  ...lists('/v1/messages', '{"max_tokens":1,"messages":['),
  ...lists('/v1/messages', '{"max_tokens":1,"messages":[{"role":"user","content":[', ']}]}'),
  ...lists('/inference/v1/generate', '{"sampling_params":{},"token_ids":['),
]

const SERVE: readonly Sending[] = [
  ...PROMPTS,
  ...lists('/v1/messages/count_tokens', '{"messages":['),
  ...lists('/tokenize', '{"messages":['),
  ...lists('/detokenize', '{"tokens":['),
  ...lists('/abort_requests', '{"request_ids":['),
  ...lists('/collective_rpc', '{"method":"reload_weights","args":['),
]

const TINKER: readonly Sending[] = [
  ...lists('/api/v1/forward_backward', '{"model_id":"a","forward_backward_input":{"loss_fn":"ppo","data":[', ']}}'),
  ...lists(
    '/api/v1/forward_backward',
    '{"model_id":"a","forward_backward_input":{"loss_fn":"ppo","data":[{"model_input":{"chunks":[]},"loss_fn_inputs":{"w":{"dtype":"int64","data":[',
    ']}}}]}}',
  ),
  ...fields('/api/v1/forward', '{"model_id":"a","forward_input":{"loss_fn":"ppo","data":[],"loss_fn_config":{', '}}}'),
  ...lists('/api/v1/asample', '{"sampling_params":{},"prompt":{"chunks":[{"tokens":[', ']}]}}'),
  ...lists('/api/v1/asample', '{"prompt":{"chunks":[]},"sampling_params":{"stop":[', ']}}'),
  ...lists('/api/v1/create_session', '{"tags":['),
  ...lists('/api/v1/cancel_future', '{"request_ids":['),
  {
    ...{ path: '/api/v1/forward_backward', name: 'tiny protobuf fields', type: 'application/x-protobuf' },
    body: () => new Uint8Array(Buffer.alloc(SIZE, Uint8Array.of(16, 1))),
  },
  {
    ...{ path: '/api/v1/forward_backward', name: 'a packed shape', type: 'application/x-protobuf' },
    body: () => {
      const writer = protobufWriter()
      writer.message(3, (datum) =>
        datum.message(2, (entry) => entry.message(2, (tensor) => tensor.bytes(4, new Uint8Array(SIZE - 100).fill(1)))),
      )
      return new Uint8Array(writer.finish())
    },
  },
]

const REWARDS: readonly Sending[] = [
  ...lists('/get_reward', '{"query":['),
  ...lists('/get_reward', '{"query":[],"prompts":[],"labels":['),
]

const OPEN_ENV: readonly Sending[] = [
  ...lists('/reset', '{"seed":['),
  ...lists('/step', '{"action":['),
  ...fields('/step', '{"action":{"message":"a","metadata":[', ']}}'),
  ...lists('/mcp', '{"id":['),
]

const VIEW: readonly Sending[] = [
  ...lists('/api/evidence', '{"title":"a","items":[', ']}', 'PUT'),
  ...lists('/api/evidence', '[', ']', 'PUT'),
]

const engine = async () => {
  const { text } = orThrow(await loadText(EMBEDDED_MODEL)())
  const endToken = text.tokenizer.idOf(text.endOfTurn)!
  return {
    text,
    engine: scriptedEngine({ tokenizer: text.tokenizer, endToken, says: () => 'a', maxModelLength: 2048 }),
  }
}

type Fetch = (request: Request) => Promise<Response>

const key = keyFromSeed(1)
const env = envOfTask((source) => (tasks) => GSM8KEnv({ source, ...tasks }))

const SERVERS: Readonly<Record<string, () => Promise<{ readonly fetch: Fetch; readonly sent: readonly Sending[] }>>> = {
  serve: async () => {
    const model = { names: ['a'], root: 'a' }
    const { fetch } = serveApp({ ...(await engine()), model, key, features: { control: 'on', toolCalls: 'hermes' } })
    return { fetch, sent: SERVE }
  },
  capture: async () => {
    const { fetch } = captureApp({ ...(await engine()), model: { names: ['a'], root: 'a' }, key })
    const calls = PROMPTS.map((each) => ({ ...each, path: `/sessions/a${each.path}` }))
    return { fetch, sent: [...calls, ...fields('/sessions', '{"metadata":{')] }
  },
  tinker: async () => {
    const models = { a: orThrow(await loadPretrained(EMBEDDED_MODEL)()) }
    const checkpoints = mkdtempSync(`${tmpdir()}/tinker-`)
    return { fetch: tinkerApp({ models, checkpoints, key }).fetch, sent: TINKER }
  },
  rewards: async () => ({ fetch: rewardApp({ env, key }).fetch, sent: REWARDS }),
  openEnv: async () => ({ fetch: openEnvApp({ env, key, name: 'a' }).fetch, sent: OPEN_ENV }),
  view: async () => ({
    fetch: viewApp({ files: liveFiles, folders: [], page: {}, version: '1', events: eventHub(liveTimers) }).fetch,
    sent: VIEW,
  }),
}

const memory = (field: string): number =>
  Number(new RegExp(`${field}:\\s+(\\d+)`).exec(readFileSync('/proc/self/status', 'utf8'))![1]) / 1024

const measured = async (fetch: Fetch, { path, method = 'POST', type = 'application/json', body, name }: Sending) => {
  const request = new Request(`http://localhost${path}`, {
    ...{ method, body: body() },
    headers: { 'content-type': type, ...(method === 'PUT' && { origin: 'http://localhost' }) },
  })
  globalThis.gc!()
  writeFileSync('/proc/self/clear_refs', '5') // the peak starts again
  const before = memory('VmRSS')
  let turns = 0
  const turn = setInterval(() => turns++, 1)
  const cpu = process.cpuUsage()
  const response = await fetch(request)
  const answerBytes = (await response.arrayBuffer()).byteLength
  const { user, system } = process.cpuUsage(cpu)
  clearInterval(turn)
  const peakMegabytes = memory('VmHWM') - before
  const { status } = response
  return { route: `${path} ${name}`, status, cpuSeconds: (user + system) / 1e6, peakMegabytes, turns, answerBytes }
}

const { fetch, sent } = await SERVERS[process.argv[2]!]!()
const [first] = sent
await measured(fetch, { ...first!, name: 'warm' }) // starts the thread
for (const each of sent) process.stdout.write(`${JSON.stringify(await measured(fetch, each))}\n`)
process.exit(0)
