/** `tandem serve --tinker`: a server of the Tinker protocol. */
import { basename, resolve } from 'node:path'
import { keyFromSeed } from '../core/key.js'
import { EMBEDDED_MODEL } from '../live/embeddedModel.js'
import { isLoopback } from '../live/httpServer.js'
import { modelFolder } from '../modules/pretrained/modelFolder.js'
import { loadPretrained } from '../modules/pretrained/pretrained.js'
import { tinkerApp } from '../tinker/server/app.js'
import { orFail } from './failure.js'
import { downloadLines, type EngineOptions, startEngine } from './options.js'
import { type ListenFlags, listening, sayLine, untilStopped } from './serving.js'

interface TinkerFlags extends EngineOptions, ListenFlags {
  readonly tinkerCheckpoints: string
  readonly servedModelName?: readonly string[]
  readonly keys: readonly string[]
  readonly allowedOrigins?: readonly string[]
  readonly maxBodyBytes?: number
  readonly seed: number
  readonly shutdownSeconds: number
}

/** Trains and samples a model for clients until a signal arrives. */
export const serveTinker = async (given: string, flags: TinkerFlags): Promise<void> => {
  const { keys, host } = flags
  await startEngine(flags)
  const folder = resolve(await orFail(modelFolder(given, { onProgress: downloadLines() })))
  sayLine(`loading ${folder}`)
  const model = await orFail(loadPretrained(folder))
  const names = flags.servedModelName ?? [given === EMBEDDED_MODEL ? basename(EMBEDDED_MODEL) : given]
  const app = tinkerApp({
    models: Object.fromEntries(names.map((name) => [name, model])),
    checkpoints: resolve(flags.tinkerCheckpoints),
    key: keyFromSeed(flags.seed),
    access: { apiKeys: keys, corsOrigins: flags.allowedOrigins ?? [] },
    ...(flags.maxBodyBytes !== undefined && { limits: { bodyBytes: flags.maxBodyBytes } }),
  })
  const server = await listening(app, app, flags)
  if (!isLoopback(host) && keys.length === 0)
    sayLine(`warning: ${host} can be reached from other machines, and there is no --api-key`)
  sayLine(`checkpoints in ${resolve(flags.tinkerCheckpoints)}`)
  process.stdout.write(`serving ${names.join(', ')} by the Tinker protocol at ${server.url}\n`)
  await untilStopped(server, { close: app.close, abort: async () => 0 }, 1000 * flags.shutdownSeconds)
}
