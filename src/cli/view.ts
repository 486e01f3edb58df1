/** `tandem view`: a page about runs, served on this computer. */
import { resolve } from 'node:path'
import { Command, Option } from 'commander'
import { liveTimers } from '../live/clock.js'
import { liveFiles } from '../live/files.js'
import { startView } from '../view/server.js'
import { orFail } from './failure.js'
import { portNumber } from './options.js'
import { sayLine } from './serving.js'
import { version } from './version.js'

interface ViewFlags {
  readonly port: number
}

const start = async (folders: readonly string[], { port }: ViewFlags): Promise<void> => {
  const server = await orFail(
    startView({
      files: liveFiles,
      timers: liveTimers,
      folders: folders.map((folder) => resolve(folder)),
      port,
      version,
    }),
  )
  process.stdout.write(`viewing ${folders.join(', ')} at ${server.url}\n`)
  await new Promise<void>((done, failed) => {
    const stop = (): void => {
      sayLine('')
      server.close({ graceMs: 0, atLimit: async () => {}, cutMs: 0 }).then(done, failed)
    }
    process.once('SIGINT', stop)
    process.once('SIGTERM', stop)
  })
}

/** Makes the command. */
export const viewCommand = (): Command =>
  new Command('view')
    .argument('[folders...]', 'run folders, or folders that hold some', ['runs'])
    .addOption(new Option('--port <n>', 'port to listen on; 0 picks a free port').argParser(portNumber).default(7788))
    .action((folders: readonly string[], flags: ViewFlags) => start(folders, flags))
