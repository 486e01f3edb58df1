/**
 * Finds models by name: a folder, a run folder, a repository of the hub, or the built-in model.
 *
 * This folder holds model folders in the layout of Hugging Face: finding, reading, writing and
 * creating them. It does not hold downloads (`src/live/hub.ts`) or file formats
 * (`src/data/codecs`).
 */
import * as E from 'fp-ts/lib/Either.js'
import { pipe } from 'fp-ts/lib/function.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import type { Files } from '../../core/capabilities.js'
import { type FileFailure, type ModelFailure, modelFailure } from '../../core/failure.js'
import type { Hub, HubProgress, HubRepo } from '../../core/hub.js'
import { bestStepOf, inOrder, RUN_LAYOUT, stepOf } from '../../data/runLayout.js'
import { EMBEDDED_MODEL } from '../../live/embeddedModel.js'
import { liveFiles } from '../../live/files.js'
import { liveHub } from '../../live/hub.js'

/** The capabilities for finding models. */
export interface ModelAccess {
  /** Default: the file system. */
  readonly files?: Pick<Files, 'exists' | 'list' | 'readText'>
  /** Default: `liveHub()`. Used only for hub names. */
  readonly hub?: Hub
  /** Called while files of a repository are downloaded. */
  readonly onProgress?: (progress: HubProgress) => void
}

type Found = TE.TaskEither<ModelFailure, string>

const refuse = (folder: string, reason: string): Found => TE.left(modelFailure(folder, reason))

const inFolder =
  (folder: string) =>
  ({ reason }: FileFailure): ModelFailure =>
    modelFailure(folder, reason)

/** Returns true for files that loading needs: configuration, weights, tokenizer and templates. */
const isNeeded = (path: string): boolean =>
  /^(?:[\w.-]+\.json|[\w.-]+\.safetensors|chat_template\.jinja|additional_chat_templates\/[\w.-]+\.jinja)$/.test(path)

/** Parses `OWNER/NAME`, with `@REVISION` for another revision than `main`. */
const repoOf = (name: string): HubRepo | undefined => {
  const [, repo, revision = 'main'] = /^([\w.-]+\/[\w.-]+)(?:@(.+))?$/.exec(name) ?? []
  return repo === undefined || repo.startsWith('.') ? undefined : { name: repo, kind: 'model', revision }
}

/** Downloads a model into the hub's cache. The reason of a failure starts with `tried`. */
const download = (repo: HubRepo, { hub = liveHub(), onProgress }: ModelAccess, tried: string): Found => {
  const given = repo.revision === 'main' ? repo.name : `${repo.name}@${repo.revision}`
  return pipe(
    hub.list(repo),
    TE.chain(({ files, commit }) => {
      const needed = files.map(({ path }) => path).filter(isNeeded)
      return pipe(
        needed,
        // All files come from one commit, even if the revision moves meanwhile.
        TE.traverseSeqArray((path) => hub.download({ ...repo, revision: commit }, path, onProgress)),
        TE.map((paths) => paths[needed.indexOf('config.json')]),
      )
    }),
    TE.mapLeft(({ reason }) => modelFailure(given, `${tried}the hub: ${reason}`)),
    TE.chainEitherK((config) =>
      config === undefined
        ? E.left(modelFailure(given, `${tried}the hub: the repository has no config.json, so it is not a model`))
        : E.right(config.slice(0, Math.max(0, config.length - '/config.json'.length))),
    ),
  )
}

const isWeights = (name: string): boolean => name === 'model.safetensors' || name === 'model.safetensors.index.json'

/**
 * Returns true for a run folder. Its config.json has the settings of the run, but it has
 * checkpoints and no weights.
 */
const isRun = (names: readonly string[]): boolean => names.includes(RUN_LAYOUT.checkpoints) && !names.some(isWeights)

/** Lists the checkpoints of a run: the best one first, the others from newest to oldest. */
const checkpointsOf = (folder: string, files: NonNullable<ModelAccess['files']>) =>
  pipe(
    files.exists(`${folder}/${RUN_LAYOUT.metrics}`),
    TE.chain((exists) => (exists ? files.readText(`${folder}/${RUN_LAYOUT.metrics}`) : TE.right(''))),
    TE.map(bestStepOf),
    TE.bindTo('best'),
    TE.bind('names', () => files.list(`${folder}/${RUN_LAYOUT.checkpoints}`)),
    TE.map(({ best, names }) =>
      inOrder(names)
        .map((name) => ({ path: `${RUN_LAYOUT.checkpoints}/${name}`, step: stepOf(name) }))
        .sort((a, b) => Number(b.step === best) - Number(a.step === best) || b.step - a.step)
        .map(({ path }) => path),
    ),
  )

/**
 * Finds the model of a run: its best checkpoint, otherwise its newest. For an adapter, this is its
 * merged model, if saved.
 */
const runModel = (folder: string, files: NonNullable<ModelAccess['files']>): Found =>
  pipe(
    checkpointsOf(folder, files),
    TE.bindTo('checkpoints'),
    TE.bind('models', ({ checkpoints }) =>
      pipe(
        [...checkpoints, RUN_LAYOUT.bestModel, RUN_LAYOUT.model],
        TE.traverseSeqArray((path) =>
          pipe(
            files.exists(`${folder}/${path}/config.json`),
            TE.map((exists) => (exists ? [`${folder}/${path}`] : [])),
          ),
        ),
        TE.map((found) => found.flat()),
      ),
    ),
    TE.mapLeft(inFolder(folder)),
    TE.chainEitherK(({ checkpoints: [newest], models: [model] }) => {
      if (model !== undefined) return E.right(model)
      const places = `${RUN_LAYOUT.checkpoints}, ${RUN_LAYOUT.bestModel} and ${RUN_LAYOUT.model}`
      return E.left(
        modelFailure(
          folder,
          newest === undefined
            ? `it is a run without a checkpoint; looked in ${places}`
            : `it is a run of an adapter without a merged model; looked in ${places}: load its base model, and the adapter of ${newest}`,
        ),
      )
    }),
  )

/**
 * Returns the folder of a model.
 *
 * | name | folder |
 * | --- | --- |
 * | `embedded` | the model that comes with Tandem |
 * | a path that exists | that folder; of a run, its best checkpoint, else its newest |
 * | `OWNER/NAME`, `OWNER/NAME@REVISION` | the cache of the hub, after downloading missing files |
 * | the same after `hub:` | the hub, even if there is a folder of that name |
 *
 * Errors   `Left(ModelFailure)` that lists all attempts.
 * Effects  requests to the hub, files in its cache.
 */
export const modelFolder = (name: string, access: ModelAccess = {}): Found => {
  const { files = liveFiles } = access
  if (name === 'embedded') return TE.right(EMBEDDED_MODEL)
  const isHub = name.startsWith('hub:')
  const repo = repoOf(isHub ? name.slice('hub:'.length) : name)
  if (isHub) {
    return repo === undefined
      ? refuse(name, 'a model on the hub is named hub:OWNER/NAME or hub:OWNER/NAME@REVISION')
      : download(repo, access, '')
  }
  return pipe(
    files.exists(name),
    TE.mapLeft(inFolder(name)),
    TE.chain((exists) => {
      if (!exists) {
        return repo === undefined
          ? refuse(name, 'there is no such folder, and it is not a name on the hub (OWNER/NAME)')
          : download(repo, access, 'there is no such folder; ')
      }
      return pipe(
        files.list(name),
        TE.mapLeft(inFolder(name)),
        TE.chain((names) => (isRun(names) ? runModel(name.replace(/(?<!\/)\/+$/, ''), files) : TE.right(name))),
      )
    }),
  )
}
