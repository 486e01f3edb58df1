/** Makes small models for new tasks: a tokenizer and a decoder from nothing, then supervised training in stages. */
import * as E from 'fp-ts/lib/Either.js'
import { pipe } from 'fp-ts/lib/function.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import type { Clock } from '../core/capabilities.js'
import type { ConfigFailure, ModelFailure } from '../core/failure.js'
import { cosine, warmUp } from '../core/schedule.js'
import type { TokenizerProgress } from '../data/bytePairEncoding.js'
import type { History } from '../data/history.js'
import type { NamedTensors } from '../data/weights.js'
import { own, scope } from '../engine/scope.js'
import { liveClock } from '../live/clock.js'
import { type NewModelOptions, newModel } from '../modules/newModel.js'
import { hostArrays, makeParams, type Pretrained } from '../modules/pretrained.js'
import { parameterCount } from '../modules/transformer/params.js'
import { adamW } from '../objectives/updates/adamW.js'
import { sftRows } from './steps/sftRows.js'
import { sftStep } from './steps/sftStep.js'

/** A stage of supervised training on conversations. It begins with a fresh optimizer. */
export interface ModelStage {
  readonly name: string
  /** Returns the conversation of an index from 0. What the assistant writes is learned. */
  readonly conversation: (index: number) => History
  readonly conversations: number
  /** Conversations in a step. Default 64. */
  readonly batch?: number
  /** The highest learning rate: it falls to 1/50 of it with a cosine. */
  readonly learningRate: number
  /** Steps over which the learning rate rises first. Default 0. */
  readonly warmUpSteps?: number
}

/** What a model is trained on before reinforcement learning. */
interface TeachingOptions {
  /** In this order. */
  readonly stages: readonly ModelStage[]
  /** Lets the event loop turn after each step. Default: the real clock. */
  readonly clock?: Pick<Clock, 'breathe'>
}

export interface TeachModelOptions extends TeachingOptions {
  /** It is not changed. */
  readonly model: Pretrained
}

export interface MakeModelOptions extends NewModelOptions, TeachingOptions {}

/** How far `makeModel` is. */
export type MakeModelEvent =
  | ({ readonly type: 'tokenizer' } & TokenizerProgress)
  | { readonly type: 'model'; readonly parameters: number; readonly vocabularySize: number }
  | {
      readonly type: 'step'
      readonly stage: string
      /** From 1 to `steps`. */
      readonly step: number
      readonly steps: number
      /** Negative log-likelihood of a token before the update, in nats. */
      readonly nll: number
      /** Share of the learned tokens that the model would have chosen first. */
      readonly accuracy: number
    }
  /** The model after a stage. */
  | { readonly type: 'stage'; readonly stage: string; readonly model: Pretrained }

export type MakeModelFailure = ConfigFailure | ModelFailure

type OnProgress = (event: MakeModelEvent) => void

interface Trained {
  readonly model: Pretrained
  readonly stage: ModelStage
  readonly clock: Pick<Clock, 'breathe'>
  readonly onProgress: OnProgress
}

/** Trains a model in a stage. Tensors live until it ends. */
const trainStage =
  ({ model, stage, clock, onProgress }: Trained): TE.TaskEither<ConfigFailure, Pretrained> =>
  async () => {
    const { config, text } = model
    const { batch = 64, warmUpSteps = 0, learningRate } = stage
    const steps = Math.ceil(stage.conversations / batch)
    const falling = cosine(learningRate, learningRate / 50, steps - warmUpSteps)
    const rate = warmUpSteps === 0 ? falling : warmUp(warmUpSteps, falling)
    const learner = sftStep({ config, optimizer: adamW({ weightDecay: 0.1, beta2: 0.95 }) })
    let state = own(scope(() => learner.init(makeParams(model.arrays))))
    try {
      for (let step = 0; step < steps; step++) {
        const histories = Array.from({ length: batch }, (_, i) => stage.conversation(step * batch + i))
        const rows = sftRows(histories, { ...text, from: 'spans' })
        if (E.isLeft(rows)) return rows
        const { state: next, metrics } = learner.update(state.value, rows.right, rate(step))
        state.release()
        state = next
        const { nll, accuracy } = metrics
        onProgress({ type: 'step', stage: stage.name, step: step + 1, steps, nll, accuracy })
        await clock.breathe()
      }
      const params: NamedTensors = state.value.params
      return E.right({ config, text, arrays: hostArrays(params) })
    } finally {
      state.release()
      learner.release()
    }
  }

const requireStages = (caller: string, stages: readonly ModelStage[]): void => {
  for (const { name, conversations, batch = 64, warmUpSteps = 0 } of stages) {
    const isCount = (value: number): boolean => Number.isSafeInteger(value) && value > 0
    if (!isCount(conversations) || !isCount(batch)) {
      throw new RangeError(
        `${caller}: stage '${name}' needs positive integers as conversations and batch, got ${conversations} and ${batch}`,
      )
    }
    const steps = Math.ceil(conversations / batch)
    if (!(warmUpSteps >= 0 && warmUpSteps < steps)) {
      throw new RangeError(`${caller}: stage '${name}' has ${steps} steps, so warmUpSteps cannot be ${warmUpSteps}`)
    }
  }
}

/** Trains a model in stages, with an event after each. */
const taught = (
  fresh: Pretrained,
  { stages, clock = liveClock }: TeachingOptions,
  onProgress: OnProgress,
): TE.TaskEither<ConfigFailure, Pretrained> =>
  stages.reduce<TE.TaskEither<ConfigFailure, Pretrained>>(
    (made, stage) =>
      pipe(
        made,
        TE.chain((model) => trainStage({ model, stage, clock, onProgress })),
        TE.chainFirstIOK((model) => () => onProgress({ type: 'stage', stage: stage.name, model })),
      ),
    TE.right(fresh),
  )

/**
 * Trains a model on conversations, stage by stage, with AdamW (weight decay 0.1, beta2 0.95) and gradients of norm 1 at most: the habits that
 * reinforcement learning begins with.
 *
 * Errors   `Left` for conversations that the template refuses or in which the assistant writes nothing. Throws RangeError for counts that are
 *          not positive integers and a warm-up that is longer than its stage; NonFiniteLoss if training diverges.
 * Effects  computes on the tensor backend; calls `onProgress`. Equal options give equal weights on one machine.
 */
export const teachModel = (
  { model, ...options }: TeachModelOptions,
  onProgress: OnProgress = () => {},
): TE.TaskEither<ConfigFailure, Pretrained> => {
  requireStages('teachModel', options.stages)
  return taught(model, options, onProgress)
}

/**
 * Makes a model for a task: `newModel`, then supervised training on conversations, as `teachModel`.
 *
 * Errors   `Left` and throws as `newModel` and `teachModel`.
 * Effects  computes on the tensor backend; calls `onProgress`. Equal options give equal weights on one machine.
 */
export const makeModel = (
  { stages, clock, ...options }: MakeModelOptions,
  onProgress: OnProgress = () => {},
): TE.TaskEither<MakeModelFailure, Pretrained> => {
  requireStages('makeModel', stages)
  const { tokenizer } = options
  const told: NewModelOptions['tokenizer'] =
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
    TE.fromIOEither<MakeModelFailure, Pretrained>(() => newModel({ ...options, tokenizer: told })),
    TE.chainFirstIOK(({ config }) => () => {
      onProgress({ type: 'model', parameters: parameterCount(config), vocabularySize: config.vocabularySize })
    }),
    TE.chainW((fresh) => taught(fresh, { stages, ...(clock && { clock }) }, onProgress)),
  )
}
