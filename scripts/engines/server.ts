/** A server as a process of its own, for as long as a run needs it. Nothing of it is left afterwards. */
import { type ChildProcess, spawn } from 'node:child_process'
import { createServer } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'

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
  readonly stop: () => Promise<void>
}

const GRACE_MS = 15_000
const LOG_LINES = 25

const freePort = (): Promise<number> =>
  new Promise((resolve, reject) => {
    const server = createServer()
    server.once('error', reject)
    server.listen(0, '127.0.0.1', () => {
      const address = server.address()
      server.close(() => resolve(typeof address === 'object' && address !== null ? address.port : 0))
    })
  })

const isHealthy = async (url: string): Promise<boolean> => {
  try {
    return (await fetch(url, { signal: AbortSignal.timeout(2000) })).ok
  } catch {
    return false // not yet
  }
}

/** Ends the process and those that it started: they are a group of their own. */
const signalGroup = ({ pid }: ChildProcess, signal: NodeJS.Signals): void => {
  if (pid === undefined) return
  try {
    process.kill(-pid, signal)
  } catch (error) {
    if (!(error instanceof Error && 'code' in error && error.code === 'ESRCH')) throw error // ESRCH: none is left
  }
}

const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const

/**
 * Starts a server on a free port of this computer, and waits until it is ready.
 *
 * Errors   throws Error with the last lines of its log if it ends or is not ready in time; nothing is left of it then.
 * Effects  a process group, which ends with `stop`, with this process, and with Ctrl-C.
 */
export const startServer = async (command: ServerCommand): Promise<RunningServer> => {
  const port = await freePort()
  const child = spawn(command.executable, command.args(port), {
    detached: true,
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...process.env, ...command.env },
  })
  const log: string[] = []
  const keep = (chunk: Buffer): void => {
    log.push(...chunk.toString().split('\n'))
    log.splice(0, log.length - LOG_LINES)
  }
  child.stdout.on('data', keep)
  child.stderr.on('data', keep)
  const ended = new Promise<string>((resolve) => {
    child.once('error', ({ message }) => resolve(message))
    child.once('exit', (code, signal) => resolve(`it ended with ${signal ?? code}`))
  })
  const atExit = (): void => signalGroup(child, 'SIGKILL')
  const atSignal = (): void => process.exit(130)
  process.once('exit', atExit)
  for (const signal of SIGNALS) process.once(signal, atSignal)

  const stop = async (): Promise<void> => {
    signalGroup(child, 'SIGTERM')
    await Promise.race([ended, sleep(GRACE_MS)])
    signalGroup(child, 'SIGKILL') // children that outlived it
    await ended
    process.removeListener('exit', atExit)
    for (const signal of SIGNALS) process.removeListener(signal, atSignal)
  }

  const url = `http://127.0.0.1:${port}`
  const deadline = Date.now() + command.deadlineMs
  for (;;) {
    if (await isHealthy(`${url}${command.healthPath}`)) return { url, stop }
    const end = await Promise.race([ended, sleep(500)])
    if (end === undefined && Date.now() < deadline) continue
    await stop()
    throw new Error(`${end ?? `not ready within ${command.deadlineMs} ms`}\n${log.join('\n')}`)
  }
}
