/** A running program in a sandbox: its outputs, its end, and its termination. */
import type { ChildProcess } from 'node:child_process'
import { accessSync, constants, readFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Readable, Writable } from 'node:stream'
import {
  errorMessage,
  type SandboxEnd,
  type SandboxFailure,
  type SandboxLimits,
  type SandboxStop,
} from '@tandem-rl/base'
import { spawnClosed } from '@tandem-rl/host'
import * as E from 'fp-ts/lib/Either.js'
import type { ControlGroup } from './controlGroup.js'
import { type Gathered, gathered } from './gathered.js'
import { overLimit, tasksOf } from './watched.js'

/** A command of this machine that runs a program. */
export interface Launch {
  readonly command: string
  readonly args: readonly string[]
  readonly env: Readonly<Record<string, string>>
  readonly cwd: string
  /** User id that runs it. Default: the user of this process. */
  readonly user?: number
  /** Contents for its descriptors from 5 on. */
  readonly inputs: readonly (string | Uint8Array)[]
  /**
   * The reports about the program: those of bubblewrap on descriptor 3, with the folder to watch,
   * or null if the command is the program itself. With reports, the program does not start before
   * `GO` arrives on descriptor 4.
   */
  readonly reports: LaunchReports | null
  /** Called after the end. */
  readonly cleanUp: () => Promise<void>
}

interface LaunchReports {
  readonly folder: string
  /** The group that limits its memory, or `null` if it is watched. */
  readonly group: ControlGroup | null
  readonly refusal: (reply: string) => SandboxFailure
}

export const sandboxFailure = (kind: SandboxFailure['kind'], reason: string): SandboxFailure => ({
  _tag: 'SandboxFailure',
  kind,
  reason,
})

const isProgram = (path: string): boolean => {
  try {
    accessSync(path, constants.X_OK)
    return true
  } catch {
    return false
  }
}

/** Finds a program in the given folders, by default those of this process's PATH. */
export const programNamed = (name: string, folders = process.env.PATH ?? ''): string | undefined =>
  folders
    .split(':')
    .filter((folder) => folder !== '')
    .map((folder) => join(folder, name))
    .find(isProgram)

/** A program in a sandbox. */
export interface Launched {
  readonly stdin: Writable
  readonly stdout: Gathered
  /** Resolves when all its processes have ended. Never rejects. */
  readonly ended: Promise<E.Either<SandboxFailure, SandboxEnd>>
  /** Ends all its processes. The first reason is reported. */
  readonly stop: (why: SandboxStop) => void
  /** Number of processes and threads in addition to the first. */
  readonly running: () => number
}

const WATCH_MS = 100

/** The pause before memory above the limit is measured again. */
const CONFIRM_MS = 10

/** Exit code of a shell for a process that has exceeded its CPU time. */
const CPU_CODE = 128 + 24

/** The line that starts the program. */
export const GO = 'go'

interface Reports {
  /** The id of the sandbox's first process. */
  readonly first?: number
  /** The exit code of the program, if it was started. */
  readonly code?: number
}

/** Reads bubblewrap's reports. `onFirst` is called when the first process is known. */
const reported = (stream: Readable, onFirst: (first: number) => void): (() => Reports) => {
  let text = ''
  stream.setEncoding('utf8')
  stream.on('data', (more: string) => {
    const known = field('child-pid')
    text += more
    const first = field('child-pid')
    if (known === undefined && first !== undefined) onFirst(first)
  })
  stream.on('error', () => {}) // unreported values stay undefined
  const field = (name: string): number | undefined => {
    const digits = new RegExp(`"${name}"\\s*:\\s*(\\d+)`).exec(text)?.[1]
    return digits === undefined ? undefined : Number(digits)
  }
  return () => {
    const first = field('child-pid')
    const code = field('exit-code')
    return { ...(first !== undefined && { first }), ...(code !== undefined && { code }) }
  }
}

const killed = (pid: number): void => {
  try {
    process.kill(pid, 'SIGKILL')
  } catch {
    // it has already ended
  }
}

/** Returns true if a process is a child of another one. Its id may have been reused. */
const isChildOf = (pid: number, parent: number): boolean => {
  try {
    return Number(/\) \S (\d+)/.exec(readFileSync(`/proc/${pid}/stat`, 'utf8'))?.[1]) === parent
  } catch {
    return false
  }
}

/**
 * Starts a process, or returns why it failed. The system rejects some commands at once, and others
 * a moment later.
 */
const begun = async ({
  command,
  args,
  env,
  cwd,
  user,
  inputs,
  reports,
}: Launch): Promise<E.Either<string, ChildProcess>> => {
  const talk = reports === null ? [] : ['reports', 'go', ...inputs].map(() => 'pipe' as const)
  try {
    const child = spawnClosed(command, args, {
      env: { ...env },
      cwd,
      detached: true, // without the terminal, in its own group
      stdio: ['pipe', 'pipe', 'pipe', ...talk],
      ...(user !== undefined && { uid: user, gid: user }),
    })
    const refused = new Promise<unknown>((resolve) => {
      child.on('error', resolve)
    })
    return child.pid === undefined ? E.left(String(await refused)) : E.right(child)
  } catch (error) {
    return E.left(String(error))
  }
}

const feed = (child: ChildProcess, inputs: Launch['inputs']): void => {
  for (const [i, contents] of inputs.entries()) {
    const stream = child.stdio[5 + i] as Writable // a pipe, by `begin`
    stream.on('error', () => {}) // it ended before it read; the failure of its end has the reason
    stream.end(contents)
  }
}

/**
 * Time for reading the outputs after the end. Without isolation, a descendant of the program may
 * keep them open.
 */
const OUTLIVED_MS = 1000

/** Resolves when the process has ended and its outputs are read. */
const endOf = (child: ChildProcess, atExit: () => void): Promise<number> =>
  new Promise((resolve) => {
    let code = 0
    child.once('exit', (own, signal) => {
      code = own ?? (signal === 'SIGXCPU' ? CPU_CODE : 137)
      atExit()
    })
    child.once('close', () => resolve(code))
  })

/**
 * Connects bubblewrap's input and reports. Without reports, the result is always empty. `begin` is
 * called with the first process, which is ended unless it returns true.
 */
const talkWith = (child: ChildProcess, launch: Launch, begin: (first: number) => boolean): (() => Reports) => {
  if (launch.reports === null) return () => ({})
  const go = child.stdio[4] as Writable // pipes, by `begun`
  go.on('error', () => {}) // it ended before; the failure of its end has the reason
  feed(child, launch.inputs)
  return reported(child.stdio[3] as Readable, (first) => {
    if (begin(first)) go.write(`${GO}\n`)
    else killed(first)
  })
}

/** Returns why a process cannot be added to a group, if so. */
const notAdded = (group: ControlGroup, pid: number): SandboxFailure | undefined => {
  try {
    group.add(pid)
    return undefined
  } catch (error) {
    return sandboxFailure('refused', `its control group does not accept it: ${errorMessage(error)}`)
  }
}

/**
 * Checks the limits of a sandbox regularly, and stops it above one. Returns the function that ends
 * this.
 */
const watching = (
  { folder, group }: LaunchReports,
  limits: SandboxLimits,
  { first, stop }: { readonly first: () => number | undefined; readonly stop: (why: SandboxStop) => void },
): (() => void) => {
  const memory = group === null ? 'watched' : 'cgroup'
  const stopAbove = (isConfirmed: (over: SandboxStop) => boolean): void => {
    const pid = first()
    const over = pid === undefined ? undefined : overLimit(pid, { folder, memory }, limits)
    if (over !== undefined && isConfirmed(over)) stop(over)
  }
  let confirmation: NodeJS.Timeout | undefined
  const timer = setInterval(() => {
    stopAbove((over) => {
      if (over !== 'memory') return true
      confirmation = setTimeout(() => stopAbove(() => true), CONFIRM_MS)
      return false
    })
  }, WATCH_MS)
  return () => {
    clearInterval(timer)
    clearTimeout(confirmation)
  }
}

/**
 * Starts a program.
 *
 * Errors   `Left(SandboxFailure)` if the system cannot start a process.
 * Effects  starts a process, and checks its limits regularly until it ends.
 */
export const launched = async (launch: Launch, limits: SandboxLimits): Promise<E.Either<SandboxFailure, Launched>> => {
  const { reports } = launch
  const started = await begun(launch)
  if (E.isLeft(started)) {
    await launch.cleanUp()
    return E.left(sandboxFailure('refused', `${launch.command} could not be started: ${started.left}`))
  }
  const child = started.right
  const pid = child.pid! // by `begun`
  let stopped: SandboxStop | null = null
  let refused: SandboxFailure | undefined
  const group = reports?.group ?? null
  const status = talkWith(child, launch, (first) => {
    refused = group === null ? undefined : notAdded(group, first)
    return stopped === null && refused === undefined
  })
  const stop = (why: SandboxStop): void => {
    stopped ??= why
    const { first } = status()
    if (child.exitCode !== null || child.signalCode !== null) return
    // Ending its first process ends the whole sandbox, and then bubblewrap, which waits for it.
    // Ending bubblewrap while it creates the first process would leave that process behind. Once
    // known, it is ended instead of started.
    if (reports === null) killed(-pid)
    else if (first !== undefined && isChildOf(first, pid)) killed(first)
  }
  const reading = { limitBytes: limits.outputBytes, tooMuch: () => stop('output') }
  const [stdin, out, error] = [child.stdin!, child.stdout!, child.stderr!] // pipes, by `begun`
  const [stdout, stderr] = [gathered(out, reading), gathered(error, reading)]
  stdin.on('error', () => {}) // the program does not read its input
  const unwatch = reports === null ? () => {} : watching(reports, limits, { first: () => status().first, stop })

  const finish = async (): Promise<E.Either<SandboxFailure, SandboxEnd>> => {
    let cut: NodeJS.Timeout | undefined
    const end = await endOf(child, () => {
      stdout.flow()
      if (reports !== null) return // all its processes have ended
      killed(-pid)
      cut = setTimeout(() => [out, error].forEach((stream) => stream.destroy()), OUTLIVED_MS)
    })
    clearTimeout(cut)
    unwatch()
    const isOutOfMemory = group?.ranOut() === true
    await launch.cleanUp()
    if (refused !== undefined) return E.left(refused)
    const code = reports === null ? end : status().code
    if (reports !== null && code === undefined && stopped === null) return E.left(reports.refusal(stderr.text().text))
    const why = stopped ?? (isOutOfMemory ? 'memory' : code === CPU_CODE ? 'cpu' : null)
    return E.right({
      _tag: 'Ended',
      code: why === null ? (code ?? null) : null,
      stopped: why,
      stdout: stdout.text(),
      stderr: stderr.text(),
    })
  }
  return E.right({
    stdin,
    stdout,
    stop,
    ended: finish(),
    running: () => {
      const { first } = status()
      return first === undefined ? 0 : tasksOf(first) - 2 // the shell, and the program
    },
  })
}
