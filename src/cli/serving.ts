/** What the commands that serve share: reading a model, keys, and an end that loses nothing. */
import { resolve } from 'node:path'
import type { LLMEngine } from '../data/generation.js'
import { type HttpServer, liveHttpServer } from '../live/httpServer.js'
import { modelFolder } from '../modules/modelFolder.js'
import { loadText, type Pretrained } from '../modules/pretrained.js'
import { apiFailure, errorBody } from '../serve/failure.js'
import { CommandError, orFail } from './failure.js'
import { downloadLines } from './options.js'

/** The text side of a model, and where its weights are. */
export interface ModelToServe extends Omit<Pretrained, 'arrays'> {
  readonly folder: string
}

/** A line for the person who started the command. */
export const say = (text: string): void => {
  process.stderr.write(`${text}\n`)
}

/** The keys of the flag, or that of the environment, which no list of processes shows. */
export const keysOf = ({ apiKey }: { readonly apiKey?: readonly string[] }): readonly string[] => {
  const keys = apiKey ?? (process.env.TANDEM_API_KEY ? [process.env.TANDEM_API_KEY] : [])
  if (keys.includes('')) throw new CommandError('an API key must not be empty')
  return keys
}

/** Loads the model, with a line for each step that takes a while. */
export const loadModel = async (given: string): Promise<ModelToServe> => {
  const folder = resolve(await orFail(modelFolder(given, { onProgress: downloadLines() })))
  say(`loading ${folder}`)
  return { folder, ...(await orFail(loadText(folder))) }
}

/** Where a command listens. */
export interface ListenFlags {
  readonly host: string
  readonly port: number
  readonly allowedHosts?: readonly string[]
}

/** Listens for requests. Where that fails the engine is closed, which would keep this process alive. */
export const listening = async (
  app: { readonly fetch: (request: Request) => Promise<Response> },
  engine: LLMEngine,
  { host, port, allowedHosts = [] }: ListenFlags,
): Promise<HttpServer> => {
  const refusal = (status: number, reason: string): string => JSON.stringify(errorBody(apiFailure(status, reason)))
  try {
    return await orFail(liveHttpServer(app.fetch, { host, port, names: allowedHosts, refusal }))
  } catch (error) {
    await engine.close()
    throw error
  }
}

/** Runs until a signal comes, then lets requests end; a second signal stops at once. */
export const untilStopped = (server: HttpServer, engine: LLMEngine, graceMs: number): Promise<void> =>
  new Promise((done, reject) => {
    let isStopping = false
    const onSignal = (signal: NodeJS.Signals): void => {
      if (isStopping) process.exit(signal === 'SIGINT' ? 130 : 143)
      isStopping = true
      say(`\nfinishing ${signal === 'SIGINT' ? 'what runs; press Ctrl-C again to stop at once' : 'what runs'}`)
      server
        .close({ graceMs, atLimit: async () => void (await engine.abort()) })
        .then(() => engine.close())
        .then(done, reject)
    }
    process.on('SIGINT', onSignal)
    process.on('SIGTERM', onSignal)
  })
