/** A learner whose model is trained elsewhere, by gradients of log-probabilities. */
import {
  checkOptions,
  type Failure,
  formatKey,
  type Key,
  type ModelFailure,
  parseJsonAs,
  refuse,
} from '@tandem-rl/base'
import * as E from 'fp-ts/lib/Either.js'
import { pipe } from 'fp-ts/lib/function.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { z } from 'zod'
import { batchRowsAt, batchUnitsOf, requireEntries, temperatureOf } from '../data/batchRows.js'
import { fileProblem } from '../data/folderFiles.js'
import { ragged } from '../data/tensorDict/leaf.js'
import type { TensorDict } from '../data/tensorDict/tensorDict.js'
import type { Loss, LossMetrics } from '../objectives/loss.js'
import type { CompletionEntries, LossRows } from '../objectives/lossRows.js'
import type { AnyOptimizer } from '../objectives/updates/grouped.js'
import { jsonOf } from './describe.js'
import type { Learner, LearnerFailure, Update } from './learner.js'
import type { PassOptions } from './localLearner.js'
import { checkOffPolicy, type OffPolicyOptions, offPolicyReads, type PreparedRows, preparedRows } from './offPolicy.js'
import { REMOTE_LEARNER_OPTIONS, REMOTE_LEARNER_PASSES_OPTIONS } from './optionKinds.js'
import { lossFingerprint } from './steps/fingerprint.js'
import { type LossGradient, logProbGradient } from './steps/logProbGradient.js'
import { updateRows } from './steps/miniBatches.js'

/** Prompts and completions, one row each. */
type Rows = Pick<LossRows, 'prompts' | 'completions'>

type Numbers = readonly ArrayLike<number>[]

/** The derivative of a loss by the log-probability of each token of the completions. */
export interface LogProbGradient {
  readonly gradients: Numbers
}

/** An optimizer step. */
interface RemoteStep<out G extends LogProbGradient> {
  readonly learningRate: number
  /** Errors: `Left` for a loss that is not finite, which is the result of the step. */
  readonly gradient: (logProbs: Numbers) => E.Either<LearnerFailure, G>
}

/** A model that is trained elsewhere, at temperature 1. Calls are made one after another. */
export interface RemoteTrainer {
  /** Computes the log-probabilities of the completions' tokens, in nats. */
  readonly logProbs: (rows: Rows) => TE.TaskEither<Failure, Numbers>
  /**
   * Takes one optimizer step along the gradient at the log-probabilities of the rows. Returns that
   * gradient, and the norm of the weights' gradient.
   */
  readonly step: <G extends LogProbGradient>(
    rows: LossRows,
    step: RemoteStep<G>,
  ) => TE.TaskEither<Failure | LearnerFailure, { readonly computed: G; readonly gradNorm: number }>
  /** Saves the weights and the optimizer after an update. Returns the name to load them by. */
  readonly save: (version: number) => TE.TaskEither<Failure, string>
  readonly load: (saved: string) => TE.TaskEither<Failure, unknown>
  readonly close: () => Promise<void>
}

export interface RemoteLearnerOptions<B = never, M extends LossMetrics = LossMetrics> {
  readonly name: string
  readonly trainer: RemoteTrainer
  /** Settings of the trainer, stored in run folders and compared when a run resumes. */
  readonly settings: Readonly<Record<string, unknown>>
  /** A loss of log-probabilities: one without an entropy bonus and a value head. */
  readonly loss: Loss<B, M, never>
  /** Its learning rate is that of the steps. The trainer follows its other settings. */
  readonly optimizer: AnyOptimizer
  /** Of the order of mini-batches, and of random choices of the loss. */
  readonly key: Key
  /** Default: one optimizer step for each batch. */
  readonly passes?: Omit<PassOptions, 'maxGradNorm'>
  /**
   * Corrections for tokens of older weights, or of a sampler that differs from the trainer.
   * Those that need log-probabilities of the trainer cost one forward pass more.
   */
  readonly offPolicy?: OffPolicyOptions
}

const STATE_FILE = 'learner.json'

const stateSchema = z.strictObject({
  format: z.literal(1),
  version: z.number().int().nonnegative(),
  /** The trainer's checkpoint. */
  path: z.string(),
})

const check = ({ name, passes = {}, optimizer, loss, offPolicy = {} }: RemoteLearnerOptions): void => {
  checkOptions(`${name}, passes`, passes, REMOTE_LEARNER_PASSES_OPTIONS)
  refuse(name, [
    optimizer.learningRate === undefined && 'the optimizer has no learning rate: adamW({ learningRate: 1e-4 })',
    loss.needs.head === 'value' && `the loss ${loss.name} trains a value head, which servers do not have`,
    loss.needs.entropy === 'differentiable' && 'an entropy bonus needs the logits, which servers do not return',
  ])
  checkOffPolicy(name, offPolicy, loss)
}

const isOwn = (failure: Failure): failure is LearnerFailure => failure._tag === 'LearnerFailure'

/** Corrects the rows of a batch. Scores them on the trainer if an option needs it. */
const prepared = async (
  { trainer, loss, offPolicy: options = {} }: RemoteLearnerOptions,
  batch: TensorDict,
  version: number,
): Promise<E.Either<Failure, PreparedRows>> => {
  const rows = loss.rows(batch as TensorDict<never>) // entries are found by name
  const isScored = options.oldLogProbs === 'rescored' || options.stale === 'correct'
  if (!isScored) return E.right(preparedRows(batch, rows, { options, version, score: () => [] })) // never called
  const scores = await trainer.logProbs(rows)()
  return pipe(
    scores,
    E.map((own) => preparedRows(batch, rows, { options, version, score: () => own })),
  )
}

/**
 * Makes a learner for a model that is trained elsewhere, by any loss of log-probabilities: the
 * gradient by log-probabilities is computed here, that of the weights by the trainer.
 *
 * After each update the trainer saves a checkpoint. `files` contains its name, and `restore` loads
 * it. `weights` is empty, because the weights stay with the trainer.
 *
 * Equation $\nabla_\theta L = \sum_t \frac{\partial L}{\partial \log p_t} \nabla_\theta \log p_t$
 * Errors   throws RangeError for settings that make no sense. Updates fail with the kind `server`
 *          and the trainer's failure as cause.
 */
export const remoteLearner = <B, M extends LossMetrics>(options: RemoteLearnerOptions<B, M>): Learner<B, M> =>
  makeLearner(options as unknown as RemoteLearnerOptions) as unknown as Learner<B, M> // the loss receives its own batches

const makeLearner = (options: RemoteLearnerOptions): Learner<unknown, LossMetrics> => {
  checkOptions('remoteLearner', options, REMOTE_LEARNER_OPTIONS)
  check(options)
  const { name, trainer, settings, loss, optimizer, key, passes = {}, offPolicy = {} } = options
  const reads = [...loss.reads, ...offPolicyReads(offPolicy)]
  const { epochs = 1, miniBatches = 1 } = passes
  let version = 0
  let saved: { readonly version: number; readonly path: string } | null = null

  const failed = (kind: LearnerFailure['kind'], reason: string, cause?: Failure): LearnerFailure => ({
    _tag: 'LearnerFailure',
    learner: name,
    kind,
    reason,
    ...(cause && { cause }),
  })
  const fromTrainer = (failure: Failure): LearnerFailure => failed('server', failure.reason, failure)

  const gradientOf =
    (rows: LossRows) =>
    (logProbs: Numbers): E.Either<LearnerFailure, LossGradient<LossMetrics>> =>
      pipe(
        E.right(logProbGradient(loss, rows, logProbs)),
        E.filterOrElse(
          (computed) => Number.isFinite(computed.loss),
          (computed) => failed('non-finite', `the loss is ${computed.loss}: look at the batch`),
        ),
      )

  const learn = async (batch: TensorDict): Promise<E.Either<LearnerFailure, Update<LossMetrics>>> => {
    const temperature = temperatureOf(batch)
    if (temperature !== 1)
      return E.left(failed('state', `the batch was sampled at temperature ${temperature}; servers train at 1`))
    const made = await prepared(options, batch, version)
    if (E.isLeft(made)) return E.left(fromTrainer(made.left))
    const { rows, correction } = made.right
    const learningRate = optimizer.learningRate!(version) // checked by `check`
    const steps: LossMetrics[] = []
    const passed = { epochs, miniBatches, key, version: version + 1 }
    for (const { rows: each } of updateRows(loss, { rows, units: batchUnitsOf(batch) }, passed)) {
      const step = await trainer.step(each, { learningRate, gradient: gradientOf(each) })()
      if (E.isLeft(step)) return E.left(isOwn(step.left) ? step.left : fromTrainer(step.left))
      steps.push(step.right.computed.metrics(step.right.gradNorm))
    }
    version++
    const path = await trainer.save(version)()
    if (E.isLeft(path)) return E.left(fromTrainer(path.left))
    saved = { version, path: path.right }
    return E.right({ version, learningRate, metrics: loss.measures.combine(steps), steps, correction })
  }

  return {
    name,
    description: jsonOf({
      learner: name,
      ...settings,
      passes: { epochs, miniBatches },
      key: formatKey(key),
      ...(Object.keys(offPolicy).length > 0 && { offPolicy }),
      loss: { name: loss.name, options: loss.options, fingerprint: lossFingerprint(loss) },
      optimizer: { name: optimizer.name, options: optimizer.options ?? null },
    }),
    reads,
    update: (batch) => () => {
      requireEntries(name, batch as TensorDict, reads)
      return learn(batch as TensorDict)
    },
    logProbs: (batch: TensorDict<CompletionEntries>) => async () => {
      requireEntries(name, batch, ['tokens.prompt', 'tokens.response'])
      if (temperatureOf(batch) !== 1)
        return E.left(failed('state', 'servers compute log-probabilities at temperature 1'))
      const [prompts, completions] = [batchRowsAt(batch, 'tokens.prompt'), batchRowsAt(batch, 'tokens.response')]
      return pipe(
        await trainer.logProbs({ prompts, completions })(),
        E.bimap(fromTrainer, (rows) => ragged('float32', rows)),
      )
    },
    weights: () => ({}),
    version: () => version,
    files: () => {
      const state = { format: 1, version, path: saved?.version === version ? saved.path : '' }
      return { [STATE_FILE]: `${JSON.stringify(state, undefined, 2)}\n` }
    },
    restore: (folder, files) =>
      pipe(
        files.readText(`${folder}/${STATE_FILE}`),
        TE.chainEitherKW((text) =>
          pipe(
            parseJsonAs(stateSchema, text),
            E.filterOrElse(
              ({ path, version: done }) => path !== '' || done === 0,
              () => 'the checkpoint has no path of a server',
            ),
            E.mapLeft((reason) => fileProblem(folder, STATE_FILE, reason)),
          ),
        ),
        TE.chainFirstW(
          ({ path }): TE.TaskEither<ModelFailure | LearnerFailure, unknown> =>
            path === '' ? TE.right(undefined) : TE.mapLeft(fromTrainer)(trainer.load(path)),
        ),
        TE.map((state) => {
          version = state.version
          saved = state.path === '' ? null : state
        }),
      ),
    close: trainer.close,
  }
}
