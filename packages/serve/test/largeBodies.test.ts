/** Large bodies are read on another thread, with the results of small ones. */
import { keyFromSeed, orThrow } from '@tandem-rl/base'
import { beforeAll, describe, expect, it } from 'vitest'
import { envOfTask } from '../../../src/envs/envOfTask.js'
import { GSM8KEnv } from '../../../src/envs/gsm8kEnv.js'
import { EMBEDDED_MODEL } from '../../../src/live/embeddedModel.js'
import { loadText, type ModelText } from '../../../src/modules/pretrained/pretrained.js'
import { useEngine } from '../../../test/kit/engine.js'
import { scriptedEngine } from '../../../test/kit/plannedEngine.js'
import { type Json, post, served, useServers } from '../../../test/kit/served.js'
import { tinkerPost, tinkerServer, tinkerTrained } from '../../../test/kit/tinker.js'
import type { ServeApp } from '../src/app.js'
import { captureApp } from '../src/capture/app.js'
import { openEnvApp } from '../src/openEnv/app.js'
import { rewardApp } from '../src/rewards/app.js'

useEngine()

const listen = useServers()

let text: ModelText
beforeAll(async () => {
  text = orThrow(await loadText(EMBEDDED_MODEL)()).text
})

const engine = () =>
  scriptedEngine({
    ...{ tokenizer: text.tokenizer, endToken: text.tokenizer.idOf(text.endOfTurn)!, says: () => 'How many?' },
    maxModelLength: 2048,
  })

/** A field without a meaning that makes a body large. */
const LARGE = { comment: 'x'.repeat(300_000) }

const TALK = [{ role: 'user', content: 'Is <|im_end|> 2 + 2?' }]

const REQUESTS: readonly (readonly [string, object])[] = [
  ['/v1/completions', { prompt: ['a b', 'c'], echo: true, max_tokens: 3, seed: 1 }],
  ['/v1/completions', { prompt: [[1, 2], [3]], return_token_ids: true }],
  ['/v1/completions', { prompt: '', model: 'nobody' }],
  ['/v1/completions', { prompt: [] }],
  ['/v1/chat/completions', { messages: TALK, return_token_ids: true }],
  ['/v1/chat/completions', { messages: TALK, stream: true, stream_options: { include_usage: true } }],
  ['/v1/chat/completions', { messages: [...TALK, { role: 'assistant', content: 'It' }], echo: true }],
  ['/v1/chat/completions', { messages: TALK, tool_choice: 'required' }],
  ['/v1/chat/completions', { messages: [{ role: 'nobody' }] }],
  ['/v1/responses', { input: 'Hello' }],
  ['/v1/responses', { input: [{ id: 'msg_0' }] }],
  ['/v1/messages', { messages: TALK, max_tokens: 4, stream: true }],
  ['/v1/messages/count_tokens', { messages: TALK }],
  ['/inference/v1/generate', { token_ids: [1, 2, 3], sampling_params: { max_tokens: 2 } }],
  ['/tokenize', { prompt: 'a b c', return_token_strs: true }],
  ['/tokenize', { messages: TALK }],
  ['/detokenize', { tokens: [5, 6, 7] }],
]

const answers = async (app: ServeApp, more: object) => {
  const all: unknown[] = []
  for (const [path, body] of REQUESTS) {
    const { status, text: answer } = await post(app, path, { ...body, ...more })
    all.push([path, status, answer])
  }
  return all
}

describe('large bodies', () => {
  it('have the answers of small ones on every route with a prompt', async () => {
    const [small, large] = [served(engine(), { text }), served(engine(), { text })]
    expect(await answers(large, LARGE)).toEqual(await answers(small, {}))
  })

  it('may refer to responses that the server remembers', async () => {
    const app = served(engine(), { text })
    const first = await post(app, '/v1/responses', { input: 'Hello', ...LARGE })
    const second = await post(app, '/v1/responses', { input: 'Why?', previous_response_id: first.json.id, ...LARGE })
    const same = await post(app, '/v1/responses', { input: 'Why?', previous_response_id: first.json.id })
    expect([second.status, second.json.usage]).toEqual([200, same.json.usage])
  })

  it('are captured like small ones, and continue the tokens of earlier answers', async () => {
    const options = { engine: engine(), text, model: { names: ['cat'], root: 'cat' }, key: keyFromSeed(1) }
    const app = captureApp(options)
    const reply = await post(app as ServeApp, '/sessions/a/v1/chat/completions', { messages: TALK, ...LARGE })
    const [choice] = reply.json.choices as readonly { readonly message: Json }[] // of a completion
    const more = [...TALK, choice!.message, { role: 'user', content: 'Why?' }]
    await post(app as ServeApp, '/sessions/a/v1/chat/completions', { messages: more, ...LARGE })
    const refused = await post(app as ServeApp, '/sessions/a/v1/completions', {
      prompt: Array(2000).fill('a'),
      ...LARGE,
    })
    expect(refused.status).toBe(400)
    const [session] = app.sessions()
    expect(session!.calls.map(({ promptFrom, messages }) => [promptFrom, messages?.length])).toEqual([
      ['render', 1],
      ['tokens', 3],
    ])
  })

  it('leave a server free to answer others meanwhile', async () => {
    const app = served(engine(), { text })
    const { url } = await listen(app)
    const content = Array(150_000).fill({ type: 'text', text: 'x' })
    let isDone = false
    const asked = post(app, '/v1/chat/completions', { messages: [{ role: 'user', content }] }).finally(() => {
      isDone = true
    })
    let healthy = 0
    while (!isDone) {
      const { status } = await fetch(`${url}/health`)
      if (status === 200) healthy++
    }
    expect((await asked).status).toBe(400)
    expect(healthy).toBeGreaterThan(5)
  })
})

describe('other servers read large bodies with the results of small ones', () => {
  const env = envOfTask((source) => (tasks) => GSM8KEnv({ source, ...tasks }))
  const key = keyFromSeed(1)
  const send = async (app: { readonly fetch: (request: Request) => Promise<Response> }, path: string, body: object) => {
    const headers = { 'content-type': 'application/json' }
    const request = new Request(`http://localhost${path}`, { method: 'POST', headers, body: JSON.stringify(body) })
    const response = await app.fetch(request)
    return [response.status, await response.json()] as const
  }

  it('a server of rewards', async () => {
    const app = rewardApp({ env, key })
    const rows = { query: ['q<answer>4</answer>', 'q'], prompts: ['q', 'q'], labels: ['#### 4', '#### 4'] }
    for (const body of [
      rows,
      { ...rows, query: ['no', 'q'] },
      { ...rows, labels: [1] },
      { ...rows, labels: ['4', '4'] },
    ])
      expect(await send(app, '/get_reward', { ...body, ...LARGE })).toEqual(await send(app, '/get_reward', body))
  })

  it('a server of environments, by HTTP and by frames', async () => {
    const app = () => openEnvApp({ env, key, name: 'sums' })
    const task = { query: 'What is 2 + 2?', answer: '#### 4', metadata: 'x' }
    for (const [path, body] of [
      ['/reset', task],
      ['/step', { ...task, action: { message: '<answer>4</answer>' } }],
      ['/step', task],
    ] as const)
      expect(await send(app(), path, { ...body, metadata: LARGE.comment })).toMatchObject(await send(app(), path, body))
    const frames = app()
    const session = await frames.frames(new Request('http://localhost/ws'))
    if (session instanceof Response) throw new Error('refused')
    const reset = JSON.stringify({ type: 'reset', data: { ...task, ...LARGE } })
    const { text: reply } = await session.receive(reset, new AbortController().signal)
    expect(JSON.parse(reply!)).toMatchObject({ type: 'observation' })
    session.end()
  })

  it('a Tinker server', async () => {
    const app = tinkerServer()
    const { modelId } = await tinkerTrained(app)
    const data = [{ model_input: { chunks: [{ tokens: [1, 2] }] }, loss_fn_inputs: {} }]
    const body = (loss_fn: string) => ({ model_id: modelId, forward_backward_input: { loss_fn, data } })
    for (const name of ['ppo', 'nothing']) {
      const small = await tinkerPost(app, '/forward_backward', body(name))
      expect(await tinkerPost(app, '/forward_backward', { ...body(name), ...LARGE })).toEqual(small)
    }
    await app.close()
  })
})
