/** Real processes: `node:child_process`, in their own groups, which end with this process. */
import type { ChildProcess, ChildProcessByStdio } from 'node:child_process'
import { createServer } from 'node:net'
import type { Readable, Writable } from 'node:stream'
import {
  asError,
  type ProcessEnd,
  type Processes,
  type ProcessFailure,
  type ProcessProgram,
  type RunningProcess,
  type TalkingProgram,
} from '@tandem-rl/base'
import * as E from 'fp-ts/lib/Either.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { spawnClosed } from './descriptors.js'
import { lineReader } from './lineReader.js'

const codeOf = (error: Error): string => ('code' in error && typeof error.code === 'string' ? error.code : 'UNKNOWN')

const REASONS: Readonly<Record<string, string>> = {
  ENOENT: 'there is no such program',
  EACCES: 'this program may not be run',
  EADDRINUSE: 'the port is in use',
  EPIPE: 'it no longer reads its input',
  ERR_STREAM_DESTROYED: 'it no longer reads its input',
  ERR_STREAM_WRITE_AFTER_END: 'its input was ended',
}

const processFailure = (command: string, error: Error): ProcessFailure => ({
  _tag: 'ProcessFailure',
  command,
  code: codeOf(error),
  reason: `${command}: ${REASONS[codeOf(error)] ?? error.message}`,
})

/** Sends a signal to a process and its group. Ignores groups that have ended. */
const signalGroup = (pid: number, signal: NodeJS.Signals): void => {
  try {
    process.kill(-pid, signal)
  } catch {
    // The group has ended.
  }
}

/** Groups that must end with this process. */
const groups = new Set<number>()

const endAll = (): void => {
  for (const pid of groups) signalGroup(pid, 'SIGKILL')
}

/**
 * Ends the groups on a signal that ends this process. If other listeners handle the signal, `exit`
 * does so instead.
 */
const onSignal = (signal: NodeJS.Signals): void => {
  if (process.listenerCount(signal) > 1) return
  endAll()
  process.off(signal, onSignal)
  process.kill(process.pid, signal)
}

const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const

const remember = (pid: number): void => {
  if (groups.size === 0) {
    process.on('exit', endAll)
    for (const signal of SIGNALS) process.on(signal, onSignal)
  }
  groups.add(pid)
}

const forget = (pid: number): void => {
  groups.delete(pid)
  if (groups.size > 0) return
  process.off('exit', endAll)
  for (const signal of SIGNALS) process.off(signal, onSignal)
}

/**
 * A shell that ends a group after this process was killed in a way that it cannot handle, such as
 * SIGKILL. The shell's input then ends without the final word.
 */
const GUARD = 'read -r word; [ "$word" = over ] || { kill -TERM -"$1"; sleep 3; kill -KILL -"$1"; }'

const startGuard = (pid: number): ChildProcess => {
  const guard = spawnClosed('sh', ['-c', GUARD, 'guard', String(pid)], {
    detached: true,
    stdio: ['pipe', 'ignore', 'ignore'],
  })
  guard.on('error', () => {}) // without a shell there is no guard; `exit` and signals are still handled
  guard.stdin?.on('error', () => {})
  guard.unref()
  return guard
}

/** The longest line of output, in UTF-16 units. */
const MAX_LINE = 2 ** 20

/** Reads lines of output. A carriage return, with which programs redraw a line, ends one too. */
const linesOf = async (stream: Readable, onLine: (line: string) => void): Promise<void> => {
  const reader = lineReader((line) => {
    for (const part of line.replace(/\r$/, '').split('\r')) onLine(part)
  }, MAX_LINE)
  await bytesOf(stream, reader.add)
  reader.end()
}

const environmentOf = (changes: NonNullable<ProcessProgram['env']>): NodeJS.ProcessEnv => ({
  ...process.env,
  ...Object.fromEntries(Object.entries(changes).map(([name, value]) => [name, value ?? undefined])),
})

/** Passes on the bytes of a stream until it is closed. */
const bytesOf = (stream: Readable, onBytes: (bytes: Uint8Array) => void): Promise<void> =>
  new Promise((resolve) => {
    stream.on('data', onBytes).once('close', resolve)
  })

type Child = ChildProcessByStdio<Writable | null, Readable, Readable>

interface Launched extends RunningProcess {
  readonly child: Child
}

/**
 * Starts a child as the head of a group. `listen` reads its output, and resolves after all of it.
 */
const launch = async (
  { command, args, env = {}, folder }: Omit<ProcessProgram, 'onLine'> & Pick<TalkingProgram, 'folder'>,
  input: 'ignore' | 'pipe',
  listen: (child: Child) => Promise<unknown>,
): Promise<E.Either<ProcessFailure, Launched>> => {
  // Its output and errors are pipes, and so is its input unless it is ignored.
  const child = spawnClosed(command, args, {
    env: environmentOf(env),
    cwd: folder,
    detached: true, // in its own group, so that all its descendants can be ended
    stdio: [input, 'pipe', 'pipe'],
  }) as Child
  const begun = await new Promise<Error | null>((resolve) => {
    child.once('spawn', () => resolve(null))
    child.on('error', resolve)
  })
  const { pid } = child
  if (begun !== null || pid === undefined) return E.left(processFailure(command, begun ?? new Error('it has no id')))
  remember(pid)
  const guard = startGuard(pid)
  const gone = new Promise<ProcessEnd>((resolve) => {
    child.once('exit', (code, signal) => resolve({ code, signal }))
  })
  const reported = listen(child)
  const ended = gone.then(async (end) => {
    signalGroup(pid, 'SIGKILL') // leftover children, which would also keep its output open
    await reported
    guard.stdin?.end('over\n')
    forget(pid)
    return end
  })
  return E.right({
    child,
    pid,
    ended,
    stop: async (graceMs) => {
      if (!groups.has(pid)) return ended // its id may have been reused
      signalGroup(pid, 'SIGTERM')
      const timer = setTimeout(() => signalGroup(pid, 'SIGKILL'), graceMs)
      const end = await ended
      clearTimeout(timer)
      return end
    },
  })
}

const start: Processes['start'] =
  ({ onLine = () => {}, ...program }) =>
  async () =>
    E.map(({ pid, ended, stop }: Launched) => ({ pid, ended, stop }))(
      await launch(program, 'ignore', ({ stdout, stderr }) =>
        Promise.all([linesOf(stdout, onLine), linesOf(stderr, onLine)]),
      ),
    )

const converse: Processes['converse'] =
  ({ onOutput, onErrors, ...program }) =>
  async () =>
    E.map(({ child: { stdin }, pid, ended, stop }: Launched) => {
      stdin?.on('error', () => {}) // each write reports its own error
      return {
        pid,
        ended,
        stop,
        write: (text: string): TE.TaskEither<ProcessFailure, void> =>
          TE.tryCatch(
            () =>
              new Promise((resolve, reject) => {
                stdin?.write(text, (error) => (error == null ? resolve() : reject(error)))
              }),
            (error) => processFailure(program.command, asError(error)),
          ),
        endInput: () => void stdin?.end(),
      }
    })(
      await launch(program, 'pipe', ({ stdout, stderr }) =>
        Promise.all([bytesOf(stdout, onOutput), bytesOf(stderr, onErrors)]),
      ),
    )

const freePort: Processes['freePort'] = (wanted = 0) =>
  TE.tryCatch(
    () =>
      new Promise<number>((resolve, reject) => {
        const server = createServer()
        server.once('error', reject)
        server.listen(wanted, '127.0.0.1', () => {
          const address = server.address()
          const port = typeof address === 'object' && address !== null ? address.port : wanted
          server.close(() => resolve(port))
        })
      }),
    (error) => processFailure(`port ${wanted}`, asError(error)),
  )

/**
 * The processes of this computer (POSIX).
 *
 * Each is the head of a group, which ends with it: when it is stopped, when it ends by itself, and
 * when this process exits, is interrupted by Ctrl-C or a signal, or is killed.
 */
export const liveProcesses: Processes = { start, converse, freePort }
