/**
 * For those who bring data: rows of GSM8K, MATH, IFEval and any other data set, opened from files
 * or the Hugging Face Hub, mapped to columns, validated with row numbers, and turned into tasks.
 *
 * @module
 */
export type { Hub, HubFailure, HubFile, HubListing, HubProgress, HubRepo, RowProblem } from '@tandem-rl/base'
export { type LiveHubOptions, liveHub } from '@tandem-rl/host'
export { AGENT_ROWS, type AgentRowTask, type AgentTask, agentTask } from '../data/datasets/agentRows.js'
export { CONVERSATION_ROW, PREFERENCE_ROW, type PreferencePair } from '../data/datasets/conversationRows.js'
export { finalAnswer, GSM8K, type Gsm8kRow, type Gsm8kTasksOptions } from '../data/datasets/gsm8k.js'
export { IFEVAL, type IfEvalRow, type Instruction } from '../data/datasets/ifEval.js'
export { INSTRUCTION_ARGUMENTS } from '../data/datasets/ifEvalInstructions.js'
export { boxedAnswer, MATH, type MathRow } from '../data/datasets/math.js'
export {
  type DatasetAccess,
  type DatasetFailure,
  type HubRows,
  openDataset,
  openRows,
  parseHubName,
} from '../data/datasets/open.js'
export {
  type Columns,
  type DatasetFormat,
  type PlainRow,
  type QueryRow,
  ROWS,
  withColumns,
} from '../data/datasets/rows.js'
export { type CompletionStyle, supervisedCompletion } from '../data/datasets/wordProblems/supervisedCompletion.js'
export type { Split, WordProblemOptions } from '../data/datasets/wordProblems/wordProblems.js'
export type { IdentifiedRow, PlainTask, TaskOf } from '../data/task.js'
