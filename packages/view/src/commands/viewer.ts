/** The answers of the run viewer for commands, without a socket. */
import { resolve } from 'node:path'
import { liveTimers } from '@tandem-rl/base/host'
import { liveFiles } from '@tandem-rl/host'
import { CommandError } from 'tandem-rl/command'
import { viewApp } from '../app.js'
import { eventHub } from '../events.js'
import { viewVersion } from '../server.js'

/** Returns a function that gets an answer of the viewer's API about runs in folders. */
export const viewer = (folders: readonly string[]): ((path: string) => Promise<unknown>) => {
  const app = viewApp({
    files: liveFiles,
    folders: folders.map((folder) => resolve(folder)),
    page: {},
    version: viewVersion,
    events: eventHub(liveTimers),
  })
  return async (path) => {
    const response = await app.fetch(new Request(`http://localhost${path}`))
    if (!response.ok) throw new CommandError(`the runs cannot be read: ${await response.text()}`)
    return response.json()
  }
}
