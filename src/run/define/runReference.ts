/** The reference model of a run's KL term, and the time that it takes. */
import { liveClock } from '@tandem-rl/base/host'
import type { LogProbModel } from '../../data/policy.js'
import type { AnyLoss } from '../../objectives/loss.js'
import type { AnyRun } from '../parts/run.js'
import type { PolicySettings } from '../parts/settings.js'

/** A model that measures the time of its calls. */
interface TimedModel {
  readonly model: LogProbModel
  /** Seconds of all calls so far. Calls at the same time count once. */
  readonly seconds: () => number
}

/** Measures the time of a model's calls. */
export const timedModel = ({ name, score }: LogProbModel, now: () => number = liveClock.now): TimedModel => {
  let [calls, since, total] = [0, 0, 0]
  return {
    seconds: () => total / 1000,
    model: {
      name,
      score: (...rows) => {
        const scored = score(...rows)
        return async () => {
          if (calls++ === 0) since = now()
          try {
            return await scored()
          } finally {
            if (--calls === 0) total += now() - since
          }
        }
      },
    },
  }
}

/** The reference of a run, and the part of the run that reports its time. */
export interface RunReference {
  readonly model?: LogProbModel
  readonly part: Pick<AnyRun, 'referenceSeconds'>
}

/**
 * Returns the reference of a run. It has no model if a KL divergence of coefficient 0 is not
 * measured.
 *
 * Errors   throws RangeError if the loss reads the reference's log-probabilities then.
 */
export const runReference = (
  { kl }: Pick<PolicySettings, 'kl'>,
  { loss, model }: { readonly loss: Pick<AnyLoss, 'name' | 'reads'>; readonly model: LogProbModel },
): RunReference => {
  if (kl.coefficient !== 0 || kl.atZero === 'measure') {
    const timed = timedModel(model)
    return { model: timed.model, part: { referenceSeconds: timed.seconds } }
  }
  if (loss.reads.some((entry) => entry.includes('refLogProbs')))
    throw new RangeError(`kl.atZero: ${loss.name} reads the log-probabilities of the reference: set it to measure`)
  return { part: {} }
}
