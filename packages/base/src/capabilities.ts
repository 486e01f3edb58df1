/** The effects that pure code may request, as types. Their implementations are in `src/live`. */
import type { TaskEither } from 'fp-ts/lib/TaskEither.js'
import type { FileFailure, LockFailure, OutputFailure, ProcessFailure, ThreadFailure } from './failure.js'

/**
 * Contents to write to a file: bytes, text, or pieces that are produced lazily and written in
 * order.
 */
export type FileContents = Uint8Array | string | Iterable<Uint8Array>

/** An open file for random access. It remains the same file even if its name is reused. */
export interface OpenFile {
  /** The number of bytes when it was opened. */
  readonly size: number
  /** Fills `target` with the bytes from `position` on. Fails if the file ends before. */
  readonly read: (target: Uint8Array, position: number) => TaskEither<FileFailure, void>
  /** Closes the file. Call it once, after the last read. */
  readonly close: TaskEither<FileFailure, void>
}

/** File operations. Every failure names the path, the operation and the system's error. */
export interface Files {
  readonly readBytes: (path: string) => TaskEither<FileFailure, Uint8Array>
  readonly readText: (path: string) => TaskEither<FileFailure, string>
  readonly open: (path: string) => TaskEither<FileFailure, OpenFile>
  /** Writes the whole file or nothing: a crash or a full disk leaves the old contents. */
  readonly write: (path: string, contents: FileContents) => TaskEither<FileFailure, void>
  /**
   * Writes a folder atomically: it appears under its name only when every byte is on disk. File
   * names may include subfolders. An existing folder of that name is replaced.
   */
  readonly writeFolder: (path: string, files: Readonly<Record<string, FileContents>>) => TaskEither<FileFailure, void>
  /** Appends to a file, which is created if it is missing. */
  readonly append: (path: string, contents: string | Uint8Array, access?: 'private') => TaskEither<FileFailure, void>
  /** Truncates a file to its first `length` bytes. Fails if the file is shorter. */
  readonly truncate: (path: string, length: number) => TaskEither<FileFailure, void>
  readonly makeFolder: (path: string) => TaskEither<FileFailure, void>
  /** Returns the names in a folder, sorted; an empty list if the folder does not exist. */
  readonly list: (path: string) => TaskEither<FileFailure, readonly string[]>
  readonly exists: (path: string) => TaskEither<FileFailure, boolean>
  /** Removes a file, or a folder with everything in it. Does nothing if it does not exist. */
  readonly remove: (path: string) => TaskEither<FileFailure, void>
}

/** Exclusive locks by path. A lock ends with the process that holds it, even if that is killed. */
export interface Locks {
  /** Takes a lock, or fails at once and names the holder. Call `release` once. */
  readonly take: (path: string) => TaskEither<LockFailure, { readonly release: () => Promise<void> }>
}

/** Unique names that were never used before. */
export interface Ids {
  readonly fresh: () => string
}

/** The date and the time of day. */
export interface Calendar {
  readonly today: () => Date
}

/** The resources of the machine that the process may use. */
export interface Machine {
  /**
   * Returns the memory in bytes: the installed memory, or the limit of a container if it is lower.
   */
  readonly memoryBytes: () => number
}

/** The resources that this process uses. */
export interface Usage {
  /** Processor time of all threads so far, in ms. */
  readonly cpuMs: () => number
  /** Returns the bytes in main memory. */
  readonly residentBytes: () => number
  /**
   * Returns the bytes in use on the JavaScript heap, after a garbage collection if Node runs with
   * `--expose-gc`.
   */
  readonly heapBytes: () => number
}

/** Time, and turns of the event loop. */
export interface Clock {
  /** Returns milliseconds since a fixed time. Never goes back. */
  readonly now: () => number
  /** Yields to the event loop, so that timers, signals and input are handled. */
  readonly breathe: () => Promise<void>
}

/** Timers that fire once. */
export interface Timers {
  /** Calls `fire` after `ms` milliseconds. Calling the returned function first cancels it. */
  readonly after: (ms: number, fire: () => void) => () => void
}

/** A stream for human-readable text. */
export interface Output {
  /** Resolves when the text is handed on. Fails if the reader has closed. */
  readonly write: (text: string) => TaskEither<OutputFailure, void>
}

/** The environment of the process. */
export interface Environment {
  readonly variables: Readonly<Record<string, string | undefined>>
  /** Parses the variables of a `.env` file. */
  readonly parse: (text: string) => Readonly<Record<string, string | undefined>>
}

/** Packages that may be installed or not. */
export interface Packages {
  /** Returns the exports of a package. Rejects if it cannot be imported. */
  readonly load: (name: string) => Promise<Readonly<Record<string, unknown>>>
}

/** The memory of this machine. */
export interface Memory {
  /**
   * Returns the number of bytes that this process may still allocate, without those that other
   * processes have reserved and do not use yet.
   */
  readonly free: () => number
  /** Reserves bytes that this process will use. The result ends the reservation. */
  readonly reserve: (bytes: number) => () => void
}

/** One end of a channel between two threads: messages arrive in order, as structured clones. */
export interface ThreadPort {
  /**
   * Posts a message. Buffers in `transfer` are moved instead of copied and become empty here.
   * Throws for values that cannot be cloned.
   */
  readonly post: (message: unknown, transfer?: readonly ArrayBuffer[]) => void
  /** Sets the listener. Call it once; messages that arrived before are delivered then. */
  readonly listen: (listener: (message: unknown) => void) => void
}

/**
 * An exported function `(port: ThreadPort, input: unknown) => void | Promise<void>` of an ES
 * module.
 */
export interface ThreadProgram {
  /** `file:` URL. */
  readonly module: string
  readonly exportName: string
}

/** A running thread, seen from the one that started it. */
export interface Thread extends ThreadPort {
  /** Resolves, and never rejects, when the thread has ended, with the reason. */
  readonly ended: Promise<ThreadFailure>
  /**
   * Ends the thread when `done` settles, at the latest after `limitMs`. Resolves when the thread
   * has ended.
   */
  readonly stop: (done: Promise<unknown>, limitMs: number) => Promise<void>
}

export interface ThreadOptions {
  /** Cloned to the program as its second argument. */
  readonly input: unknown
  /**
   * Time limit for the first message of the thread's program. Then the thread is ended with kind
   * `timeout`. Default: no limit.
   */
  readonly firstWordMs?: number
  /**
   * Largest JavaScript heap of the thread, without typed arrays and native memory. Default: Node's.
   */
  readonly heapMegabytes?: number
  /** A thread keeps the process alive, or ends with it. Default `alive`. */
  readonly process?: 'alive' | 'may end'
}

/** Threads with an event loop and a heap of their own. */
export interface Threads {
  /** Starts a program. Errors in it, including a failed import, are reported by `ended`. */
  readonly start: (program: ThreadProgram, options: ThreadOptions) => TaskEither<ThreadFailure, Thread>
}

/** A program to run as a process. */
export interface ProcessProgram {
  readonly command: string
  readonly args: readonly string[]
  /** Variables that are added to those of this process or replace them; null removes one. */
  readonly env?: Readonly<Record<string, string | null>>
  /** Called with each line of its output and its errors. */
  readonly onLine?: (line: string) => void
}

/** The end of a process. */
export interface ProcessEnd {
  /** Null if a signal ended it. */
  readonly code: number | null
  readonly signal: string | null
}

/** A running process, with all processes that it starts. */
export interface RunningProcess {
  readonly pid: number
  /** Resolves, and never rejects, when the process has ended and its last line was reported. */
  readonly ended: Promise<ProcessEnd>
  /**
   * Signals all of them to end, and kills the remaining ones after `graceMs`. Resolves when the
   * process has ended.
   */
  readonly stop: (graceMs: number) => Promise<ProcessEnd>
}

/** A program with two-way communication: bytes to its input, and from its output and its errors. */
export interface TalkingProgram extends Omit<ProcessProgram, 'onLine'> {
  /** Called with the bytes of its output as they arrive. */
  readonly onOutput: (bytes: Uint8Array) => void
  /** Called with the bytes of its errors as they arrive. */
  readonly onErrors: (bytes: Uint8Array) => void
  /** The working folder. Default: the folder of this process. */
  readonly folder?: string
}

export interface TalkingProcess extends RunningProcess {
  /**
   * Resolves when the system has taken the text. Fails if the program no longer reads its input.
   */
  readonly write: (text: string) => TaskEither<ProcessFailure, void>
  /** Closes the input of the process. */
  readonly endInput: () => void
}

/** Starts other programs. They and their children always end with this process. */
export interface Processes {
  readonly start: (program: ProcessProgram) => TaskEither<ProcessFailure, RunningProcess>
  /** Starts a program with two-way communication. */
  readonly converse: (program: TalkingProgram) => TaskEither<ProcessFailure, TalkingProcess>
  /** Returns a free port of this computer: `wanted`, or any. */
  readonly freePort: (wanted?: number) => TaskEither<ProcessFailure, number>
}
