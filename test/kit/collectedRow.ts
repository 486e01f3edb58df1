/** A collected row with every view, from which `publicNames` reads the entries that exist. */
import type { CollectedBatch } from '../../src/collectors/rollouts/turnRows.js'
import type {
  HistoryAction,
  HistoryPrompt,
  TextAction,
  TextPrompt,
  TokenAction,
  TokenPrompt,
} from '../../src/data/policy.js'

/** Rows of tokens, texts and conversations at once. */
export type CollectedRow = CollectedBatch<
  TokenPrompt & TextPrompt & HistoryPrompt,
  TokenAction & TextAction & HistoryAction
>
