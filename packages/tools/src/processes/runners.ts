/** Specs of resources for pools: programs, containers, and programs in the sandbox. */
import { existsSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import {
  type Processes,
  type ResourceSpec,
  resourceFailure,
  type Sandbox,
  type SandboxFailure,
  type SandboxProgram,
  type SandboxSession,
} from '@tandem-rl/base'
import { liveIds } from '@tandem-rl/base/host'
import { liveProcesses } from '@tandem-rl/host'
import * as E from 'fp-ts/lib/Either.js'
import { pipe } from 'fp-ts/lib/function.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { type LineProcess, type LineProgram, lineProcess } from './lineProcess.js'

/**
 * Makes a spec of programs that answer lines of JSON. A start is over when the system has started
 * the program.
 *
 * @example
 * processResource({ name: 'echo', command: 'cat', args: [] }).name // 'echo'
 */
export const processResource = (program: LineProgram): ResourceSpec<LineProcess> => ({
  name: program.name,
  start: () => lineProcess(program),
  end: (running) => running.end(),
  isAlive: (running) => running.isAlive(),
})

export interface ContainerOptions {
  readonly name: string
  readonly image: string
  /** The program in the container, which answers lines of JSON. Default: that of the image. */
  readonly command?: readonly string[]
  /** The program that runs containers. Default: docker or podman, whichever is in the PATH. */
  readonly runtime?: string
  /** Default `none`. */
  readonly network?: 'none' | 'bridge'
  /** Such as `512m`. Default: that of the runtime. */
  readonly memory?: string
  /** Processors. Default: that of the runtime. */
  readonly cpus?: number
  readonly gpus?: string
  readonly env?: Readonly<Record<string, string>>
  /** Folders of this machine by their path in the container. They are read-only there. */
  readonly mounts?: Readonly<Record<string, string>>
  readonly processes?: Pick<Processes, 'converse' | 'start'>
}

/** The first of some programs in the PATH. */
const foundProgram = (names: readonly string[]): string | undefined =>
  names.find((name) => (process.env.PATH ?? '').split(delimiter).some((folder) => existsSync(join(folder, name))))

const LABEL = 'tandem.owner'

/** Returns true if a process of this machine is alive. */
const lives = (pid: number): boolean => {
  try {
    process.kill(pid, 0)
    return true
  } catch {
    return false
  }
}

/** Runs a program to its end and returns its lines; none if it fails. */
const linesOf = async (
  processes: Pick<Processes, 'start'>,
  command: string,
  args: readonly string[],
): Promise<readonly string[]> => {
  const lines: string[] = []
  const started = await processes.start({ command, args, onLine: (line) => void lines.push(line) })()
  if (E.isLeft(started)) return []
  const { code } = await started.right.ended
  return code === 0 ? lines : []
}

/** Removes containers whose process is gone: one that was killed could not remove them itself. */
const sweep = async (processes: Pick<Processes, 'start'>, runtime: string): Promise<void> => {
  const format = `{{.ID}} {{.Label "${LABEL}"}}`
  const lines = await linesOf(processes, runtime, ['ps', '--all', '--filter', `label=${LABEL}`, '--format', format])
  const left = lines.flatMap((line) => {
    const [id, owner] = line.split(' ')
    return id !== undefined && owner !== undefined && !lives(Number(owner)) ? [id] : []
  })
  if (left.length > 0) await linesOf(processes, runtime, ['rm', '--force', ...left])
}

const flag = (name: string, value: string | number | undefined): readonly string[] =>
  value === undefined ? [] : [name, String(value)]

const runArguments = (options: ContainerOptions, container: string): readonly string[] => [
  ...['run', '--rm', '--interactive', '--init', '--name', container, '--label', `${LABEL}=${process.pid}`],
  ...['--network', options.network ?? 'none'],
  ...flag('--memory', options.memory),
  ...flag('--cpus', options.cpus),
  ...flag('--gpus', options.gpus),
  ...Object.entries(options.env ?? {}).flatMap(([name, value]) => ['--env', `${name}=${value}`]),
  ...Object.entries(options.mounts ?? {}).flatMap(([inside, outside]) => ['--volume', `${outside}:${inside}:ro`]),
  options.image,
  ...(options.command ?? []),
]

/**
 * Makes a spec of containers that answer lines of JSON, by docker or podman. A container is removed
 * at its end. One whose process was killed is removed when the next spec starts its first
 * container.
 *
 * Errors   a start returns `Left(ResourceFailure)` if there is no runtime, or if the container
 *          cannot be started; a failing image is reported by the first question.
 *
 * @example
 * containerResource({ name: 'python', image: 'python:3.12', command: ['python3', 'serve.py'] }).name // 'python'
 */
export const containerResource = (options: ContainerOptions): ResourceSpec<LineProcess> => {
  const { name, processes = liveProcesses } = options
  const names = new Map<LineProcess, () => Promise<void>>()
  let swept: Promise<void> | undefined
  return {
    name,
    start: () => async () => {
      const runtime = options.runtime ?? foundProgram(['docker', 'podman'])
      if (runtime === undefined)
        return E.left(resourceFailure(name, 'start', 'neither docker nor podman is in the PATH: install one of them'))
      swept ??= sweep(processes, runtime)
      await swept
      const container = `tandem-${liveIds.fresh()}`
      const program = { name, command: runtime, args: runArguments(options, container), processes }
      const started = await lineProcess(program)()
      if (E.isRight(started))
        names.set(started.right, async () => void (await linesOf(processes, runtime, ['rm', '--force', container])))
      return started
    },
    end: async (running) => {
      await running.end()
      await names.get(running)?.() // also where the client was killed and left its container
      names.delete(running)
    },
    isAlive: (running) => running.isAlive(),
  }
}

/**
 * Makes a spec of programs in a sandbox, to talk to (`SandboxSession`).
 *
 * @example
 * sandboxResource('shell', liveSandbox(), { command: 'bash', args: [] }).name // 'shell'
 */
export const sandboxResource = (
  name: string,
  sandbox: Sandbox,
  program: SandboxProgram,
): ResourceSpec<SandboxSession> => ({
  name,
  start: () =>
    pipe(
      sandbox.open(program),
      TE.mapLeft(({ reason }: SandboxFailure) => resourceFailure(name, 'start', reason)),
    ),
  end: (session) => session.close(),
  isAlive: (session) => session.isAlive(),
})
