/** Everything that a run needs to go on exactly where it was, in one folder that is there completely or not at all. */
import * as E from 'fp-ts/lib/Either.js'
import { pipe } from 'fp-ts/lib/function.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { z } from 'zod'
import { type AnyStateOptimizer, stateArrays, stateShapes } from '../collectors/learners/optimizerState.js'
import type { TrainerState } from '../collectors/steps/lossStep.js'
import type { Files } from '../core/capabilities.js'
import type { FileFailure, ModelFailure } from '../core/failure.js'
import { encodeSafetensors, type HostArray } from '../data/codecs/safetensors.js'
import { readSafetensors } from '../data/codecs/safetensorsFile.js'
import type { StoredArray } from '../data/codecs/storage.js'
import type { LoraConfig } from '../modules/lora/config.js'
import { type AdapterFilesOptions, adapterFiles, loadAdapter } from '../modules/lora/peft.js'
import { hostArrays, loadPretrained, type Pretrained, pretrainedFiles } from '../modules/pretrained.js'
import type { DecoderConfig } from '../modules/transformer/config.js'
import { inOrder, stepName, stepOf } from './stepName.js'

const stateSchema = z.strictObject({
  format: z.literal(1),
  /** Updates done. */
  step: z.number().int().nonnegative(),
  policyVersion: z.number().int().nonnegative(),
  position: z.strictObject({ batch: z.number().int().nonnegative(), remembered: z.record(z.string(), z.unknown()) }),
  /** Weight of the divergence in the step that comes. Runs of earlier versions have the one of their settings. */
  klCoefficient: z.number().nonnegative().optional(),
  /** Of the run so far. */
  secondsTotal: z.number(),
  checkpointSeconds: z.number(),
  /** Lengths of the run's logs at this point: what comes after was written by steps that are done again. */
  metricsBytes: z.number().int().nonnegative(),
  trajectoriesBytes: z.number().int().nonnegative(),
})

/** state.json */
export type CheckpointState = Readonly<z.infer<typeof stateSchema>>

/** A checkpoint that was read: what was trained, and what is needed to go on. */
export interface Checkpoint {
  /** All weights of the model, or those of an adapter. */
  readonly trained: ReadonlyMap<string, HostArray>
  readonly optimizer: ReadonlyMap<string, HostArray>
  readonly state: CheckpointState
}

/** A checkpoint of a whole model. */
export interface ModelCheckpoint extends Checkpoint {
  readonly model: Pretrained
}

export type CheckpointFailure = FileFailure | ModelFailure

const STATE_FILE = 'state.json'
const OPTIMIZER_FILE = 'optimizer.safetensors'

const progressFiles = (
  trainer: TrainerState<object>,
  state: CheckpointState,
): Readonly<Record<string, Uint8Array | string>> => ({
  [OPTIMIZER_FILE]: encodeSafetensors(stateArrays(trainer.optimizer)),
  [STATE_FILE]: `${JSON.stringify(state, undefined, 2)}\n`,
})

/** The files of a checkpoint: a model folder that Transformers can load, the optimizer, and where the run stood. */
export const checkpointFiles = (
  model: Pick<Pretrained, 'config' | 'text'>,
  trainer: TrainerState<object>,
  state: CheckpointState,
): Readonly<Record<string, Uint8Array | string>> => ({
  ...pretrainedFiles({ ...model, arrays: hostArrays(trainer.params) }),
  ...progressFiles(trainer, state),
})

/** The files of a checkpoint of an adapter: a folder that PEFT can load, the optimizer, and where the run stood. */
export const adapterCheckpointFiles = (
  { config, ...origin }: { readonly config: LoraConfig } & Pick<AdapterFilesOptions, 'baseModel' | 'layout'>,
  trainer: TrainerState<object>,
  state: CheckpointState,
): Readonly<Record<string, Uint8Array | string>> => ({
  ...adapterFiles({ config, arrays: hostArrays(trainer.params) }, origin),
  ...progressFiles(trainer, state),
})

/** Which checkpoints stay. */
interface Kept {
  /** The newest so many. */
  readonly keep: number
  /** Those after these steps. Default: none. */
  readonly also?: readonly number[]
}

/** Writes a checkpoint and removes those that need not stay. */
export const saveCheckpoint = (
  files: Files,
  contents: Readonly<Record<string, Uint8Array | string>>,
  { folder, step, keep, also = [] }: Kept & { readonly folder: string; readonly step: number },
): TE.TaskEither<FileFailure, string> => {
  const path = `${folder}/${stepName(step)}`
  return pipe(
    files.makeFolder(folder),
    TE.chain(() => files.writeFolder(path, contents)),
    TE.chain(() => files.list(folder)),
    TE.chain((names) => {
      const old = inOrder(names)
        .slice(0, -keep)
        .filter((name) => !also.includes(stepOf(name)))
      const unfinished = names.filter((name) => name.includes('.tmp-'))
      return TE.traverseSeqArray((name: string) => files.remove(`${folder}/${name}`))([...old, ...unfinished])
    }),
    TE.map(() => path),
  )
}

/** The newest complete checkpoint of a folder, or the newest after at most so many steps; undefined if there is none. */
export const latestCheckpoint = (
  files: Files,
  folder: string,
  steps = Number.POSITIVE_INFINITY,
): TE.TaskEither<FileFailure, string | undefined> =>
  pipe(
    files.list(folder),
    TE.map((names) => {
      const name = inOrder(names).findLast((each) => stepOf(each) <= steps)
      return name === undefined ? undefined : `${folder}/${name}`
    }),
  )

const failure = (folder: string, file: string, reason: string): ModelFailure => ({
  _tag: 'ModelFailure',
  folder,
  file,
  reason,
})

const readState = (files: Files, folder: string): TE.TaskEither<CheckpointFailure, CheckpointState> =>
  pipe(
    files.readText(`${folder}/${STATE_FILE}`),
    TE.chainEitherKW((text) => {
      const parsed = E.tryCatch(
        () => stateSchema.safeParse(JSON.parse(text)),
        (error) => failure(folder, STATE_FILE, `not JSON: ${String(error)}`),
      )
      return pipe(
        parsed,
        E.chain((result) =>
          result.success ? E.right(result.data) : E.left(failure(folder, STATE_FILE, z.prettifyError(result.error))),
        ),
      )
    }),
  )

const readOptimizer = (
  files: Files,
  folder: string,
): TE.TaskEither<CheckpointFailure, ReadonlyMap<string, StoredArray>> =>
  pipe(
    readSafetensors(`${folder}/${OPTIMIZER_FILE}`, files),
    TE.bimap(
      (problem) => (problem._tag === 'FileFailure' ? problem : failure(folder, OPTIMIZER_FILE, problem.reason)),
      ({ arrays }) => arrays,
    ),
  )

/** The optimizer of what was trained, and where the run stood. */
const loadProgress = (
  files: Files,
  folder: string,
  { trained, optimizer: learner }: { readonly trained: Checkpoint['trained']; readonly optimizer: AnyStateOptimizer },
): TE.TaskEither<CheckpointFailure, Checkpoint> =>
  pipe(
    readState(files, folder),
    TE.bindTo('state'),
    TE.bind('optimizer', () =>
      pipe(
        readOptimizer(files, folder),
        TE.chainEitherKW((optimizer) => checkOptimizer(folder, stateShapes(learner, trained), optimizer)),
      ),
    ),
    TE.map(({ state, optimizer }) => ({ trained, optimizer, state })),
  )

/** Reads a checkpoint of a model that `optimizer` trained. Errors: `Left` naming the file that is missing, truncated or malformed. */
export const loadCheckpoint = (
  files: Files,
  folder: string,
  optimizer: AnyStateOptimizer,
): TE.TaskEither<CheckpointFailure, ModelCheckpoint> =>
  pipe(
    loadPretrained(folder, files),
    TE.chainW((model) =>
      pipe(
        loadProgress(files, folder, { trained: model.arrays, optimizer }),
        TE.map((progress) => ({ ...progress, model })),
      ),
    ),
  )

/** Reads a checkpoint of an adapter. Errors: `Left` naming the file that is missing, truncated, malformed, or of another model. */
export const loadAdapterCheckpoint = (
  files: Files,
  folder: string,
  { config, optimizer }: { readonly config: DecoderConfig; readonly optimizer: AnyStateOptimizer },
): TE.TaskEither<CheckpointFailure, Checkpoint> =>
  pipe(
    loadAdapter(folder, config, files),
    TE.chainW(({ adapter }) => loadProgress(files, folder, { trained: adapter.arrays, optimizer })),
  )

const checkOptimizer = (
  folder: string,
  shapes: ReadonlyMap<string, readonly number[]>,
  optimizer: ReadonlyMap<string, StoredArray>,
): E.Either<ModelFailure, ReadonlyMap<string, HostArray>> => {
  const checked = new Map<string, HostArray>()
  for (const [name, shape] of shapes) {
    const array = optimizer.get(name)
    if (array === undefined) return E.left(failure(folder, OPTIMIZER_FILE, `'${name}' is missing`))
    if (array.shape.join() !== shape.join() || array.type !== 'F32') {
      const expected = `expected F32 [${shape.join()}]`
      return E.left(failure(folder, OPTIMIZER_FILE, `'${name}' is ${array.type} [${array.shape.join()}], ${expected}`))
    }
    checked.set(name, { shape, data: array.data })
  }
  return E.right(checked)
}
