/**
 * Messages between a replica on another thread and its owner: plain values for `structuredClone`.
 * Jobs run sequentially in the order of sending, with the latest weights sent before them.
 */
import type { ModuleExport, TreeShape } from '@tandem-rl/base'
import type { BackendName } from '@tandem-rl/tfjs-onnxruntime'
import type { Completions } from '../../data/completions.js'
import type { Completion, CompletionRequest } from '../../modules/generation/generator.js'
import type { DecoderConfig } from '../../modules/transformer/config.js'
import type { StepPlan } from '../steps/lossStep.js'
import type { MicroBatch } from '../steps/microBatches.js'
import type { Recompute } from '../steps/stepGradients.js'

/** The input of a new replica. */
export interface ReplicaInput {
  readonly config: DecoderConfig
  /** The module that exports the loss, and what it must compute there. */
  readonly loss: ModuleExport
  readonly fingerprint: string
  readonly recompute: Recompute
  readonly backend: BackendName
  /** Threads inside one operation, or `null` for the backend's default. */
  readonly threads: number | null
}

/** The numbers of a tensor. */
export interface PlainTensor {
  readonly data: Float32Array | Int32Array | Uint8Array
  readonly shape: readonly number[]
  readonly dtype: 'float32' | 'int32' | 'bool'
}

/** Tensors in nested records, as plain values. */
export interface PlainTree {
  readonly shape: TreeShape
  readonly leaves: readonly PlainTensor[]
}

/** Gradients and measures of a micro-batch. */
export interface PlainGradients {
  /** Null if they are zero. */
  readonly grads: Readonly<Record<string, PlainTensor>> | null
  readonly part: PlainTree
  /** Number of places that were computed: see `ComputedPart`. */
  readonly places: number
}

/** A replica holds one set of weights of each role. Gradients are those of the policy. */
export type WeightRole = 'policy' | 'reference'

export type ReplicaJob =
  | { readonly _tag: 'Generate'; readonly request: CompletionRequest }
  | { readonly _tag: 'Score'; readonly role: WeightRole; readonly request: Completions }
  | {
      readonly _tag: 'Gradients'
      /** Names of the weights that are trained. */
      readonly trained: readonly string[]
      readonly micro: Pick<MicroBatch, 'rows' | 'gradient'>
      readonly counts: StepPlan['counts']
    }

/** The result of each kind of job. */
export interface ReplicaResults {
  readonly Generate: readonly Completion[]
  readonly Score: readonly Float32Array[]
  readonly Gradients: PlainGradients
}

/** A message from the owner to a replica. */
export type ReplicaMessage =
  /** New and changed weights of a role. Others stay as they are. */
  | { readonly _tag: 'Weights'; readonly role: WeightRole; readonly weights: Readonly<Record<string, PlainTensor>> }
  | { readonly _tag: 'Job'; readonly number: number; readonly job: ReplicaJob }
  /** Frees everything. The reply is `Closed`. */
  | { readonly _tag: 'Close' }

/** A message from a replica to its owner. */
export type ReplicaReply =
  /** Intra-op threads of the thread's backend, or `null` if it does not report them. */
  | { readonly _tag: 'Ready'; readonly threads: number | null }
  | { readonly _tag: 'Done'; readonly number: number; readonly result: ReplicaResults[keyof ReplicaResults] }
  | { readonly _tag: 'Threw'; readonly number: number; readonly name: string; readonly message: string }
  | { readonly _tag: 'Closed' }
