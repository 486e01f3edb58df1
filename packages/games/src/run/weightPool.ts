/** Weights of earlier updates, as opponents and as references. */
import {
  checkOptions,
  child,
  type FileFailure,
  type Files,
  type HostArray,
  type Key,
  type ModelFailure,
  modelFailure,
  parseJsonAs,
  refuse,
  uniformInteger,
} from '@tandem-rl/base'
import { type Owned, own, scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as E from 'fp-ts/lib/Either.js'
import { pipe } from 'fp-ts/lib/function.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import type { Learner } from 'tandem-rl'
import { encodeSafetensors, type NamedTensors, readSafetensors } from 'tandem-rl/files'
import { hostArrays, makeParams } from 'tandem-rl/models'
import { z } from 'zod'
import { WEIGHT_POOL_OPTIONS } from '../optionKinds.js'

export interface WeightPoolOptions {
  /** The most weights that are kept. */
  readonly size: number
  /** Updates between two of them, at first. When the pool is full, it keeps every second one. */
  readonly every: number
}

/** Weights of a run, spread evenly over its updates. */
export interface WeightPool {
  /** The versions that are kept, from the oldest. */
  readonly versions: () => readonly number[]
  /** Keeps the weights of a version if it is time. Offering a version again changes nothing. */
  readonly offer: (weights: NamedTensors, version: number) => void
  /** Returns weights that are drawn uniformly. They are valid until the next offer. */
  readonly draw: (key: Key) => NamedTensors
  /** Returns the newest weights that are kept. They are valid until the next offer. */
  readonly newest: () => NamedTensors
  /** The contents of a checkpoint by file name. */
  readonly files: () => Readonly<Record<string, Uint8Array | string>>
  /** Continues from the files of a checkpoint. */
  readonly restore: (folder: string, files: Files) => TE.TaskEither<FileFailure | ModelFailure, void>
  readonly release: () => void
}

interface Kept {
  readonly version: number
  readonly weights: Owned<NamedTensors>
}

const poolSchema = z.strictObject({ every: z.number().int().positive(), versions: z.array(z.number().int()) })

/**
 * Makes a pool of weights that begins with `start` as version 0.
 *
 * Weights are kept every `every` updates. When more than `size` are there, every second one is
 * dropped and the interval doubles, so that the pool covers the whole run in bounded memory.
 *
 * Errors   throws RangeError unless `size` is at least 2, or 1 for the newest weights alone, and
 *          `every` is at least 1.
 * Effects  holds tensors until `release`.
 */
export const weightPool = (name: string, start: NamedTensors, options: WeightPoolOptions): WeightPool => {
  checkOptions('weightPool', options, WEIGHT_POOL_OPTIONS)
  const { size } = options
  const isCount = (n: number): boolean => Number.isInteger(n) && n >= 1
  refuse('weightPool', [
    ...(['size', 'every'] as const).map((option) =>
      isCount(options[option]) ? false : `${option} must be a whole number of at least 1, got ${options[option]}`,
    ),
  ])
  const listFile = `${name}.json`
  const fileOf = (version: number): string => `${name}-${version}.safetensors`
  let every = options.every
  let kept: readonly Kept[] = [{ version: 0, weights: own(start) }]

  const keepOnly = (isKept: (each: Kept, place: number) => boolean): void => {
    const dropped = kept.filter((each, place) => !isKept(each, place))
    kept = kept.filter(isKept)
    for (const { weights } of dropped) weights.release()
  }
  const replace = (restored: readonly Kept[]): void => {
    const old = kept
    kept = restored
    for (const { weights } of old) weights.release()
  }
  return {
    versions: () => kept.map(({ version }) => version),
    offer: (weights, version) => {
      if (version % every !== 0 || kept.some((each) => each.version >= version)) return
      kept = [...kept, { version, weights: own(weights) }]
      if (kept.length <= size) return
      if (size === 1) return keepOnly((each) => each.version === version)
      every *= 2
      keepOnly((each) => each.version % every === 0)
    },
    draw: (key) => kept[uniformInteger(child(key, name), kept.length)]!.weights.value,
    newest: () => kept.at(-1)!.weights.value,
    files: () => ({
      [listFile]: `${JSON.stringify({ every, versions: kept.map(({ version }) => version) })}\n`,
      ...Object.fromEntries(
        kept.map(({ version, weights }) => [fileOf(version), encodeSafetensors(hostArrays(weights.value))]),
      ),
    }),
    restore: (folder, files) =>
      pipe(
        files.readText(`${folder}/${listFile}`),
        TE.chainEitherKW((text) =>
          pipe(
            parseJsonAs(poolSchema, text),
            E.mapLeft((reason) => modelFailure(folder, reason, listFile)),
          ),
        ),
        TE.chainW((list) =>
          pipe(
            list.versions,
            TE.traverseSeqArray((version) =>
              pipe(
                readSafetensors(`${folder}/${fileOf(version)}`, files),
                TE.mapLeft((problem) =>
                  problem._tag === 'FileFailure' ? problem : modelFailure(folder, problem.reason, fileOf(version)),
                ),
                TE.chainEitherKW(({ arrays }) => {
                  const single = new Map(
                    [...arrays].flatMap(
                      ([name, { type, shape, data }]) =>
                        type === 'F32' ? [[name, { shape, data } as HostArray] as const] : [], // F32 is read as Float32Array
                    ),
                  )
                  return single.size < arrays.size
                    ? E.left(modelFailure(folder, 'expected weights in F32', fileOf(version)))
                    : E.right({ version, weights: own(scope(() => makeParams(single))) })
                }),
              ),
            ),
            TE.map((restored) => {
              every = list.every
              replace(restored)
            }),
          ),
        ),
      ),
    release: () => replace([]),
  }
}

/**
 * Returns the learner with the weights of pools in its checkpoints. `onRestore` is called after
 * they are read.
 */
export const withPools = <B, M>(learner: Learner<B, M>, pools: readonly WeightPool[]): Learner<B, M> => ({
  ...learner,
  files: () =>
    Object.assign({ ...learner.files() }, ...pools.map((pool) => pool.files())) as ReturnType<Learner<B, M>['files']>, // files of all
  restore: (folder, files) =>
    pipe(
      learner.restore(folder, files),
      TE.chainW(() => TE.traverseSeqArray((pool: WeightPool) => pool.restore(folder, files))(pools)),
      TE.map(() => undefined),
    ),
})
