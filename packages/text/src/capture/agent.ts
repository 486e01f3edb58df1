/** The contract of an agent that is trained from outside: a program that calls a server. */
import type { Json, Key } from '@tandem-rl/base'
import type { LLMEngine } from '../generation.js'
import type { Task } from '../task.js'
import type { ChatTemplate } from '../template/chatTemplate.js'
import type { TextTokenizer } from '../tokenizer/textTokenizer.js'
import type { CapturedSession } from './session.js'

/** The model that an agent uses. */
export interface AgentModel {
  readonly engine: LLMEngine
  readonly text: { readonly tokenizer: TextTokenizer; readonly template: ChatTemplate }
}

/** One attempt of an agent at a task. */
export interface AgentAttempt<out T extends Task = Task> {
  /** Unique among the attempts that are not dropped. */
  readonly id: string
  /** Attempts with the same group are at the same task. */
  readonly group: string
  readonly task: T
  /** Random key of the attempt's sampling. */
  readonly key: Key
  /** Sampling temperature of every call. The program's requests cannot change it. */
  readonly temperature: number
  /** The maximum number of tokens per call. */
  readonly maxNewTokens: number
}

/** An attempt that has ended. */
export interface PlayedAttempt {
  /** `end.status` is `failed` if the program failed, hung, or left calls unanswered. */
  readonly session: CapturedSession
  /** The value that the program returned, or the output of its process. */
  readonly result: unknown
}

/** An agent with a running server. */
export interface OpenAgent<in T extends Task = Task> {
  /** Plays an attempt within the agent's time limit. Never rejects. */
  readonly play: (attempt: AgentAttempt<T>) => Promise<PlayedAttempt>
  /** Drops sessions. */
  readonly drop: (ids: readonly string[]) => Promise<void>
  /** The number of calls that programs made after their end, which were refused. */
  readonly lateCalls: () => number
  /**
   * The number of calls whose `tool_choice: "required"` was treated as "auto". Absent if they are
   * refused.
   */
  readonly relaxedToolChoices?: () => number
  /** Aborts running attempts and closes the server. The engine stays open. */
  readonly close: () => Promise<void>
}

/** A program that a run trains. */
export interface CapturedAgent<in T extends Task = Task> {
  readonly _tag: 'CapturedAgent'
  readonly name: string
  /** The settings of the agent, stored in the run folder. */
  readonly description: Json
  /** Starts the server that the program calls. Throws FailureError if it cannot listen. */
  readonly open: (model: AgentModel) => Promise<OpenAgent<T>>
}
