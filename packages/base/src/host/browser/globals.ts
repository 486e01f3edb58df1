/** The global names of pages and workers that this package uses, with their standard types. */

/** A port of a channel. */
interface BrowserPort {
  onmessage: (() => void) | null
  readonly postMessage: (message: null) => void
  readonly close: () => void
}

/** A stream that replaces the contents of a file when it is closed. */
interface FileWriter {
  readonly write: (data: Uint8Array | string) => Promise<void>
  readonly seek: (position: number) => Promise<void>
  readonly truncate: (size: number) => Promise<void>
  readonly close: () => Promise<void>
  readonly abort: () => Promise<void>
}

export interface FileHandle {
  readonly kind: 'file'
  readonly getFile: () => Promise<Blob>
  readonly createWritable: (options?: { readonly keepExistingData: boolean }) => Promise<FileWriter>
}

export interface FolderHandle {
  readonly kind: 'directory'
  readonly getFileHandle: (name: string, options?: { readonly create: boolean }) => Promise<FileHandle>
  readonly getDirectoryHandle: (name: string, options?: { readonly create: boolean }) => Promise<FolderHandle>
  readonly removeEntry: (name: string, options?: { readonly recursive: boolean }) => Promise<void>
  readonly keys: () => AsyncIterable<string>
}

interface LockManager {
  readonly request: (
    name: string,
    options: { readonly ifAvailable: true },
    use: (lock: object | null) => Promise<void>,
  ) => Promise<void>
}

interface BrowserWorker {
  onmessage: ((event: { readonly data: unknown }) => void) | null
  onerror: (() => void) | null
  readonly postMessage: (message: unknown) => void
  readonly terminate: () => void
}

interface BrowserGlobals {
  /** `true` if the page may share memory between threads. */
  readonly crossOriginIsolated?: boolean
  readonly MessageChannel: new () => { readonly port1: BrowserPort; readonly port2: BrowserPort }
  readonly Worker: new (url: string, options: { readonly type: 'module' }) => BrowserWorker
  readonly location: { readonly href: string }
  readonly navigator: {
    readonly hardwareConcurrency: number
    readonly userAgent: string
    readonly storage: { readonly getDirectory: () => Promise<FolderHandle> }
    readonly locks: LockManager
  }
}

/** The globals of a browser. */
export const browser = globalThis as unknown as BrowserGlobals // the types of Node lack them or differ
