/** The real `tandem serve` as a process of its own. */
import { orThrow } from '@tandem-rl/base'
import { liveProcesses } from '@tandem-rl/host'
import { compiled, fromCompiledFolder } from './compiled.js'

/** A server that listens. */
interface ServeProcess {
  readonly url: string
  readonly pid: number
  /** Returns what it has printed. */
  readonly lines: () => readonly string[]
  /** Ends it politely. */
  readonly stop: () => Promise<void>
}

/**
 * Serves a model folder under a name on a free port, with adapters and control of its weights, and
 * with `more` flags. Throws, with the server's output, if it does not come up.
 */
export const startServe = async (folder: string, name: string, ...more: readonly string[]): Promise<ServeProcess> => {
  const lines: string[] = []
  let listens = (_: string): void => {}
  const listening = new Promise<string>((resolve) => {
    listens = resolve
  })
  const running = orThrow(
    await liveProcesses.start({
      command: process.execPath,
      args: [
        ...[...fromCompiledFolder(), compiled('src/cli/main.ts'), 'serve', folder, '--served-model-name', name],
        ...['--port', '0', '--threads', '1', '--dev', '--enable-lora', '--shutdown-seconds', '1'],
        ...more,
      ],
      onLine: (line) => {
        lines.push(line)
        const at = /^serving .* at (http:\S+)$/.exec(line)
        if (at !== null) listens(at[1]!)
      },
    })(),
  )
  const url = await Promise.race([
    listening,
    running.ended.then(() => Promise.reject(new Error(`tandem serve has ended:\n${lines.join('\n')}`))),
  ])
  return {
    ...{ url, pid: running.pid, lines: () => lines },
    stop: async () => void (await running.stop(60_000)),
  }
}
