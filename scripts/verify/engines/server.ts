/**
 * A server as a process of its own, for as long as a run needs it. Nothing of it is left
 * afterwards.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { orThrow } from '@tandem-rl/base'
import { liveProcesses } from '@tandem-rl/host'

export interface ServerCommand {
  readonly executable: string
  /** The arguments, once the port is known. */
  readonly args: (port: number) => readonly string[]
  readonly env: Readonly<Record<string, string>>
  /** Answers with 200 when the server is ready. */
  readonly healthPath: string
  readonly deadlineMs: number
}

export interface RunningServer {
  readonly url: string
  readonly stop: () => Promise<unknown>
}

const GRACE_MS = 15_000
const LOG_LINES = 25

const isHealthy = async (url: string): Promise<boolean> => {
  try {
    return (await fetch(url, { signal: AbortSignal.timeout(2000) })).ok
  } catch {
    return false // not yet
  }
}

/**
 * Starts a server on a free port of this computer, and waits until it is ready.
 *
 * Errors   throws Error with the last lines of its log if it ends or is not ready in time; nothing
 * is left of it then. Effects  a process group, which ends with `stop` or with this process.
 */
export const startServer = async (command: ServerCommand): Promise<RunningServer> => {
  const port = orThrow(await liveProcesses.freePort()())
  const log: string[] = []
  const onLine = (line: string): void => {
    log.push(line)
    log.splice(0, log.length - LOG_LINES)
  }
  const started = liveProcesses.start({
    command: command.executable,
    args: command.args(port),
    env: command.env,
    onLine,
  })
  const program = orThrow(await started())
  const stop = (): Promise<unknown> => program.stop(GRACE_MS)
  const url = `http://127.0.0.1:${port}`
  const deadline = Date.now() + command.deadlineMs
  for (;;) {
    if (await isHealthy(`${url}${command.healthPath}`)) return { url, stop }
    const end = await Promise.race([program.ended, sleep(500)])
    if (end === undefined && Date.now() < deadline) continue
    await stop()
    throw new Error(`${end === undefined ? 'not ready in time' : 'it ended'}\n${log.join('\n')}`)
  }
}
