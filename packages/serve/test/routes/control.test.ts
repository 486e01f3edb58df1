/** Tokens, models, adapters, metrics, and the endpoints that control the engine. */
import * as TE from 'fp-ts/lib/TaskEither.js'
import { describe, expect, it } from 'vitest'
import { ask, framesOf, post, saying, scripted, served, tokenizer, until } from '../../../../test/kit/served.js'
import type { ReadAdapter } from '../../src/requests/served.js'

describe('/tokenize and /detokenize', () => {
  const app = served(saying('x'))

  it('tell the tokens of a text', async () => {
    const tokens = [...tokenizer.encode('the cat')]
    const { json } = await post(app, '/tokenize', { model: 'cat', prompt: 'the cat', return_token_strs: true })
    expect(json).toEqual({
      count: tokens.length,
      max_model_len: 512,
      tokens,
      token_strs: tokens.map((id) => tokenizer.tokenOf(id)),
    })
    expect((await post(app, '/detokenize', { tokens })).json).toEqual({ prompt: 'the cat' })
  })

  it('tell the tokens of a conversation', async () => {
    const messages = [{ role: 'user', content: 'hi' }]
    const prompt = async (more: object): Promise<unknown> => {
      const { tokens } = (await post(app, '/tokenize', { messages, ...more })).json
      return (await post(app, '/detokenize', { tokens })).json.prompt
    }
    expect(await prompt({})).toBe('<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n')
    expect(await prompt({ add_generation_prompt: false })).toBe('<|im_start|>user\nhi<|im_end|>\n')
    const both = await post(app, '/tokenize', { messages, add_generation_prompt: true, continue_final_message: true })
    expect([both.status, both.text]).toEqual([400, expect.stringContaining('Cannot set both')])
  })

  it.each([
    ['/tokenize', { prompt: 1 }, 400],
    ['/tokenize', { prompt: 'a', model: 'dog' }, 404],
    ['/detokenize', { tokens: [-1] }, 400],
    ['/detokenize', {}, 400],
  ])('%s of %j is refused', async (path, body, status) => {
    expect((await post(app, path, body)).status).toBe(status)
  })
})

describe('/inference/v1/generate', () => {
  const PATH = '/inference/v1/generate'
  const [a, b] = tokenizer.encode('ab')
  const end = tokenizer.idOf('<|im_end|>')!

  it('answers in tokens, with the label of the weights that sampled them', async () => {
    const { status, json } = await post(served(saying('ab')), PATH, {
      ...{ request_id: 'r', token_ids: [5, 6], sampling_params: { logprobs: 0, prompt_logprobs: 0 } },
    })
    expect(status).toBe(200)
    const entry = (id: number) => {
      const one = { token_id: id, logprob: -((id % 7) + 1) / 8, rank: 1 }
      return { ...one, top_logprobs: [one] }
    }
    expect(json).toMatchObject({
      ...{ request_id: 'generate-tokens-r', model: 'cat', created: 1_700_000_000 },
      choices: [
        {
          ...{ index: 0, token_ids: [a, b, end], finish_reason: 'stop', stop_reason: null },
          logprobs: { content: [entry(a!), entry(b!), entry(end)] },
          weight_versions: [{ version: 'default', start: 0, end: 3 }],
        },
      ],
      usage: { prompt_tokens: 2, completion_tokens: 3, total_tokens: 5 },
      prompt_logprobs: [null, { '6': { rank: 1 } }],
    })
  })

  it('has the rest of the context unless told, and never more', async () => {
    const app = served(saying('x'.repeat(100), { maxModelLength: 20 }))
    for (const max of [{}, { max_tokens: 99 }]) {
      const { json } = await post(app, PATH, { token_ids: [1, 2], sampling_params: max })
      expect(json.usage).toMatchObject({ completion_tokens: 18 })
    }
    const full = await post(app, PATH, { token_ids: Array(20).fill(1), sampling_params: {} })
    expect(full.status).toBe(400)
  })

  it('streams, and ends with the reason', async () => {
    const { text } = await post(served(saying('ab')), PATH, {
      ...{ token_ids: [1], sampling_params: {}, stream: true, stream_options: { include_usage: true } },
    })
    const frames = framesOf(text)
    const choices = frames.flatMap((frame) => frame.choices as { token_ids: number[]; finish_reason: string | null }[]) // every frame has them
    expect(choices.flatMap(({ token_ids }) => token_ids)).toEqual([a, b, end])
    expect(choices.at(-1)).toMatchObject({ finish_reason: 'stop' })
    expect(frames.at(-1)).toMatchObject({ usage: { completion_tokens: 3 } })
  })

  it('tells a change of weights in the middle by spans, of a stream at its end', async () => {
    let hasBegun = (): void => {}
    const begun = new Promise<void>((resolve) => {
      hasBegun = resolve
    })
    let goOn = (): void => {}
    const gone = new Promise<void>((resolve) => {
      goOn = resolve
    })
    const beforeToken = (_: unknown, t: number) => {
      if (t !== 2) return undefined
      hasBegun()
      return gone
    }
    const features = { control: 'on' } as const
    const app = served(saying('ab', { beforeToken }), { features })
    const body = { token_ids: [1], sampling_params: {} }
    const whole = post(app, PATH, body)
    const stream = post(app, PATH, { ...body, stream: true })
    await begun
    await post(app, '/collective_rpc', { method: 'reload_weights' })
    await post(app, '/update_weight_version', { new_version: '1' })
    goOn()
    const spans = [
      { version: 'default', start: 0, end: 2 },
      { version: '1', start: 2, end: 3 },
    ]
    expect((await whole).json.choices).toMatchObject([{ weight_versions: spans }])
    const choices = framesOf((await stream).text).flatMap((frame) => frame.choices as { weight_versions: unknown }[]) // every frame has them
    expect(choices.map(({ weight_versions: told }) => told)).toEqual([null, null, null, spans])
  })

  it.each([
    [{ token_ids: [] }, 'token_ids'],
    [{ token_ids: [1], sampling_params: { n: 9 } }, 'sampling_params.n'],
    [{ token_ids: [1], sampling_params: { temperature: 'hot' } }, 'sampling_params.temperature'],
  ])('refuses %j', async (fields, param) => {
    const { status, json } = await post(served(saying('x')), PATH, { sampling_params: {}, ...fields })
    expect([status, json.error]).toEqual([400, expect.objectContaining({ param })])
  })
})

describe('what a server tells of itself', () => {
  it('is health, version and load', async () => {
    const engine = saying('abc')
    const app = served(engine)
    expect((await ask(app, '/health')).status).toBe(200)
    expect((await ask(app, '/version')).json).toEqual({ version: expect.stringMatching(/^0\.32\.0/) })
    expect((await ask(app, '/load')).json).toEqual({ server_load: 0 })
    await engine.close()
    expect((await ask(app, '/health')).status).toBe(503)
  })

  it('is its metrics, under the names of vLLM', async () => {
    const engine = saying('abc')
    const app = served(engine)
    await post(app, '/v1/completions', { prompt: 'a' })
    const { text, headers } = await ask(app, '/metrics')
    expect(headers.get('content-type')).toContain('text/plain; version=0.0.4')
    const labels = 'model_name="cat",engine="0"'
    expect(text).toContain(`vllm:num_requests_running{${labels}} 0`)
    expect(text).toContain(`vllm:generation_tokens_total{${labels}} 4`)
    expect(text).toContain(`vllm:request_success_total{${labels},finished_reason="stop"} 1`)
    expect(text).toContain('# TYPE vllm:time_to_first_token_seconds histogram')
    expect(text).toContain(`vllm:time_to_first_token_seconds_bucket{${labels},le="1"} 2`)
    expect(text).toContain(`vllm:time_to_first_token_seconds_bucket{${labels},le="+Inf"} 3`)
    expect(text).toContain(`vllm:time_to_first_token_seconds_sum{${labels}} 1.5`)
  })
})

describe('adapters', () => {
  const readAdapter: ReadAdapter = (path) =>
    path === '/gone'
      ? TE.left({
          _tag: 'FileFailure',
          operation: 'read',
          path,
          code: 'ENOENT',
          reason: 'there is no such file or folder',
        })
      : path === '/broken'
        ? TE.left({ _tag: 'FormatFailure', format: 'PEFT', reason: 'the rank is missing' })
        : TE.right({ rank: 1, alpha: 2, tensors: new Map() })

  it('come, are used under their names, and go', async () => {
    const engine = saying('x')
    const app = served(engine, { features: { readAdapter } })
    const loaded = await post(app, '/v1/load_lora_adapter', { lora_name: 'v1', lora_path: '/adapters/v1' })
    expect([loaded.status, loaded.text]).toEqual([200, "Success: LoRA adapter 'v1' added successfully."])
    const { data } = (await ask(app, '/v1/models')).json as { data: readonly object[] } // the list
    expect(data).toMatchObject([
      { id: 'cat', object: 'model', root: '/models/cat', parent: null, max_model_len: 512 },
      { id: 'cat-2' },
      { id: 'v1', root: '/adapters/v1', parent: 'cat' },
    ])
    const answer = await post(app, '/v1/completions', { model: 'v1', prompt: 'a' })
    expect([answer.status, answer.json.model, engine.seen[0]!.adapter]).toEqual([200, 'v1', 'v1'])
    const again = await post(app, '/v1/load_lora_adapter', { lora_name: 'v1', lora_path: '/adapters/v1' })
    expect([again.status, again.json.error]).toEqual([400, expect.objectContaining({ type: 'InvalidUserInput' })])
    const gone = await post(app, '/v1/unload_lora_adapter', { lora_name: 'v1' })
    expect([gone.status, gone.text]).toEqual([200, "Success: LoRA adapter 'v1' removed successfully."])
    expect((await post(app, '/v1/completions', { model: 'v1', prompt: 'a' })).status).toBe(404)
    expect((await post(app, '/v1/unload_lora_adapter', { lora_name: 'v1' })).status).toBe(404)
  })

  it.each([
    [{ lora_name: 'a' }, 400, "Both 'lora_name' and 'lora_path' must be provided."],
    [{ lora_name: 'cat', lora_path: '/x' }, 400, 'already been loaded'],
    [{ lora_name: 'a', lora_path: '/gone' }, 404, 'Loading lora a failed: No adapter found for /gone'],
    [{ lora_name: 'a', lora_path: '/broken' }, 500, 'the rank is missing'],
    [{ lora_name: 'a', lora_path: '/x', load_inplace: true }, 400, 'load_inplace'],
  ])('%j is refused, and the name stays free', async (body, status, message) => {
    const app = served(saying('x'), { features: { readAdapter } })
    const reply = await post(app, '/v1/load_lora_adapter', body)
    expect([reply.status, reply.text]).toEqual([status, expect.stringContaining(message)])
    expect((await post(app, '/v1/load_lora_adapter', { lora_name: 'a', lora_path: '/x' })).status).toBe(200)
  })
})

describe('control', () => {
  const features = { control: 'on' } as const

  /** A server whose requests wait at their third token until they are let go on. */
  const held = () => {
    let letGo = (): void => {}
    const gate = new Promise<void>((resolve) => {
      letGo = resolve
    })
    const engine = scripted({ says: () => 'abcdef', beforeToken: (_, t) => (t === 2 ? gate : undefined) })
    return { engine, letGo, app: served(engine, { features }) }
  }

  it('pauses and resumes', async () => {
    const engine = saying('abc')
    const app = served(engine, { features })
    expect((await ask(app, '/pause?mode=wait&clear_cache=false', { method: 'POST' })).json).toEqual({
      status: 'paused',
    })
    expect((await ask(app, '/is_paused')).json).toEqual({ is_paused: true })
    const waiting = post(app, '/v1/completions', { prompt: 'a' })
    await until(() => app.inFlight() === 1)
    expect((await ask(app, '/resume', { method: 'POST' })).json).toEqual({ status: 'resumed' })
    expect((await waiting).status).toBe(200)
    for (const query of ['mode=stop', 'clear_cache=maybe', 'wait_for_inflight_requests=x'])
      expect((await ask(app, `/pause?${query}`, { method: 'POST' })).status).toBe(400)
  })

  it('aborts what runs when it pauses, unless told otherwise; what there is of it is told', async () => {
    const { engine, app } = held()
    const running = post(app, '/v1/completions', { prompt: 'a' })
    await until(() => engine.running() === 1)
    await ask(app, '/pause', { method: 'POST' })
    const { json } = await running
    expect(json.choices).toMatchObject([{ text: 'ab', finish_reason: 'abort' }])
  })

  it('aborts requests by the names that clients gave them', async () => {
    const { engine, letGo, app } = held()
    const mine = post(app, '/v1/completions', { prompt: 'a', request_id: 'mine' })
    const other = post(app, '/v1/completions', { prompt: 'a', request_id: 'other' })
    await until(() => engine.running() === 2)
    expect((await post(app, '/abort_requests', { request_ids: ['nobody'] })).json).toEqual({
      status: 'aborted',
      aborted: 0,
    })
    expect((await post(app, '/abort_requests', { request_ids: ['mine'] })).json).toEqual({
      status: 'aborted',
      aborted: 1,
    })
    expect((await mine).json.choices).toMatchObject([{ finish_reason: 'abort' }])
    letGo()
    expect((await other).json.choices).toMatchObject([{ finish_reason: 'stop' }])
    expect((await post(app, '/abort_requests', {})).json).toEqual({ status: 'aborted', aborted: 0 })
    expect((await post(app, '/abort_requests', '')).status).toBe(400)
  })

  it('reloads weights from a folder, and reports their version', async () => {
    const engine = saying('x')
    const app = served(engine, { features })
    expect((await ask(app, '/weight_info')).json).toEqual({ weight_version: 'default', engine_version: 0 })
    const reload = (body: object) => post(app, '/collective_rpc', body)
    expect((await reload({ method: 'reload_weights', kwargs: { weights_path: '/ckpt/v1' } })).json).toEqual({
      results: [null],
    })
    expect((await post(app, '/update_weight_version', { new_version: '42' })).json).toEqual({
      success: true,
      new_version: '42',
    })
    expect((await ask(app, '/weight_info')).json).toEqual({ weight_version: '42', engine_version: 1 })
    expect((await reload({ method: 'reload_weights' })).status).toBe(200)
    expect(engine.loaded).toEqual(['/ckpt/v1', '/models/cat'])
    expect((await ask(app, '/weight_info')).json).toEqual({ weight_version: 'default', engine_version: 2 })
    expect((await reload({ method: 'reload_weights', kwargs: { weights_path: '/missing' } })).status).toBe(500)
    expect((await reload({ method: 'sleep' })).status).toBe(501)
    expect((await reload({})).json).toMatchObject({ error: { message: expect.stringContaining("Missing 'method'") } })
    expect((await reload({ method: 'reload_weights', args: [1] })).status).toBe(400)
    expect((await reload({ method: 'reload_weights', kwargs: { path: '/x' } })).status).toBe(400)
    expect((await ask(app, '/get_world_size?include_dp=true')).json).toEqual({ world_size: 1 })
    expect((await ask(app, '/server_info?config_format=json')).json).toMatchObject({
      vllm_config: { model_config: { logprobs_mode: 'raw_logprobs', max_logprobs: 20 } },
    })
    expect((await ask(app, '/reset_prefix_cache', { method: 'POST' })).json).toEqual({ success: true })
  })
})
