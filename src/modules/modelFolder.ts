/** Where a model is: a folder, or a repository of the hub that is downloaded into its cache. */
import * as E from 'fp-ts/lib/Either.js'
import { pipe } from 'fp-ts/lib/function.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import type { Files } from '../core/capabilities.js'
import type { Failure } from '../core/failure.js'
import type { Hub, HubProgress, HubRepo } from '../core/hub.js'

/** What finding a model needs of the world. */
export interface ModelAccess {
  readonly files: Pick<Files, 'exists'>
  readonly hub: Hub
  readonly onProgress?: (progress: HubProgress) => void
}

/** Configuration, weights, tokenizer and templates: what a folder is loaded from. */
const isNeeded = (path: string): boolean =>
  /^(?:[\w.-]+\.json|[\w.-]+\.safetensors|chat_template\.jinja|additional_chat_templates\/[\w.-]+\.jinja)$/.test(path)

/** `OWNER/NAME`, with `@REVISION` for another than `main`. */
const repoOf = (name: string): HubRepo | undefined => {
  const [, repo, revision = 'main'] = /^([\w.-]+\/[\w.-]+)(?:@(.+))?$/.exec(name) ?? []
  return repo === undefined || repo.startsWith('.') ? undefined : { name: repo, kind: 'model', revision }
}

const download = (repo: HubRepo, { hub, onProgress }: ModelAccess): TE.TaskEither<Failure, string> =>
  pipe(
    hub.list(repo),
    TE.chainW(({ files, commit }) => {
      const needed = files.map(({ path }) => path).filter(isNeeded)
      // All files are of one commit, also if the revision moves meanwhile.
      const fetched = TE.traverseSeqArray((path: string) =>
        hub.download({ ...repo, revision: commit }, path, onProgress),
      )
      return pipe(
        fetched(needed),
        TE.chainEitherKW((paths): E.Either<Failure, string> => {
          const config = paths[needed.indexOf('config.json')]
          const reason = `the repository ${repo.name} has no config.json: it is no model in Hugging Face's layout`
          return config === undefined
            ? E.left({ _tag: 'HubFailure', reason })
            : E.right(config.slice(0, Math.max(0, config.length - '/config.json'.length)))
        }),
      )
    }),
  )

/**
 * The folder of a model: a path that exists, or a name on the hub, whose files are downloaded.
 *
 * Errors   `Left` for what is neither, and for what the hub refuses.
 * Effects  requests to the hub, files in its cache.
 */
export const modelFolder = (given: string, access: ModelAccess): TE.TaskEither<Failure, string> =>
  pipe(
    access.files.exists(given),
    TE.mapLeft((failure): Failure => failure),
    TE.chain((exists) => {
      const repo = repoOf(given)
      if (exists) return TE.right(given)
      return repo === undefined
        ? TE.left<Failure>({
            _tag: 'ModelNameFailure', // no `ModelFailure`: there is neither a folder nor a file to name
            reason: `there is no folder ${given}, and '${given}' is no name on the hub (OWNER/NAME)`,
          })
        : download(repo, access)
    }),
  )
