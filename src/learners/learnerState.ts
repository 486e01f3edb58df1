/** The checkpoint of a learner: optimizer and counters, in addition to the weights. */
import { type FileFailure, type Files, type HostArray, type ModelFailure, parseJsonAs } from '@tandem-rl/base'
import * as E from 'fp-ts/lib/Either.js'
import { pipe } from 'fp-ts/lib/function.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { z } from 'zod'
import { encodeSafetensors } from '../data/codecs/safetensors.js'
import { readSafetensors } from '../data/codecs/safetensorsFile.js'
import type { StoredArray } from '../data/codecs/storage.js'
import { fileProblem } from '../data/folderFiles.js'
import { type AnyStateOptimizer, stateArrays, stateShapes } from './optimizerState.js'
import type { TrainerState } from './steps/optimizerStep.js'
import type { Trainable } from './trainable.js'

const OPTIMIZER_FILE = 'optimizer.safetensors'
const LEARNER_FILE = 'learner.json'

const learnerSchema = z.strictObject({
  format: z.literal(1),
  /** Updates done. */
  version: z.number().int().nonnegative(),
})

/** A checkpoint that was read. */
export interface SavedLearner {
  readonly version: number
  readonly trained: ReadonlyMap<string, HostArray>
  readonly optimizer: ReadonlyMap<string, HostArray>
}

type ReadFailure = FileFailure | ModelFailure

/** The files of a checkpoint. */
export const learnerFiles = (
  weights: Trainable,
  { params, optimizer }: TrainerState<object>,
  version: number,
): Readonly<Record<string, Uint8Array | string>> => ({
  ...weights.files(params),
  [OPTIMIZER_FILE]: encodeSafetensors(stateArrays(optimizer)),
  [LEARNER_FILE]: `${JSON.stringify({ format: 1, version }, undefined, 2)}\n`,
})

const readCounters = (files: Files, folder: string): TE.TaskEither<ReadFailure, number> =>
  pipe(
    files.readText(`${folder}/${LEARNER_FILE}`),
    TE.chainEitherKW((text) =>
      pipe(
        parseJsonAs(learnerSchema, text),
        E.bimap(
          (reason) => fileProblem(folder, LEARNER_FILE, reason),
          ({ version }) => version,
        ),
      ),
    ),
  )

/** Returns an optimizer's arrays after checking their names, shapes and type. */
const checkedOptimizer = (
  folder: string,
  shapes: ReadonlyMap<string, readonly number[]>,
  arrays: ReadonlyMap<string, StoredArray>,
): E.Either<ModelFailure, ReadonlyMap<string, HostArray>> => {
  const checked = new Map<string, HostArray>()
  for (const [name, shape] of shapes) {
    const array = arrays.get(name)
    if (array === undefined) return E.left(fileProblem(folder, OPTIMIZER_FILE, `'${name}' is missing`))
    if (array.shape.join() !== shape.join() || array.type !== 'F32') {
      const expected = `expected F32 [${shape.join()}]`
      return E.left(
        fileProblem(folder, OPTIMIZER_FILE, `'${name}' is ${array.type} [${array.shape.join()}], ${expected}`),
      )
    }
    checked.set(name, { shape, data: array.data })
  }
  return E.right(checked)
}

/** Returns the problems of saved tensors: missing, extra, or of another shape. */
const misfits = (
  start: ReadonlyMap<string, readonly number[]>,
  saved: ReadonlyMap<string, HostArray>,
): readonly string[] => [
  ...[...start].flatMap(([name, shape]) => {
    const array = saved.get(name)
    if (array === undefined) return [`'${name}' is missing`]
    return array.shape.join() === shape.join()
      ? []
      : [`'${name}' is [${array.shape.join()}], expected [${shape.join()}]`]
  }),
  ...[...saved.keys()].filter((name) => !start.has(name)).map((name) => `'${name}' is not trained here`),
]

/**
 * Reads a checkpoint of the same model, adapter and optimizer.
 *
 * Errors   `Left` naming the file that is missing, malformed or of another model or optimizer.
 */
export const readLearner = (
  weights: Trainable,
  given: { readonly optimizer: AnyStateOptimizer; readonly shapes: ReadonlyMap<string, readonly number[]> },
  { folder, files }: { readonly folder: string; readonly files: Files },
): TE.TaskEither<ReadFailure, SavedLearner> =>
  pipe(
    readCounters(files, folder),
    TE.bindTo('version'),
    TE.bindW('trained', () =>
      pipe(
        weights.load(folder, files),
        TE.filterOrElseW(
          (arrays) => misfits(given.shapes, arrays).length === 0,
          (arrays) => fileProblem(folder, 'the weights', misfits(given.shapes, arrays)[0]!),
        ),
      ),
    ),
    TE.bindW('optimizer', ({ trained }) =>
      pipe(
        readSafetensors(`${folder}/${OPTIMIZER_FILE}`, files),
        TE.mapLeft(
          (problem): ReadFailure =>
            problem._tag === 'FileFailure' ? problem : fileProblem(folder, OPTIMIZER_FILE, problem.reason),
        ),
        TE.chainEitherKW(({ arrays }) => checkedOptimizer(folder, stateShapes(given.optimizer, trained), arrays)),
      ),
    ),
  )
