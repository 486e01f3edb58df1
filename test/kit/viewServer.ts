/** The run viewer in this process, over small real runs. */
import { orThrow } from '@tandem-rl/base'
import { liveTimers } from '@tandem-rl/base/host'
import { type HttpServer, liveFiles } from '@tandem-rl/host'
import { startView } from '@tandem-rl/view'
import { afterAll, afterEach, beforeAll } from 'vitest'
import { modelDesk } from '../../packages/view/src/modelDesk.js'
import { storedRunOpener } from '../../src/cli/storedRun.js'
import { useEngine } from './engine.js'
import { type Flags, useTemporaryFolder } from './runs.js'
import { useTrainingRuns } from './trainingRuns.js'

/** Serves folders until the tests of the file have ended. */
export const useView = (folders: () => readonly string[]) => {
  let server: HttpServer
  // The tests have started the engine.
  const models = modelDesk({ files: liveFiles, timers: liveTimers, openRun: storedRunOpener({}) })
  afterEach(models.close)
  beforeAll(async () => {
    const options = { files: liveFiles, timers: liveTimers, folders: folders(), models }
    server = orThrow(await startView({ ...options, port: 0 })())
  })
  afterAll(async () => {
    await server.close({ graceMs: 0, atLimit: async () => {}, cutMs: 0 })
  })
  return { origin: () => server.url }
}

/** Makes small runs of word problems by name, with settings by flag, and serves their folders. */
export const useViewedRuns = (runs: Readonly<Record<string, Flags>>) => {
  const path = useTemporaryFolder()
  useEngine({ threads: 1 })
  const training = useTrainingRuns(path)
  beforeAll(async () => {
    for (const [name, flags] of Object.entries(runs)) await training.start(name, flags)
  })
  const view = useView(() => Object.keys(runs).map(path))
  return { ...view, path, idOf: (name: string): string => name }
}
