/** Clients of a Tinker server with several API keys reach only what is theirs. */
import { describe, expect, it } from 'vitest'
import { useEngine } from '../../../test/kit/engine.js'
import { crossEntropyInput, type TinkerReply, tinkerServer } from '../../../test/kit/tinker.js'
import type { TinkerApp } from '../src/server/app.js'

useEngine()

/** A client with a key. */
const clientOf = (app: TinkerApp, key: string) => {
  const send = async (method: string, path: string, body?: object): Promise<TinkerReply> => {
    const headers = { 'content-type': 'application/json', 'x-api-key': key }
    const init = { method, headers, ...(body && { body: JSON.stringify(body) }) }
    const response = await app.fetch(new Request(`http://localhost/api/v1${path}`, init))
    const text = await response.text()
    const isJson = response.headers.get('content-type')?.startsWith('application/json') === true
    return { status: response.status, body: isJson ? (JSON.parse(text) as TinkerReply['body']) : { text } }
  }
  const post = (path: string, body: object) => send('POST', path, body)
  const result = async (path: string, body: object): Promise<TinkerReply['body']> => {
    const { request_id } = (await post(path, body)).body
    for (;;) {
      const now = await post('/retrieve_future', { request_id })
      if (now.status !== 408) return now.body
    }
  }
  return { send, post, result }
}

/** A client with a session, a model, a sampling session and a checkpoint. */
const working = async (app: TinkerApp, key: string) => {
  const client = clientOf(app, key)
  const session_id = String((await client.post('/create_session', {})).body.session_id)
  const about = { session_id, model_seq_id: 0, base_model: 'toy', lora_config: { rank: 2 } }
  const model_id = String((await client.result('/create_model', about)).model_id)
  const path = String((await client.result('/save_weights_for_sampler', { model_id, seq_id: 1, path: 'own' })).path)
  const sampler = { session_id, sampling_session_seq_id: 0, base_model: 'toy' }
  const { sampling_session_id } = (await client.post('/create_sampling_session', sampler)).body
  return { ...client, session_id, model_id, path, sampling_session_id: String(sampling_session_id) }
}

const served = () => tinkerServer({ access: { apiKeys: ['key-a', 'key-b'] } })

describe('with several keys, a client', () => {
  it('cannot use or see the sessions, models, samplers, results and checkpoints of another', async () => {
    const app = served()
    const a = await working(app, 'key-a')
    const b = await working(app, 'key-b')
    const asked = await a.post('/forward_backward', {
      ...{ model_id: a.model_id, seq_id: 2 },
      forward_backward_input: { loss_fn: 'cross_entropy', data: [crossEntropyInput([1, 2, 3])] },
    })
    const request_id = String(asked.body.request_id)
    const tried = await Promise.all([
      b.post('/retrieve_future', { request_id }),
      b.post('/session_heartbeat', { session_id: a.session_id }),
      b.post('/get_info', { model_id: a.model_id }),
      b.post('/unload_model', { model_id: a.model_id }),
      b.post('/optim_step', { model_id: a.model_id, seq_id: 3, adam_params: {} }),
      b.post('/save_weights', { model_id: a.model_id, seq_id: 3, path: 'theirs' }),
      b.post('/asample', {
        ...{ sampling_session_id: a.sampling_session_id, sampling_params: {} },
        prompt: { chunks: [{ tokens: [1] }] },
      }),
      b.post('/create_sampling_session', { session_id: b.session_id, sampling_session_seq_id: 7, model_path: a.path }),
      b.post('/weights_info', { tinker_path: a.path }),
      b.send('GET', `/samplers/${a.sampling_session_id}`),
      b.send('GET', `/sessions/${a.session_id}`),
      b.send('POST', `/sessions/${a.session_id}/finish`),
      b.send('GET', `/training_runs/${a.model_id}`),
      b.send('GET', `/training_runs/${a.model_id}/checkpoints/sampler_weights/own/download`),
      b.send('DELETE', `/training_runs/${a.model_id}/checkpoints/sampler_weights/own`),
    ])
    expect(tried.map(({ status }) => status)).toEqual(tried.map(() => 404))
    expect((await b.send('GET', '/sessions')).body).toEqual({ sessions: [b.session_id] })
    const shown = JSON.stringify([await b.send('GET', '/checkpoints'), await b.send('GET', '/training_runs')])
    expect(shown).toContain(b.model_id)
    expect(shown).not.toContain(a.model_id)
    expect((await a.post('/get_info', { model_id: a.model_id })).status).toBe(200)
    expect((await a.post('/weights_info', { tinker_path: a.path })).status).toBe(200)
    await app.close()
  })

  it('can sample from a public checkpoint of another, and cannot delete it', async () => {
    const app = served()
    const a = await working(app, 'key-a')
    const b = await working(app, 'key-b')
    const place = `/training_runs/${a.model_id}/checkpoints/sampler_weights/own`
    expect((await a.send('POST', `${place}/publish`)).status).toBe(204)
    const sampler = { session_id: b.session_id, sampling_session_seq_id: 7, model_path: a.path }
    expect((await b.post('/create_sampling_session', sampler)).status).toBe(200)
    expect((await b.send('DELETE', place)).status).toBe(404)
    expect((await a.send('DELETE', place)).status).toBe(204)
    await app.close()
  })

  it('has idempotency keys of its own', async () => {
    const app = served()
    const a = await working(app, 'key-a')
    const b = await working(app, 'key-b')
    const saved = async ({ model_id }: { readonly model_id: string }, key: string) => {
      const headers = { 'content-type': 'application/json', 'x-api-key': key, 'x-idempotency-key': 'same' }
      const body = JSON.stringify({ model_id, path: 'x' })
      const request = new Request('http://localhost/api/v1/save_weights', { method: 'POST', headers, body })
      return (await (await app.fetch(request)).json()) as Readonly<Record<string, unknown>>
    }
    expect((await saved(a, 'key-a')).model_id).toBe(a.model_id)
    expect((await saved(b, 'key-b')).model_id).toBe(b.model_id)
    await app.close()
  })
})

it('with one key, all clients share everything', async () => {
  const app = tinkerServer({ access: { apiKeys: ['key-a'] } })
  const a = await working(app, 'key-a')
  const again = clientOf(app, 'key-a')
  expect((await again.post('/get_info', { model_id: a.model_id })).status).toBe(200)
  await app.close()
})

it('a path with malformed escapes is refused', async () => {
  const app = tinkerServer()
  for (const path of ['/training_runs/%zz', '/%', '/sessions/%e0%a4%a', '/samplers/%ff'])
    expect([400, 404]).toContain((await clientOf(app, '').send('GET', path)).status)
  await app.close()
})
