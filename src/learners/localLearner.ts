/** A learner in this process, on one thread or on several. */
import {
  checkOptions,
  child,
  formatKey,
  type Key,
  orThrow,
  refuse,
  type ThreadFailure,
  type Threads,
} from '@tandem-rl/base'
import { type Owned, own, scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as tf from '@tensorflow/tfjs-core'
import * as E from 'fp-ts/lib/Either.js'
import { pipe } from 'fp-ts/lib/function.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { batchRowsAt, batchUnitsOf, requireEntries, temperatureOf } from '../data/batchRows.js'
import type { Completions } from '../data/completions.js'
import { type Ragged, ragged } from '../data/tensorDict/leaf.js'
import type { TensorDict } from '../data/tensorDict/tensorDict.js'
import type { NamedTensors } from '../data/weights.js'
import { type CompletionGenerator, makeGenerator } from '../modules/generation/generator.js'
import type { Pretrained } from '../modules/pretrained/pretrained.js'
import { formatConfig } from '../modules/transformer/config.js'
import { type CompletionScorer, makeScorer, type Scorer } from '../modules/transformer/scorer.js'
import { makeValuer, withoutValueHead } from '../modules/valueHead.js'
import type { Loss, LossMetrics } from '../objectives/loss.js'
import type { CompletionEntries } from '../objectives/lossRows.js'
import type { AnyOptimizer } from '../objectives/updates/grouped.js'
import { batchLoss } from './batchLoss.js'
import { jsonOf } from './describe.js'
import type { Learner, LearnerFailure, Update } from './learner.js'
import { learnerFiles, readLearner } from './learnerState.js'
import { checkOffPolicy, type OffPolicyOptions, offPolicyReads, preparedRows } from './offPolicy.js'
import { type AnyStateOptimizer, restoredState } from './optimizerState.js'
import { LOCAL_LEARNER_COMPUTE_OPTIONS, LOCAL_LEARNER_OPTIONS, LOCAL_LEARNER_PASSES_OPTIONS } from './optionKinds.js'
import { parallelGenerator } from './parallel/parallelGenerator.js'
import { parallelScorer } from './parallel/parallelScorer.js'
import { inThisThread, type ParallelStep, parallelStep } from './parallel/parallelStep.js'
import { type Replicas, startReplicas } from './parallel/replicas.js'
import { lossFingerprint } from './steps/fingerprint.js'
import { type LossStepOptions, lossStep, NonFiniteLoss } from './steps/lossStep.js'
import { updateRows } from './steps/miniBatches.js'
import type { TrainerState } from './steps/optimizerStep.js'
import type { Recompute } from './steps/stepGradients.js'
import { type PlacedTokens, trainedTokens } from './steps/trainedTokens.js'
import { type LoraOptions, trainable } from './trainable.js'

/** The optimizer steps of a batch. */
export interface PassOptions {
  /** Number of passes over the batch. Default 1. */
  readonly epochs?: number
  /** Number of optimizer steps per pass, on whole groups. Default 1. */
  readonly miniBatches?: number
  /** Largest gradient norm; larger ones are clipped. Infinity: no limit. Default 1. */
  readonly maxGradNorm?: number
}

/** The options of computing gradients. */
export interface ComputeOptions {
  /** Threads that compute gradients. The number affects only rounding. Default 1: this thread. */
  readonly threads?: number
  /** Approximate tokens per forward and backward pass. Default 4096. */
  readonly microBatchTokens?: number
  /** Activations to recompute in the backward pass instead of keeping them. Default `none`. */
  readonly recompute?: Recompute
  /** Default: real threads. */
  readonly threadStarter?: Threads
}

export interface LocalLearnerOptions<B = never, M extends LossMetrics = LossMetrics> {
  readonly model: Pretrained
  /** Trains an adapter. Default: all weights of the model. */
  readonly lora?: LoraOptions
  /** The loss. It determines the entries that a batch must have. */
  readonly loss: Loss<B, M, never>
  /** With a learning rate: `adamW({ learningRate: 1e-4 })`. */
  readonly optimizer: AnyOptimizer
  /** Random key for the order of mini-batches, random choices of the loss, and a new adapter. */
  readonly key: Key
  readonly passes?: PassOptions
  readonly compute?: ComputeOptions
  /** For losses that read `oldLogProbs`. */
  readonly offPolicy?: OffPolicyOptions
  /** The field of the learner with that name. */
  readonly choices?: Learner<never, unknown>['choices']
}

/** A learner whose model is in this process. */
export interface LocalLearner<in B, out M> extends Learner<B, M> {
  /**
   * Returns the values of `tokens.response` under the current value head, for estimators with a
   * value function.
   *
   * Errors   throws RangeError for a loss without a value head.
   */
  readonly values: (batch: TensorDict<CompletionEntries>) => Ragged<'float32'>
  /**
   * Computes the loss of a batch and its measures under the current weights, by TorchRL's names,
   * without training.
   *
   * Errors   throws RangeError for a batch with missing entries.
   * Cost     memory for all rows at once, without a gradient.
   */
  readonly measure: (batch: TensorDict<B>) => Readonly<Record<string, number>>
  /** Returns a generator on the learner's threads, for a policy with its weights. */
  readonly generator: () => CompletionGenerator
  /** Returns a scorer on the learner's threads, for a reference model of its architecture. */
  readonly scorer: () => CompletionScorer
}

const NAME = 'localLearner'

type Failed = E.Either<LearnerFailure, never>

const failed = (kind: LearnerFailure['kind'], reason: string, cause?: ThreadFailure): Failed =>
  E.left({ _tag: 'LearnerFailure', learner: NAME, kind, reason, ...(cause && { cause }) })

/** Throws RangeError for unknown or invalid settings. */
const checkLearner = (options: LocalLearnerOptions): void => {
  checkOptions(NAME, options, LOCAL_LEARNER_OPTIONS)
  const { optimizer, passes = {}, compute = {}, offPolicy = {}, loss } = options
  const { threads = 1 } = compute
  checkOptions(`${NAME}, passes`, passes, LOCAL_LEARNER_PASSES_OPTIONS)
  checkOptions(`${NAME}, compute`, compute, LOCAL_LEARNER_COMPUTE_OPTIONS)
  const count = (name: string, n: number | undefined): string | false =>
    n !== undefined && !(Number.isInteger(n) && n >= 1) && `${name} must be a positive integer, got ${n}`
  refuse(NAME, [
    optimizer.learningRate === undefined &&
      `the optimizer has no learning rate: ${optimizer.name}({ learningRate: 1e-4 })`,
    count('passes.epochs', passes.epochs),
    count('passes.miniBatches', passes.miniBatches),
    count('compute.threads', compute.threads),
    threads > 1 &&
      loss.module === undefined &&
      `${threads} threads must find the loss ${loss.name} in a module: export it under its name, and set its module to import.meta.url; or use one thread`,
  ])
  checkOffPolicy(NAME, offPolicy, loss)
}

const describe = (options: LocalLearnerOptions) => {
  const { model, lora, loss, optimizer, key, passes = {}, compute = {}, offPolicy = {} } = options
  const { epochs = 1, miniBatches: count = 1, maxGradNorm = 1 } = passes
  const { threads = 1, microBatchTokens = 4096, recompute = 'none' } = compute
  const { adapter, ...settings } = lora ?? {}
  return jsonOf({
    learner: NAME,
    model: formatConfig(model.config),
    lora: lora === undefined ? null : { ...settings, ...adapter?.config },
    loss: { name: loss.name, options: loss.options, fingerprint: lossFingerprint(loss) },
    head: loss.needs.head,
    optimizer: { name: optimizer.name, options: optimizer.options ?? null },
    passes: { epochs, miniBatches: count, maxGradNorm },
    compute: { threads, microBatchTokens, recompute },
    offPolicy,
    key: formatKey(key),
  })
}

/** Starts the threads of a learner and its step on them, on first use. */
const lazyStep = (options: LocalLearnerOptions, given: LossStepOptions<object>) => {
  const learning = { ...given, state: 'consumed' } as const
  const { loss, model, compute = {} } = options
  const { threads: workers = 1, recompute = 'none', threadStarter } = compute
  type Step = ParallelStep<object, LossMetrics>
  type Opened = { readonly step: Step; readonly replicas: Replicas | undefined }
  let opened: Promise<E.Either<ThreadFailure, Opened>> | undefined
  const start = async (): Promise<E.Either<ThreadFailure, Opened>> => {
    if (workers === 1) return E.right({ step: inThisThread(lossStep(loss, learning)), replicas: undefined })
    const started = await startReplicas({
      config: model.config,
      loss,
      workers,
      recompute,
      ...(threadStarter && { threads: threadStarter }),
    })()
    return pipe(
      started,
      E.map((replicas) => ({ step: parallelStep(loss, learning, replicas), replicas })),
    )
  }
  const open = async (): Promise<E.Either<ThreadFailure, Opened>> => {
    opened ??= start()
    const result = await opened
    if (E.isLeft(result)) opened = undefined // the next call tries again
    return result
  }
  return {
    open,
    close: async () => {
      const result = await opened
      if (result === undefined || E.isLeft(result)) return
      await result.right.replicas?.close()
      result.right.step.release()
    },
  }
}

/** Returns the scalars among the outputs of a loss. */
const numbersOf = (outputs: object): Readonly<Record<string, number>> =>
  Object.fromEntries(
    Object.entries(outputs).flatMap(([name, value]: readonly [string, unknown]) =>
      value instanceof tf.Tensor && value.rank === 0 ? [[name, value.dataSync()[0]!]] : [],
    ),
  )

/**
 * Trains a model in this process.
 *
 * One update corrects the batch for off-policy data (`offPolicy`) and divides it into mini-batches
 * of whole groups for each pass. Every mini-batch is one optimizer step. Micro-batches and shared
 * prompts affect only rounding.
 *
 * Random numbers come from the key and the number of the update: `child(key, 'order')` for
 * mini-batches, `child(key, 'noise')` for losses that select tokens at random, and
 * `child(key, 'adapter')` for a new adapter.
 *
 * Errors   throws RangeError that lists all invalid settings, including an optimizer without a
 *          learning rate.
 * Effects  holds weights, optimizer state and compiled graphs until `close`. With `threads`, starts
 *          threads at the first update.
 *
 * @example
 * typeof localLearner // 'function'
 */
export const localLearner = <B, M extends LossMetrics>(options: LocalLearnerOptions<B, M>): LocalLearner<B, M> => {
  const given = options as unknown as LocalLearnerOptions // the loss receives its own batches and metrics
  checkLearner(given)
  return makeLearner(given) as unknown as LocalLearner<B, M> // those of the loss
}

const makeLearner = (options: LocalLearnerOptions): LocalLearner<unknown, LossMetrics> => {
  const { model, lora, loss, key, passes: given = {}, compute = {}, offPolicy = {} } = options
  const { head } = loss.needs
  const reads = [...loss.reads, ...offPolicyReads(offPolicy)]
  const { config } = model
  const { epochs = 1, miniBatches: count = 1, maxGradNorm = 1 } = given
  const optimizer = options.optimizer as unknown as AnyStateOptimizer // it only gets states that it made
  const weights = trainable({ learner: NAME, model, lora, head, key })
  const begin = weights.start()
  const { frozen } = begin.value
  const held = own(frozen)
  let last: Owned<TrainerState<object>> = own(
    scope(() => ({ params: begin.value.trained, optimizer: optimizer.init(begin.value.trained) })),
  )
  begin.release()
  let version = 0
  let isBusy = false
  const { microBatchTokens = 4096, recompute = 'none' } = compute
  const lazy = lazyStep(options, { config, optimizer, frozen, maxGradNorm, microBatchTokens, recompute })
  const scorer = makeScorer(config)
  const valuer = makeValuer(config)

  const current = (): NamedTensors => ({ ...frozen, ...last.value.params })
  const score = (rows: Completions) => scorer.score(current(), rows)
  const learn = async (batch: TensorDict): Promise<E.Either<LearnerFailure, Update<LossMetrics>>> => {
    requireEntries(NAME, batch, reads)
    const opened = await lazy.open()
    if (E.isLeft(opened)) return failed('thread', opened.left.reason, opened.left)
    const learningRate = optimizer.learningRate!(version) // checked by `checkLearner`
    const { rows, correction } = preparedRows(batch, loss.rows(batch as TensorDict<never>), {
      options: offPolicy,
      version,
      score, // entries are found by name
    })
    const steps: LossMetrics[] = []
    const placed: PlacedTokens[] = []
    const passes = { epochs, miniBatches: count, key, version: version + 1 }
    for (const { rows: each, places } of updateRows(loss, { rows, units: batchUnitsOf(batch) }, passes)) {
      const updated = await opened.right.step.update(last.value, each, learningRate)()
      if (E.isLeft(updated)) return failed('thread', updated.left.reason, updated.left)
      last.release()
      last = updated.right.state
      steps.push(updated.right.metrics)
      if (updated.right.tokens !== undefined) placed.push({ tokens: updated.right.tokens, places })
    }
    const metrics = loss.measures.combine(steps)
    version++
    const tokens = placed.length === 0 ? {} : { tokens: trainedTokens(placed, rows.prompts.length) }
    return E.right({ version, learningRate, metrics, steps, correction, ...tokens })
  }

  return {
    name: NAME,
    description: describe(options),
    ...(options.choices && { choices: options.choices }),
    reads,
    update: (batch) => async () => {
      if (isBusy) throw new RangeError(`${NAME}: another update is running: wait for its result`)
      isBusy = true
      try {
        return await learn(batch as TensorDict)
      } catch (error) {
        if (error instanceof NonFiniteLoss) return failed('non-finite', error.message)
        throw error
      } finally {
        isBusy = false
      }
    },
    logProbs: (batch) =>
      TE.fromIO(() => {
        requireEntries(NAME, batch, ['tokens.prompt', 'tokens.response'])
        const rows = {
          prompts: batchRowsAt(batch, 'tokens.prompt'),
          completions: batchRowsAt(batch, 'tokens.response'),
        }
        return ragged('float32', score({ ...rows, temperature: temperatureOf(batch) }))
      }),
    values: (batch) => {
      requireEntries(NAME, batch, ['tokens.prompt', 'tokens.response'])
      if (head === 'none') throw new RangeError(`${NAME}: the loss ${options.loss.name} trains no value head`)
      const rows = { prompts: batchRowsAt(batch, 'tokens.prompt'), completions: batchRowsAt(batch, 'tokens.response') }
      return ragged('float32', valuer.values(current(), rows))
    },
    generator: () => sharedGenerator(makeGenerator(config), lazy),
    scorer: () => sharedScorer(makeScorer(config), lazy),
    measure: (batch) => {
      const measured = batchLoss(loss, { config, frozen, key: child(key, 'measure') })
      return scope(() => numbersOf(measured(last.value.params, batch as TensorDict<never>))) // checked by `batchLoss`
    },
    weights: () => withoutValueHead(current()),
    version: () => version,
    files: () => learnerFiles(weights, last.value, version),
    restore: (folder, files) => {
      const shapes = new Map(Object.entries(last.value.params).map(([name, { shape }]) => [name, shape]))
      return pipe(
        readLearner(weights, { optimizer, shapes }, { folder, files }),
        TE.map((saved) => {
          using again = weights.start(saved.trained)
          const { trained } = again.value
          const next = own(
            scope(() => ({ params: trained, optimizer: restoredState(optimizer, trained, saved.optimizer) })),
          )
          last.release()
          last = next
          version = saved.version
        }),
      )
    },
    close: async () => {
      await lazy.close()
      last.release()
      held.release()
      scorer.release()
      valuer.release()
    },
  }
}

/**
 * Makes a generator that distributes prompts over the learner's threads. `generate` rejects with
 * FailureError if no thread starts.
 */
const sharedGenerator = (generator: CompletionGenerator, lazy: ReturnType<typeof lazyStep>): CompletionGenerator => ({
  ...generator,
  generate: async (...given) => {
    const { replicas } = orThrow(await lazy.open())
    return (replicas === undefined ? generator : parallelGenerator(generator, replicas)).generate(...given)
  },
})

/**
 * Makes a scorer of a reference model that distributes prompts over the learner's threads. `score`
 * rejects with FailureError if no thread starts.
 */
const sharedScorer = (scorer: Scorer, lazy: ReturnType<typeof lazyStep>): CompletionScorer => ({
  ...scorer,
  score: async (...given) => {
    const { replicas } = orThrow(await lazy.open())
    return replicas === undefined
      ? scorer.score(...given)
      : parallelScorer(scorer, replicas, 'reference').score(...given)
  },
})
