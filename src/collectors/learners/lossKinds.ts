/** The losses of a learner, and the batch entries that each requires. */
import type { AdvantageEntry, ReturnsEntry } from '../../data/batch.js'
import type { Ragged } from '../../data/tensorDict/leaf.js'
import type { TensorDict } from '../../data/tensorDict/tensorDict.js'
import type { DistillationLoss } from '../../objectives/distillationLoss.js'
import type { DPOLoss } from '../../objectives/dpoLoss.js'
import type { PolicyLoss } from '../../objectives/policyLoss.js'
import type { PPOLoss } from '../../objectives/ppoLoss.js'
import type { RewardModelLoss } from '../../objectives/rewardModelLoss.js'
import type { SFTLoss } from '../../objectives/sftLoss.js'
import type { ValueLoss } from '../../objectives/valueLoss.js'
import type { DistillationMetrics } from '../steps/distillationStep.js'
import type { DPOMetrics } from '../steps/dpoStep.js'
import type { MeasuredLoss } from '../steps/lossStep.js'
import type { PPOMetrics } from '../steps/ppoStep.js'
import type { RewardModelMetrics } from '../steps/rewardModelStep.js'
import type { SFTMetrics } from '../steps/sftStep.js'
import type { StepMetrics } from '../steps/stepMetrics.js'
import type { ValueMetrics } from '../steps/valueStep.js'

type Response = TensorDict<{ readonly response: Ragged<'float32'> }>

/**
 * Prompts and completions, one row each. `masks.loss` or `masks.assistant` mask tokens out of the
 * loss. Default: all tokens count.
 */
export type CompletionEntries = {
  readonly tokens: TensorDict<{ readonly prompt: Ragged<'int32'>; readonly response: Ragged<'int32'> }>
}

/** The batch of a policy loss: a collected batch with advantages. */
export type PolicyBatch = CompletionEntries & AdvantageEntry & { readonly logProbs: Response }

/** The batch of a value loss. Losses with a clip range also read `values` of the sampled batch. */
export type ValueBatch = CompletionEntries & ReturnsEntry

/** The batch of PPO. */
export type PPOBatch = PolicyBatch & ReturnsEntry & { readonly values: Ragged<'float32'> }

/** The batch of distillation, with the teacher's log-probabilities of the sampled tokens. */
export type DistillationBatch = CompletionEntries & { readonly teacherLogProbs: Response }

/**
 * Pairs of completions of one prompt. Optional entries: `refLogProbs.response` of each side, for
 * losses with a reference model, and `margin`, a tensor `[B]`, for reward models.
 */
export type PreferenceBatch = {
  readonly chosen: TensorDict<CompletionEntries>
  readonly rejected: TensorDict<CompletionEntries>
}

/** For each kind of loss: the loss, its batches, and the metrics of a step. */
export interface LossKinds {
  readonly policy: { readonly loss: PolicyLoss; readonly batch: PolicyBatch; readonly metrics: StepMetrics }
  readonly ppo: { readonly loss: PPOLoss; readonly batch: PPOBatch; readonly metrics: PPOMetrics }
  readonly value: {
    readonly loss: ValueLoss
    readonly batch: ValueBatch
    readonly metrics: ValueMetrics & MeasuredLoss
  }
  readonly sft: { readonly loss: SFTLoss; readonly batch: CompletionEntries; readonly metrics: SFTMetrics }
  readonly rewardModel: {
    readonly loss: RewardModelLoss
    readonly batch: PreferenceBatch
    readonly metrics: RewardModelMetrics
  }
  readonly dpo: { readonly loss: DPOLoss; readonly batch: PreferenceBatch; readonly metrics: DPOMetrics }
  readonly distillation: {
    readonly loss: DistillationLoss
    readonly batch: DistillationBatch
    readonly metrics: DistillationMetrics
  }
}

/** Any loss that a learner can minimize. */
export type LearnableLoss = LossKinds[keyof LossKinds]['loss']

/** The entries that every batch of a loss must have. */
export type BatchOf<L extends LearnableLoss> = LossKinds[L['kind']]['batch']

/** The metrics of an optimizer step of a loss. */
export type MetricsOf<L extends LearnableLoss> = LossKinds[L['kind']]['metrics']
