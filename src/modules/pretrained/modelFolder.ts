/**
 * Finds models by name: a folder, a run folder, a repository of the hub, or the built-in model, and
 * the base models of adapters.
 */
import {
  describe,
  type FileFailure,
  type Files,
  type Hub,
  type HubProgress,
  type HubRepo,
  type ModelFailure,
  modelFailure,
} from '@tandem-rl/base'
import { liveFiles, liveHub } from '@tandem-rl/host'
import * as E from 'fp-ts/lib/Either.js'
import { pipe } from 'fp-ts/lib/function.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { pathIn, readJson } from '../../data/folderFiles.js'
import { bestStepOf, inOrder, RUN_LAYOUT, stepOf } from '../../data/runLayout.js'
import { EMBEDDED_MODEL } from '../../live/embeddedModel.js'
import { ADAPTER_CONFIG } from '../lora/peft.js'
import { ggufModels, isGguf } from './ggufModel.js'

/** The capabilities for finding models. */
export interface ModelAccess {
  /** Default: the file system. */
  readonly files?: Pick<Files, 'exists' | 'list' | 'readText'>
  /** Default: `liveHub()`. Used only for hub names. */
  readonly hub?: Hub
  /** Called while files of a repository are downloaded. */
  readonly onProgress?: (progress: HubProgress) => void
}

/** The folders of a model: its weights, and the adapters to merge into them, in order. */
export interface ModelFolders {
  readonly folder: string
  readonly adapters: readonly string[]
}

/** A folder with a model, or with an adapter alone. */
interface Place {
  readonly folder: string
  readonly kind: 'model' | 'adapter'
}

type Found<T> = TE.TaskEither<ModelFailure, T>

const refuse = (folder: string, reason: string): Found<never> => TE.left(modelFailure(folder, reason))

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

const isWeights = (name: string): boolean => name === 'model.safetensors' || name === 'model.safetensors.index.json'

const MODEL_CONFIG = 'config.json'

/** Returns the kind of a folder by its files, or `undefined` for another one. */
const kindOf = (names: readonly string[]): Place['kind'] | undefined => {
  if (names.includes(ADAPTER_CONFIG) && !names.some(isWeights)) return 'adapter'
  return names.includes(MODEL_CONFIG) ? 'model' : undefined
}

/** Downloads a model into the hub's cache. The reason of a failure starts with `tried`. */
const download = (repo: HubRepo, { hub = liveHub(), onProgress }: ModelAccess, tried: string): Found<Place> => {
  const given = repo.revision === 'main' ? repo.name : `${repo.name}@${repo.revision}`
  return pipe(
    hub.list(repo),
    TE.chain(({ files, commit }) => {
      const needed = files.map(({ path }) => path).filter(isNeeded)
      const kind = kindOf(needed)
      const config = needed.indexOf(kind === 'adapter' ? ADAPTER_CONFIG : MODEL_CONFIG)
      return pipe(
        needed,
        // All files come from one commit, even if the revision moves meanwhile.
        TE.traverseSeqArray((path) => hub.download({ ...repo, revision: commit }, path, onProgress)),
        TE.map((paths) => ({ kind, folder: paths[config]?.replace(/\/[^/]*$/, '') })),
      )
    }),
    TE.mapLeft(({ reason }) => modelFailure(given, `${tried}the hub: ${reason}`)),
    TE.chainEitherK(({ kind, folder }) =>
      kind === undefined || folder === undefined
        ? E.left(modelFailure(given, `${tried}the hub: the repository has no config.json, so it is not a model`))
        : E.right({ kind, folder }),
    ),
  )
}

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

/** Finds the model or adapter of a run: its best checkpoint, otherwise its newest. */
const runPlace = (run: string, files: NonNullable<ModelAccess['files']>): Found<Place> =>
  pipe(
    checkpointsOf(run, files),
    TE.chain((checkpoints) =>
      pipe(
        [...checkpoints, RUN_LAYOUT.bestModel, RUN_LAYOUT.model].map((path) => `${run}/${path}`),
        TE.traverseSeqArray((folder) =>
          pipe(
            files.list(folder),
            TE.map((names) => ({ folder, kind: kindOf(names) })),
          ),
        ),
      ),
    ),
    TE.mapLeft(inFolder(run)),
    TE.chainEitherK((places) => {
      const found = places.find((place): place is Place => place.kind !== undefined)
      if (found !== undefined) return E.right(found)
      const looked = `${RUN_LAYOUT.checkpoints}, ${RUN_LAYOUT.bestModel} and ${RUN_LAYOUT.model}`
      return E.left(modelFailure(run, `it is a run without a checkpoint of a model or an adapter; looked in ${looked}`))
    }),
  )

const isMissing = (names: readonly string[]): boolean => kindOf(names) === undefined && !names.some(isWeights)

/** Returns the folder itself, or the only model in GGUF that it has. */
const inListed = (folder: string, names: readonly string[]): Found<Place> => {
  const models = isMissing(names) ? ggufModels(names) : []
  const [only, ...others] = models.map((name) => pathIn(folder, name))
  if (only === undefined) return TE.right({ folder, kind: kindOf(names) ?? 'model' })
  return others.length === 0
    ? TE.right({ folder: only, kind: 'model' })
    : refuse(folder, `it has several models: name one of them, such as ${[only, ...others].slice(0, 8).join(', ')}`)
}

/** Returns the folder of a name without a `+`, or `null` if it does not exist. */
const placeOf = (name: string, access: ModelAccess): Found<Place | null> => {
  const { files = liveFiles } = access
  if (name === 'embedded') return TE.right({ folder: EMBEDDED_MODEL, kind: 'model' })
  if (name.startsWith('hub:')) {
    const repo = repoOf(name.slice('hub:'.length))
    return repo === undefined
      ? refuse(name, 'a model on the hub is named hub:OWNER/NAME or hub:OWNER/NAME@REVISION')
      : download(repo, access, '')
  }
  return pipe(
    files.exists(name),
    TE.chain((exists) => (!exists ? TE.right(null) : isGguf(name) ? TE.right([]) : files.list(name))),
    TE.mapLeft(inFolder(name)),
    TE.chain((names): Found<Place | null> => {
      if (names !== null && isRun(names)) return runPlace(name.replace(/(?<!\/)\/+$/, ''), files)
      if (names !== null) return inListed(name, names)
      const repo = repoOf(name)
      return repo === undefined ? TE.right(null) : download(repo, access, 'there is no such folder; ')
    }),
  )
}

/** A name of the form `MODEL+ADAPTER`. */
interface Pair {
  readonly base: string
  readonly adapter: string
}

/**
 * Splits `MODEL+ADAPTER` at the adapter that exists, else at one that the hub may have. Returns
 * `null` for other names. A path that exists is not split.
 */
const splitName = (name: string, files: NonNullable<ModelAccess['files']>): TE.TaskEither<FileFailure, Pair | null> => {
  const pairs = Array.from(name.matchAll(/\+/g), ({ index }) => ({
    base: name.slice(0, index),
    adapter: name.slice(index + 1),
  })).filter(({ base, adapter }) => base !== '' && adapter !== '')
  const onHub = pairs.findLast(({ adapter }) => repoOf(adapter.replace(/^hub:/, '')) !== undefined)
  return pipe(
    TE.Do,
    TE.bind('isPath', () => (pairs.length === 0 ? TE.right(true) : files.exists(name))),
    TE.bind('existing', ({ isPath }) =>
      TE.traverseSeqArray(({ adapter }: Pair) => files.exists(adapter))(isPath ? [] : pairs),
    ),
    TE.map(({ isPath, existing }) => (isPath ? null : (pairs[existing.lastIndexOf(true)] ?? onHub ?? null))),
  )
}

const BOTH = 'name the model and the adapter as MODEL+ADAPTER, or with --model and --adapter'

/** Reads the name of an adapter's base model. */
const baseOf = (folder: string, files: NonNullable<ModelAccess['files']>): Found<string> =>
  pipe(
    readJson(files, folder, ADAPTER_CONFIG),
    TE.map((json) => new Map<string, unknown>(Object.entries(json))),
    TE.chain((config) => {
      const [base, revision] = [config.get('base_model_name_or_path'), config.get('revision')]
      if (typeof base !== 'string' || base === '')
        return TE.left(modelFailure(folder, `it names no base model: ${BOTH}`, ADAPTER_CONFIG))
      return pipe(
        files.exists(base),
        TE.bimap(inFolder(base), (exists) => (exists || typeof revision !== 'string' ? base : `${base}@${revision}`)),
      )
    }),
  )

/** The longest chain of adapters that were trained on each other. */
const DEEPEST = 16

/** Finds a model. With `on`, finds the base of an adapter on `on` others. */
const foldersOf = (name: string, access: ModelAccess, on = 0): Found<ModelFolders> => {
  const { files = liveFiles } = access
  if (on > DEEPEST) return refuse(name, `more than ${DEEPEST} adapters are based on each other`)
  const withAdapter = (base: string, adapter: Place | null): Found<ModelFolders> => {
    if (adapter?.kind !== 'adapter') return refuse(adapter?.folder ?? name, `it is not an adapter to add to ${base}`)
    return pipe(
      foldersOf(base, access, on + 1),
      TE.map(({ folder, adapters }) => ({ folder, adapters: [...adapters, adapter.folder] })),
    )
  }
  const kind = name.includes('+') ? 'folder, no such adapter after the +' : 'folder'
  const single = pipe(
    placeOf(name, access),
    TE.chain((place): Found<ModelFolders> => {
      if (place === null) return refuse(name, `there is no such ${kind}, and it is not a name on the hub (OWNER/NAME)`)
      if (place.kind === 'model') return TE.right({ folder: place.folder, adapters: [] })
      return pipe(
        baseOf(place.folder, files),
        TE.chain((base) =>
          pipe(
            withAdapter(base, place),
            TE.mapLeft((failure) => modelFailure(place.folder, `its base: ${describe(failure)}. If it moved, ${BOTH}`)),
          ),
        ),
      )
    }),
  )
  return pipe(
    splitName(name, files),
    TE.mapLeft(inFolder(name)),
    TE.chain((pair) => {
      if (pair === null) return single
      return pipe(
        placeOf(pair.adapter, access),
        TE.chain((adapter) => withAdapter(pair.base, adapter)),
      )
    }),
  )
}

/**
 * Returns the folders of a model.
 *
 * | name | model |
 * | --- | --- |
 * | `embedded` | the model that comes with Tandem |
 * | a file `NAME.gguf`, or a folder with one | the model in that file |
 * | a path that exists | that folder; of a run, its best checkpoint, else its newest |
 * | `OWNER/NAME`, `OWNER/NAME@REVISION` | the cache of the hub, after downloading missing files |
 * | the same after `hub:` | the hub, even if there is a folder of that name |
 * | an adapter by one of these names | its base model, which its files name, with the adapter |
 * | `MODEL+ADAPTER` | that model with that adapter |
 *
 * Errors   `Left(ModelFailure)` that lists all attempts.
 * Effects  requests to the hub, files in its cache.
 */
export const modelFolders = (name: string, access: ModelAccess = {}): Found<ModelFolders> => foldersOf(name, access)
