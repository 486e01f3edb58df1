/** A place for programs that nobody trusts, as types. The real one is in `src/live/sandbox`. */
import type { TaskEither } from 'fp-ts/lib/TaskEither.js'

/** What a program may use. Every limit has a default: `SANDBOX_LIMITS`. */
export interface SandboxLimits {
  /** Time until everything is ended: of a run, or of one question to a session. */
  readonly wallMs: number
  /** Processor time of each process. */
  readonly cpuSeconds: number
  /** Address space of each process, and memory of all of them together. */
  readonly memoryBytes: number
  /** What its files may hold. They are in memory, and are gone with it. */
  readonly diskBytes: number
  /** What is kept of each output. More is counted; far more ends the program. */
  readonly outputBytes: number
  /** Processes and threads. */
  readonly processes: number
  /** Open files of each process. */
  readonly openFiles: number
}

/** 10 s, 512 MiB of memory, 64 MiB of files, 64 KiB of output, 32 processes and threads, 128 open files. */
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
  /** A path, or a name that is looked up in the folders of the system. */
  readonly command: string
  readonly args: readonly string[]
  /** What it reads. Default: nothing. A session keeps its input open. */
  readonly stdin?: string
  /** Put into its folder before it begins, by relative path. */
  readonly files?: Readonly<Record<string, string | Uint8Array>>
  /** Its variables, besides PATH, HOME and LANG: none of this process. */
  readonly env?: Readonly<Record<string, string>>
  /** Folders and files of this machine that it may read, besides those of the system. */
  readonly readOnly?: readonly string[]
  readonly limits?: Partial<SandboxLimits>
}

/** Which limit ended a program; `cancelled`: nobody waits any more. */
export type SandboxStop = 'wall' | 'cpu' | 'memory' | 'disk' | 'output' | 'cancelled'

/** The beginning of an output, as text: what is not UTF-8 is replaced. */
export interface SandboxText {
  readonly text: string
  /** Bytes after it that were not kept. */
  readonly dropped: number
}

/** How a program ended, and everything that it started with it. */
export interface SandboxEnd {
  readonly _tag: 'Ended'
  /** As a shell tells it: 128 + n for signal n. Null if it was stopped. */
  readonly code: number | null
  readonly stopped: SandboxStop | null
  readonly stdout: SandboxText
  readonly stderr: SandboxText
}

/** What a session said. */
export interface SandboxOutput {
  readonly _tag: 'Said'
  readonly said: SandboxText
  /** Processes and threads besides the program's first, which it left running. */
  readonly running: number
}

/**
 * The sandbox cannot be had, which says nothing about the program. `missing`: something is not installed; `refused`: the system does not allow
 * it; `closed`: the sandbox or the session is closed.
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

/** A program that goes on between questions. */
export interface SandboxSession {
  /**
   * Writes to its input, and reads its output until `until` comes, which is not part of what it said. A program that does not say it in time
   * is ended. One question at a time.
   */
  readonly ask: (
    input: string,
    until: string,
    wait?: SandboxWait,
  ) => TaskEither<SandboxFailure, SandboxOutput | SandboxEnd>
  /** False once it has ended. */
  readonly isAlive: () => boolean
  /** Ends it, with everything that it started. Resolves when nothing is left. */
  readonly close: () => Promise<void>
}

/** Programs apart from this machine, or near it. */
export interface Sandbox {
  /** `unsafe-host`: limits, but no walls. */
  readonly isolation: 'bubblewrap' | 'unsafe-host'
  /** Runs a program to its end. */
  readonly run: (program: SandboxProgram, wait?: SandboxWait) => TaskEither<SandboxFailure, SandboxEnd>
  /** Starts a program to talk to. */
  readonly open: (program: SandboxProgram) => TaskEither<SandboxFailure, SandboxSession>
  /** Ends every program. Resolves when nothing is left; afterwards all calls are refused. */
  readonly close: () => Promise<void>
}
