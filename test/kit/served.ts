/** Servers for tests: over a scripted engine, without a socket or on a real one. */
import { keyFromSeed, orThrow } from '@tandem-rl/base'
import { type HttpServer, type HttpServerOptions, liveHttpServer } from '@tandem-rl/host'
import { type ServeApp, type ServedText, type ServeOptions, serveApp } from '@tandem-rl/serve'
import { chatTemplate, type LLMEngine, textTokenizer, trainBytePairEncoding } from '@tandem-rl/text'
import { afterAll } from 'vitest'
import { apiFailure, errorBody } from '../../packages/serve/src/requests/failure.js'
import { type EngineScript, type ScriptedEngine, saysByKey, scriptedEngine } from './plannedEngine.js'

const END = '<|im_end|>'
const SPECIAL = ['<|im_start|>', END]

/** ChatML that shows tools and calls of tools as Qwen's does. */
const TEMPLATE = `{%- if tools -%}<|im_start|>system
Tools: {{ tools | tojson }} Call them in <tool_call></tool_call> tags.<|im_end|>
{% endif -%}
{%- for message in messages -%}
{{- '<|im_start|>' + message.role + '\\n' -}}
{%- if message.content -%}{{- message.content -}}{%- endif -%}
{%- for call in message.tool_calls or [] -%}<tool_call>{{- call.function | tojson -}}</tool_call>{%- endfor -%}
{{- '<|im_end|>\\n' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\\n' + (mood or '') -}}{%- endif -%}`

/** Bytes, a space before common words, and the control tokens of ChatML. */
export const tokenizer = orThrow(
  textTokenizer(trainBytePairEncoding(['the cat sat on the mat'], { vocabularySize: 270, specialTokens: SPECIAL }), {
    eos_token: END,
  }),
)

export const servedText: ServedText = { tokenizer, template: orThrow(chatTemplate(TEMPLATE)) }

const endToken = tokenizer.idOf(END)!

/** An engine whose texts depend on keys alone by default. */
export const scripted = (script: Partial<EngineScript> = {}): ScriptedEngine =>
  scriptedEngine({ tokenizer, endToken, says: saysByKey, ...script })

/** An engine that always returns the same text. */
export const saying = (text: string, script: Partial<EngineScript> = {}): ScriptedEngine =>
  scripted({ says: () => text, ...script })

/** A server over an engine, with counted identifiers and a fixed clock. */
export const served = (engine: LLMEngine, options: Partial<ServeOptions> = {}): ServeApp => {
  let ids = 0
  return serveApp({
    engine,
    model: { names: ['cat', 'cat-2'], root: '/models/cat' },
    text: servedText,
    key: keyFromSeed(1),
    ...options,
    world: {
      ids: { fresh: () => `id${ids++}` },
      calendar: { today: () => new Date(1_700_000_000_000) },
      ...options.world,
    },
  })
}

export type Json = Readonly<Record<string, unknown>>

export interface Reply {
  readonly status: number
  readonly text: string
  readonly headers: Headers
  /** The body as JSON; undefined if it is not JSON. */
  readonly json: Json
}

const replyOf = async (response: Response): Promise<Reply> => {
  const text = await response.text()
  let json: unknown
  try {
    json = JSON.parse(text)
  } catch {
    json = undefined
  }
  return { status: response.status, headers: response.headers, text, json: json as Json } // tests look at what is there
}

export const ask = async (app: ServeApp, path: string, init: RequestInit = {}): Promise<Reply> =>
  replyOf(await app.fetch(new Request(`http://test${path}`, init)))

/** Posts a value as JSON. */
export const post = (
  app: ServeApp,
  path: string,
  body: unknown,
  headers: Readonly<Record<string, string>> = {},
): Promise<Reply> =>
  ask(app, path, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: typeof body === 'string' ? body : JSON.stringify(body),
  })

/** The frames of a stream, each as JSON, without the last, which must be `[DONE]`. */
export const framesOf = (text: string): readonly Json[] => {
  const frames = text.split('\n\n').filter((frame) => frame !== '')
  if (frames.at(-1) !== 'data: [DONE]') throw new Error(`the stream does not end with [DONE]: ${text}`)
  return frames.slice(0, -1).map((frame) => {
    if (!frame.startsWith('data: ')) throw new Error(`not a frame: ${frame}`)
    return JSON.parse(frame.slice(6)) as Json // frames are objects
  })
}

/** Listens on a free port of this computer until the tests of the file are over. */
export const useServers = (): ((app: ServeApp, options?: Partial<HttpServerOptions>) => Promise<HttpServer>) => {
  const open: HttpServer[] = []
  afterAll(async () => {
    for (const server of open) await server.close({ graceMs: 0, cutMs: 1000, atLimit: async () => {} })
  })
  return async (app, options = {}) => {
    const refusal = (status: number, reason: string): string => JSON.stringify(errorBody(apiFailure(status, reason)))
    const server = orThrow(await liveHttpServer(app.fetch, { port: 0, refusal, ...options })())
    open.push(server)
    return server
  }
}

/** Waits until something holds; the test's own time limit ends a wait in vain. */
export const until = async (holds: () => boolean): Promise<void> => {
  while (!holds()) await new Promise((resolve) => setTimeout(resolve, 2))
}
