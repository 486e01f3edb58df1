/** What is kept of the batch of a step, to be looked at and to be learned from again. */
import * as E from 'fp-ts/lib/Either.js'
import { pipe } from 'fp-ts/lib/function.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { z } from 'zod'
import type { FileContents, Files } from '../core/capabilities.js'
import type { FileFailure } from '../core/failure.js'
import { readTensorDict, type TensorDictReadFailure } from '../data/codecs/tensorDictFile.js'
import { tensorDictParts } from '../data/codecs/tensorDictFileWrite.js'
import { inOrder, stepName } from '../data/runLayout.js'
import { find, isTensorDict, TensorDict } from '../data/tensorDict/tensorDict.js'
import type { Owned } from '../engine/scope.js'
import type { Alarm } from './alarms.js'
import type { TrajectoryRecord } from './records.js'

/** A step's batch. */
export interface KeptBatch {
  readonly step: number
  /** What was measured of it, or where it begins if it could not be collected. */
  readonly record: object
  /** The entries that a learner reads, without tensors; null if it could not be collected. */
  readonly learned: TensorDict | null
  /** All that was sampled for it. */
  readonly trajectories: readonly TrajectoryRecord[]
}

/** Entries of batches that learners read, and those that identify rows. All of them are rows of numbers and plain values. */
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

/** A batch without what no learner reads: histories, texts and tensors. */
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

/** The file of a kept batch that is learned from. */
export const BATCH_FILE = 'batch.td'

const batchFiles = ({ record, learned, trajectories }: KeptBatch): Readonly<Record<string, FileContents>> => ({
  'record.json': jsonText(record),
  ...(learned && { [BATCH_FILE]: tensorDictParts(learned) }),
  'trajectories.jsonl': trajectories.map((each) => `${JSON.stringify(each)}\n`).join(''),
})

/** Keeps a batch in a folder beside others, of which the newest `keep` stay. */
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

/** The alarms of a folder that is there, none if it is not readable: it is written anew. */
const alarmsIn = (text: string): z.infer<typeof alarmsSchema> => {
  try {
    return alarmsSchema.safeParse(JSON.parse(text)).data ?? []
  } catch {
    return []
  }
}

/** The alarms of a folder, none where there are none. */
const alarmsOf = (files: Files, folder: string): TE.TaskEither<FileFailure, z.infer<typeof alarmsSchema>> =>
  pipe(
    files.exists(`${folder}/${ALARMS_FILE}`),
    TE.chain((exists) => (exists ? files.readText(`${folder}/${ALARMS_FILE}`) : TE.right('[]'))),
    TE.map(alarmsIn),
  )

/** Keeps a batch with the alarms that began with it, and those that were told of it before. */
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

/** A folder that holds no batch to learn from. */
export interface BatchFailure {
  readonly _tag: 'BatchFailure'
  readonly folder: string
  readonly reason: string
}

/** What was learned from in a step, as it was kept. */
export interface ReadBatch {
  readonly step: number
  readonly batch: Owned<TensorDict>
  /** Why the step was not done: its loss was no number; null if it was. */
  readonly end: string | null
}

const recordSchema = z.looseObject({ step: z.number().int().positive() })

const parsed = <T>(schema: z.ZodType<T>, text: string): E.Either<string, T> => {
  try {
    const result = schema.safeParse(JSON.parse(text))
    return result.success ? E.right(result.data) : E.left(z.prettifyError(result.error))
  } catch (error) {
    return E.left(`not JSON: ${String(error)}`)
  }
}

/** Reads the batch of a folder. Errors: `Left` for a folder without one, as where a batch could not be collected, and for files that are torn. */
export const readBatch = (
  files: Files,
  folder: string,
): TE.TaskEither<BatchFailure | FileFailure | TensorDictReadFailure, ReadBatch> => {
  const refuse = (reason: string): BatchFailure => ({ _tag: 'BatchFailure', folder, reason })
  const read = <T>(name: string, schema: z.ZodType<T>): TE.TaskEither<BatchFailure | FileFailure, T> =>
    pipe(
      files.readText(`${folder}/${name}`),
      TE.chainEitherKW((text) =>
        pipe(
          parsed(schema, text),
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
