/**
 * Makes small models for new tasks: tokenizer and decoder from scratch, then supervised training.
 */
import {
  type Clock,
  type ConfigFailure,
  checkOptions,
  cosine,
  countOf,
  keyFromSeed,
  type ModelFailure,
  warmUp,
} from '@tandem-rl/base'
import { harmless, liveClock } from '@tandem-rl/base/host'
import type { History, TokenizerProgress } from '@tandem-rl/text'
import * as E from 'fp-ts/lib/Either.js'
import { pipe } from 'fp-ts/lib/function.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import type { LearnerFailure } from '../../learners/learner.js'
import { localLearner } from '../../learners/localLearner.js'
import { chatBatch } from '../../learners/textBatch.js'
import { type NewModelOptions, newModel } from '../../modules/pretrained/newModel.js'
import { hostArrays, type Pretrained } from '../../modules/pretrained/pretrained.js'
import { parameterCount } from '../../modules/transformer/params.js'
import { SFTLoss } from '../../objectives/sftLoss.js'
import { adamW } from '../../objectives/updates/adamW.js'
import { MAKE_MODEL_OPTIONS, TRAIN_MODEL_OPTIONS } from '../optionKinds.js'

/** A stage of supervised training on conversations. Each stage has a new optimizer. */
export interface ModelStage {
  readonly name: string
  /** Returns the conversation of an index from 0. The assistant's messages are trained. */
  readonly conversation: (index: number) => History
  readonly conversations: number
  /** Conversations per step. Default 64. */
  readonly batch?: number
  /** The peak learning rate, which decays to 1/50 by a cosine schedule. */
  readonly learningRate: number
  /** Warm-up steps. Default 0. */
  readonly warmUpSteps?: number
}

/** The shared options of `trainModel` and `makeModel`. */
interface Stages {
  /** The stages, in order. */
  readonly stages: readonly ModelStage[]
  /** Yields to the event loop after each step. Default: the real clock. */
  readonly clock?: Pick<Clock, 'breathe'>
}

export interface MakeModelOptions extends NewModelOptions, Stages {}

export interface TrainModelOptions extends Stages {
  readonly model: Pretrained
}

/** A progress event of `trainModel`. */
export type TrainModelEvent =
  | {
      readonly type: 'step'
      readonly stage: string
      /** From 1 to `steps`. */
      readonly step: number
      readonly steps: number
      /** Mean negative log-likelihood per token before the update, in nats. */
      readonly nll: number
      /** Share of trained tokens that the model ranks first. */
      readonly accuracy: number
    }
  /** The model after a stage. */
  | { readonly type: 'stage'; readonly stage: string; readonly model: Pretrained }

/** A progress event of `makeModel`. */
export type MakeModelEvent =
  | ({ readonly type: 'tokenizer' } & TokenizerProgress)
  | { readonly type: 'model'; readonly parameters: number; readonly vocabularySize: number }
  | TrainModelEvent

export type TrainModelFailure = ConfigFailure | LearnerFailure
export type MakeModelFailure = TrainModelFailure | ModelFailure

type OnProgress = (event: TrainModelEvent) => void

interface Trained {
  readonly model: Pretrained
  readonly stage: ModelStage
  readonly clock: Pick<Clock, 'breathe'>
  readonly onProgress: OnProgress
}

/** Trains a model in one stage. Its tensors are freed at the end. */
const trainStage =
  ({ model, stage, clock, onProgress }: Trained): TE.TaskEither<TrainModelFailure, Pretrained> =>
  async () => {
    const { config, text } = model
    const { batch = 64, warmUpSteps = 0, learningRate } = stage
    const steps = Math.ceil(stage.conversations / batch)
    const falling = cosine(learningRate, learningRate / 50, steps - warmUpSteps)
    const rate = warmUpSteps === 0 ? falling : warmUp(warmUpSteps, falling)
    const learner = localLearner({
      model,
      loss: SFTLoss({ reduction: 'token-mean' }),
      key: keyFromSeed(0), // nothing is drawn from the key
      optimizer: adamW({ learningRate: rate, weightDecay: 0.1, beta2: 0.95 }),
    })
    const toBatch = chatBatch(text, { from: 'spans' })
    try {
      for (let step = 0; step < steps; step++) {
        const histories = Array.from({ length: batch }, (_, i) => stage.conversation(step * batch + i))
        const made = toBatch(histories)
        if (E.isLeft(made)) return made
        const updated = await learner.update(made.right)()
        if (E.isLeft(updated)) return updated
        const { nll, accuracy } = updated.right.metrics
        onProgress({ type: 'step', stage: stage.name, step: step + 1, steps, nll, accuracy: accuracy! }) // the model is in this process
        await clock.breathe()
      }
      return E.right({ config, text, arrays: hostArrays(learner.weights()) })
    } finally {
      await learner.close()
    }
  }

const requireStages = (stages: readonly ModelStage[]): void => {
  for (const { name, conversations, batch = 64, warmUpSteps = 0 } of stages) {
    const isCount = (value: number): boolean => Number.isSafeInteger(value) && value > 0
    if (!isCount(conversations) || !isCount(batch)) {
      throw new RangeError(
        `trainModel: stage '${name}' needs positive integers as conversations and batch, got ${conversations} and ${batch}`,
      )
    }
    const steps = Math.ceil(conversations / batch)
    if (!(warmUpSteps >= 0 && warmUpSteps < steps)) {
      throw new RangeError(
        `trainModel: stage '${name}' has ${countOf(steps, 'step')}, so warmUpSteps cannot be ${warmUpSteps}`,
      )
    }
  }
}

/**
 * Trains a model on conversations in stages, with AdamW (weight decay 0.1, beta2 0.95) and
 * gradients clipped to norm 1. For a run with checkpoints, see the recipe `sft`.
 *
 * Errors   `Left` if the template rejects a conversation, the assistant writes nothing in it, or
 *          training diverges. Throws RangeError for counts that are not positive integers, or a
 *          warm-up longer than its stage.
 * Effects  computes on the tensor backend and calls `onProgress`. Equal options give equal weights
 *          on one machine.
 */
export const trainModel = (
  options: TrainModelOptions,
  observer: OnProgress = () => {},
): TE.TaskEither<TrainModelFailure, Pretrained> => {
  checkOptions('trainModel', options, TRAIN_MODEL_OPTIONS)
  const { model, stages, clock = liveClock } = options
  const onProgress = harmless('onProgress', observer)

  requireStages(stages)
  return stages.reduce<TE.TaskEither<TrainModelFailure, Pretrained>>(
    (made, stage) =>
      pipe(
        made,
        TE.chain((before) => trainStage({ model: before, stage, clock, onProgress })),
        TE.chainFirstIOK((after) => () => onProgress({ type: 'stage', stage: stage.name, model: after })),
      ),
    TE.right(model),
  )
}

/**
 * Makes and trains a new model: `newModel`, then `trainModel`.
 *
 * Errors   as `newModel` and `trainModel`.
 * Effects  computes on the tensor backend and calls `onProgress`. Equal options give equal weights
 *          on one machine.
 */
export const makeModel = (
  given: MakeModelOptions,
  observer: (event: MakeModelEvent) => void = () => {},
): TE.TaskEither<MakeModelFailure, Pretrained> => {
  checkOptions('makeModel', given, MAKE_MODEL_OPTIONS)
  const { stages, clock = liveClock, ...options } = given
  const onProgress = harmless('onProgress', observer)

  requireStages(stages)
  const { tokenizer } = options
  const reported: NewModelOptions['tokenizer'] =
    'texts' in tokenizer
      ? {
          ...tokenizer,
          onProgress: (progress) => {
            tokenizer.onProgress?.(progress)
            onProgress({ type: 'tokenizer', ...progress })
          },
        }
      : tokenizer
  return pipe(
    TE.fromIOEither<MakeModelFailure, Pretrained>(() => newModel({ ...options, tokenizer: reported })),
    TE.chainFirstIOK(({ config }) => () => {
      onProgress({ type: 'model', parameters: parameterCount(config), vocabularySize: config.vocabularySize })
    }),
    TE.chainW((model) => trainModel({ model, stages, clock }, onProgress)),
  )
}
