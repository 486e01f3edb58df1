/** The Tinker server over a tiny model, without sockets. */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { ownedCount } from '@tandem-rl/tfjs-onnxruntime/scope'
import { describe, expect, it } from 'vitest'
import { useEngine } from '../../../test/kit/engine.js'
import { crossEntropyInput, tinkerPost, tinkerResult, tinkerServer, tinkerTrained } from '../../../test/kit/tinker.js'
import type { TinkerApp } from '../src/server/app.js'

useEngine()

const TEXT = [5, 9, 14, 33, 70, 61, 22, 5, 9, 81]
const ADAM = { learning_rate: 1e-2 }

const lossOf = (result: Readonly<Record<string, unknown>>): number =>
  (result.metrics as Readonly<Record<string, number>>)['loss:sum']!

const logProbsOf = (result: Readonly<Record<string, unknown>>): readonly number[] =>
  (result.loss_fn_outputs as readonly { readonly logprobs: { readonly data: readonly number[] } }[])[0]!.logprobs.data

describe('the Tinker server', () => {
  /** Runs a test on a server of its own. */
  const served = (test: (app: TinkerApp, checkpoints: string) => Promise<void>) => async (): Promise<void> => {
    const app = tinkerServer()
    try {
      await test(app, app.checkpoints)
    } finally {
      await app.close()
    }
  }

  const step = async (app: TinkerApp, modelId: string, first: number) => {
    const input = { model_id: modelId, seq_id: first, forward_backward_input: crossEntropyInput(TEXT) }
    const computed = tinkerResult(app, '/forward_backward', input)
    const stepped = tinkerResult(app, '/optim_step', { model_id: modelId, seq_id: first + 1, adam_params: ADAM })
    await stepped
    return lossOf(await computed)
  }

  it(
    'trains the output layer by default, whose embedding is the same matrix, and its samplers have it',
    served(async (app) => {
      const losses: number[] = []
      for (const train_unembed of [false, true]) {
        const { sessionId, modelId } = await tinkerTrained(app, { rank: 4, ...(!train_unembed && { train_unembed }) })
        for (let i = 0; i < 10; i++) await step(app, modelId, 2 * i + 1)
        losses.push(await step(app, modelId, 21))
        const forward = { model_id: modelId, forward_backward_input: crossEntropyInput(TEXT), forward_only: true }
        const trained = logProbsOf(await tinkerResult(app, '/forward_backward', { ...forward, seq_id: 23 }))
        const saved = { model_id: modelId, seq_id: 24, path: 'one' }
        const { path } = await tinkerResult(app, '/save_weights_for_sampler', saved)
        const opened = { session_id: sessionId, sampling_session_seq_id: 0, model_path: path }
        const { body } = await tinkerPost(app, '/create_sampling_session', opened)
        const { prompt_logprobs: seen } = await tinkerResult(app, '/asample', {
          ...{ sampling_session_id: body.sampling_session_id, seq_id: 0, prompt_logprobs: true },
          ...{ prompt: { chunks: [{ tokens: TEXT }] }, sampling_params: { max_tokens: 1 } },
        })
        for (const [i, logProb] of trained.entries()) expect((seen as readonly number[])[i + 1]).toBeCloseTo(logProb, 4)
        const info = await tinkerPost(app, '/weights_info', { tinker_path: path })
        expect(info.body).toMatchObject({ lora_rank: 4, train_unembed })
      }
      expect(losses[1]!).toBeLessThan(0.8 * losses[0]!)
    }),
  )

  it(
    'reads a checkpoint that claims train_unembed and has no such adapter as one without',
    served(async (app, folder) => {
      const { sessionId, modelId } = await tinkerTrained(app, { rank: 4, train_unembed: false })
      await step(app, modelId, 1)
      const { path } = await tinkerResult(app, '/save_weights', { model_id: modelId, seq_id: 3, path: 'old' })
      const file = join(folder, modelId.replaceAll(':', '+'), 'weights', 'old', 'tinker.json')
      const info = JSON.parse(readFileSync(file, 'utf8')) as { lora: object }
      writeFileSync(file, JSON.stringify({ ...info, lora: { ...info.lora, train_unembed: true } }))
      const { body } = await tinkerPost(app, '/weights_info', { tinker_path: path })
      expect(body).toMatchObject({ lora_rank: 4, train_unembed: false })
      const from = { path, optimizer: true, session_id: sessionId, model_seq_id: 7, seq_id: 1 }
      expect(await tinkerResult(app, '/load_weights', from)).toMatchObject({ path })
      const other = await tinkerTrained(app, { rank: 4 })
      const into = { path, optimizer: true, model_id: other.modelId, seq_id: 1 }
      expect(await tinkerResult(app, '/load_weights', into)).toMatchObject({
        error: expect.stringContaining('has an adapter with train_unembed false: create the model with these settings'),
      })
    }),
  )

  it(
    'refuses an adapter on nothing',
    served(async (app) => {
      const { body } = await tinkerPost(app, '/create_session', { tags: [] })
      const none = { rank: 4, train_attn: false, train_mlp: false, train_unembed: false }
      const made = { session_id: body.session_id, model_seq_id: 0, base_model: 'toy', lora_config: none }
      expect(await tinkerPost(app, '/create_model', made)).toMatchObject({ status: 400 })
    }),
  )

  it(
    'learns a text with an adapter, and its sampler has the weights of the trainer',
    served(async (app) => {
      const { modelId } = await tinkerTrained(app)
      const losses: number[] = []
      for (let i = 0; i < 10; i++) losses.push(await step(app, modelId, 2 * i + 1))
      expect(losses.at(-1)!).toBeLessThan(0.7 * losses[0]!)
      const forward = {
        model_id: modelId,
        seq_id: 21,
        forward_backward_input: crossEntropyInput(TEXT),
        forward_only: true,
      }
      const trained = logProbsOf(await tinkerResult(app, '/forward_backward', forward))
      const saved = { model_id: modelId, seq_id: 22, sampling_session_seq_id: 0 }
      const { sampling_session_id: id } = await tinkerResult(app, '/save_weights_for_sampler', saved)
      const sampled = await tinkerResult(app, '/asample', {
        ...{ sampling_session_id: id, seq_id: 0, num_samples: 2, prompt_logprobs: true, topk_prompt_logprobs: 2 },
        ...{ prompt: { chunks: [{ tokens: TEXT }] }, sampling_params: { max_tokens: 3, seed: 4 } },
      })
      const prompt = sampled.prompt_logprobs as readonly (number | null)[]
      expect(prompt[0]).toBeNull()
      for (const [i, logProb] of trained.entries()) expect(prompt[i + 1]).toBeCloseTo(logProb, 4)
      expect(sampled.sequences).toHaveLength(2)
      expect((sampled.topk_prompt_logprobs as readonly unknown[])[1]).toHaveLength(2)
    }),
  )

  it(
    'restores a checkpoint of all weights with its optimizer, bit for bit',
    served(async (app) => {
      const { sessionId, modelId } = await tinkerTrained(app, null)
      await step(app, modelId, 1)
      const { path } = await tinkerResult(app, '/save_weights', { model_id: modelId, seq_id: 3, path: 'one' })
      const expected = [await step(app, modelId, 4), await step(app, modelId, 6)]
      const from = { session_id: sessionId, model_seq_id: 1, path, optimizer: true }
      const { model_id: again } = await tinkerResult(app, '/load_weights', from)
      expect([await step(app, String(again), 1), await step(app, String(again), 3)]).toEqual(expected)
      expect(await tinkerResult(app, '/save_weights', { model_id: modelId, seq_id: 8, path: 'one' })).toMatchObject({
        category: 'user',
      })
    }),
  )

  it(
    'carries a request out once, whatever its number of copies and the order of arrival',
    served(async (app) => {
      const { modelId } = await tinkerTrained(app)
      const optim = { model_id: modelId, seq_id: 2, adam_params: ADAM }
      const early = await tinkerPost(app, '/optim_step', optim)
      const twice = await tinkerPost(app, '/optim_step', optim)
      expect(twice.body.request_id).toBe(early.body.request_id)
      const input = { model_id: modelId, seq_id: 1, forward_backward_input: crossEntropyInput(TEXT) }
      await tinkerResult(app, '/forward_backward', input)
      const first = await tinkerResult(app, '/forward_backward', input)
      const stepped = await tinkerResult(app, '/optim_step', optim)
      expect(stepped.metrics).toMatchObject({ 'steps:max': 1 })
      expect(lossOf(first)).toBeGreaterThan(0)
      const other = await tinkerPost(app, '/optim_step', { ...optim, adam_params: { learning_rate: 1 } })
      expect(other.status).toBe(409)
    }),
  )

  it(
    'fails an optimizer step without gradients',
    served(async (app) => {
      const { modelId } = await tinkerTrained(app)
      const failed = await tinkerResult(app, '/optim_step', { model_id: modelId, seq_id: 1, adam_params: ADAM })
      expect(failed).toEqual({ error: expect.stringContaining('no gradients'), category: 'user' })
    }),
  )

  it.each([
    ['/forward_backward', { model_id: 'none', forward_backward_input: crossEntropyInput(TEXT) }, 404],
    ['/create_model', { session_id: 'none', model_seq_id: 0, base_model: 'toy' }, 404],
    ['/optim_step', { model_id: 3 }, 422],
    ['/load_weights', { model_id: 'm', path: 'tinker://../weights/x', optimizer: true }, 400],
    ['/retrieve_future', { request_id: 'none' }, 404],
    ['/nothing', {}, 404],
  ])('refuses %s %j with %d', (path, body, status) =>
    served(async (app) => {
      const reply = await tinkerPost(app, path, body)
      expect(reply).toMatchObject({ status, body: { detail: expect.any(String), category: 'user' } })
    })(),
  )

  it(
    'refuses data that a loss cannot read, and the number may be used again',
    served(async (app) => {
      const { modelId } = await tinkerTrained(app)
      const send = (input: object) =>
        tinkerPost(app, '/forward_backward', { model_id: modelId, seq_id: 1, forward_backward_input: input })
      const good = crossEntropyInput(TEXT)
      for (const [bad, reason] of [
        [{ ...good, loss_fn: 'none' }, 'cross_entropy'],
        [{ ...good, loss_fn_config: { beta: 1 } }, 'beta'],
        [{ ...good, data: [] }, 'empty'],
        [crossEntropyInput([5, 9999]), '9999'],
        [crossEntropyInput(TEXT, [1]), 'weights'],
        [{ ...good, loss_fn: 'ppo' }, 'logprobs'],
      ] as const) {
        const reply = await send(bad)
        expect(reply.status).toBe(400)
        expect(reply.body.detail).toContain(reason)
      }
      expect((await send(good)).status).toBe(200)
    }),
  )

  it(
    'lists, publishes, archives and removes checkpoints',
    served(async (app) => {
      const { modelId } = await tinkerTrained(app)
      await tinkerResult(app, '/save_weights_for_sampler', { model_id: modelId, seq_id: 1, path: 'step-1' })
      const base = `http://localhost/api/v1/training_runs/${modelId}/checkpoints`
      const list = async () => (await (await app.fetch(new Request(base))).json()) as { checkpoints: readonly object[] }
      expect((await list()).checkpoints).toMatchObject([{ checkpoint_type: 'sampler', public: false }])
      const one = `${base}/sampler_weights/step-1`
      await app.fetch(new Request(`${one}/publish`, { method: 'POST' }))
      expect((await list()).checkpoints).toMatchObject([{ public: true }])
      const moved = await app.fetch(new Request(`${one}/archive`))
      expect(moved.status).toBe(302)
      const archive = new Uint8Array(await (await app.fetch(new Request(moved.headers.get('location')!))).arrayBuffer())
      expect(new TextDecoder().decode(archive.subarray(0, 19))).toBe('adapter_config.json')
      await app.fetch(new Request(one, { method: 'DELETE' }))
      expect((await list()).checkpoints).toEqual([])
    }),
  )

  it('that is closed makes no engine for a request that it has accepted', async () => {
    const before = ownedCount()
    const server = tinkerServer()
    const session_id = String((await tinkerPost(server, '/create_session', { tags: [] })).body.session_id)
    const opening = { session_id, sampling_session_seq_id: 0, base_model: 'toy' }
    const { sampling_session_id } = (await tinkerPost(server, '/create_sampling_session', opening)).body
    const prompt = { chunks: [{ tokens: [1] }] }
    const request = { sampling_session_id, seq_id: 0, num_samples: 1, prompt, sampling_params: { max_tokens: 2 } }
    expect((await tinkerPost(server, '/asample', request)).status).toBe(200)
    await server.close()
    await new Promise((go) => setTimeout(go, 200)) // in which the request would begin
    expect(ownedCount()).toBe(before)
  })

  it('keeps samplers of base models, and of the others those that were used last', async () => {
    const app = tinkerServer({ limits: { samplers: 2 } })
    try {
      const { sessionId, modelId } = await tinkerTrained(app)
      const seq = { session_id: sessionId, sampling_session_seq_id: 99, base_model: 'toy' }
      const { body } = await tinkerPost(app, '/create_sampling_session', seq)
      const ids = [String(body.sampling_session_id)]
      const sampled = (id: string) =>
        tinkerPost(app, '/asample', {
          ...{ sampling_session_id: id, num_samples: 1, sampling_params: { max_tokens: 1 } },
          prompt: { chunks: [{ type: 'encoded_text', tokens: TEXT }] },
        })
      for (let i = 0; i < 3; i++) {
        const saved = { model_id: modelId, seq_id: i + 1, sampling_session_seq_id: i }
        const { sampling_session_id: id } = await tinkerResult(app, '/save_weights_for_sampler', saved)
        ids.push(String(id))
        if (i === 1) {
          const { body: asked } = await sampled(ids[1]!)
          await tinkerPost(app, '/retrieve_future', { request_id: asked.request_id })
        }
      }
      const statuses = await Promise.all(ids.map(async (id) => (await sampled(id)).status))
      expect(statuses).toEqual([200, 200, 404, 200])
    } finally {
      await app.close()
    }
  })
})
