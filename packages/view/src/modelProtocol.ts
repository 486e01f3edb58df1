/** Types of the requests that run the checkpoints of a run, and schemas of their bodies. */
import { table } from '@tandem-rl/text'
import { z } from 'zod'
import type { TokenRow, TurnRow } from './protocol.js'

const index = z.number().int().nonnegative()
const count = (most: number) => z.number().int().positive().max(most)
const checkpoint = index.describe('a step of RunAnswer.checkpoints, or 0 for the initial weights')
const temperature = z.number().min(0).max(4)
const text = z.string().max(20_000)

const sampled = {
  maxNewTokens: count(4096).default(128),
  temperature: temperature.default(1),
  seed: index.default(1),
}

/** A token of a model turn. `turn` counts all turns of `RolloutAnswer`. */
const placeSchema = z.strictObject({ rollout: z.string(), turn: index, token: index })
export type TokenPlace = z.output<typeof placeSchema>

/** Body of `POST /api/runs/:id/probability`: a token of a rollout, or a reply to a prompt. */
export const probabilitySchema = z.union([placeSchema, z.strictObject({ prompt: text.min(1), reply: text.min(1) })])
export type ProbabilityRequest = z.output<typeof probabilitySchema>

/** Body of `POST /api/runs/:id/influence`: the rollouts of the step after a checkpoint. */
export const influenceSchema = placeSchema.extend({ checkpoint })
export type InfluenceRequest = z.output<typeof influenceSchema>

/** Body of `POST /api/runs/:id/chat`. */
export const checkpointChatSchema = z.strictObject({
  checkpoint,
  messages: z
    .array(z.strictObject({ role: z.enum(['system', 'user', 'assistant']), content: text }))
    .min(1)
    .max(200),
  ...sampled,
})
export type CheckpointChatRequest = z.output<typeof checkpointChatSchema>

/** Body of `POST /api/runs/:id/fork`. New completions replace the token and everything after it. */
export const forkSchema = placeSchema.extend({
  checkpoint,
  /** A text in the place of the token. */
  replacement: text.default(''),
  count: count(32).default(4),
  ...sampled,
})
export type ForkRequest = z.output<typeof forkSchema>

/** Body of `POST /api/runs/:id/evaluate`: two checkpoints on the same held-out tasks. */
export const evaluateSchema = z.strictObject({
  checkpoints: z.tuple([checkpoint, checkpoint]),
  /** Tasks of each evaluator, if the recipe has the setting `keep.evalTasks`. Default: its own. */
  tasks: count(10_000).optional(),
})
export type EvaluateRequest = z.output<typeof evaluateSchema>

const SETTING = /^(learner|loss|offPolicy)\.[A-Za-z]{1,40}$/

/** Body of `POST /api/runs/:id/replay`: the step after a checkpoint, with settings changed. */
export const replaySchema = z.strictObject({
  checkpoint,
  /** New values by dotted path. */
  settings: table(z.json(), 100).refine(
    (settings) => Object.keys(settings).every((path) => SETTING.test(path)),
    'expected paths of learner, loss or offPolicy',
  ),
})
export type ReplayRequest = z.output<typeof replaySchema>

/** The end of every stream of lines. `reason` is `null` after success. */
interface EndLine {
  readonly type: 'end'
  readonly reason: string | null
}

/** A message about the progress. */
export interface ProgressLine {
  readonly type: 'progress'
  readonly message: string
}

/** A possible token and its log-probability in nats. */
export interface TopToken {
  readonly text: string
  readonly logProb: number
}

/** One checkpoint of a probability request. Log-probabilities have the run's temperature. */
export interface ProbabilityLine {
  readonly type: 'checkpoint'
  readonly step: number
  /** Log-probability of the token, and of all tokens of the turn up to it. */
  readonly logProb: number
  readonly prefixLogProb: number
  /** Rank of the token, 1 for the most probable. */
  readonly rank: number
  readonly top: readonly TopToken[]
  /** The tokens of the turn up to the place. */
  readonly tokens: readonly TopToken[]
}

/** The answer to an influence request: first-order changes of the token's log-probability. */
export interface InfluenceLine {
  readonly type: 'influence'
  /** The step whose batch was trained on after the checkpoint. */
  readonly step: number
  /** `saved`: the batch of the run folder. `sampled`: sampled again from the checkpoint. */
  readonly batch: 'saved' | 'sampled'
  /**
   * Change of the token's log-probability for a small step along its gradient, divided by what the
   * gradient predicts. 1 if the first-order measure is exact.
   */
  readonly linearity: number
  /** Rollouts with the largest absolute influence first. */
  readonly rollouts: readonly {
    /** The recorded rollout, or `null` if the log does not hold it. */
    readonly id: string | null
    readonly text: string
    readonly advantage: number
    /** Inner product of both gradients. Positive: training on it raises the token's probability. */
    readonly influence: number
    /** `influence` divided by the sum of all absolute influences. */
    readonly share: number
  }[]
}

/** A sampled token with the most probable ones in its place. */
export interface ModelToken extends TokenRow {
  readonly top: readonly TopToken[]
}

/** A token of a chat, and the text that became final with it. */
export interface ChatLine {
  readonly type: 'token'
  readonly token: ModelToken
  readonly text: string
}

/** The kind of a fork: played in the recipe's environment, or text without rewards. */
export interface ForkModeLine {
  readonly type: 'mode'
  readonly mode: 'environment' | 'text'
  /** Why the environment cannot go on, or `null`. */
  readonly reason: string | null
}

/** One completion of a fork. */
export interface ForkLine {
  readonly type: 'completion'
  readonly index: number
  /** The turns from the forked one on. */
  readonly turns: readonly TurnRow[]
  /** `null` without an environment. */
  readonly reward: number | null
  readonly parts: Readonly<Record<string, number>>
  readonly stopReason: string | null
}

/** Scores of a checkpoint. */
export interface ScoresLine {
  readonly type: 'scores'
  readonly checkpoint: number
  readonly name: string
  readonly scores: Readonly<Record<string, number>>
}

/** The second checkpoint minus the first, over the same tasks, with Student's 95 % interval. */
export interface DifferenceLine {
  readonly type: 'difference'
  readonly name: string
  readonly measure: string
  readonly tasks: number
  readonly mean: number
  /** `null` if the scores have no bounds and all differences are equal. */
  readonly low: number | null
  readonly high: number | null
  /** Tasks on which the second checkpoint scores higher, lower and the same. */
  readonly higher: number
  readonly lower: number
  readonly same: number
}

/** A task on which the checkpoints differ most. */
export interface TaskLine {
  readonly type: 'task'
  readonly name: string
  readonly query: string
  readonly answers: readonly { readonly text: string; readonly score: number }[]
}

/** A step as recorded, repeated as it was, and repeated with the changed settings. */
export interface ReplayLine {
  readonly type: 'record'
  readonly step: number
  readonly recorded: Readonly<Record<string, number>>
  readonly repeated: Readonly<Record<string, number>>
  readonly changed: Readonly<Record<string, number>>
}

/** One line of an answer. Answers are lines of JSON; the last one is an `EndLine`. */
export type ModelLine =
  | EndLine
  | ProgressLine
  | ProbabilityLine
  | InfluenceLine
  | ChatLine
  | ForkModeLine
  | ForkLine
  | ScoresLine
  | DifferenceLine
  | TaskLine
  | ReplayLine
