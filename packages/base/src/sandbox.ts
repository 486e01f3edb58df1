/** The types of a sandbox for untrusted programs. `packages/tools/src/sandbox` has the real one. */
import type { TaskEither } from 'fp-ts/lib/TaskEither.js'

/** The resource limits of a program. Every limit has a default: `SANDBOX_LIMITS`. */
export interface SandboxLimits {
  /** The time limit of a run, or of one question to a session. Then everything is ended. */
  readonly wallMs: number
  /** The processor time of each process. */
  readonly cpuSeconds: number
  /**
   * The address space of each process, and the memory of all of them together, with the files and
   * the objects that the kernel keeps for them.
   */
  readonly memoryBytes: number
  /** The maximum size of its files, which are in memory and are deleted at the end. */
  readonly diskBytes: number
  /**
   * The maximum size of each output that is kept. More is only counted; far more ends the program.
   */
  readonly outputBytes: number
  /** The maximum number of processes and threads. */
  readonly processes: number
  /** The maximum number of open files of each process. */
  readonly openFiles: number
}

/**
 * The default limits: 10 s, 512 MiB of memory, 64 MiB of files, 64 KiB of output, 32 processes and
 * threads, 128 open files.
 */
export const SANDBOX_LIMITS: SandboxLimits = {
  wallMs: 10_000,
  cpuSeconds: 10,
  memoryBytes: 512 * 2 ** 20,
  diskBytes: 64 * 2 ** 20,
  outputBytes: 64 * 2 ** 10,
  processes: 32,
  openFiles: 128,
}

/** A program to run. */
export interface SandboxProgram {
  /** A path, or a name that is looked up in the system's folders. */
  readonly command: string
  readonly args: readonly string[]
  /** The standard input. Default: empty. A session keeps its input open. */
  readonly stdin?: string
  /** Files in its folder before it starts, by relative path. */
  readonly files?: Readonly<Record<string, string | Uint8Array>>
  /** Its variables, besides PATH, HOME and LANG. It gets no variable of this process. */
  readonly env?: Readonly<Record<string, string>>
  /** Folders and files of this machine that it may read, besides those of the system. */
  readonly readOnly?: readonly string[]
  readonly limits?: Partial<SandboxLimits>
}

/** The limit that ended a program; `cancelled`: the caller no longer waits. */
export type SandboxStop = 'wall' | 'cpu' | 'memory' | 'disk' | 'output' | 'cancelled'

/** The beginning of an output as text, with invalid UTF-8 replaced. */
export interface SandboxText {
  readonly text: string
  /** The number of bytes after it that were not kept. */
  readonly dropped: number
}

/** The end of a program and of everything that it started. */
export interface SandboxEnd {
  readonly _tag: 'Ended'
  /** The exit code as in a shell: 128 + n for signal n. Null if it was stopped. */
  readonly code: number | null
  readonly stopped: SandboxStop | null
  readonly stdout: SandboxText
  readonly stderr: SandboxText
}

/** The output of a session for one question. */
export interface SandboxOutput {
  readonly _tag: 'Said'
  readonly output: SandboxText
  /** The number of processes and threads besides the program's first that are still running. */
  readonly running: number
}

/**
 * The sandbox is not available, which is not evidence about the program. `missing`: something is
 * not installed; `refused`: the system does not allow it; `closed`: the sandbox or the session is
 * closed.
 */
export interface SandboxFailure {
  readonly _tag: 'SandboxFailure'
  readonly kind: 'missing' | 'refused' | 'closed'
  readonly reason: string
}

export interface SandboxWait {
  /** Default: the limit of the program. */
  readonly wallMs?: number
  /** Ends the program when it aborts. */
  readonly signal?: AbortSignal
}

/** A program that keeps running between questions. */
export interface SandboxSession {
  /**
   * Writes to the input, and reads the output up to `until`, which is not part of the result. A
   * program that does not write it in time is ended. One question at a time.
   */
  readonly ask: (
    input: string,
    until: string,
    wait?: SandboxWait,
  ) => TaskEither<SandboxFailure, SandboxOutput | SandboxEnd>
  /** Returns false once the program has ended. */
  readonly isAlive: () => boolean
  /** Ends the program and everything that it started. Resolves when all have ended. */
  readonly close: () => Promise<void>
}

/**
 * The limit of the memory of all processes of a program together. `cgroup`: the kernel enforces it.
 * `watched`: it is measured ten times a second. `process`: there is only the one of each process.
 */
export type SandboxMemory = 'cgroup' | 'watched' | 'process'

/** A runner of programs with restricted access to this machine. */
export interface Sandbox {
  /** `unsafe-host`: with limits, but without isolation. */
  readonly isolation: 'bubblewrap' | 'unsafe-host'
  readonly memory: SandboxMemory
  /** Runs a program to its end. */
  readonly run: (program: SandboxProgram, wait?: SandboxWait) => TaskEither<SandboxFailure, SandboxEnd>
  /** Starts a program with two-way communication. */
  readonly open: (program: SandboxProgram) => TaskEither<SandboxFailure, SandboxSession>
  /** Ends every program. Resolves when all have ended; afterwards all calls are refused. */
  readonly close: () => Promise<void>
}
