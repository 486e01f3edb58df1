/** Saved batches of steps, for inspection and replay. */
import { type FileContents, type FileFailure, type Files, parseJsonAs } from '@tandem-rl/base'
import type { Owned } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as E from 'fp-ts/lib/Either.js'
import { pipe } from 'fp-ts/lib/function.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { z } from 'zod'
import { readTensorDict, type TensorDictReadFailure } from '../../data/codecs/tensorDictFile.js'
import { tensorDictParts } from '../../data/codecs/tensorDictFileWrite.js'
import { inOrder, stepName } from '../../data/runLayout.js'
import { find, isTensorDict, TensorDict } from '../../data/tensorDict/tensorDict.js'
import type { Alarm } from '../metrics/alarms.js'
import type { TrajectoryRecord } from '../metrics/records.js'

/** A step's batch. */
export interface KeptBatch {
  readonly step: number
  /** The record of the step, or the state before it if the batch could not be collected. */
  readonly record: object
  /**
   * The entries that a learner reads, without tensors. `null` if the batch could not be collected.
   */
  readonly learned: TensorDict | null
  /** All trajectories sampled for the step. */
  readonly trajectories: readonly TrajectoryRecord[]
}

/** Entries that learners read, and entries that identify rows: all ragged rows or plain values. */
const LEARNED = [
  ...['trajectoryId', 'turn', 'groupId', 'stopReason', 'policyVersion', 'sampling', 'advantage', 'returns'].map(
    (name) => [name],
  ),
  ...['tokenWeights', 'values'].map((name) => [name]),
  ...['prompt', 'response', 'full'].map((name) => ['tokens', name]),
  ...['response', 'versions'].map((name) => ['logProbs', name]),
  ...['assistant', 'loss'].map((name) => ['masks', name]),
  ...['oldLogProbs', 'refLogProbs', 'teacherLogProbs'].map((name) => [name, 'response']),
  ['next', 'refLogProbs', 'response'],
  ...['chosen', 'rejected'].flatMap((side) => [
    ...['prompt', 'response'].map((name) => [side, 'tokens', name]),
    [side, 'masks', 'assistant'],
    [side, 'refLogProbs', 'response'],
  ]),
] as const satisfies readonly (readonly string[])[]

type Tree = { [key: string]: unknown }

/** Returns the batch without histories, texts and tensors, which no learner reads. */
export const learnedEntries = (batch: TensorDict): TensorDict => {
  const tree: Tree = {}
  for (const path of LEARNED) {
    const entry = find(batch, path)
    if (entry === undefined || isTensorDict(entry)) continue
    const inner = path.slice(0, -1).reduce<Tree>((node, name) => {
      node[name] ??= {}
      return node[name] as Tree // made here
    }, tree)
    inner[path.at(-1)!] = entry
  }
  return TensorDict(tree as Parameters<typeof TensorDict>[0], batch.batchShape) // entries of a batch
}

const jsonText = (value: unknown): string => `${JSON.stringify(value, undefined, 2)}\n`

/** The file with the learner's entries of a saved batch. */
export const BATCH_FILE = 'batch.td'

const batchFiles = ({ record, learned, trajectories }: KeptBatch): Readonly<Record<string, FileContents>> => ({
  'record.json': jsonText(record),
  ...(learned && { [BATCH_FILE]: tensorDictParts(learned) }),
  'trajectories.jsonl': trajectories.map((each) => `${JSON.stringify(each)}\n`).join(''),
})

/** Saves a batch in its own subfolder, then deletes all but the newest `keep` batches. */
export const saveBatch = (
  files: Files,
  batch: KeptBatch,
  { folder, keep }: { readonly folder: string; readonly keep: number },
): TE.TaskEither<FileFailure, void> =>
  pipe(
    files.makeFolder(folder),
    TE.chain(() => files.writeFolder(`${folder}/${stepName(batch.step)}`, batchFiles(batch))),
    TE.chain(() => files.list(folder)),
    TE.chain((names) => {
      const old = inOrder(names).slice(0, -keep)
      return TE.traverseSeqArray((name: string) => files.remove(`${folder}/${name}`))(old)
    }),
    TE.map(() => undefined),
  )

const ALARMS_FILE = 'alarms.json'

const alarmsSchema = z.array(z.looseObject({ alarm: z.string(), step: z.number(), message: z.string() }))

/** Parses alarms.json. Returns an empty list if it is malformed; the file is then overwritten. */
const alarmsIn = (text: string): z.infer<typeof alarmsSchema> => {
  try {
    return alarmsSchema.safeParse(JSON.parse(text)).data ?? []
  } catch {
    return []
  }
}

/** Reads the alarms of a folder. Returns an empty list if it has none. */
const alarmsOf = (files: Files, folder: string): TE.TaskEither<FileFailure, z.infer<typeof alarmsSchema>> =>
  pipe(
    files.exists(`${folder}/${ALARMS_FILE}`),
    TE.chain((exists) => (exists ? files.readText(`${folder}/${ALARMS_FILE}`) : TE.right('[]'))),
    TE.map(alarmsIn),
  )

/** Saves a batch with its alarms. Alarms saved earlier for the same batch are kept. */
export const saveAlarms = (
  files: Files,
  folder: string,
  { alarms, batch }: { readonly alarms: readonly Alarm[]; readonly batch: KeptBatch },
): TE.TaskEither<FileFailure, void> =>
  pipe(
    alarmsOf(files, folder),
    TE.chain((before) => {
      const isNew = ({ alarm, step }: { readonly alarm: string; readonly step: number }): boolean =>
        !alarms.some((each) => each.alarm === alarm && each.step === step)
      const all = [...before.filter(isNew), ...alarms]
      return files.writeFolder(folder, { [ALARMS_FILE]: jsonText(all), ...batchFiles(batch) })
    }),
  )

/** A folder without a batch to train on. */
export interface BatchFailure {
  readonly _tag: 'BatchFailure'
  /** The folder. */
  readonly where: string
  readonly reason: string
}

/** A saved batch of a step, read back. */
export interface ReadBatch {
  readonly step: number
  readonly batch: Owned<TensorDict>
  /** The error if the step's loss was not finite, else `null`. */
  readonly end: string | null
}

const recordSchema = z.looseObject({ step: z.number().int().positive() })

/**
 * Reads the batch of a folder.
 *
 * Errors   `Left` if the folder has no batch (one that could not be collected has none), or if a
 *          file is damaged.
 */
export const readBatch = (
  files: Files,
  folder: string,
): TE.TaskEither<BatchFailure | FileFailure | TensorDictReadFailure, ReadBatch> => {
  const refuse = (reason: string): BatchFailure => ({ _tag: 'BatchFailure', where: folder, reason })
  const read = <T>(name: string, schema: z.ZodType<T>): TE.TaskEither<BatchFailure | FileFailure, T> =>
    pipe(
      files.readText(`${folder}/${name}`),
      TE.chainEitherKW((text) =>
        pipe(
          parseJsonAs(schema, text),
          E.mapLeft((reason) => refuse(`${name}: ${reason}`)),
        ),
      ),
    )
  return pipe(
    read('record.json', recordSchema),
    TE.bindTo('record'),
    TE.bindW('alarms', () => alarmsOf(files, folder)),
    TE.bindW('batch', () => readTensorDict(`${folder}/${BATCH_FILE}`, { files })),
    TE.map(({ record, batch, alarms }) => {
      const end = alarms.find(({ alarm }) => alarm === 'non-finite')?.message
      return { step: record.step, batch, end: end?.slice('non-finite: '.length) ?? null }
    }),
  )
}
