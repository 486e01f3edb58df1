/** `tandem serve --tinker`: a server of the Tinker protocol. */
import { resolve } from 'node:path'
import { keyFromSeed } from '@tandem-rl/base'
import type { tinkerApp } from '@tandem-rl/tinker/server'
import { loadPretrained } from 'tandem-rl'
import { type EngineOptions, importGuest, locatedModel, orFail, startEngine } from 'tandem-rl/command'
import { metricsAnswer } from '../metrics.js'
import { listening, type ServerFlags, sayLine, servedNames, untilStopped, warnIfOpen } from './serving.js'

interface TinkerFlags extends EngineOptions, ServerFlags {
  readonly tinkerCheckpoints: string
  readonly servedModelName?: readonly string[]
  readonly kvCacheBytes?: number
}

/** Trains and samples a model for clients until a signal arrives. */
export const serveTinker = async (given: string, flags: TinkerFlags): Promise<void> => {
  const { keys, host } = flags
  const guest = await importGuest<{ readonly tinkerApp: typeof tinkerApp }>('@tandem-rl/tinker/server', '--tinker')
  await startEngine(flags)
  const model = await orFail(loadPretrained((await locatedModel(given)).name))
  const names = flags.servedModelName ?? servedNames(given)
  const app = guest.tinkerApp({
    models: Object.fromEntries(names.map((name) => [name, model])),
    checkpoints: resolve(flags.tinkerCheckpoints),
    key: keyFromSeed(flags.seed),
    metrics: metricsAnswer,
    access: { apiKeys: keys, corsOrigins: flags.allowedOrigins ?? [] },
    ...(flags.maxBodyBytes !== undefined && { limits: { bodyBytes: flags.maxBodyBytes } }),
    ...(flags.kvCacheBytes !== undefined && { cacheBytes: flags.kvCacheBytes }),
  })
  const server = await listening(app, app, flags)
  warnIfOpen(host, keys)
  for (const { metrics } of await app.metrics())
    sayLine(
      `KV cache up to ${Math.ceil(metrics.cacheBytes / 2 ** 20)} MiB, as much for each sampler with weights of its own`,
    )
  sayLine(`checkpoints in ${resolve(flags.tinkerCheckpoints)}`)
  await untilStopped(
    server,
    { close: app.close, abort: async () => 0 },
    {
      graceMs: 1000 * flags.shutdownSeconds,
      ready: `serving ${names.join(', ')} by the Tinker protocol at ${server.url}`,
    },
  )
}
