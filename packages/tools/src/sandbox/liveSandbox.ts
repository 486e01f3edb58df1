/** Runs programs in bubblewrap, with limits. */
import { availableParallelism } from 'node:os'
import { isAbsolute, normalize } from 'node:path'
import {
  ABORTED,
  limiter,
  SANDBOX_LIMITS,
  type Sandbox,
  type SandboxEnd,
  type SandboxFailure,
  type SandboxLimits,
  type SandboxOutput,
  type SandboxProgram,
  type SandboxSession,
  type SandboxWait,
} from '@tandem-rl/base'
import * as E from 'fp-ts/lib/Either.js'
import { bubblewrapLaunch } from './bubblewrap.js'
import { delegatedGroup } from './controlGroup.js'
import { type Launch, type Launched, launched, sandboxFailure } from './launch.js'
import { unsafeHostLaunch } from './unsafeHost.js'

export interface LiveSandboxOptions {
  /**
   * `unsafe-host` runs programs as plain processes of this user, with the user's file access and
   * network. Use it only for programs that are trusted as much as this one.
   */
  readonly isolation?: Sandbox['isolation']
  /** Maximum number of concurrent programs; others wait. Default: four per processor. */
  readonly concurrent?: number
}

/** Makes a signal that never aborts. Each call gets its own, because signals keep listeners. */
const never = (): AbortSignal => new AbortController().signal

/**
 * Maximum number of UTF-16 units of a command with its arguments and variables. Pass more in files
 * or as input.
 */
const MAX_COMMAND_LENGTH = 100_000

const isNatural = (value: number): boolean => Number.isSafeInteger(value) && value >= 1

const isPlain = (name: string): boolean =>
  name !== '' && !isAbsolute(name) && !name.includes('\0') && !normalize(name).startsWith('..') && !name.endsWith('/')

const textsOf = ({ command, args, env = {} }: Pick<SandboxProgram, 'command' | 'args' | 'env'>): readonly string[] => [
  command,
  ...args,
  ...Object.entries(env).flat(),
]

/** Returns the problems of a program. */
const problemsOf = ({ command, args, files = {}, env = {}, limits = {} }: SandboxProgram): readonly string[] => [
  ...Object.entries(limits).flatMap(([name, value]) =>
    isNatural(value) ? [] : [`the limit ${name} must be a positive integer, got ${value}`],
  ),
  ...Object.keys(files).flatMap((name) =>
    isPlain(name) ? [] : [`a file must have a relative path inside the folder, got ${JSON.stringify(name)}`],
  ),
  ...textsOf({ command, args, env }).flatMap((text) =>
    text.includes('\0') ? [`a command must not contain the character 0, got ${JSON.stringify(text.slice(0, 40))}`] : [],
  ),
  ...(textsOf({ command, args, env }).join('').length > MAX_COMMAND_LENGTH
    ? [`a command must have at most ${MAX_COMMAND_LENGTH} characters, with its arguments and variables`]
    : []),
]

/** Returns the limits of a program. Throws RangeError that lists all its problems. */
const checked = (program: SandboxProgram): SandboxLimits => {
  const problems = problemsOf(program)
  if (problems.length > 0) throw new RangeError(`Sandbox: ${problems.join('; ')}`)
  return { ...SANDBOX_LIMITS, ...program.limits }
}

const CLOSED = sandboxFailure('closed', 'the sandbox is closed')

/**
 * Stops a program at its time limit or when its signal aborts, until the returned function is
 * called.
 */
const stopping = (program: Launched, { wallMs, signal = never() }: SandboxWait & { readonly wallMs: number }) => {
  const cancel = (): void => program.stop('cancelled')
  const timer = setTimeout(() => program.stop('wall'), wallMs)
  if (signal.aborted) cancel()
  else signal.addEventListener('abort', cancel, { once: true })
  return (): void => {
    clearTimeout(timer)
    signal.removeEventListener('abort', cancel)
  }
}

const NOT_RUN: SandboxEnd = {
  _tag: 'Ended',
  code: null,
  stopped: 'cancelled',
  stdout: { text: '', dropped: 0 },
  stderr: { text: '', dropped: 0 },
}

let foundGroups: { readonly folder: string | null } | undefined

/** Returns the folder for control groups of sandboxes, which is looked for once in a process. */
const groups = (): string | null => {
  foundGroups ??= { folder: delegatedGroup() }
  return foundGroups.folder
}

/**
 * Makes a sandbox on this machine.
 *
 * In bubblewrap a program sees the system's folders, read-only, and one empty folder of its own, in
 * memory. It has no network, and no access to other processes, or to variables and files of this
 * process or its user. It runs as an unprivileged user, in separate namespaces, without
 * capabilities, with a filter of system calls. However it ends, all processes that it started end
 * with it, and its files are removed, even if this process is killed.
 *
 * Errors   calls return `Left(SandboxFailure)` with the packages or permissions to add if
 *          bubblewrap or namespaces are unavailable. Programs run without isolation only if
 *          `isolation` is 'unsafe-host'. Throws RangeError for invalid limits or files.
 * Effects  starts processes. Waiting for a free slot does not count toward a program's time limit.
 *          With a delegated control group, moves this process into a group below it.
 *
 * @example
 * liveSandbox().isolation // 'bubblewrap'
 */
export const liveSandbox = (options: LiveSandboxOptions = {}): Sandbox => {
  const { isolation = 'bubblewrap', concurrent = 4 * availableParallelism() } = options
  const places = limiter(concurrent)
  const alive = new Set<Launched>()
  let isClosed = false

  const start = async (program: SandboxProgram, limits: SandboxLimits): Promise<E.Either<SandboxFailure, Launched>> => {
    if (isClosed) return E.left(CLOSED)
    const launch: E.Either<SandboxFailure, Launch> =
      isolation === 'bubblewrap' ? bubblewrapLaunch(program, limits, groups()) : await unsafeHostLaunch(program, limits)
    if (E.isLeft(launch)) return launch
    const started = await launched(launch.right, limits)
    if (E.isLeft(started)) return started
    const running = started.right
    alive.add(running)
    void running.ended.then(() => alive.delete(running))
    if (isClosed) running.stop('cancelled')
    return started
  }

  const run: Sandbox['run'] = (program, wait = {}) => {
    const limits = checked(program)
    const whole = async (): Promise<E.Either<SandboxFailure, SandboxEnd>> => {
      const started = await start(program, limits)
      if (E.isLeft(started)) return started
      const { stdin, ended } = started.right
      const release = stopping(started.right, { wallMs: limits.wallMs, ...wait })
      stdin.end(program.stdin ?? '')
      const end = await ended
      release()
      return end
    }
    return async () => {
      const end = await places.run(whole, wait.signal ?? never())
      return end === ABORTED ? E.right(NOT_RUN) : end
    }
  }

  const sessionOf = (running: Launched, limits: SandboxLimits): SandboxSession => ({
    ask:
      (input, until, wait = {}) =>
      async () => {
        const requested = async (): Promise<E.Either<SandboxFailure, SandboxOutput | SandboxEnd>> => {
          const release = stopping(running, { wallMs: limits.wallMs, ...wait })
          const reply = running.stdout.until(until)
          running.stdin.write(input)
          const answer = await Promise.race([reply, running.ended])
          release()
          return '_tag' in answer ? answer : E.right({ _tag: 'Said', output: answer, running: running.running() })
        }
        const answer = await places.run(requested, wait.signal ?? never())
        if (answer !== ABORTED) return answer
        running.stop('cancelled')
        return running.ended
      },
    isAlive: () => alive.has(running),
    close: async () => {
      running.stop('cancelled')
      await running.ended
    },
  })

  return {
    isolation,
    get memory() {
      if (isolation === 'unsafe-host') return 'process'
      return groups() === null ? 'watched' : 'cgroup'
    },
    run,
    open: (program) => {
      const limits = checked(program)
      return async () => {
        const started = await start(program, limits)
        if (E.isLeft(started)) return started
        if (program.stdin !== undefined) started.right.stdin.write(program.stdin)
        return E.right(sessionOf(started.right, limits))
      }
    },
    close: async () => {
      isClosed = true
      await Promise.all(
        [...alive].map((running) => {
          running.stop('cancelled')
          return running.ended
        }),
      )
    },
  }
}
