/** Types of the requests and answers of the run viewer's API. */
import type { Json } from '@tandem-rl/base'
import type { EvaluationRecord, RunRecords } from 'tandem-rl/run'
import type { EpisodeAgents } from './foreign/viewedTurn.js'

/** One run in the list of runs. */
export interface RunRow {
  /** Stable name of the run in addresses, safe in a path. */
  readonly id: string
  /** The name from the note, or the name of the folder. */
  readonly name: string
  /** Path relative to the folder in which the viewer was started, or absolute. */
  readonly folder: string
  /** `null` for runs of a program. */
  readonly recipe: string | null
  readonly state: RunRecords['state']
  /** Steps done. */
  readonly step: number
  /** Planned steps, or `null` if the log does not contain them. */
  readonly steps: number | null
  /** Times in ISO format, or `null` if unknown. */
  readonly startedAt: string | null
  readonly updatedAt: string | null
  readonly model: string | null
  readonly data: string | null
  readonly command: string | null
  readonly version: string | null
  readonly machine: string | null
  readonly tags: readonly string[]
  readonly note: string
  /** Newest value of the main metrics: `reward`, `accuracy`, `loss`, `entropy` and others. */
  readonly last: Readonly<Record<string, number>>
}

/** Answer of `GET /api/runs`. */
export interface RunsAnswer {
  readonly runs: readonly RunRow[]
  /** Version of Tandem that serves the page. */
  readonly version: string
}

/** An alarm with the folder of its saved batch. */
interface AlarmRow {
  readonly alarm: string
  /** The step that raised it, and the first bad step. */
  readonly step: number
  readonly since: number
  readonly value: number | null
  readonly limit: number | null
  readonly message: string
  /** Relative to the run folder, or `null` if no batch was saved. */
  readonly batch: string | null
}

/** Answer of `GET /api/runs/:id`. */
export interface RunAnswer extends RunRow {
  /** Nested settings of the recipe. */
  readonly settings: Readonly<Record<string, Json>>
  /** Descriptions of the run's parts. */
  readonly parts: Readonly<Record<string, Json>>
  /** Names that `metrics` accepts, such as `reward`, `update.entropy` and `parts.success`. */
  readonly metricNames: readonly string[]
  readonly alarms: readonly AlarmRow[]
  readonly evaluations: readonly Omit<EvaluationRecord, 'samples'>[]
  /** The best evaluation, or `null`. */
  readonly best: { readonly step: number; readonly name: string; readonly value: number } | null
  /** Steps whose checkpoints are in the folder, in order. */
  readonly checkpoints: readonly number[]
  /** Steps whose batches are saved and can be replayed. */
  readonly batches: readonly number[]
  readonly rollouts: number
  /** Names of the reward parts of the rollouts. */
  readonly partNames: readonly string[]
  /** Labels in use by annotations. */
  readonly labels: readonly string[]
  /** Requests that the run supports; the page hides the views of the others. */
  readonly features: readonly Feature[]
}

/** Requests that run checkpoints, by the last part of their address. */
export const MODEL_REQUESTS = ['probability', 'influence', 'chat', 'fork', 'evaluate', 'replay'] as const
export type ModelRequest = (typeof MODEL_REQUESTS)[number]

export type Feature = ModelRequest | 'rescore' | 'write'

/** Answer of `GET /api/runs/:id/metrics?names=a,b`. Without `names`, all columns. */
export interface MetricsAnswer {
  /** Steps, ascending. */
  readonly step: readonly number[]
  /** One value per step; `null` where the step has no value. */
  readonly columns: Readonly<Record<string, readonly (number | null)[]>>
}

/** Fields that `sort` accepts. A reward part is `part.NAME`. */
const SORT_FIELDS = ['step', 'reward', 'length', 'advantage', 'turns', 'toolCalls', 'toolErrors'] as const
export type SortField = (typeof SORT_FIELDS)[number] | `part.${string}`

/** Filters of rollouts, all optional and combined with "and". Also used by exports. */
export interface RolloutFilter {
  readonly step?: number
  readonly minStep?: number
  readonly maxStep?: number
  readonly minReward?: number
  readonly maxReward?: number
  readonly minLength?: number
  readonly maxLength?: number
  readonly minAdvantage?: number
  readonly maxAdvantage?: number
  readonly truncated?: boolean
  /** Rollouts whose group was dropped or whose environment failed. */
  readonly failed?: boolean
  readonly minTurns?: number
  /** At least one tool call that returned an error. */
  readonly toolErrors?: boolean
  /** Text that the rollout contains, without regard to case. */
  readonly q?: string
  readonly group?: string
  readonly label?: string
  /** `part.NAME` is at least or at most this: `minPart=NAME:0.5`, `maxPart=NAME:0.5`. */
  readonly minPart?: string
  readonly maxPart?: string
}

/** Query of `GET /api/runs/:id/rollouts`. */
export interface RolloutsQuery extends RolloutFilter {
  readonly offset?: number
  /** At most 500; default 100. */
  readonly limit?: number
  readonly sort?: SortField
  readonly order?: 'asc' | 'desc'
}

/** One rollout in a list. */
export interface RolloutRow {
  /** Stable inside the run, safe in a path. */
  readonly id: string
  readonly step: number
  /** The group of completions of one task; its own identifier if the log has no groups. */
  readonly group: string
  /** Position in the log. */
  readonly index: number
  /** Sum of the rewards of its turns. */
  readonly reward: number
  /** Reward parts by name. */
  readonly parts: Readonly<Record<string, number>>
  /** Sampled tokens; characters if the log has no tokens. */
  readonly length: number
  readonly truncated: boolean
  readonly failed: boolean
  /** Mean advantage of its tokens, or `null`. */
  readonly advantage: number | null
  readonly turns: number
  readonly toolCalls: number
  readonly toolErrors: number
  /** Version of the sampling weights, or `null`. */
  readonly version: number | null
  /** Start of the task and of the last completion, at most 160 characters each. */
  readonly query: string
  readonly snippet: string
  readonly labels: readonly string[]
}

/** Counts between `edges[i]` and `edges[i + 1]`; the last bin includes its upper edge. */
export interface RolloutHistogram {
  readonly edges: readonly number[]
  readonly counts: readonly number[]
}

/** Answer of `GET /api/runs/:id/rollouts`. */
export interface RolloutsAnswer {
  /** Number of rollouts that match the filter. */
  readonly total: number
  readonly rows: readonly RolloutRow[]
  /** Over all matching rollouts. */
  readonly histogram: { readonly reward: RolloutHistogram; readonly length: RolloutHistogram }
  /** `true` if the text search stopped at its limit, so that `total` is a lower bound. */
  readonly isPartial: boolean
}

/** One token of the model, or of its context. All but `text` are absent if not recorded. */
export interface TokenRow {
  readonly id?: number
  readonly text: string
  /** Log-probability under the sampler, in nats. */
  readonly logProb?: number
  readonly trainerLogProb?: number
  /** Entropy of the distribution in nats. */
  readonly entropy?: number
  /** Ratio of the current to the sampling probability. */
  readonly ratio?: number
  readonly advantage?: number
  /** `true` if the loss clipped the token's ratio. */
  readonly clipped?: boolean
  /** `false` if the token is masked out of the loss. */
  readonly mask?: boolean
  /** Version of the weights that sampled it. */
  readonly version?: number
}

/** A tool call of a model turn. */
interface ToolCallRow {
  readonly name: string
  /** JSON text, or the text that was not JSON. */
  readonly arguments: string
}

type Author = 'template' | 'user' | 'tool' | 'model' | 'system'

/** One turn of a conversation. */
export interface TurnRow {
  readonly author: Author
  readonly text: string
  readonly toolCalls: readonly ToolCallRow[]
  /** `true` for the result of a tool call that failed. */
  readonly isError?: boolean
  /** Present for turns of the model with recorded tokens. */
  readonly tokens?: readonly TokenRow[]
  readonly reward?: number
  readonly stopReason?: string
}

export interface Annotation {
  readonly labels: readonly string[]
  readonly comment: string
}

/** Answer of `GET /api/runs/:id/rollouts/:rollout`. */
export interface RolloutAnswer {
  readonly row: RolloutRow
  /** The reference answer of the task, or `null`. */
  readonly answer: string | null
  readonly turns: readonly TurnRow[]
  /** `null` for an episode of one agent. */
  readonly agents: EpisodeAgents | null
  /** This rollout and the first others of its group, at most 16, in the order of the log. */
  readonly group: readonly RolloutRow[]
  /** All recorded rollouts of the group. */
  readonly groupSize: number
  readonly annotation: Annotation
  /** Rollouts before and after it in the log, or `null`. */
  readonly previous: string | null
  readonly next: string | null
}

/**
 * Events of `GET /api/runs/:id/events`. The data of each is JSON.
 * `metrics`: `{ step }`, `rollouts`: `{}`, `state`: `{ state }`, `note`: `{}`.
 * `GET /api/events` has `runs`: `{}` and `evidence`: `{}`.
 */
export type EventName = 'metrics' | 'rollouts' | 'state' | 'note' | 'runs' | 'evidence'

/** Answer of `GET /api/runs/:id/phases`. All arrays have one entry per step. */
export interface PhasesAnswer {
  readonly step: readonly number[]
  /**
   * Wall seconds by phase: generation, environment, training, weightSync, evaluation, and reference
   * if a step has one.
   */
  readonly seconds: Readonly<Record<string, readonly number[]>>
  /** Bytes, or `null`. */
  readonly memory: {
    readonly resident: readonly (number | null)[]
    readonly graphs: readonly (number | null)[]
  }
  readonly tokensPerSecond: {
    readonly generation: readonly (number | null)[]
    readonly training: readonly (number | null)[]
  }
  readonly groups: {
    readonly used: readonly (number | null)[]
    readonly withoutSignal: readonly (number | null)[]
    readonly dropped: readonly (number | null)[]
  }
  /** Lag of the trained tokens in updates; `null` for synchronous runs. */
  readonly staleness: {
    readonly mean: readonly (number | null)[]
    readonly max: readonly (number | null)[]
  }
  /** Seconds of sampling, and of sampling during training; `null` for synchronous runs. */
  readonly samplingSeconds: readonly (number | null)[]
  readonly overlapSeconds: readonly (number | null)[]
}

/** Body of `PUT /api/runs/:id/note`. Absent fields keep their value. Answers with the `RunRow`. */
export interface NoteRequest {
  readonly name?: string
  readonly note?: string
  readonly tags?: readonly string[]
}

/** Answer of `GET /api/compare?runs=a,b`. At most 8 runs. */
export interface CompareAnswer {
  readonly runs: readonly RunRow[]
  /** Settings that differ: dotted path and the value of each run, `null` if absent. */
  readonly settings: readonly { readonly path: string; readonly values: readonly Json[] }[]
  /** Names that any of the runs has. */
  readonly metricNames: readonly string[]
  /** Columns of each run, in the order of `runs`. `names=a,b` selects them. */
  readonly metrics: readonly MetricsAnswer[]
}

/** Body of `POST /api/runs/:id/rescore`. A missing part keeps its recorded weight. */
export interface RescoreRequest {
  readonly weights: Readonly<Record<string, number>>
  /** Rollouts whose new reward and advantage to return. At most 500. */
  readonly rollouts?: readonly string[]
}

/** Answer of `POST /api/runs/:id/rescore`. */
export interface RescoreAnswer {
  /** Weights of all parts: those of the request, and the recorded ones of the others. */
  readonly weights: Readonly<Record<string, number>>
  /** Mean rewards by step, over the recorded rollouts: as recorded, and under the new weights. */
  readonly step: readonly number[]
  readonly recorded: readonly number[]
  readonly rescored: readonly number[]
  /** Groups without a signal by step, as recorded and under the new weights. */
  readonly withoutSignal: { readonly recorded: readonly number[]; readonly rescored: readonly number[] }
  readonly rollouts: readonly {
    readonly id: string
    readonly reward: number
    readonly advantage: number
    readonly recordedReward: number
    readonly recordedAdvantage: number
  }[]
  /** Share of rollouts whose advantage changes its sign. */
  readonly signChanges: number
  /** The estimator of the recomputed advantages: `grpo`. */
  readonly advantage: string
}

/** One item of evidence; the page links it to `#/run/RUN/rollout/ROLLOUT?token=N`. */
interface EvidenceItem {
  readonly run: string
  readonly rollout?: string
  /** Turn of the rollout and token of the turn. */
  readonly turn?: number
  readonly token?: number
  readonly text: string
}

/** Body of `PUT /api/evidence` and answer of `GET /api/evidence`. */
export interface Evidence {
  readonly title: string
  readonly items: readonly EvidenceItem[]
}

/** Formats of `GET /api/runs/:id/export?format=...&FILTERS`, as JSON lines. */
export const EXPORT_FORMATS = ['sft', 'preferences'] as const
export type ExportFormat = (typeof EXPORT_FORMATS)[number]

/** Body of every answer with a status of 400 or above. */
export interface ErrorAnswer {
  readonly error: { readonly reason: string }
}

/**
 * The data of a page that opens without a server: the answers by their address, in the element
 * `<script type="application/json" id="data">`.
 */
export interface EmbeddedData {
  /** For example `/api/runs` and `/api/runs/ID/rollouts/0`. Lists hold all embedded rollouts. */
  readonly answers: Readonly<Record<string, Json>>
  readonly exportedAt: string
}
