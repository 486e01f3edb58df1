/**
 * Types of the requests that run the model of a run: probabilities, forks, chats, evaluations and
 * replays. The page offers each of them if the run lists it in `features`; the server lists none
 * yet.
 */
import type { Json } from '../data/codecs/plainValues.js'
import type { TokenRow } from './protocol.js'

/**
 * A place in a rollout: the token of a model turn. `turn` counts all turns of `RolloutAnswer`.
 */
interface TokenPlace {
  readonly rollout: string
  readonly turn: number
  readonly token: number
}

/**
 * Body of `POST /api/runs/:id/probability`: one token of a rollout, a whole turn up to it, or a
 * text after a prompt. The answer is a stream of lines of type `ProbabilityLine`.
 *
 */
export type ProbabilityRequest = TokenPlace | { readonly prompt: string; readonly text: string }

/**
 * Lines of JSON: one per checkpoint, then `end`.
 *
 */
export type ProbabilityLine =
  | {
      readonly type: 'checkpoint'
      /** 0 is the initial model, if it can be loaded. */
      readonly step: number
      /** Log-probability of the token, and of all tokens of the turn up to it. */
      readonly logProb: number
      readonly prefixLogProb: number
      readonly entropy: number
      /** Rank of the token, from 0. */
      readonly rank: number
      readonly top: readonly { readonly text: string; readonly logProb: number }[]
      /** Log-probabilities of the tokens up to the place. */
      readonly tokens: readonly { readonly text: string; readonly logProb: number }[]
    }
  | EndLine

/** The end of a stream. `reason` is `null` after success. */
interface EndLine {
  readonly type: 'end'
  readonly reason: string | null
}

/**
 * Body of `POST /api/runs/:id/fork`. The new completions replace the token and all after it.
 *
 */
export interface ForkRequest extends TokenPlace {
  /** A checkpoint's step; default the newest before the rollout, else the newest. */
  readonly checkpoint?: number
  /** A text to put in the place of the token. */
  readonly replacement?: string
  readonly count?: number
  readonly maxNewTokens?: number
  readonly temperature?: number
  readonly seed?: number
}

/**
 * Lines of JSON: one per finished completion, then `end`.
 *
 */
export type ForkLine =
  | {
      readonly type: 'completion'
      readonly index: number
      readonly text: string
      readonly tokens: readonly TokenRow[]
      readonly stopReason: string
      /** Reward of the run's own recipe, or `null` if it cannot be computed. */
      readonly reward: number | null
    }
  | EndLine

/**
 * Body of `POST /api/runs/:id/chat`.
 *
 */
export interface CheckpointChatRequest {
  readonly checkpoint: number
  readonly messages: readonly { readonly role: 'system' | 'user' | 'assistant'; readonly content: string }[]
  readonly maxNewTokens?: number
  readonly temperature?: number
  readonly seed?: number
}

/**
 * Lines of JSON: tokens as they are sampled, then `end`.
 *
 */
export type ChatLine = { readonly type: 'token'; readonly token: TokenRow } | EndLine

/**
 * Body of `POST /api/runs/:id/evaluate`: compares checkpoints on held-out tasks of the recipe.
 *
 */
export interface EvaluateRequest {
  readonly checkpoints: readonly number[]
  readonly tasks?: number
  readonly seed?: number
}

/**
 * Lines of JSON: progress and results by checkpoint, then `end`.
 *
 */
export type EvaluateLine =
  | { readonly type: 'progress'; readonly checkpoint: number; readonly done: number; readonly tasks: number }
  | {
      readonly type: 'scores'
      readonly checkpoint: number
      readonly name: string
      readonly scores: Readonly<Record<string, number>>
    }
  | {
      readonly type: 'task'
      readonly query: string
      readonly answer: string | null
      /** One entry per checkpoint, in the order of the request. */
      readonly completions: readonly { readonly text: string; readonly reward: number }[]
    }
  | EndLine

/**
 * Body of `POST /api/runs/:id/replay`: repeats a step with some settings changed.
 *
 */
export interface ReplayRequest {
  readonly step: number
  /** Dotted paths and their new values. */
  readonly settings?: Readonly<Record<string, Json>>
}

/**
 * Lines of JSON: progress, the recorded and the new record of the step, then `end`.
 *
 */
export type ReplayLine =
  | { readonly type: 'progress'; readonly message: string }
  | {
      readonly type: 'record'
      readonly recorded: Readonly<Record<string, number>>
      readonly replayed: Readonly<Record<string, number>>
    }
  | EndLine
