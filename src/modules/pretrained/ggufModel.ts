/** Models in GGUF, read as if they were a folder in Hugging Face's layout. */
import { describe, type Files, type ModelFailure, modelFailure } from '@tandem-rl/base'
import {
  type GgufArray,
  type GgufModel,
  type GgufReadFailure,
  openGgufModel,
  type TokenizerFiles,
} from '@tandem-rl/gguf'
import { pipe } from 'fp-ts/lib/function.js'
import * as TE from 'fp-ts/lib/TaskEither.js'

type Read<T> = TE.TaskEither<ModelFailure, T>

const EXTENSION = '.gguf'

/** Returns true for the path of a model in GGUF. */
export const isGguf = (path: string): boolean => path.endsWith(EXTENSION)

/** Returns the models of a folder: each file, and the first file of each split model. */
export const ggufModels = (names: readonly string[]): readonly string[] =>
  names.filter(
    (name) =>
      isGguf(name) &&
      !name.startsWith('mmproj') && // the projector of a model with images
      (/-(\d{5})-of-\d{5}\.gguf$/.exec(name)?.[1] ?? '00001') === '00001',
  )

const failed =
  (path: string) =>
  (failure: GgufReadFailure): ModelFailure =>
    modelFailure(path, failure._tag === 'FormatFailure' && failure.where === path ? failure.reason : describe(failure))

/** Opens a model, uses it, and closes it. */
const withModel = <T>(
  path: string,
  files: Pick<Files, 'open'>,
  use: (model: GgufModel) => TE.TaskEither<GgufReadFailure, T>,
): Read<T> =>
  pipe(
    TE.bracket<GgufReadFailure, GgufModel, T>(openGgufModel(path, files), use, ({ close }) => close),
    TE.mapLeft(failed(path)),
  )

/** Reads the `config.json` of a model. */
export const ggufConfig = (path: string, files: Pick<Files, 'open'>): Read<object> =>
  withModel(path, files, ({ config }) => TE.right(config))

/** Reads the files of a model's text side. */
export const ggufText = (path: string, files: Pick<Files, 'open'>): Read<TokenizerFiles> =>
  withModel(path, files, ({ text }) => TE.fromEither(text))

/** Reads the weights of a model in float32. */
export const ggufArrays = (
  path: string,
  files: Pick<Files, 'open'>,
): Read<ReadonlyMap<string, GgufArray & { readonly type: 'F32' }>> =>
  withModel(path, files, ({ shapes, read }) =>
    pipe(
      [...shapes.keys()],
      TE.traverseSeqArray((name) =>
        pipe(
          read(name),
          TE.map((array) => [name, { ...array, type: 'F32' as const }] as const),
        ),
      ),
      TE.map((pairs) => new Map(pairs)),
    ),
  )
