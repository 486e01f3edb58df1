/** The sampling of a run that goes on while it learns: a generation engine on a thread of its own, and groups from it. */
import * as E from 'fp-ts/lib/Either.js'
import { z } from 'zod'
import type { SampledBatch, SamplingCounts } from '../collectors/dynamicSampling.js'
import { inFlightUpdater } from '../collectors/overlap/inFlightUpdater.js'
import { rolloutGroups } from '../collectors/overlap/rolloutGroups.js'
import { type SamplerAhead, sampleAhead, type TakenStep } from '../collectors/overlap/samplerAhead.js'
import { tokenLags } from '../collectors/overlap/staleRows.js'
import type { CollectorPosition } from '../collectors/rollouts/lockstep.js'
import type { CompleteGroup, RolloutPosition } from '../collectors/rollouts/rolloutBatch.js'
import { type CollectedBatch, trajectoryReturns } from '../collectors/rollouts/turnRows.js'
import { decoderForms } from '../collectors/updaters/decoderForms.js'
import { cell } from '../core/cell.js'
import { type Failure, orThrow } from '../core/failure.js'
import { data, type Ragged, rowLengths } from '../data/tensorDict/leaf.js'
import { assign } from '../data/tensorDict/merge.js'
import { get, type TensorDict } from '../data/tensorDict/tensorDict.js'
import type { NamedTensors } from '../data/weights.js'
import { own } from '../engine/scope.js'
import type { BackendName } from '../engine/select.js'
import { enginePolicy } from '../modules/generation/enginePolicy.js'
import { folderEngineModule } from '../modules/generation/folderEngine.js'
import { LLMOnDevice } from '../modules/generation/onDevice.js'
import { localClient } from '../modules/remote/localClient.js'
import type { DecoderConfig } from '../modules/transformer/config.js'
import { samplingRoundsOf } from './choices.js'
import { outcomes, type Pipeline, runKeys, type TrainingState } from './pipeline.js'
import type { OverlapRecord } from './records.js'
import type { RunSettings } from './settings.js'

/** The engine that samples beside a run. */
export interface SamplerEngine {
  /** Default: the best that loads there. */
  readonly backend?: BackendName
  /** Threads inside one of its operations. Default 1. */
  readonly threads?: number
}

/** A batch that was sampled while the run was learning. */
export interface OverlappedBatch extends SampledBatch<TrainingState> {
  readonly overlap: OverlapRecord
}

/** Sampling beside a run. */
export interface RunSampler {
  /** The groups of the next step. `klCoefficient` weighs the divergence of what is drawn from now on. */
  readonly collect: (klCoefficient: number) => Promise<E.Either<Failure, OverlappedBatch>>
  /** The batch was learned from: the engine gets the run's weights. */
  readonly trained: () => void
  /** Ends sampling, and the thread. */
  readonly close: () => Promise<void>
}

export interface RunSamplerOptions {
  readonly settings: RunSettings
  readonly config: DecoderConfig
  readonly groupEnv: Pipeline['groupEnv']
  /** What was trained last, with what the policy needs besides. */
  readonly weights: () => NamedTensors
  /** Steps done, and where collecting stands. */
  readonly start: { readonly step: number; readonly position: CollectorPosition }
  readonly engine?: SamplerEngine
}

/** Where the position of a sampler stands in that of a collector. */
const PLACE = 'rollouts'

const positionSchema = z.strictObject({
  next: z.number().int().nonnegative(),
  open: z.array(z.number().int().nonnegative()),
})

/** Errors: throws FailureError for a position that another kind of run left. */
const positionOf = ({ remembered }: CollectorPosition): RolloutPosition => {
  const stored = remembered[PLACE]
  if (stored === undefined) return { next: 0, open: [] }
  const parsed = positionSchema.safeParse(stored)
  const reason = `the position of the checkpoint is none: ${parsed.error && z.prettifyError(parsed.error)}`
  return orThrow(parsed.success ? E.right(parsed.data) : E.left({ _tag: 'PositionFailure', reason }))
}

/** What was sampled of a group. */
interface Tally {
  readonly reward: number
  readonly trajectories: number
  readonly tokens: number
  readonly signal: 'yes' | 'no'
}

const sum = (numbers: readonly number[]): number => numbers.reduce((a, b) => a + b, 0)

const tallyOf = ({ members }: CompleteGroup<TrainingState>): Tally => {
  const batches = members.map(({ rows }) => rows.value)
  const scores = batches.map((batch) => sum(outcomes(batch)))
  const responses = (batch: CollectedBatch<TrainingState>): Ragged =>
    get(
      batch as TensorDict as TensorDict<{ readonly tokens: TensorDict<{ readonly response: Ragged }> }>,
      'tokens',
      'response',
    ) // every batch has it
  return {
    reward: sum(batches.flatMap((batch) => trajectoryReturns(batch).map((trajectory) => trajectory.return))),
    trajectories: members.length,
    tokens: sum(batches.flatMap((batch) => rowLengths(responses(batch)))),
    signal: scores.every((score) => score === scores[0]) ? 'no' : 'yes',
  }
}

const countsOf = (tallies: readonly Tally[]): SamplingCounts => ({
  ...{ rounds: 1, groups: tallies.length, unused: 0 },
  withoutSignal: tallies.filter(({ signal }) => signal === 'no').length,
  reward: sum(tallies.map(({ reward }) => reward)) / Math.max(1, sum(tallies.map(({ trajectories }) => trajectories))),
  tokens: sum(tallies.map(({ tokens }) => tokens)),
})

const recordOf = (
  batch: CollectedBatch<TrainingState>,
  { version, dropped, seconds }: TakenStep<unknown>,
): OverlapRecord => {
  const lags = tokenLags(
    batch,
    Array.from({ length: batch.batchShape[0]! }, (_, row) => row),
    version,
  ).flat()
  return {
    meanLag: sum(lags) / Math.max(1, lags.length),
    maxLag: lags.reduce((a, b) => Math.max(a, b), 0),
    ...dropped,
    samplingSeconds: seconds.sampling,
    bothSeconds: seconds.both,
  }
}

/** The engine of the run's model on its thread, with the run's weights, and how it is given others. */
const openEngine = async ({ settings, config, weights, start, engine = {} }: RunSamplerOptions) => {
  const { model: folder, prompts, group, maxNewTokens, temperature } = settings
  const limits = { maxConcurrent: prompts * group }
  const options = { folder, text: 'absent', threads: 1, ...engine, limits } as const
  const made = orThrow(await LLMOnDevice(folderEngineModule(options), { weights: 'move' })())
  const client = localClient(made, 'the sampling thread')
  const forms = decoderForms({ config })
  const updater = inFlightUpdater({ engine: made, weights: forms })
  const close = async (): Promise<void> => {
    forms.release()
    await client.close()
  }
  if (start.step > 0) {
    const pushed = await updater.push(weights(), start.step)()
    if (E.isLeft(pushed)) await close()
    orThrow(pushed)
  }
  const policy = enginePolicy({
    engine: client,
    sampling: { temperature, maxTokens: maxNewTokens },
    mixedVersions: 'each',
  })
  return { policy, updater, close }
}

/**
 * Begins to sample for a run: a task is a problem with its group. Completions that run when new weights come go on with them, each token stamped with
 * its version.
 *
 * Errors   throws FailureError where the thread does not start. `collect` gives `Left` when a group fails, or the engine does not take weights.
 * Effects  a thread, until `close`.
 */
export const openRunSampler = async (options: RunSamplerOptions): Promise<RunSampler> => {
  const { settings, groupEnv, weights, start } = options
  const { prompts: groups, maxLag, stale } = settings
  const position = positionOf(start.position)
  const { policy, updater, close } = await openEngine(options)
  const coefficient = cell(settings.klCoefficient)
  /** Of groups that are complete. */
  const tallies = new Map<number, Tally>()
  /** Of those that nobody learned from, since the step before. */
  let left: readonly Tally[] = []
  const source = rolloutGroups<TrainingState>({
    env: (task) => groupEnv(task, coefficient.get()),
    policy,
    key: runKeys(settings.seed).rollouts,
    signal: (group) => {
      const tally = tallyOf(group)
      tallies.set(group.task, tally)
      return tally.signal
    },
  })
  const discard: typeof source.discard = (group) => {
    left = [...left, tallies.get(group.task)!]
    tallies.delete(group.task)
    source.discard(group)
  }
  const rules = { groups, maxLag, stale, lastVersion: settings.steps, maxFailureShare: 0 }
  const refills = (samplingRoundsOf(settings) - 1) * groups
  let ahead: SamplerAhead<CompleteGroup<TrainingState>> | undefined
  const begun = (): SamplerAhead<CompleteGroup<TrainingState>> => {
    ahead ??= sampleAhead(
      { play: source.play, discard },
      { ...rules, refills },
      { version: start.step, position, push: (version) => updater.push(weights(), version) },
    )
    return ahead
  }

  const batchOf = (taken: TakenStep<CompleteGroup<TrainingState>>): OverlappedBatch => {
    const { batch: joined, tasks } = source.join(taken.groups.map(({ group }) => group))
    const [rows = 1] = joined.value.batchShape
    const waited = { generationMs: data(Array<number>(rows).fill((taken.seconds.waiting * 1000) / rows)) }
    const sampling = countsOf([...tasks.map((task) => tallies.get(task)!), ...left])
    for (const task of tasks) tallies.delete(task)
    left = []
    const batch = own(assign(joined.value, waited) as unknown as CollectedBatch<TrainingState>) // the same entries
    joined.release()
    return {
      batch,
      position: { batch: taken.version + 1, remembered: { [PLACE]: taken.position } },
      sampling,
      overlap: recordOf(batch.value, taken),
    }
  }

  return {
    collect: async (klCoefficient) => {
      coefficient.set(klCoefficient)
      const taken = await begun().take()
      if (E.isLeft(taken)) return taken
      if (taken.right._tag === 'Step') return E.right(batchOf(taken.right))
      return E.left({ _tag: 'OverlapStopped', reason: 'there are no more problems' })
    },
    trained: () => begun().trained(),
    close: async () => {
      await ahead?.close()
      await close()
    },
  }
}
