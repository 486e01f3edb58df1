/** `docs/limits.md` has every limit of the code, and each limit holds at its value and above it. */
import { readFileSync } from 'node:fs'
import { jsonSizeProblem, keyFromSeed, sizeProblem } from '@tandem-rl/base'
import { arenaConfig } from '@tandem-rl/games'
import { openGguf } from '@tandem-rl/gguf'
import { readBodyBytes } from '@tandem-rl/host'
import { DEFAULT_LIMITS } from '@tandem-rl/serve'
import * as E from 'fp-ts/lib/Either.js'
import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import { parseSlots } from '../../packages/cluster/src/commands/worker.js'
import { parseHeader } from '../../packages/gguf/src/header.js'
import { ggufBytes } from '../../packages/gguf/test/ggufBytes.js'
import { memoryFiles } from '../../packages/gguf/test/memoryFiles.js'
import { samplingFields, tokenIds } from '../../packages/serve/src/requests/fields.js'
import { chatSchema } from '../../packages/serve/src/requests/messages.js'
import { rewardApp } from '../../packages/serve/src/rewards/app.js'
import { linearAdam } from '../../packages/tinker/src/check/measure.js'
import { adamSchema, forwardBackwardSchema, REQUESTS } from '../../packages/tinker/src/protocol/jsonWire.js'
import { decodeForwardBackward } from '../../packages/tinker/src/protocol/protobufWire.js'
import { LIMIT_GROUPS, limitsPage } from '../../scripts/kit/limitsPage.js'
import { countFor } from '../../src/cli/options.js'
import { envOfTask } from '../../src/envs/envOfTask.js'
import { GSM8KEnv } from '../../src/envs/gsm8kEnv.js'
import { layerCount, size } from '../../src/modules/transformer/config/fields.js'
import { dataSettings, policySettings } from '../../src/run/parts/settings.js'
import { useEngine } from '../kit/engine.js'
import { post, saying, served } from '../kit/served.js'
import { tinkerPost, tinkerServer } from '../kit/tinker.js'

useEngine()

type Probe = (size: number) => boolean | Promise<boolean>

/** True if a schema accepts a value. */
const accepts =
  (schema: z.ZodType, made: (size: number) => unknown): Probe =>
  (count) =>
    schema.safeParse(made(count)).success

const text = (length: number): string => 'a'.repeat(length)
const list = (count: number, item: unknown): readonly unknown[] => Array(count).fill(item)
const fields = (count: number, field: unknown): object =>
  Object.fromEntries(Array.from({ length: count }, (_, i) => [`f${i}`, field]))

const sampling = z.object(samplingFields)
const chat = (message: object) => ({ messages: [{ role: 'user', ...message }] })
const TOOL = { type: 'function', function: { name: 'f' } }

/** A server whose answers do not depend on the engine. */
const app = () => served(saying('x'), { features: { control: 'on' } })
const isAnswered = async (path: string, body: object): Promise<boolean> =>
  (await post(app(), path, body)).status === 200

/** Opens a file of a model that is split into `count` files, the others of which are missing. */
const splitFilesOpen: Probe = async (count) => {
  const path = `m-00001-of-${String(count).padStart(5, '0')}.gguf`
  const { files } = memoryFiles({ [path]: ggufBytes({ values: [['split.count', 4, count]] }) })
  const opened = await openGguf(path, files)()
  return E.isLeft(opened) && opened.left._tag === 'FileFailure'
}

/** A header with a key of `length` bytes is only cut off. */
const keyOfHeaderFits: Probe = (length) => {
  const bytes = ggufBytes({ values: [['a', 4, 1]] })
  new DataView(bytes.buffer).setBigUint64(24, BigInt(length), true)
  const header = parseHeader(bytes, 2 ** 40)
  return E.isLeft(header) && header.left === 'truncated'
}

const env = envOfTask((source) => (tasks) => GSM8KEnv({ source, ...tasks }))
const isScored = async (body: object): Promise<boolean> => {
  const headers = { 'content-type': 'application/json' }
  const request = new Request('http://localhost/get_reward', { method: 'POST', headers, body: JSON.stringify(body) })
  return (await rewardApp({ env, key: keyFromSeed(1) }).fetch(request)).status === 200
}

const REQUEST_PROBES: Readonly<Record<string, Probe>> = {
  messages: accepts(chatSchema, (n) => ({ messages: list(n, { role: 'user' }) })),
  parts: accepts(chatSchema, (n) => chat({ content: list(n, { type: 'text', text: 'a' }) })),
  calls: accepts(chatSchema, (n) => chat({ tool_calls: list(n, {}) })),
  tools: accepts(chatSchema, (n) => ({ messages: [], tools: list(n, TOOL) })),
  documents: accepts(chatSchema, (n) => ({ messages: [], documents: list(n, {}) })),
  fields: accepts(chatSchema, (n) => ({ messages: [], documents: [fields(n, 'a')] })),
  stops: accepts(sampling, (n) => ({ stop: list(n, 'a') })),
  stopLength: accepts(sampling, (n) => ({ stop: [text(n)] })),
  ids: accepts(sampling, (n) => ({ stop_token_ids: list(n, 1) })),
  biases: accepts(sampling, (n) => ({ logit_bias: fields(n, 1) })),
  prompt: accepts(tokenIds, (n) => list(n, 1)),
  scoredText: (n) => isScored({ query: [text(n)], prompts: ['a'], labels: ['#### 1'] }),
  names: (n) => isAnswered('/abort_requests', { request_ids: list(n, 'a') }),
}

const sample = (changes: object) => ({ prompt: { chunks: [{ tokens: [1] }] }, sampling_params: {}, ...changes })
const loss = (changes: object) => ({
  model_id: 'a',
  forward_backward_input: { loss_fn: 'ppo', data: [], ...changes },
})
const datum = (changes: object) => ({ model_input: { chunks: [] }, loss_fn_inputs: {}, ...changes })
const tensor = (changes: object) => ({ data: [], dtype: 'int64', ...changes })

const TINKER_PROBES: Readonly<Record<string, Probe>> = {
  name: accepts(REQUESTS.session_heartbeat, (n) => ({ session_id: text(n) })),
  data: accepts(forwardBackwardSchema, (n) => loss({ data: list(n, datum({})) })),
  chunks: accepts(REQUESTS.asample, (n) => sample({ prompt: { chunks: list(n, { tokens: [1] }) } })),
  numbers: accepts(REQUESTS.asample, (n) => sample({ prompt: { chunks: [{ tokens: list(n, 1) }] } })),
  axes: accepts(forwardBackwardSchema, (n) =>
    loss({ data: [datum({ loss_fn_inputs: { weights: tensor({ shape: list(n, 1) }) } })] }),
  ),
  fields: accepts(forwardBackwardSchema, (n) => loss({ loss_fn_config: fields(n, 1) })),
  stops: accepts(REQUESTS.asample, (n) => sample({ sampling_params: { stop: list(n, 'a') } })),
  stopLength: accepts(REQUESTS.asample, (n) => sample({ sampling_params: { stop: text(n) } })),
  cancelled: accepts(REQUESTS.cancel_future, (n) => ({ request_ids: list(n, 'a') })),
  topTokens: accepts(REQUESTS.asample, (n) => sample({ topk_prompt_logprobs: n })),
  rank: accepts(REQUESTS.create_model, (rank) => ({
    ...{ session_id: 'a', model_seq_id: 0, base_model: 'a', lora_config: { rank } },
  })),
  ttlSeconds: accepts(REQUESTS.save_weights, (n) => ({ model_id: 'a', ttl_seconds: n })),
  adam: (n) => ['learning_rate', 'eps', 'weight_decay'].every((name) => adamSchema.safeParse({ [name]: n }).success),
  clipNorm: accepts(adamSchema, (n) => ({ grad_clip_norm: n })),
  protobufFields: (n) => E.isRight(decodeForwardBackward(new Uint8Array(Buffer.alloc(2 * n, Uint8Array.of(16, 1))))),
}

/** True if a server with a limit of 2 accepts `count` requests, or one of the size `count`. */
const withLimit =
  (name: string, requests: (session: string, count: number) => readonly (readonly [string, object])[]): Probe =>
  async (count) => {
    const server = tinkerServer({ limits: { [name]: 2 } })
    const { body } = await tinkerPost(server, '/create_session', { tags: [] })
    let status = 200
    for (const [path, sent] of requests(String(body.session_id), count)) {
      status = (await tinkerPost(server, path, sent)).status
      if (status !== 200) break
    }
    await server.close()
    return status === 200
  }

const numbered = (count: number, request: (i: number) => readonly [string, object]) =>
  Array.from({ length: count }, (_, i) => request(i))

/** Limits of servers that options change, at 2. */
const LOWERED: Readonly<Record<string, Probe>> = {
  sessions: withLimit('sessions', (_, n) => numbered(n - 1, () => ['/create_session', { tags: [] }])),
  models: withLimit('models', (session_id, n) =>
    numbered(n, (model_seq_id) => [
      '/create_model',
      { session_id, model_seq_id, base_model: 'toy', lora_config: { rank: 2 } },
    ]),
  ),
  samplingSessions: withLimit('samplingSessions', (session_id, n) =>
    numbered(n, (i) => ['/create_sampling_session', { session_id, sampling_session_seq_id: i, base_model: 'toy' }]),
  ),
  samples: withLimit('samples', (session_id, num_samples) => [
    ['/create_sampling_session', { session_id, sampling_session_seq_id: 0, base_model: 'toy' }],
    ['/asample', sample({ sampling_session_id: `${session_id}-sample-0`, seq_id: 0, num_samples })],
  ]),
}

const settingProbe = (path: string): Probe =>
  path === 'batch'
    ? accepts(dataSettings, (batch) => ({ batch }))
    : accepts(policySettings, (n) => {
        const [part, name] = path.split('.') as [string, string] // of two
        return { [part]: { [name]: n } }
      })

const optionProbe =
  (flag: string): Probe =>
  (n) => {
    try {
      const parse = flag === '--slots' ? parseSlots : countFor(flag as Parameters<typeof countFor>[0]) // of the table
      return parse(String(n)) === n
    } catch {
      return false
    }
  }

const serverOf = (limits: Partial<typeof DEFAULT_LIMITS>) => served(saying('x'), { limits })
const completed = async (body: object, limits: Partial<typeof DEFAULT_LIMITS> = {}): Promise<boolean> =>
  (await post(serverOf(limits), '/v1/completions', { prompt: 'a', max_tokens: 1, ...body })).status === 200

const PROBES: Readonly<Record<string, (name: string) => Probe>> = {
  'JSON bodies': (name) => (n) => {
    const texts: Readonly<Record<string, () => string>> = {
      depth: () => '['.repeat(n) + ']'.repeat(n),
      values: () => JSON.stringify(list(n - 1, '')),
      items: () => `[${'0,'.repeat(n)}0]`,
    }
    return jsonSizeProblem(texts[name]!()) === undefined
  },
  'Lists and texts of requests': (name) => REQUEST_PROBES[name]!,
  'Servers of completions': (name) =>
    ({
      maxBodyBytes: async (n: number) =>
        E.isRight(
          await readBodyBytes(
            new Request('http://localhost', { method: 'POST', body: new Uint8Array(n) }),
            DEFAULT_LIMITS.maxBodyBytes,
          ),
        ),
      maxLogProbs: (n: number) => completed({ logprobs: n }),
      maxPrompts: (n: number) => completed({ prompt: list(n, 'a') }),
      maxCompletions: (n: number) => completed({ n }),
    })[name]!,
  'Requests of the Tinker protocol': (name) => TINKER_PROBES[name]!,
  Files: (name) => (bytes) => {
    const end = name === 'any other' ? '.txt' : name
    return sizeProblem(`/a/x${end}`, { bytes, as: 'text' }) === null
  },
  Models: (name) => accepts(name === 'size' ? size : layerCount, (n) => n),
  'GGUF files': (name) => (name === 'splitFiles' ? splitFilesOpen : keyOfHeaderFits),
  'Settings of runs': settingProbe,
  'Options of commands': optionProbe,
  Arena: () => (num_episodes) => E.isRight(arenaConfig({ env_name: 'kuhn_poker', num_episodes })),
}

/** Groups of what servers keep or wait for, whose limits other tests lower. */
const KEPT = ['Large bodies', 'What servers keep', 'Servers of the Tinker protocol']

const above = (limit: number): number => (Number.isSafeInteger(limit + 1) ? limit + 1 : 2 * limit)

describe('docs/limits.md', () => {
  it('has the limits of the code', () => {
    expect(readFileSync('docs/limits.md', 'utf8')).toBe(limitsPage())
  })

  it('has no group without a test', () => {
    expect([...Object.keys(PROBES), ...KEPT].sort()).toEqual(LIMIT_GROUPS.map(({ title }) => title).sort())
  })
})

const CASES = LIMIT_GROUPS.flatMap(({ title, limits }) =>
  KEPT.includes(title) ? [] : Object.entries(limits).map(([name, limit]) => ({ title, name, limit })),
)

describe('a limit', () => {
  it.each(CASES)('$title: $name accepts $limit, and nothing above', async ({ title, name, limit }) => {
    const probe = PROBES[title]!(name)
    expect(await probe(limit)).toBe(true)
    expect(await probe(above(limit))).toBe(false)
  })

  it.each(Object.keys(LOWERED))('of a Tinker server, %s, holds at a lowered value', async (name) => {
    expect(await LOWERED[name]!(2)).toBe(true)
    expect(await LOWERED[name]!(3)).toBe(false)
  })
})

it('the largest step of the checks of Tinker servers is within the limits of Adam', () => {
  expect(adamSchema.safeParse(linearAdam(10)).success).toBe(true)
})
