/** Tinker servers without sockets, over a tiny model, and clients of them. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { keyFromSeed } from '@tandem-rl/base'
import { scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import { type TinkerApp, type TinkerServerOptions, tinkerApp } from '@tandem-rl/tinker/server'
import { hostArrays, type Pretrained } from '../../src/modules/pretrained/pretrained.js'
import { initialParams } from '../../src/modules/transformer/params.js'
import { byteConfig, byteText } from './small.js'

/** A tiny model of bytes with random weights. */
export const tinkerModel = (): Pretrained => {
  const config = byteConfig()
  return { config, text: byteText(), arrays: scope(() => hostArrays(initialParams(config, keyFromSeed(3), 0.3))) }
}

/** A server of one model, `toy`, whose checkpoints are removed when it is closed. */
export const tinkerServer = (
  changes: Partial<TinkerServerOptions> = {},
): TinkerApp & { readonly checkpoints: string } => {
  const checkpoints = mkdtempSync(join(tmpdir(), 'tinker-'))
  const app = tinkerApp({ models: { toy: tinkerModel() }, checkpoints, key: keyFromSeed(1), ...changes })
  return {
    checkpoints,
    fetch: app.fetch,
    metrics: app.metrics,
    close: async () => {
      await app.close()
      rmSync(checkpoints, { recursive: true, force: true })
    },
  }
}

/** An answer with its JSON body. */
export interface TinkerReply {
  readonly status: number
  readonly body: Readonly<Record<string, unknown>>
}

/** Sends a JSON body to a route. */
export const tinkerPost = async (app: TinkerApp, path: string, body: object): Promise<TinkerReply> => {
  const headers = { 'content-type': 'application/json' }
  const request = new Request(`http://localhost/api/v1${path}`, { method: 'POST', headers, body: JSON.stringify(body) })
  const response = await app.fetch(request)
  return { status: response.status, body: (await response.json()) as TinkerReply['body'] } // every answer is an object
}

/** Sends a request and waits for its result. */
export const tinkerResult = async (app: TinkerApp, path: string, body: object): Promise<TinkerReply['body']> => {
  const promised = await tinkerPost(app, path, body)
  if (promised.status !== 200) throw new Error(`${path}: ${promised.status} ${JSON.stringify(promised.body)}`)
  for (;;) {
    const { status, body: result } = await tinkerPost(app, '/retrieve_future', { request_id: promised.body.request_id })
    if (status !== 408) return result
  }
}

/** A session with a model of rank 4, or with all weights. */
export const tinkerTrained = async (app: TinkerApp, lora: object | null = { rank: 4 }) => {
  const { body } = await tinkerPost(app, '/create_session', { tags: [] })
  const sessionId = String(body.session_id)
  const made = { session_id: sessionId, model_seq_id: 0, base_model: 'toy', ...(lora && { lora_config: lora }) }
  const created = await tinkerResult(app, '/create_model', made)
  return { sessionId, modelId: String(created.model_id) }
}

const tensor = (values: readonly number[], dtype: string) => ({ data: values, dtype, shape: [values.length] })

/** The input of a cross-entropy loss on a sequence. */
export const crossEntropyInput = (tokens: readonly number[], weights = tokens.slice(1).map(() => 1)): object => ({
  data: [
    {
      model_input: { chunks: [{ type: 'encoded_text', tokens: tokens.slice(0, -1) }] },
      loss_fn_inputs: { target_tokens: tensor(tokens.slice(1), 'int64'), weights: tensor(weights, 'float32') },
    },
  ],
  loss_fn: 'cross_entropy',
})
