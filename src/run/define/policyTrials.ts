/** Trials of a policy-gradient run: separate learners on synthetic rows. */
import { child, type Key, keyFromSeed, orThrow, uniforms } from '@tandem-rl/base'
import { liveMachine } from '@tandem-rl/base/host'
import { data, type Ragged, ragged } from '../../data/tensorDict/leaf.js'
import { TensorDict } from '../../data/tensorDict/tensorDict.js'
import { type LocalLearner, localLearner } from '../../learners/localLearner.js'
import { memoryEstimate } from '../../learners/memoryEstimate.js'
import { microBatches } from '../../learners/steps/microBatches.js'
import { stepRows } from '../../learners/steps/tokenRows.js'
import type { Pretrained } from '../../modules/pretrained/pretrained.js'
import type { RolloutEntries } from '../../objectives/lossRows.js'
import type { LearningTrials } from './calibrate.js'
import { policyLearnerParts } from './choices.js'
import { memoryRequest, type PolicyRunSettings, type RunPlan, type RunSizes } from './policyParts.js'

const each = <T>(n: number, f: (i: number) => T): readonly T[] => Array.from({ length: n }, (_, i) => f(i))

/** Lengths and counts of a synthetic batch. */
interface BatchSizes {
  readonly groups: number
  readonly group: number
  readonly prompt: number
  readonly completion: number
  readonly vocabulary: number
}

/** Draws random tokens: one prompt for each group, and completions of the longest length. */
const drawnRows = ({ groups, group, prompt, completion, vocabulary }: BatchSizes, key: Key) => {
  const tokens = (length: number, label: string) =>
    Int32Array.from(uniforms(child(key, label), length), (x) => Math.floor(x * vocabulary))
  const prompts = each(groups, (i) => tokens(prompt, `prompt ${i}`))
  return {
    prompts: each(groups * group, (i) => prompts[Math.floor(i / group)]!),
    completions: each(groups * group, (i) => tokens(completion, `completion ${i}`)),
  }
}

/** The sizes of the batches of a run. */
const sizesOf = ({ tasks, sampling }: PolicyRunSettings, { config }: Pretrained, prompt: number): BatchSizes => ({
  groups: tasks.prompts,
  group: tasks.group,
  prompt: Math.max(1, prompt),
  completion: Math.max(1, Math.min(sampling.maxNewTokens, config.maxPositions - prompt)),
  vocabulary: config.vocabularySize,
})

/** Makes a batch of these rows whose rewards differ within each group. */
const syntheticBatch = (
  sizes: BatchSizes,
  { temperature, logProbs }: { readonly temperature: number; readonly logProbs: Ragged<'float32'> },
): TensorDict<RolloutEntries> => {
  const rows = drawnRows(sizes, child(keyFromSeed(0), 'calibration'))
  const count = rows.prompts.length
  const advantages = each(count, (i) => new Float32Array(sizes.completion).fill(i % 2 === 0 ? 1 : -1))
  return TensorDict(
    {
      tokens: { prompt: ragged('int32', rows.prompts), response: ragged('int32', rows.completions) },
      logProbs: { response: logProbs },
      next: { refLogProbs: { response: logProbs } },
      advantage: ragged('float32', advantages),
      groupId: data(each(count, (i) => String(Math.floor(i / sizes.group)))),
      stopReason: data(each(count, () => 'stop')),
      sampling: data(each(count, () => ({ temperature }))),
    },
    [count],
  )
}

/** Makes the batch of all trials, with the log-probabilities of the first one. */
const sharedBatch = (sizes: BatchSizes, temperature: number) => {
  let made: TensorDict<RolloutEntries> | null = null
  return async ({
    logProbs,
  }: Pick<LocalLearner<RolloutEntries, unknown>, 'logProbs'>): Promise<TensorDict<RolloutEntries>> => {
    if (made !== null) return made
    const zeros = ragged(
      'float32',
      each(sizes.groups * sizes.group, () => new Float32Array(sizes.completion)),
    )
    const unscored = syntheticBatch(sizes, { temperature, logProbs: zeros })
    made = syntheticBatch(sizes, { temperature, logProbs: orThrow(await logProbs(unscored)()) })
    return made
  }
}

/**
 * Returns the trials of a run. Each has a learner with the run's model, loss and optimizer, whose
 * learning rate is 0, so that all rounds do the same work.
 *
 * Effects  none until a trial is opened.
 */
export const policyTrials = (
  { settings, model, loss }: Pick<RunPlan, 'settings' | 'loss'> & { readonly model: Pretrained },
  run: RunSizes,
): LearningTrials => {
  const { compute, learner, tasks, sampling } = settings
  const request = memoryRequest(settings, model, run)
  const { weights, optimizer } = memoryEstimate(request)
  const { memory } = run.context
  const sizes = sizesOf(settings, model, run.prompt)
  const stepSizes = { ...sizes, groups: Math.ceil(tasks.prompts / learner.miniBatches) }
  const batch = sharedBatch(sizes, sampling.temperature)
  return {
    base: { workers: compute.workers, microBatch: request.microBatchTokens },
    mostWorkers: stepSizes.groups,
    fits: ({ workers, microBatch }) => {
      if (memory === 'ignore') return true
      const threads = request.threads + workers - compute.workers
      const { total } = memoryEstimate({ ...request, microBatchTokens: microBatch, threads })
      return total + 2 * (weights + optimizer) <= liveMachine.memoryBytes() // the run's learner, and the other trial's
    },
    pieces: ({ workers, microBatch }) => {
      const { prompts, completions } = drawnRows(stepSizes, keyFromSeed(0))
      const rows = stepRows({ prompts, completions, temperature: 1, lists: {} })
      return microBatches(rows, { tokens: microBatch, multipleOf: workers }).length
    },
    open: ({ workers, microBatch }) => {
      const changed = { ...settings, compute: { ...compute, workers, microBatch } }
      const { optimizer: updates, passes, offPolicy, ...parts } = policyLearnerParts(changed, model, loss)
      const trial = localLearner({
        ...parts,
        optimizer: { ...updates, learningRate: () => 0 },
        passes: { ...passes, epochs: 1 },
        offPolicy: { ...offPolicy, stale: 'keep' },
      })
      return {
        learn: async () => {
          orThrow(await trial.update(await batch(trial))())
        },
        close: trial.close,
      }
    },
  }
}
