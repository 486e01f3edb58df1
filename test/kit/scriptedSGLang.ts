/**
 * A server that speaks as SGLang does, on a socket of its own, over a model of eight tokens:
 * requests and answers have the forms of SGLang's source, of 0.5.10 (`old`) or of 0.5.23 (`new`).
 * Its samples depend on the seed alone.
 */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { afterAll } from 'vitest'
import {
  askedOf,
  completionOf,
  framesOf,
  type ScriptedBody,
  type ScriptedForm,
  type ScriptedItem,
} from './sglangModel.js'

interface ScriptedCall {
  readonly path: string
  readonly body: ScriptedBody
  readonly headers: IncomingMessage['headers']
}

export interface SGLangScript extends ScriptedForm {
  readonly ranks: number
  /**
   * Answers in place of the server's own; undefined leaves it to the server. 'reset' breaks the
   * connection.
   */
  readonly instead: (call: ScriptedCall) => ScriptedAnswer | 'reset' | undefined
  /** Samples in place of the model of eight tokens. The signal aborts when the caller is gone. */
  readonly complete: ((body: ScriptedBody, signal: AbortSignal) => Promise<ScriptedAnswer>) | null
  /** Tokens of prompt and completion together, at most. */
  readonly maxLength: number
  /** Changes an answer of `/generate`, or one frame of a stream, before it is sent. */
  readonly twist: (answer: ScriptedItem) => unknown
}

export interface ScriptedAnswer {
  readonly status?: number
  readonly body: unknown
}

export interface ScriptedSGLang {
  readonly url: string
  /** Everything that was asked, in order. */
  readonly calls: readonly ScriptedCall[]
  readonly of: (path: string) => readonly ScriptedBody[]
  /** Requests wait from now on, until the function that it gives is called. */
  readonly stall: () => () => void
  /** Requests that were not answered yet. */
  readonly running: () => number
}

interface World {
  label: string
  shift: number
  session: boolean
  paused: boolean
  readonly adapters: Set<string>
  readonly waiting: Set<() => void>
  readonly aborted: Set<string>
  stalled: boolean
  running: number
}

const update = (world: World, body: ScriptedBody, message: string): ScriptedAnswer => {
  if (body.weight_version != null) {
    world.label = body.weight_version
    world.shift++
  }
  return { body: { success: true, message } }
}

const refused = (message: string): ScriptedAnswer => ({ status: 400, body: { success: false, message } })

const missing: ScriptedAnswer = { status: 404, body: { detail: 'Not Found' } }

const controlOf = (world: World, script: SGLangScript, path: string, body: ScriptedBody): ScriptedAnswer => {
  const isNew = script.release === 'new'
  switch (path) {
    case '/health':
      return { body: '' }
    case '/server_info':
      return {
        body: {
          version: isNew ? '0.5.23' : '0.5.10.post1',
          tp_size: script.ranks,
          enable_lora: true,
          incremental_streaming_output: script.frames === 'incremental',
          internal_states: [{ effective_max_running_requests_per_dp: 16 }],
        },
      }
    case '/model_info':
      return { body: { model_path: '/models/tiny', weight_version: world.label } }
    case '/v1/models':
      return {
        body: {
          object: 'list',
          data: [
            { id: 'tiny', root: 'tiny', parent: null, max_model_len: script.maxLength },
            ...[...world.adapters].map((id) => ({ id, root: '__tensor__', parent: 'tiny', max_model_len: null })),
          ],
        },
      }
    case '/v1/loads?include=core':
      return isNew
        ? { body: { loads: [{ dp_rank: 0, num_running_reqs: world.running, num_waiting_reqs: 0 }] } }
        : missing
    case '/get_load':
      return { body: [{ dp_rank: 0, num_reqs: world.running, num_waiting_reqs: 0, num_tokens: 0 }] }
    case '/pause_generation':
      world.paused = true
      return { body: { message: 'Generation paused successfully.', status: 'ok' } }
    case '/continue_generation':
      world.paused = false
      return { body: { message: 'Generation continued successfully.', status: 'ok' } }
    case '/flush_cache':
      return world.running > 0 && !world.paused
        ? { status: 400, body: 'Flush cache failed.\n' }
        : { body: 'Cache flushed.' }
    case '/abort_request': {
      for (const name of [body.rid ?? []].flat()) world.aborted.add(name)
      for (const wake of [...world.waiting]) wake()
      return { body: '' }
    }
    case '/begin_weight_update':
      if (!isNew) return missing
      if (world.session) return refused('a weight-update session is already open; call end_weight_update() first')
      world.session = true
      return { body: { success: true, message: 'Success' } }
    case '/end_weight_update':
      if (!world.session) return refused('no weight-update session is open; call begin_weight_update() first')
      world.session = false
      return { body: { success: true, message: 'Success' } }
    case '/update_weights_from_tensor':
      if (isNew && !world.session) {
        return refused('update_weights_from_tensor must run between begin_weight_update() and end_weight_update()')
      }
      return update(world, body, 'Success')
    case '/update_weights_from_disk':
      return update(world, body, 'Succeeded to update model weights.')
    case '/load_lora_adapter_from_tensors': {
      const field = isNew ? 'serialized_named_tensors' : 'serialized_tensors'
      if (body[field] === undefined) {
        const message = `[{'type': 'missing', 'loc': ('body', '${field}'), 'msg': 'Field required', 'input': {}}]`
        return { status: 400, body: { object: 'error', message, type: 'Bad Request', param: null, code: 400 } }
      }
      if (world.adapters.has(body.lora_name ?? '')) {
        const error_message = `LoRA with name ${body.lora_name} already exists`
        return { status: 400, body: { success: false, error_message, loaded_adapters: null } }
      }
      world.adapters.add(body.lora_name ?? '')
      return { body: { success: true, error_message: null, loaded_adapters: {} } }
    }
    case '/unload_lora_adapter':
      return world.adapters.delete(body.lora_name ?? '')
        ? { body: { success: true, error_message: null, loaded_adapters: {} } }
        : { status: 400, body: { success: false, error_message: `LoRA ${body.lora_name} is not loaded` } }
    default:
      return missing
  }
}

const bodyOf = async (request: IncomingMessage): Promise<ScriptedBody> => {
  const pieces: Buffer[] = []
  for await (const piece of request) pieces.push(piece)
  return pieces.length === 0 ? {} : JSON.parse(Buffer.concat(pieces).toString())
}

const send = (response: ServerResponse, { status = 200, body }: ScriptedAnswer): void => {
  response.writeHead(status, { 'content-type': typeof body === 'string' ? 'text/plain' : 'application/json' })
  response.end(typeof body === 'string' ? body : JSON.stringify(body))
}

/**
 * Resolves when the requests continue, when all of these were aborted, or when the caller is gone.
 */
const turn = async (world: World, response: ServerResponse, names: readonly string[]): Promise<void> => {
  while (world.stalled && !response.destroyed && !names.every((name) => world.aborted.has(name))) {
    await new Promise<void>((resolve) => {
      const wake = (): void => {
        world.waiting.delete(wake)
        resolve()
      }
      world.waiting.add(wake)
      response.once('close', wake)
    })
  }
}

const generate = async (
  world: World,
  script: SGLangScript,
  response: ServerResponse,
  body: ScriptedBody,
): Promise<void> => {
  const asked = askedOf(body)
  world.running += asked.length
  await turn(
    world,
    response,
    asked.map(({ name }) => name),
  )
  world.running -= asked.length
  if (body.lora_path !== undefined && !world.adapters.has(body.lora_path)) {
    const message = `The following requested LoRA adapters are not loaded: {'${body.lora_path}'}`
    send(response, { status: 400, body: { error: { message } } })
    return
  }
  const items = asked.map((one) =>
    completionOf(body, one, { weights: world, form: script, aborted: world.aborted.has(one.name) ? 'yes' : 'no' }),
  )
  if (body.stream !== true) {
    const answers = items.map(script.twist)
    send(response, { body: items.length > 1 ? answers : answers[0] })
    return
  }
  response.writeHead(200, { 'content-type': 'text/event-stream' })
  const frames = items.map((item) => framesOf(item, script))
  const most = Math.max(...frames.map((list) => list.length))
  for (let t = 0; t < most; t++) {
    for (const [index, list] of frames.entries()) {
      const frame = list[t]
      if (frame === undefined) continue
      response.write(`data: ${JSON.stringify(script.twist(frames.length > 1 ? { ...frame, index } : frame))}\n\n`)
    }
  }
  response.end('data: [DONE]\n\n')
}

/** Starts servers, which live until the tests of the file are over. */
export const useScriptedSGLang = (): ((script?: Partial<SGLangScript>) => Promise<ScriptedSGLang>) => {
  const closers: (() => void)[] = []
  afterAll(() => {
    for (const close of closers) close()
  })
  return async (partial = {}) => {
    const script: SGLangScript = {
      release: 'new',
      logProbs: 'tempered',
      frames: 'cumulative',
      ranks: 1,
      maxLength: 64,
      instead: () => undefined,
      complete: null,
      twist: (item) => item,
      ...partial,
    }
    const world: World = {
      label: 'default',
      shift: 0,
      session: false,
      paused: false,
      adapters: new Set(),
      waiting: new Set(),
      aborted: new Set(),
      stalled: false,
      running: 0,
    }
    const calls: ScriptedCall[] = []
    const server = createServer(async (request, response) => {
      const path = request.url!
      const body = await bodyOf(request)
      const call = { path, body, headers: request.headers }
      calls.push(call)
      const other = script.instead(call)
      if (other === 'reset') request.socket.destroy()
      else if (other !== undefined) send(response, other)
      else if (path === '/generate' && script.complete !== null) {
        const left = new AbortController()
        response.once('close', () => left.abort())
        send(response, await script.complete(body, left.signal))
      } else if (path === '/generate') await generate(world, script, response, body)
      else send(response, controlOf(world, script, path, body))
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    closers.push(() => {
      server.closeAllConnections()
      server.close()
    })
    const { port } = server.address() as { readonly port: number } // it listens on a port
    return {
      url: `http://127.0.0.1:${port}`,
      calls,
      of: (path) => calls.filter((call) => call.path === path).map(({ body }) => body),
      stall: () => {
        world.stalled = true
        return () => {
          world.stalled = false
          for (const wake of [...world.waiting]) wake()
        }
      },
      running: () => world.running,
    }
  }
}
