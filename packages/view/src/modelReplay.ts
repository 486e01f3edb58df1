/** A step of a run, repeated from a checkpoint with settings changed. */
import { orThrow } from '@tandem-rl/base'
import { own, scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import type { AnyRun, CompletionEntries } from 'tandem-rl'
import { resampleStep } from 'tandem-rl/run'
import { assign, find, raggedLength, raggedRow, type TensorDict } from 'tandem-rl/tensordict'
import type { ModelWork } from './modelDesk.js'
import type { ProgressLine, ReplayLine, ReplayRequest } from './modelProtocol.js'
import { openModel } from './openModel.js'

type Numbers = Readonly<Record<string, number>>

const numbersIn = (record: object): Numbers =>
  Object.fromEntries(Object.entries(record).filter((entry): entry is [string, number] => typeof entry[1] === 'number'))

/** Log-probabilities of the sampled tokens under the learner's weights, or none without tokens. */
const logProbsOf = async ({ learner }: AnyRun, batch: TensorDict): Promise<readonly number[]> => {
  if (find(batch, ['tokens', 'response']) === undefined) return []
  const rows = orThrow(await learner.logProbs(batch as unknown as TensorDict<CompletionEntries>)()) // checked above
  return Array.from({ length: raggedLength(rows) }, (_, i) => Array.from(raggedRow(rows, i))).flat()
}

/**
 * Measures how far an update moved the policy on the tokens of the batch, which the weights before
 * it sampled: the mean absolute change of log-probabilities, and the KL divergence by k3, in nats.
 */
const movement = (before: readonly number[], after: readonly number[]): Numbers => {
  const changes = after.map((value, i) => value - before[i]!)
  const mean = (numbers: readonly number[]): number => numbers.reduce((a, b) => a + b, 0) / Math.max(1, numbers.length)
  if (changes.length === 0) return {}
  return {
    logProbChange: mean(changes.map(Math.abs)),
    updateKL: mean(changes.map((change) => Math.exp(change) - 1 - change)),
  }
}

/** Trains on the batch of a step, with the run's own rating and advantages. */
const learned = async (run: AnyRun, batch: TensorDict): Promise<Numbers> => {
  const entries = run.rate === undefined ? {} : orThrow(await run.rate(batch)())
  using rated = own(scope(() => run.advantage(assign(batch, entries))))
  const before = await logProbsOf(run, batch)
  const its = rated.value as TensorDict<never> // the batch is the learner's, by the types of the run's parts
  const { metrics, learningRate, steps } = orThrow(await run.learner.update(its)())
  const after = await logProbsOf(run, batch)
  return { ...numbersIn(metrics), learningRate, optimizerSteps: steps.length, ...movement(before, after) }
}

/** Yields a step as recorded, repeated as it was, and repeated with settings changed. */
export const replayLines = ({ checkpoint, settings }: ReplayRequest) =>
  async function* ({ source, run, open }: ModelWork): AsyncGenerator<ProgressLine | ReplayLine> {
    yield { type: 'progress', message: 'opening the run' }
    const changed = await openModel(source, run.folder, settings)
    try {
      await changed.learnerAt(checkpoint)
      const model = await open()
      await model.learnerAt(checkpoint)
      const both = await resampleStep(model.run(), { reader: model.reader, checkpoint }, async ({ batch }) => {
        model.spoil() // its learner trains now
        return { repeated: await learned(model.run(), batch), changed: await learned(changed.run(), batch) }
      })
      const recorded = (await run.log()).steps.find(({ step }) => step === checkpoint + 1)
      const { update = {}, learningRate, updates = [] } = recorded ?? {}
      yield {
        type: 'record',
        step: checkpoint + 1,
        ...both,
        recorded: numbersIn({ ...update, learningRate, ...(recorded && { optimizerSteps: updates.length }) }),
      }
    } finally {
      await changed.close()
    }
  }
