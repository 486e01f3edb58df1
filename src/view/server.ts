/** Starts the run viewer: its page and its socket. */
import { createRequire } from 'node:module'
import { fileURLToPath } from 'node:url'
import type { TaskEither } from 'fp-ts/lib/TaskEither.js'
import type { Files, Timers } from '../core/capabilities.js'
import { orThrow } from '../core/failure.js'
import { type HttpServer, type ListenFailure, liveHttpServer } from '../live/httpServer.js'
import { viewApp } from './app.js'
import { eventHub } from './events.js'
import type { PageFiles } from './onePage.js'

const FOLDER = fileURLToPath(new URL('../../assets/view', import.meta.url))

/** Reads the files of the page, uPlot's two included. */
export const pageFiles = async (files: Files): Promise<PageFiles> => {
  const { resolve } = createRequire(import.meta.url)
  const read = async (path: string): Promise<string> => orThrow(await files.readText(path)())
  const own = orThrow(await files.list(FOLDER)())
  const texts = await Promise.all(own.map(async (name) => [name, await read(`${FOLDER}/${name}`)] as const))
  return {
    ...Object.fromEntries(texts),
    'uPlot.esm.js': await read(resolve('uplot/dist/uPlot.esm.js')),
    'uPlot.min.css': await read(resolve('uplot/dist/uPlot.min.css')),
  }
}

export interface StartOptions {
  readonly files: Files
  readonly timers: Timers
  readonly folders: readonly string[]
  /** 0 selects a free port. */
  readonly port: number
  readonly version: string
}

/**
 * Starts the viewer on a loopback address.
 *
 * Errors   `Left(ListenFailure)` if the port is unavailable.
 * Effects  keeps a listening socket open until `close`.
 */
export const startView =
  ({ files, timers, folders, port, version }: StartOptions): TaskEither<ListenFailure, HttpServer> =>
  async () => {
    const page = await pageFiles(files)
    const app = viewApp({ files, folders, page, version, events: eventHub(timers) })
    const refusal = (_status: number, reason: string): string => JSON.stringify({ error: { reason } })
    return liveHttpServer(app.fetch, { port, refusal })()
  }
