/** The engine of `tandem serve`. It runs on its own thread, so the server stays responsive. */
import { type Failure, type FileFailure, fileFailure } from '@tandem-rl/base'
import { liveFiles } from '@tandem-rl/host'
import { pipe } from 'fp-ts/lib/function.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { type FolderEngineOptions, folderEngineModule, LLMOnDevice } from 'tandem-rl/generation'
import { adapterWeights, loadAdapter } from 'tandem-rl/models'
import type { StartServedEngine } from './serve.js'

/** Fails with ENOENT for a folder without an adapter, which clients see as an unknown adapter. */
const requireAdapter = (path: string): TE.TaskEither<Failure, void> =>
  pipe(
    liveFiles.exists(`${path}/adapter_config.json`),
    TE.chain((exists): TE.TaskEither<FileFailure, void> => (exists ? TE.right(undefined) : TE.left(missing(path)))),
  )

const missing = (path: string): FileFailure =>
  fileFailure('read', path, { code: 'ENOENT', reason: 'there is no adapter_config.json' })

/** Starts the engine of a model folder on its own thread. */
export const startServedEngine: StartServedEngine = ({ folder, config }, options) => {
  const { backend, threads, maxModelLength, maxConcurrent, cacheBytes, prefixCache } = options
  const engineOptions: FolderEngineOptions = {
    folder,
    ...(backend && { backend }),
    ...(threads !== undefined && { threads }),
    limits: {
      ...(maxModelLength !== undefined && { maxModelLength }),
      ...(maxConcurrent !== undefined && { maxConcurrent }),
      ...(cacheBytes !== undefined && { memoryBytes: cacheBytes }),
      ...(prefixCache !== undefined && { prefixCache }),
    },
  }
  return pipe(
    LLMOnDevice(folderEngineModule(engineOptions), { weights: 'move' }),
    TE.map((engine) => ({
      engine,
      readAdapter: (path) =>
        pipe(
          requireAdapter(path),
          TE.chainW(() => loadAdapter(path, config)),
          TE.map(({ adapter }) => adapterWeights(adapter)),
          TE.mapLeft((failure): Failure => failure),
        ),
    })),
  )
}
