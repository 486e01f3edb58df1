/** The types of requests to the Hugging Face hub. The real one is in `packages/host/src/hub.ts`. */
import type { TaskEither } from 'fp-ts/lib/TaskEither.js'

/** A repository at a revision: a branch, a tag or a commit. */
export interface HubRepo {
  /** Owner and name, such as `openai/gsm8k`; old datasets have no owner. */
  readonly name: string
  readonly kind: 'dataset' | 'model'
  readonly revision: string
}

/** A file of a repository. */
export interface HubFile {
  readonly path: string
  readonly size: number
}

/**
 * The files of a repository at one commit. `origin` is the source of the list: the hub, or the
 * local cache if the hub cannot be reached.
 */
export interface HubListing {
  readonly commit: string
  readonly files: readonly HubFile[]
  readonly origin: 'hub' | 'cache'
}

/** The progress of a download. */
export interface HubProgress {
  readonly path: string
  readonly bytes: number
  readonly totalBytes: number
}

/** A failure of the hub. `reason` includes the remedy. */
export interface HubFailure {
  readonly _tag: 'HubFailure'
  readonly kind:
    | 'unauthorized'
    | 'gated'
    | 'not-found'
    | 'refused'
    | 'unreachable'
    | 'timeout'
    | 'truncated'
    | 'corrupt'
    | 'protocol'
    | 'not-cached'
    | 'disk'
  readonly repo: string
  readonly reason: string
  readonly status?: number
}

/** The hub with its cache on disk. */
export interface Hub {
  /** Lists the files of a repository, at the current commit of its revision. */
  readonly list: (repo: HubRepo) => TaskEither<HubFailure, HubListing>
  /** Returns the path of a local copy of a file, downloading it unless it is in the cache. */
  readonly download: (
    repo: HubRepo,
    path: string,
    onProgress?: (progress: HubProgress) => void,
  ) => TaskEither<HubFailure, string>
}
