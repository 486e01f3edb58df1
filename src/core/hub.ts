/** What programs may ask of the Hugging Face hub, as types. The real one is in `src/live/hub.ts`. */
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

/** The files of a repository at one commit. `origin` says who told: the hub, or the local cache while the hub cannot be reached. */
export interface HubListing {
  readonly commit: string
  readonly files: readonly HubFile[]
  readonly origin: 'hub' | 'cache'
}

/** How far a download is. */
export interface HubProgress {
  readonly path: string
  readonly bytes: number
  readonly totalBytes: number
}

/** Why the hub gave nothing. `reason` says what to do. */
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
  /** Files of a repository, at the commit that its revision stands for now. */
  readonly list: (repo: HubRepo) => TaskEither<HubFailure, HubListing>
  /** Path of a local copy of a file. What has been downloaded once is not downloaded again. */
  readonly download: (
    repo: HubRepo,
    path: string,
    onProgress?: (progress: HubProgress) => void,
  ) => TaskEither<HubFailure, string>
}
