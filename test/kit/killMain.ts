/**
 * A training run in a process that tests kill. It reports each phase and kills itself at the given
 * one. Checkpoints and logs are written in halves with a phase between them, to test torn writes.
 */
import { writeSync } from 'node:fs'
import type { Clock, FileContents, Files } from '@tandem-rl/base'
import { liveClock } from '@tandem-rl/base/host'
import { liveFiles } from '@tandem-rl/host'
import { selectBackend } from '@tandem-rl/tfjs-onnxruntime'
import { pipe } from 'fp-ts/lib/function.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import type { TaskSource } from '../../src/data/task.js'
import type { KillPhase } from './kills.js'
import type { RunSettings } from './runs.js'
import { watchedEvents } from './watchedRun.js'

/** The arguments of the process, as JSON. */
export interface KillOrder {
  readonly folder: string
  readonly settings: RunSettings
  /**
   * The process kills itself when this phase begins for the n-th time, counted from 1. `null`:
   * never.
   */
  readonly at: { readonly phase: KillPhase; readonly nth: number } | null
}

const { folder, settings, at } = JSON.parse(process.argv[2]!) as KillOrder // from `kills.ts`

let now: KillPhase = 'opening'
let seen = 0
const enter = (phase: KillPhase): void => {
  now = phase
  writeSync(1, `${phase}\n`)
  if (phase === at?.phase && ++seen === at.nth) process.kill(process.pid, 'SIGKILL')
}

/** After which look at the clock what begins. */
const AFTER: Partial<Record<KillPhase, KillPhase>> = {
  collecting: 'training',
  training: 'syncing',
  syncing: 'recording',
}

const clock: Clock = {
  ...liveClock,
  now: () => {
    const next = AFTER[now]
    if (next !== undefined) enter(next)
    return liveClock.now()
  },
}

const watched = (source: TaskSource, phase: KillPhase): TaskSource => ({
  ...source,
  at: (index) => {
    if (now !== phase) enter(phase)
    return source.at(index)
  },
})

/** The same bytes in two pieces. */
const inHalves = (contents: FileContents, phase: KillPhase): Iterable<Uint8Array> => {
  const parts = typeof contents === 'string' || contents instanceof Uint8Array ? [contents] : [...contents]
  const bytes = Buffer.concat(parts.map((part) => Buffer.from(part as Uint8Array))) // Buffer reads both
  const middle = Math.floor(bytes.length / 2)
  return (function* () {
    yield bytes.subarray(0, middle)
    enter(phase)
    yield bytes.subarray(middle)
  })()
}

const files: Files = {
  ...liveFiles,
  writeFolder: (path, contents) => async () => {
    enter('checkpointing')
    const torn = Object.fromEntries(
      Object.entries(contents).map(([name, each]) => [name, inHalves(each, 'inside a checkpoint')]),
    )
    const written = await liveFiles.writeFolder(path, torn)()
    enter('checkpointed')
    return written
  },
  remove: (path) => async () => {
    enter('removing')
    return liveFiles.remove(path)()
  },
  append: (path, contents) => {
    const bytes = Buffer.from(contents as Uint8Array) // Buffer reads both
    if (bytes.length === 0) return liveFiles.append(path, contents)
    const middle = Math.floor(bytes.length / 2)
    return pipe(
      liveFiles.append(path, bytes.subarray(0, middle)),
      TE.chain(() => {
        enter('inside a log')
        return liveFiles.append(path, bytes.subarray(middle))
      }),
    )
  },
  write: (path, contents) => async () => {
    enter('writing')
    return liveFiles.write(path, inHalves(contents, 'inside a file'))()
  },
}

enter('opening')
await selectBackend({ threads: 1, spinning: 'off' })
const watch = {
  training: (source: TaskSource) => watched(source, 'collecting'),
  heldOut: (source: TaskSource) => watched(source, 'evaluating'),
}
for await (const _ of watchedEvents(folder, settings, { files, clock, watch }));
