/** The worker of the page: it starts the engine, trains, saves to the browser's files and reports. */
import { liveFiles } from '@tandem-rl/host'
import { engineReport, type SelectOptions, selectBackend } from '@tandem-rl/tfjs-onnxruntime'
import { FailureError, orThrow, type RunEvent, runFolder, train } from 'tandem-rl'
import { trainOptionsOf } from '../../src/run/define/choices.js'
import { fetchModel } from '../embeddedModel.js'
import { archive } from './archive.js'
import type { Choices, FromWorker, Saved, ToWorker } from './messages.js'
import { taskOf } from './tasks.js'

/** The parts of a worker's global scope that Node has not. */
interface WorkerScope {
  readonly location: { readonly href: string }
  readonly postMessage: (message: FromWorker) => void
  onmessage: ((event: { readonly data: ToWorker }) => void) | null
}

const scope = globalThis as unknown as WorkerScope // the types of Node lack it

const query = new URL(scope.location.href).searchParams
const task = taskOf(query.get('task'))
const FOLDER = task.folder
const CHOICES = `${FOLDER}.json`

const send = (message: FromWorker): void => scope.postMessage(message)

/** Reads the records of the saved run, up to its newest checkpoint. */
const savedRun = async (): Promise<Saved | null> => {
  if (!orThrow(await liveFiles.exists(CHOICES)()) || !orThrow(await liveFiles.exists(`${FOLDER}/metrics.jsonl`)()))
    return null
  const choices = JSON.parse(orThrow(await liveFiles.readText(CHOICES)())) as Choices // written below
  const lines = orThrow(await liveFiles.readText(`${FOLDER}/metrics.jsonl`)())
    .trim()
    .split('\n')
  const steps = orThrow(await liveFiles.list(`${FOLDER}/checkpoints`)())
  const newest = Number(/\d+$/.exec(steps.at(-1) ?? '')?.[0] ?? 0)
  const events = lines.flatMap((line) => (line === '' ? [] : [JSON.parse(line) as RunEvent])) // written by `train`
  return { ...choices, step: newest, events: events.filter((event) => !('step' in event) || event.step <= newest) }
}

const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error))

let pausing: AbortController | null = null

const trainOn = async (choices: Choices, existing: 'replace' | 'resume'): Promise<void> => {
  if (existing === 'replace') orThrow(await liveFiles.remove(FOLDER)())
  orThrow(await liveFiles.makeFolder('runs')())
  orThrow(await liveFiles.write(CHOICES, JSON.stringify(choices))())
  const { settings, build } = task.prepare(choices)
  pausing = new AbortController()
  const { signal } = pausing
  const run = await build()
  const events = train(run, {
    ...{ ...trainOptionsOf(settings), store: runFolder(FOLDER), signal },
    recipe: { name: task.recipe, file: null, settings },
  })
  for await (const event of events) send({ type: 'event', event })
  send({ type: 'stopped', status: signal.aborted ? 'paused' : 'finished' })
}

const handle = async (message: ToWorker): Promise<void> => {
  switch (message.type) {
    case 'start':
      return trainOn(message.choices, message.existing)
    case 'pause':
      return pausing?.abort()
    case 'download':
      return send({ type: 'file', name: 'tandem-run.tar', blob: await archive(liveFiles, FOLDER) })
  }
}

const report = (error: unknown): void =>
  send({ type: 'failed', message: error instanceof FailureError ? error.message : messageOf(error) })

/** Reads `device` and `threads` from the worker's own address. */
const engineOptions = (): SelectOptions => {
  const threads = Number(query.get('threads'))
  return {
    backend: 'onnxruntime',
    ...(query.get('device') === 'webgpu' && { device: 'webgpu' }),
    ...(threads >= 1 && { threads }),
  }
}

const begin = async (): Promise<void> => {
  await selectBackend(engineOptions())
  if (task.recipe === 'wordProblems') await fetchModel()
  const { backend, version, threads } = engineReport()
  send({ type: 'ready', engine: `${backend} ${version}`, threads: threads ?? 1, saved: await savedRun() })
  scope.onmessage = ({ data }) => void handle(data).catch(report)
}

begin().catch(report)
