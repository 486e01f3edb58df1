/** The messages between the page and its worker. */
import type { RunEvent } from 'tandem-rl'

/** The choices of a visitor. */
export interface Choices {
  readonly seed: number
  readonly steps: number
  /** An expression of `reward.ts`. */
  readonly reward: string
  /** Changes of the recipe's settings, such as `{"tasks":{"prompts":4}}`. */
  readonly settings: Readonly<Record<string, unknown>>
}

/** What the browser has kept of a run. */
export interface Saved extends Choices {
  readonly step: number
  /** The events of the steps done, to draw the curves again. */
  readonly events: readonly RunEvent[]
}

export type ToWorker =
  | { readonly type: 'start'; readonly choices: Choices; readonly existing: 'replace' | 'resume' }
  | { readonly type: 'pause' }
  | { readonly type: 'download' }

export type FromWorker =
  /** Sent once, after the engine has started. */
  | { readonly type: 'ready'; readonly engine: string; readonly threads: number; readonly saved: Saved | null }
  | { readonly type: 'event'; readonly event: RunEvent }
  /** The run has ended or was paused; it is saved. */
  | { readonly type: 'stopped'; readonly status: 'finished' | 'paused' }
  | { readonly type: 'file'; readonly name: string; readonly blob: unknown }
  | { readonly type: 'failed'; readonly message: string }
