/** The answers of the run viewer for commands, without a socket. */
import { resolve } from 'node:path'
import { liveTimers } from '@tandem-rl/base/host'
import { liveFiles } from '@tandem-rl/host'
import { version } from '../live/version.js'
import { viewApp } from '../view/app.js'
import { eventHub } from '../view/events.js'
import { CommandError } from './failure.js'

/** Returns a function that gets an answer of the viewer's API about runs in folders. */
export const viewer = (folders: readonly string[]): ((path: string) => Promise<unknown>) => {
  const app = viewApp({
    files: liveFiles,
    folders: folders.map((folder) => resolve(folder)),
    page: {},
    version,
    events: eventHub(liveTimers),
  })
  return async (path) => {
    const response = await app.fetch(new Request(`http://localhost${path}`))
    if (!response.ok) throw new CommandError(`the runs cannot be read: ${await response.text()}`)
    return response.json()
  }
}

/** Formats a number for a table. An absent one is `-`. */
export const numberText = (value: number | null | undefined): string =>
  value === null || value === undefined ? '-' : String(Number(value.toPrecision(4)))
