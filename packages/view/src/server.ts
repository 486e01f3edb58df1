/** Starts the run viewer: its page and its socket. */
import { createRequire } from 'node:module'
import { fileURLToPath } from 'node:url'
import { type Files, type Json, orThrow, type Timers } from '@tandem-rl/base'
import { liveDigest } from '@tandem-rl/base/host'
import { type HttpServer, type ListenFailure, liveHttpServer } from '@tandem-rl/host'
import type { TaskEither } from 'fp-ts/lib/TaskEither.js'
import { viewApp } from './app.js'
import { eventHub } from './events.js'
import type { ModelDesk } from './modelDesk.js'
import { onePage, type PageFiles } from './onePage.js'
import type { RolloutsAnswer, RunsAnswer } from './protocol.js'
import { rolloutAnswer } from './rolloutAnswer.js'
import { viewedRuns } from './viewedRuns.js'

const ofPackage = createRequire(import.meta.url)

/** The version in package.json; a constant, because a bundled program has no package.json. */
export const viewVersion = '0.1.0'

const FOLDER = fileURLToPath(new URL('../assets', import.meta.url))

/** Reads the files of the page, uPlot's two included. */
const pageFiles = async (files: Files): Promise<PageFiles> => {
  const read = async (path: string): Promise<string> => orThrow(await files.readText(path)())
  const own = orThrow(await files.list(FOLDER)())
  const texts = await Promise.all(own.map(async (name) => [name, await read(`${FOLDER}/${name}`)] as const))
  return {
    ...Object.fromEntries(texts),
    'uPlot.esm.js': await read(ofPackage.resolve('uplot/dist/uPlot.esm.js')),
    'uPlot.min.css': await read(ofPackage.resolve('uplot/dist/uPlot.min.css')),
  }
}

/** Rollouts of a run that an exported page holds at most. */
const EXPORTED = 2000

const PAGE = 500

/**
 * Renders one page with the runs of some folders, which opens without a server. It holds the first
 * 2,000 rollouts of each run.
 *
 * Errors   rejects if a folder cannot be read.
 */
export const exportedPage = async ({
  files,
  timers,
  folders,
}: Omit<StartOptions, 'port' | 'models'>): Promise<string> => {
  const page = await pageFiles(files)
  const app = viewApp({ files, folders, page, version: viewVersion, events: eventHub(timers) })
  const viewed = new Map((await viewedRuns(files, folders)()).map((run) => [run.id, run]))
  const answers: Record<string, Json> = {}
  const get = async (path: string): Promise<Json> =>
    (await app.fetch(new Request(`http://localhost${path}`))).json() as Promise<Json> // answers are JSON
  const keep = async (path: string): Promise<void> => {
    answers[path] = await get(path)
  }
  await keep('/api/runs')
  await keep('/api/evidence')
  const { runs } = answers['/api/runs'] as unknown as RunsAnswer // the answer of this path
  for (const { id } of runs) {
    const path = `/api/runs/${encodeURIComponent(id)}`
    for (const part of ['', '/metrics', '/phases']) await keep(path + part)
    const pages: RolloutsAnswer[] = []
    const run = viewed.get(id)
    if (run === undefined) continue // removed while the page is made
    for (let offset = 0; offset < EXPORTED; offset += PAGE) {
      const list = await get(`${path}/rollouts?offset=${offset}&limit=${PAGE}`)
      pages.push(list as unknown as RolloutsAnswer) // the answer of this path
    }
    const rows = pages.flatMap((each) => each.rows ?? []) // none in an error
    answers[`${path}/rollouts`] = { ...pages[0], rows } as unknown as Json // an answer is JSON
    const annotations = rows.length === 0 ? new Map() : await run.annotations()
    for (const row of rows) {
      const answer = await rolloutAnswer(run, row.id, annotations)
      answers[`${path}/rollouts/${encodeURIComponent(row.id)}`] = answer as unknown as Json // an answer is JSON
    }
  }
  return onePage(page, { answers, exportedAt: new Date().toISOString() }, liveDigest)
}

export interface StartOptions {
  readonly files: Files
  readonly timers: Timers
  readonly folders: readonly string[]
  /** 0 selects a free port. */
  readonly port: number
  /** Runs checkpoints. Default: requests about them are refused. */
  readonly models?: ModelDesk
}

/**
 * Starts the viewer on a loopback address.
 *
 * Errors   `Left(ListenFailure)` if the port is unavailable.
 * Effects  keeps a listening socket open until `close`.
 */
export const startView =
  ({ files, timers, folders, port, models }: StartOptions): TaskEither<ListenFailure, HttpServer> =>
  async () => {
    const page = await pageFiles(files)
    const app = viewApp({
      files,
      folders,
      page,
      version: viewVersion,
      events: eventHub(timers),
      ...(models && { models }),
    })
    const refusal = (_status: number, reason: string): string => JSON.stringify({ error: { reason } })
    return liveHttpServer(app.fetch, { port, refusal })()
  }
