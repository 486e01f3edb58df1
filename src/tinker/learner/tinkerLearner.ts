/** A learner whose model is trained by a Tinker server. */
import { checkOptions, formatKey, type Key, type ModelFailure, parseJsonAs, refuse } from '@tandem-rl/base'
import * as E from 'fp-ts/lib/Either.js'
import { pipe } from 'fp-ts/lib/function.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { z } from 'zod'
import { batchRowsAt, batchUnitsOf, requireEntries, temperatureOf } from '../../data/batchRows.js'
import { fileProblem } from '../../data/folderFiles.js'
import { ragged } from '../../data/tensorDict/leaf.js'
import type { TensorDict } from '../../data/tensorDict/tensorDict.js'
import { jsonOf } from '../../learners/describe.js'
import type { Learner, LearnerFailure, Update } from '../../learners/learner.js'
import {
  checkOffPolicy,
  type OffPolicyOptions,
  offPolicyReads,
  type PreparedRows,
  preparedRows,
} from '../../learners/offPolicy.js'
import { lossFingerprint } from '../../learners/steps/fingerprint.js'
import { updateRows } from '../../learners/steps/miniBatches.js'
import type { Loss, LossMetrics } from '../../objectives/loss.js'
import type { CompletionEntries, LossRows } from '../../objectives/lossRows.js'
import type { AdamWOptions } from '../../objectives/updates/adamW.js'
import type { AnyOptimizer } from '../../objectives/updates/grouped.js'
import type { TinkerFailure } from '../client/calls.js'
import { gradientNorm } from '../client/gradientSums.js'
import type { TinkerTrainer } from '../client/trainer.js'
import { TINKER_LEARNER_OPTIONS, TINKER_LEARNER_PASSES_OPTIONS } from '../optionKinds.js'
import { builtInData, builtInOf } from './builtInRoute.js'
import { exactBackward, forwardLogProbs } from './exactRoute.js'
import { logProbGradient, rowDatum, withPromptPlaces } from './policyGradients.js'

export interface TinkerLearnerOptions<B = never, M extends LossMetrics = LossMetrics> {
  readonly trainer: TinkerTrainer
  /** A name of the model, stored in run folders. */
  readonly baseModel: string
  /** A loss of log-probabilities: one without an entropy bonus and a value head. */
  readonly loss: Loss<B, M, never>
  /** `adamW` with a learning rate: servers have no other. */
  readonly optimizer: AnyOptimizer
  /** Of the order of mini-batches, and of random choices of the loss. */
  readonly key: Key
  /** Default: one optimizer step for each batch. */
  readonly passes?: { readonly epochs?: number; readonly miniBatches?: number }
  /** Infinity for no limit. Default 1. */
  readonly maxGradNorm?: number
  /**
   * `builtIn` uses the server's own loss. Default `exact`: the gradient by log-probabilities is
   * computed here.
   */
  readonly route?: 'exact' | 'builtIn'
  /**
   * Corrections for tokens of older weights, or of a sampler that differs from the trainer.
   * Those that need log-probabilities of the trainer cost one forward pass more.
   */
  readonly offPolicy?: OffPolicyOptions
  /** Seconds for which the server keeps the checkpoint of an update. Default: without end. */
  readonly checkpointSeconds?: number
}

const NAME = 'tinkerLearner'
const STATE_FILE = 'learner.json'

const stateSchema = z.strictObject({
  format: z.literal(1),
  version: z.number().int().nonnegative(),
  /** The server's checkpoint. */
  path: z.string(),
})

const failed = (kind: LearnerFailure['kind'], reason: string, cause?: TinkerFailure): E.Either<LearnerFailure, never> =>
  E.left({ _tag: 'LearnerFailure', learner: NAME, kind, reason, ...(cause && { cause }) })

const fromServer = (failure: TinkerFailure): LearnerFailure => ({
  _tag: 'LearnerFailure',
  learner: NAME,
  kind: 'server',
  reason: failure.reason,
  cause: failure,
})

const isWholeTime = (seconds: number | undefined): boolean =>
  seconds === undefined || (Number.isSafeInteger(seconds) && seconds > 0)

/** Errors: throws RangeError for settings that a server cannot have, all of them. */
const check = (options: TinkerLearnerOptions): void => {
  checkOptions(NAME, options, TINKER_LEARNER_OPTIONS)
  const { trainer, optimizer, loss, maxGradNorm = 1, route = 'exact', passes = {} } = options
  checkOptions(`${NAME}, passes`, passes, TINKER_LEARNER_PASSES_OPTIONS)
  refuse(NAME, [
    optimizer.name !== 'adamW' && `a Tinker server has the optimizer adamW, got ${optimizer.name}`,
    optimizer.learningRate === undefined && 'the optimizer has no learning rate: adamW({ learningRate: 1e-4 })',
    trainer.server.clipping === 'ignored' &&
      Number.isFinite(maxGradNorm) &&
      `${trainer.server.name} does not clip gradients: maxGradNorm must be Infinity, off in settings, got ${maxGradNorm}`,
    !isWholeTime(options.checkpointSeconds) &&
      `checkpointSeconds must be a whole number above 0, got ${options.checkpointSeconds}`,
    loss.needs.head === 'value' && `the loss ${loss.name} trains a value head, which servers do not have`,
    loss.needs.entropy === 'differentiable' && 'an entropy bonus needs the logits, which servers do not return',
    route === 'builtIn' &&
      builtInOf(loss) === undefined &&
      `servers do not have ${loss.name} as it is set: use the route exact`,
  ])
  checkOffPolicy(NAME, options.offPolicy ?? {}, loss)
}

/** The settings of the server's Adam, with our defaults where ours are absent. */
const adamOf = ({ optimizer, maxGradNorm = 1 }: TinkerLearnerOptions, learningRate: number) => {
  const { beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, weightDecay = 0 } = (optimizer.options ?? {}) as AdamWOptions // its name is adamW
  const grad_clip_norm = Number.isFinite(maxGradNorm) ? maxGradNorm : 0
  return { learning_rate: learningRate, beta1, beta2, eps: epsilon, weight_decay: weightDecay, grad_clip_norm }
}

interface Gradient {
  readonly gradients: readonly ArrayLike<number>[]
  readonly metrics: (gradNorm: number) => LossMetrics
}

/** The log-probabilities of completions among those of whole sequences. */
const ofCompletions = (rows: Pick<LossRows, 'completions'>, logProbs: readonly Float32Array[]) =>
  logProbs.map((row, i) => row.subarray(row.length - rows.completions[i]!.length))

/** The gradient of a mini-batch by all log-probabilities of its sequences. */
const gradientOf = (
  loss: TinkerLearnerOptions['loss'],
  rows: LossRows,
  logProbs: readonly Float32Array[],
): E.Either<LearnerFailure, Gradient> => {
  const computed = logProbGradient(loss, rows, ofCompletions(rows, logProbs))
  if (!Number.isFinite(computed.loss)) return failed('non-finite', `the loss is ${computed.loss}: look at the batch`)
  const gradients = computed.gradients.map((row, i) => withPromptPlaces(rows.prompts[i]!, row))
  return E.right({ gradients, metrics: computed.metrics })
}

/** Rows with the corrections of the options. Scores them on the server if an option needs it. */
const prepared = async (
  { trainer, loss, offPolicy: options = {} }: TinkerLearnerOptions,
  batch: TensorDict,
  version: number,
): Promise<E.Either<TinkerFailure, PreparedRows>> => {
  const rows = loss.rows(batch as TensorDict<never>) // entries are found by name
  const isScored = options.oldLogProbs === 'rescored' || options.stale === 'correct'
  if (!isScored) return E.right(preparedRows(batch, rows, { options, version, score: () => [] })) // never called
  const data = rows.prompts.map((prompt, i) => rowDatum(prompt, rows.completions[i]!))
  const scores = await forwardLogProbs(trainer, data)()
  if (E.isLeft(scores)) return scores
  const score = () => ofCompletions(rows, scores.right)
  return E.right(preparedRows(batch, rows, { options, version, score }))
}

/** Gradients that the server adds up, and the metrics of their loss. */
interface Sent {
  readonly metrics: Gradient['metrics']
  readonly result: TE.TaskEither<TinkerFailure, unknown>
}

/** Sends the gradients of a mini-batch. */
const backward = async (
  { trainer, loss, route = 'exact' }: TinkerLearnerOptions,
  rows: LossRows,
): Promise<E.Either<LearnerFailure, Sent>> => {
  const data = rows.prompts.map((prompt, i) => rowDatum(prompt, rows.completions[i]!))
  if (route === 'exact') {
    const sent = await exactBackward(trainer, data, (logProbs) => gradientOf(loss, rows, logProbs))()
    if (E.isLeft(sent)) return E.left(sent.left._tag === 'TinkerFailure' ? fromServer(sent.left) : sent.left)
    return E.right({ metrics: sent.right.computed.metrics, result: sent.right.pending.result })
  }
  const pending = await trainer.forwardBackward({
    data: builtInData(rows, data, trainer.gradients),
    ...builtInOf(loss)!,
  })() // checked by `check`
  if (E.isLeft(pending)) return E.left(fromServer(pending.left))
  const output = await pending.right.result()
  if (E.isLeft(output)) return E.left(fromServer(output.left))
  const logProbs = output.right.outputs.map(({ logprobs }) => Float32Array.from(logprobs!.data))
  return pipe(
    gradientOf(loss, rows, logProbs),
    E.map(({ metrics }) => ({ metrics, result: TE.right(undefined) })),
  )
}

/**
 * Trains a model on a Tinker server with any loss of log-probabilities. Server and local learner
 * compute the same updates up to rounding, if the server has no differences of its own.
 *
 * After each update the server saves a checkpoint. `files` contains its path, and `restore` loads
 * it. `weights` is empty, because weights stay on the server: sample with `tinkerPolicy`.
 *
 * Errors   throws RangeError for settings that make no sense. Updates fail with the kind `server`
 *          and the `TinkerFailure` as cause.
 */
export const tinkerLearner = <B, M extends LossMetrics>(options: TinkerLearnerOptions<B, M>): Learner<B, M> =>
  makeLearner(options as unknown as TinkerLearnerOptions) as unknown as Learner<B, M> // the loss receives its own batches

const makeLearner = (options: TinkerLearnerOptions): Learner<unknown, LossMetrics> => {
  check(options)
  const { trainer, baseModel, loss, optimizer, key, passes = {}, maxGradNorm = 1, route = 'exact' } = options
  const { offPolicy = {}, checkpointSeconds: ttlSeconds } = options
  const keeping = ttlSeconds === undefined ? {} : { ttlSeconds }
  const reads = [...loss.reads, ...offPolicyReads(offPolicy)]
  const { epochs = 1, miniBatches: count = 1 } = passes
  let version = 0
  let saved: { readonly version: number; readonly path: string } | null = null

  const save = async (): Promise<E.Either<LearnerFailure, void>> => {
    const pending = await trainer.saveState(`update-${String(version).padStart(6, '0')}`, keeping)()
    if (E.isLeft(pending)) return E.left(fromServer(pending.left))
    const path = await pending.right.result()
    if (E.isLeft(path)) return E.left(fromServer(path.left))
    saved = { version, path: path.right }
    return E.right(undefined)
  }

  const learn = async (batch: TensorDict): Promise<E.Either<LearnerFailure, Update<LossMetrics>>> => {
    if (temperatureOf(batch) !== 1)
      return failed('state', `the batch was sampled at temperature ${temperatureOf(batch)}; Tinker servers train at 1`)
    const made = await prepared(options, batch, version)
    if (E.isLeft(made)) return E.left(fromServer(made.left))
    const { rows, correction } = made.right
    const learningRate = optimizer.learningRate!(version) // checked by `check`
    const steps: LossMetrics[] = []
    const passed = { epochs, miniBatches: count, key, version: version + 1 }
    for (const { rows: each } of updateRows(loss, { rows, units: batchUnitsOf(batch) }, passed)) {
      const sent = await backward(options, each)
      if (E.isLeft(sent)) return sent
      const pending = await trainer.optimStep(adamOf(options, learningRate))()
      if (E.isLeft(pending)) return E.left(fromServer(pending.left))
      const [added, stepped] = [await sent.right.result(), await pending.right.result()]
      if (E.isLeft(added)) return E.left(fromServer(added.left))
      if (E.isLeft(stepped)) return E.left(fromServer(stepped.left))
      steps.push(sent.right.metrics(gradientNorm(stepped.right) ?? 0))
    }
    version++
    const done = await save()
    if (E.isLeft(done)) return done
    return E.right({ version, learningRate, metrics: loss.measures.combine(steps), steps, correction })
  }

  return {
    name: NAME,
    description: jsonOf({
      learner: NAME,
      model: baseModel,
      route,
      maxGradNorm,
      passes: { epochs, miniBatches: count },
      key: formatKey(key),
      ...(Object.keys(offPolicy).length > 0 && { offPolicy }),
      loss: { name: loss.name, options: loss.options, fingerprint: lossFingerprint(loss) },
      optimizer: { name: optimizer.name, options: optimizer.options ?? null },
    }),
    reads,
    update: (batch) => () => {
      requireEntries(NAME, batch as TensorDict, reads)
      return learn(batch as TensorDict)
    },
    logProbs: (batch: TensorDict<CompletionEntries>) => async () => {
      requireEntries(NAME, batch, ['tokens.prompt', 'tokens.response'])
      const completions = batchRowsAt(batch, 'tokens.response')
      const data = batchRowsAt(batch, 'tokens.prompt').map((prompt, i) => rowDatum(prompt, completions[i]!))
      if (temperatureOf(batch) !== 1)
        return failed('state', 'Tinker servers compute log-probabilities at temperature 1')
      const logProbs = await forwardLogProbs(trainer, data)()
      if (E.isLeft(logProbs)) return E.left(fromServer(logProbs.left))
      return E.right(ragged('float32', ofCompletions({ completions }, logProbs.right)))
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
            E.mapLeft((reason) => fileProblem(folder, STATE_FILE, reason)),
          ),
        ),
        TE.chainW(
          (state): TE.TaskEither<ModelFailure | LearnerFailure, void> =>
            async () => {
              if (state.path !== '') {
                const pending = await trainer.loadState(state.path, { optimizer: 'restored' })()
                if (E.isLeft(pending)) return E.left(fromServer(pending.left))
                const loaded = await pending.right.result()
                if (E.isLeft(loaded)) return E.left(fromServer(loaded.left))
              } else if (state.version > 0)
                return E.left(fileProblem(folder, STATE_FILE, 'the checkpoint has no path of a server'))
              version = state.version
              saved = state.path === '' ? null : state
              return E.right(undefined)
            },
        ),
      ),
    close: async () => void (await trainer.unload()()), // a server that has ended has nothing to free
  }
}
