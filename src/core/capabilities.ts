/**
 * The effects that pure code may request, as types. Their implementations are in `src/live`.
 *
 * This folder holds the parts that every layer may use and that depend on none: keys, failures,
 * schedules, checks of options, and the types of effects. It does not hold effects themselves
 * (`src/live`) or anything about models, conversations or batches.
 */
import type { TaskEither } from 'fp-ts/lib/TaskEither.js'
import type { FileFailure, LockFailure, OutputFailure, ProcessFailure, ThreadFailure } from './failure.js'

/**
 * Contents to write to a file: bytes, text, or pieces that are produced lazily and written in
 * order.
 */
export type FileContents = Uint8Array | string | Iterable<Uint8Array>

/** An open file for random access. It remains the same file even if its name is reused. */
export interface OpenFile {
  /** Bytes, when it was opened. */
  readonly size: number
  /** Fills `target` with the bytes from `position` on. A file that ends before is a failure. */
  readonly read: (target: Uint8Array, position: number) => TaskEither<FileFailure, void>
  /** To be called once, after the last read. */
  readonly close: TaskEither<FileFailure, void>
}

/** File operations. Every failure names the path, the operation and the system's error. */
export interface Files {
  readonly readBytes: (path: string) => TaskEither<FileFailure, Uint8Array>
  readonly readText: (path: string) => TaskEither<FileFailure, string>
  readonly open: (path: string) => TaskEither<FileFailure, OpenFile>
  /** The whole file or nothing: a crash or a full disk leaves the old contents. */
  readonly write: (path: string, contents: FileContents) => TaskEither<FileFailure, void>
  /**
   * Writes a folder atomically: it appears under its name only when every byte is on disk. File
   * names may include subfolders. An existing folder of that name is replaced.
   */
  readonly writeFolder: (path: string, files: Readonly<Record<string, FileContents>>) => TaskEither<FileFailure, void>
  /** Adds to the end of a file, which is made if there is none. */
  readonly append: (path: string, contents: string | Uint8Array, access?: 'private') => TaskEither<FileFailure, void>
  /** Cuts a file to its first `length` bytes. A file that is shorter is a failure. */
  readonly truncate: (path: string, length: number) => TaskEither<FileFailure, void>
  readonly makeFolder: (path: string) => TaskEither<FileFailure, void>
  /** Names in a folder, sorted; none if the folder does not exist. */
  readonly list: (path: string) => TaskEither<FileFailure, readonly string[]>
  readonly exists: (path: string) => TaskEither<FileFailure, boolean>
  /** Removes a file, or a folder with everything in it. No failure if there is none. */
  readonly remove: (path: string) => TaskEither<FileFailure, void>
}

/** Exclusive locks by path. A lock ends with the process that holds it, even if that is killed. */
export interface Locks {
  /** Takes a lock, or fails at once and names the holder. Call `release` once. */
  readonly take: (path: string) => TaskEither<LockFailure, { readonly release: () => Promise<void> }>
}

/** Names that nobody has used before. */
export interface Ids {
  readonly fresh: () => string
}

/** The date and the time of day. */
export interface Calendar {
  readonly today: () => Date
}

/** What the process may use of the machine. */
export interface Machine {
  /** Memory in bytes: what is built in, or less where a container has a limit. */
  readonly memoryBytes: () => number
}

/** The resources that this process uses. */
export interface Usage {
  /** Processor time of all threads so far, in ms. */
  readonly cpuMs: () => number
  /** Bytes in main memory. */
  readonly residentBytes: () => number
  /** Bytes in use on the JavaScript heap, after a garbage collection if Node runs with `--expose-gc`. */
  readonly heapBytes: () => number
}

/** Time, and turns of the event loop. */
export interface Clock {
  /** Milliseconds since some fixed moment. Never goes back. */
  readonly now: () => number
  /** Lets timers, signals and input be handled. */
  readonly breathe: () => Promise<void>
}

/** Timers that fire once. */
export interface Timers {
  /** Calls `fire` after `ms` milliseconds. Calling the returned function first cancels it. */
  readonly after: (ms: number, fire: () => void) => () => void
}

/** Where text for people goes. */
export interface Output {
  /** Resolves when the text is handed on; nobody reading it is a failure. */
  readonly write: (text: string) => TaskEither<OutputFailure, void>
}

/** What the process was told from outside. */
export interface Environment {
  readonly variables: Readonly<Record<string, string | undefined>>
  /** The variables that the text of a `.env` file sets. */
  readonly parse: (text: string) => Readonly<Record<string, string | undefined>>
}

/** Packages that may be installed or not. */
export interface Packages {
  /** The exports of a package; rejects if it cannot be imported. */
  readonly load: (name: string) => Promise<Readonly<Record<string, unknown>>>
}

/** The memory of this machine. */
export interface Memory {
  /** Bytes that this process may still take. */
  readonly free: () => number
}

/** One end of a channel between two threads: messages arrive in order, as structured clones. */
export interface ThreadPort {
  /**
   * Posts a message. Buffers in `transfer` are moved instead of copied and become empty here.
   * Throws for values that cannot be cloned.
   */
  readonly post: (message: unknown, transfer?: readonly ArrayBuffer[]) => void
  /** To be called once: messages that came before wait for it. */
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
  /** Resolves, never rejects, when the thread is gone: to why. */
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
}

/** Threads with an event loop and a heap of their own. */
export interface Threads {
  /** Starts a program. What goes wrong in it, its import included, is told by `ended`. */
  readonly start: (program: ThreadProgram, options: ThreadOptions) => TaskEither<ThreadFailure, Thread>
}

/** A program as a process of its own. */
export interface ProcessProgram {
  readonly command: string
  readonly args: readonly string[]
  /** Besides the variables of this process, or in their place; null takes one away. */
  readonly env?: Readonly<Record<string, string | null>>
  /** Each line that it writes to its output or its errors. */
  readonly onLine?: (line: string) => void
}

/** How a process came to its end. */
export interface ProcessEnd {
  /** Null if a signal ended it. */
  readonly code: number | null
  readonly signal: string | null
}

/** A running process, with all processes that it starts. */
export interface RunningProcess {
  readonly pid: number
  /** Resolves, never rejects, when it has ended and its last line is told. */
  readonly ended: Promise<ProcessEnd>
  /**
   * Signals all of them to end, and kills the remaining ones after `graceMs`. Resolves when the
   * process has ended.
   */
  readonly stop: (graceMs: number) => Promise<ProcessEnd>
}

/** A program that is talked to: bytes go to its input, and come from its output and its errors. */
export interface TalkingProgram extends Omit<ProcessProgram, 'onLine'> {
  /** Bytes of its output, as they come. */
  readonly onOutput: (bytes: Uint8Array) => void
  /** Bytes of its errors, as they come. */
  readonly onErrors: (bytes: Uint8Array) => void
  /** Where it works. Default: the folder of this process. */
  readonly folder?: string
}

export interface TalkingProcess extends RunningProcess {
  /** Resolves when the system has taken the text; a program that reads no more is a failure. */
  readonly write: (text: string) => TaskEither<ProcessFailure, void>
  /** Says that nothing more will come. */
  readonly endInput: () => void
}

/** Starts other programs. They and their children always end with this process. */
export interface Processes {
  readonly start: (program: ProcessProgram) => TaskEither<ProcessFailure, RunningProcess>
  /** Starts one to talk with. */
  readonly converse: (program: TalkingProgram) => TaskEither<ProcessFailure, TalkingProcess>
  /** A port of this computer that nobody listens on now: `wanted`, or any. */
  readonly freePort: (wanted?: number) => TaskEither<ProcessFailure, number>
}
