/** One step of a run: collect, train, push the new weights to the policy, and record the step. */
import type { Learner } from '../collectors/learners/learner.js'
import type { Clock } from '../core/capabilities.js'
import { orThrow } from '../core/failure.js'
import type { Json } from '../data/codecs/plainValues.js'
import { type Data, type Ragged, raggedLength, raggedRow, raggedRows } from '../data/tensorDict/leaf.js'
import { assign } from '../data/tensorDict/merge.js'
import { find, isTensorDict, type TensorDict } from '../data/tensorDict/tensorDict.js'
import { engineReport } from '../engine/report.js'
import { type Owned, own, scope } from '../engine/scope.js'
import { residentBytes } from '../live/machine.js'
import { batchMetrics, rewardParts, textAt, trajectoryNumbers } from './batchMetrics.js'
import type {
  MemoryRecord,
  PhaseSeconds,
  PromptRecord,
  StepRecord,
  TrajectoryRecord,
  UpdateMetrics,
} from './records.js'
import type { AnyRun } from './run.js'
import type { OpenSource, SourceBatch } from './source.js'

/** The state of a run between two steps. */
export interface Progress {
  /** Number of steps done. */
  readonly step: number
  /** KL coefficient of the next step. */
  readonly klCoefficient: number
  readonly position: Json
}

/** A run with its open source. */
export interface OpenRun {
  readonly run: AnyRun
  readonly source: OpenSource
  readonly clock: Clock
}

/** The collected batch of a step, and the part of it to train on. Disposing frees both. */
export interface SampledStep extends Disposable, Pick<SourceBatch, 'position' | 'sampling' | 'overlap'> {
  readonly step: number
  readonly batch: TensorDict
  /** The batch with advantages, without dropped groups. */
  readonly rated: TensorDict
  readonly before: Progress
  readonly seconds: Pick<PhaseSeconds, 'generation' | 'environment'>
  /** Clock time at which the batch was complete. */
  readonly collectedAt: number
}

const itemsAt = (td: TensorDict, path: readonly string[]): readonly unknown[] | undefined => {
  const entry = find(td, path)
  return entry !== undefined && '_tag' in entry && entry._tag === 'Data'
    ? (entry as Data<unknown>).items.toArray() // by its tag
    : undefined
}

const raggedAt = (td: TensorDict, path: readonly string[]): Ragged | undefined => {
  const entry = find(td, path)
  return entry !== undefined && '_tag' in entry && entry._tag === 'Ragged' ? (entry as Ragged) : undefined // by its tag
}

/** Collects the batch of the next step. Throws FailureError if environment or policy fails. */
export const sampleStep = async ({ run, source, clock }: OpenRun, before: Progress): Promise<SampledStep> => {
  const started = clock.now()
  const collected = orThrow(await source.collect(before)())
  const held: Owned<unknown>[] = [collected.batch]
  const release = (): void => {
    for (const owned of held) owned.release()
  }
  try {
    const batch = collected.batch.value
    const entries = run.rate === undefined ? {} : orThrow(await run.rate(batch)())
    const collectedAt = clock.now()
    const rated = own(scope(() => run.advantage(assign(batch, entries))))
    held.push(rated)
    const generation = (itemsAt(batch, ['generationMs']) ?? []).reduce((sum: number, ms) => sum + Number(ms), 0) / 1000
    return {
      step: before.step + 1,
      ...{ batch, rated: rated.value, before },
      ...{ position: collected.position, sampling: collected.sampling, overlap: collected.overlap },
      seconds: { generation, environment: Math.max(0, (collectedAt - started) / 1000 - generation) },
      collectedAt,
      [Symbol.dispose]: release,
    }
  } catch (error) {
    release()
    throw error
  }
}

/**
 * Returns the mean KL of a completion in nats, or `null` if the environment does not measure it.
 */
const completionKL = (batch: TensorDict): number | null => {
  const penalty = raggedAt(batch, ['next', 'klPenalty'])
  if (penalty === undefined || raggedLength(penalty) === 0) return null
  const each = raggedRows(penalty).map((row) => row.reduce((sum, kl) => sum + kl, 0))
  return each.reduce((a, b) => a + b, 0) / each.length
}

const groupsOf = (td: TensorDict): number =>
  new Set(itemsAt(td, ['groupId']) ?? itemsAt(td, ['trajectoryId']) ?? []).size

/** Returns the part of a step's record that describes the sampled batch. */
export const describeStep = ({ run }: OpenRun, { batch, rated, sampling, overlap, before }: SampledStep) => {
  const groups = groupsOf(batch)
  const used = groupsOf(rated)
  return {
    ...batchMetrics(batch),
    ...{ sampling, overlap, groupsUsed: used, groupsDropped: groups - used },
    completionKL: completionKL(batch),
    klCoefficient: before.klCoefficient,
    metrics: run.record.metrics?.(batch) ?? {},
  }
}

const memoryNow = (): MemoryRecord => {
  const { graphs, graphBytes } = engineReport()
  return { residentBytes: residentBytes(), graphs, graphBytes }
}

/**
 * Trains on the batch of a step and pushes the new weights.
 *
 * Errors   throws FailureError if the learner (also for a loss that is not finite) or the policy
 *          fails.
 */
export const learnStep = async (
  open: OpenRun,
  sampled: SampledStep,
): Promise<{ readonly record: StepRecord; readonly progress: Progress }> => {
  const { run, source, clock } = open
  const { step, batch, rated, before } = sampled
  const learner = run.learner as unknown as Learner<unknown, UpdateMetrics> // the batch is the learner's, by the types of the run's parts
  const update = orThrow(await learner.update(rated)())
  const trainedAt = clock.now()
  orThrow(await source.trained(step)())
  const described = describeStep(open, sampled)
  const record: StepRecord = {
    type: 'step',
    step,
    ...described,
    correction: update.correction,
    learningRate: update.learningRate,
    update: update.metrics,
    updates: update.steps,
    memory: memoryNow(),
    seconds: {
      ...sampled.seconds,
      training: (trainedAt - sampled.collectedAt) / 1000,
      weightSync: (clock.now() - trainedAt) / 1000,
    },
  }
  const { kl } = run.source
  const klCoefficient =
    kl === null
      ? before.klCoefficient
      : kl.next(before.klCoefficient, described.completionKL ?? 0, batch.batchShape[0] ?? 0)
  return { record, progress: { step, position: sampled.position, klCoefficient } }
}

/** Returns the advantages of rows by trajectory and turn: one number if all tokens share it. */
const advantagesOf = (rated: TensorDict): ReadonlyMap<string, number | readonly number[]> => {
  const advantage = raggedAt(rated, ['advantage'])
  const mask = raggedAt(rated, ['masks', 'assistant'])
  const [ids, turns] = [itemsAt(rated, ['trajectoryId']), itemsAt(rated, ['turn'])]
  if (advantage === undefined || ids === undefined) return new Map()
  return new Map(
    ids.map((id, row) => {
      const each = Array.from(raggedRow(advantage, row))
      const learned = mask === undefined ? each : each.filter((_, t) => raggedRow(mask, row).at(t - each.length) === 1)
      const [first = 0] = learned
      return [`${String(id)} ${String(turns?.[row] ?? 0)}`, learned.every((x) => x === first) ? first : each]
    }),
  )
}

/**
 * Selects rows for inspection: the first two trajectories of each group, at most `count` in all.
 */
export const shownRows = (batch: TensorDict, count: number): readonly number[] => {
  if (find(batch, ['trajectoryId']) === undefined) return []
  const members = new Map<string, number>()
  const shown = trajectoryNumbers(batch).filter(({ groupId, trajectoryId }) => {
    const group = groupId ?? trajectoryId
    const before = members.get(group) ?? 0
    members.set(group, before + 1)
    return before < 2
  })
  return shown.slice(0, count).flatMap(({ rows }) => rows)
}

/** Returns the ids of each row's prompt, without those that the trajectory's row before it has. */
const promptsOf = (batch: TensorDict): ((row: number) => PromptRecord | undefined) => {
  const [prompts, responses] = [raggedAt(batch, ['tokens', 'prompt']), raggedAt(batch, ['tokens', 'response'])]
  const [ids, turns] = [itemsAt(batch, ['trajectoryId']) ?? [], itemsAt(batch, ['turn'])]
  const nameOf = (row: number, turn: number): string => `${String(ids[row])} ${turn}`
  const turnOf = (row: number): number => Number(turns?.[row] ?? 0)
  const rowOf = new Map(ids.map((_, row) => [nameOf(row, turnOf(row)), row]))
  return (row) => {
    if (prompts === undefined || responses === undefined) return undefined
    const before = rowOf.get(nameOf(row, turnOf(row) - 1))
    const known = before === undefined ? [] : [...raggedRow(prompts, before), ...raggedRow(responses, before)]
    const prompt = Array.from(raggedRow(prompts, row))
    const end = prompt.findIndex((id, i) => id !== known[i])
    const shared = end === -1 ? prompt.length : end
    return { shared, ids: prompt.slice(shared) }
  }
}

/**
 * Returns records of the batch's trajectories, for all or some rows. Data set batches have none.
 */
export const trajectoryRecordsOf = (
  { run }: Pick<OpenRun, 'run'>,
  { step, batch, rated }: Pick<SampledStep, 'step' | 'batch' | 'rated'>,
  rows?: readonly number[],
): readonly TrajectoryRecord[] => {
  const ids = itemsAt(batch, ['trajectoryId'])
  if (ids === undefined) return []
  const advantages = advantagesOf(rated)
  const tokens = raggedAt(batch, ['tokens', 'response'])
  const logProbs = raggedAt(batch, ['logProbs', 'response'])
  const next = find(batch, ['next'])
  const reward = isTensorDict(next) ? find(next, ['reward']) : undefined
  const rewards = reward !== undefined && 'dataSync' in reward ? reward.dataSync() : []
  const parts = rewardParts(batch)
  const { decode } = run.record
  const promptOf = promptsOf(batch)
  const at = (path: readonly string[], row: number): unknown => itemsAt(batch, path)?.[row] ?? null
  return (rows ?? ids.map((_, row) => row)).map((row) => {
    const turn = Number(at(['turn'], row) ?? 0)
    const text = textAt(batch, ['text', 'response'], row)
    const prompt = promptOf(row)
    return {
      step,
      ...{ trajectoryId: String(ids[row]), turn },
      groupId: textAt(batch, ['groupId'], row) ?? null,
      query: textAt(batch, ['query'], row) ?? '',
      answer: textAt(batch, ['answer'], row) ?? null,
      tokens:
        tokens !== undefined && decode !== undefined ? Array.from(raggedRow(tokens, row), decode) : text ? [text] : [],
      ...(tokens !== undefined && { ids: Array.from(raggedRow(tokens, row)) }),
      ...(prompt !== undefined && { prompt }),
      logProbs: logProbs === undefined ? null : Array.from(raggedRow(logProbs, row), (x) => Number(x.toFixed(4))),
      reward: Number(rewards[row] ?? 0),
      ...(parts.length > 0 && { parts: Object.fromEntries(parts.map(([name, values]) => [name, values[row]!])) }),
      advantage: advantages.get(`${String(ids[row])} ${turn}`) ?? null,
      stopReason: at(['stopReason'], row) as string | null, // one of the words of StopReason
      policyVersion: at(['policyVersion'], row) as number | null, // by the policy's contract
    }
  })
}
