/** Evaluators for runs that train on data sets: the loss on held-out rows. */
import { checkOptions, orThrow } from '@tandem-rl/base'
import { own, scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import { assign } from '../../data/tensorDict/merge.js'
import type { TensorDict } from '../../data/tensorDict/tensorDict.js'
import type { LocalLearner } from '../../learners/localLearner.js'
import { type EvaluationResult, type Evaluator, HELD_OUT } from '../metrics/evaluation.js'
import { LOSS_EVALUATOR_OPTIONS } from '../optionKinds.js'
import type { RatedEntries, Rater } from './rater.js'
import type { RowBatches } from './rowBatches.js'

export interface LossEvaluatorOptions<B> {
  /** Default `held out`. */
  readonly name?: string
  readonly data: RowBatches<B>
  readonly learner: Pick<LocalLearner<never, unknown>, 'measure'>
  /** Adds further entries that the loss reads, such as a reference's log-probabilities. */
  readonly rate?: Rater<B, RatedEntries>
  /**
   * The score that selects the best checkpoint. Default `accuracy`: per token for supervised
   * losses, per pair for preference losses.
   */
  readonly score?: 'accuracy' | 'loss'
  /** As in `evaluator`. Default `refuse`. */
  readonly sharedTasks?: 'refuse' | 'allow'
}

/** Averages the metrics of batches, weighted by tokens if the loss counts them, else by rows. */
const meansOf = (results: readonly EvaluationResult[]): Readonly<Record<string, number>> => {
  const total = results.reduce((sum, { tokens }) => sum + tokens, 0)
  const names = Object.keys(results[0]?.parts ?? {})
  return Object.fromEntries(
    names.map((name) => [name, results.reduce((sum, { parts, tokens }) => sum + parts[name]! * tokens, 0) / total]),
  )
}

/**
 * Makes an evaluator that measures the learner's loss on rows, without sampling. It reports `loss`
 * and the other metrics of the loss, such as `nll` of supervised losses, and `accuracy` of
 * supervised and preference losses.
 *
 * Errors   throws RangeError for endless rows. `run` throws FailureError if rows cannot be made
 *          into a batch, and RangeError if the loss does not accept a batch.
 */
export const lossEvaluator = <B>(options: LossEvaluatorOptions<B>): Evaluator => {
  checkOptions('lossEvaluator', options, LOSS_EVALUATOR_OPTIONS)
  const { name = HELD_OUT, data, learner, rate, score = 'accuracy', sharedTasks } = options
  const { rows } = data
  if (rows === 'endless') throw new RangeError(`lossEvaluator: ${data.name} is endless; give rows of a finite data set`)
  return {
    name,
    score,
    tasks: rows,
    measure: score === 'loss' ? 'loss' : 'success',
    ...(data.inputs && { inputs: data.inputs }),
    source: data.tasks,
    ...(sharedTasks && { sharedTasks }),
    run: async function* () {
      let done = 0
      for (const owned of data.once()) {
        using batch = owned
        const added = rate === undefined ? {} : orThrow(await rate.rate(batch.value)())
        using rated = own(scope(() => assign(batch.value as TensorDict, added))) // read by names from here on
        const { tokens, ...measured } = learner.measure(rated.value as TensorDict<never>)
        const [count = 0] = rated.value.batchShape
        done += count
        const result = {
          taskId: String(done),
          query: '',
          completion: '',
          score: measured[score] ?? Number.NaN,
          turns: 0,
        }
        yield { results: [{ ...result, parts: measured, tokens: tokens ?? count }], done, tasks: rows }
      }
    },
    scoresOf: meansOf,
  }
}
