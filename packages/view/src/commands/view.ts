/** `tandem view`: a page about runs, served on this computer. */
import { existsSync } from 'node:fs'
import { resolve } from 'node:path'
import { liveTimers, print, printError } from '@tandem-rl/base/host'
import { liveFiles } from '@tandem-rl/host'
import {
  Command,
  CommandError,
  integerBetween,
  Option,
  orFail,
  type StoredRunFlags,
  storedRunOpener,
  storedRunOptions,
} from 'tandem-rl/command'
import { modelDesk } from '../modelDesk.js'
import { exportedPage, startView } from '../server.js'

interface ViewFlags extends StoredRunFlags {
  readonly port: number
  readonly export?: string
}

const start = async (given: readonly string[], flags: ViewFlags): Promise<void> => {
  const absent = given.filter((folder) => !existsSync(folder))
  if (absent.length > 0) throw new CommandError(`there is nothing to view: ${absent.join(', ')} does not exist`)
  const folders = given.map((folder) => resolve(folder))
  const options = { files: liveFiles, timers: liveTimers, folders }
  if (flags.export !== undefined) {
    await orFail(liveFiles.write(flags.export, await exportedPage(options)))
    print(`wrote ${flags.export}\n`)
    return
  }
  const models = modelDesk({ files: liveFiles, timers: liveTimers, openRun: storedRunOpener(flags) })
  const server = await orFail(startView({ ...options, port: flags.port, models }))
  await new Promise<void>((done, failed) => {
    const stop = (): void => {
      printError('\n')
      server
        .close({ graceMs: 0, atLimit: async () => {}, cutMs: 0 })
        .then(models.close)
        .then(done, failed)
    }
    process.once('SIGINT', stop)
    process.once('SIGTERM', stop)
    print(`viewing ${given.join(', ')} at ${server.url}\n`)
  })
}

/** Makes the command. */
export const viewCommand = (): Command => {
  const command = new Command('view')
    .argument('[folders...]', 'run folders, logs of other programs, or folders that hold some', ['runs'])
    .addOption(
      new Option('--port <n>', 'port to listen on; 0 picks a free port')
        .argParser(integerBetween(0, 65_535))
        .default(7788),
    )
    .option('--export <file>', 'write one page that opens without a server, instead of serving')
  for (const option of storedRunOptions()) command.addOption(option)
  return command.action((folders: readonly string[], flags: ViewFlags) => start(folders, flags))
}
