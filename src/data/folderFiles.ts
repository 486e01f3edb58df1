/** Reads small files of a model's folder. Failures name the folder and the file. */
import {
  type FileFailure,
  type Files,
  type FormatFailure,
  lfsProblem,
  type ModelFailure,
  modelFailure,
  parseJson,
} from '@tandem-rl/base'
import * as E from 'fp-ts/lib/Either.js'
import { pipe } from 'fp-ts/lib/function.js'
import * as TE from 'fp-ts/lib/TaskEither.js'

/** Returns a failure of a file in a model's folder. */
export const fileProblem = (folder: string, file: string, reason: string): ModelFailure =>
  modelFailure(folder, reason, file)

/** Returns the path of a file in a folder. */
export const pathIn = (folder: string, file: string): string => `${folder.replace(/(?<!\/)\/+$/, '')}/${file}`

/** Converts a failure to read a file to a failure of its model. */
export const fromFile =
  (folder: string, file: string) =>
  ({ reason }: FileFailure): ModelFailure =>
    fileProblem(folder, file, reason)

/** Converts a failure of a file in `place` to a failure of its model. */
export const fromPath =
  (folder: string, place: string) =>
  (failure: FileFailure | FormatFailure): ModelFailure => {
    const path = failure._tag === 'FileFailure' ? failure.path : (failure.where ?? place)
    return fileProblem(folder, path.slice(place.length + 1), failure.reason)
  }

/**
 * Reads the JSON object in a file. Errors: `Left(ModelFailure)` that names the file: missing, or
 * not a JSON object.
 */
export const readJson = (
  files: Pick<Files, 'readText'>,
  folder: string,
  file: string,
): TE.TaskEither<ModelFailure, object> =>
  pipe(
    files.readText(pathIn(folder, file)),
    TE.mapLeft(fromFile(folder, file)),
    TE.chainEitherK((text) =>
      pipe(
        parseJson(text),
        E.mapLeft((reason) => fileProblem(folder, file, reason)),
        E.filterOrElse(
          (json): json is object => typeof json === 'object' && json !== null && !Array.isArray(json),
          () => fileProblem(folder, file, 'not a JSON object'),
        ),
      ),
    ),
  )

/** Reads the JSON object in a file, or returns an empty one if the file does not exist. */
export const readOptionalJson = (files: Files, folder: string, file: string): TE.TaskEither<ModelFailure, object> =>
  pipe(
    files.exists(pathIn(folder, file)),
    TE.mapLeft(fromFile(folder, file)),
    TE.chain((exists) => (exists ? readJson(files, folder, file) : TE.right({}))),
  )

/**
 * Reads the text of a file, or returns `undefined` if the file does not exist. A pointer of Git LFS
 * is a failure.
 */
export const readOptionalText = (
  files: Files,
  folder: string,
  file: string,
): TE.TaskEither<ModelFailure, string | undefined> =>
  pipe(
    files.exists(pathIn(folder, file)),
    TE.chain((exists) => (exists ? files.readText(pathIn(folder, file)) : TE.right(undefined))),
    TE.mapLeft(fromFile(folder, file)),
    TE.chainEitherK((text) => {
      const problem = text === undefined ? undefined : lfsProblem(text)
      return problem === undefined ? E.right(text) : E.left(fileProblem(folder, file, problem))
    }),
  )
