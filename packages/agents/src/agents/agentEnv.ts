/** The environment of an agent: its conversations, tools, reward and limits. */

import {
  type ChatTemplate,
  endsInThoughts,
  type Message,
  messageOfCalls,
  THINK_TAGS,
  type ThoughtTags,
  type ToolCallFormat,
  textOf,
  thoughtTagsOf,
  withoutThoughts,
} from '@tandem-rl/text'
import {
  type CallFinder,
  callsOfText,
  contextFolding,
  type Tool,
  type ToolCallOptions,
  type ToolEntries,
  ToolRegistry,
  toolSpecs,
  toolTransform,
} from '@tandem-rl/tools'
import { pipe } from 'fp-ts/lib/function.js'
import {
  append,
  DatasetChatEnv,
  type DatasetChatStateOf,
  type Env,
  type HistoryAction,
  type HistoryPrompt,
  type RewardEntries,
  rewardTransform,
  type StepCount,
  StepCounter,
  type TaskSource,
  type Transform,
} from 'tandem-rl'
import type { AgentTask } from 'tandem-rl/datasets'
import type { DrawnChats, SegmentEntries } from 'tandem-rl/envs'
import type { AnyReward } from 'tandem-rl/rewards'
import type { DeepMerge } from 'tandem-rl/tensordict'
import { cutReply } from './cutReply.js'
import { givenMessages } from './givenMessages.js'
import type { AgentKind, ReadReply } from './kinds/kind.js'

/**
 * The states of an agent's environment. `segment` exists if the agent folds its context, and
 * `success` if it has a reward.
 */
export type AgentState = DeepMerge<
  DeepMerge<DatasetChatStateOf<AgentTask, 'task'>, ToolEntries>,
  StepCount & Partial<RewardEntries> & Partial<Pick<SegmentEntries, 'segment'>>
>

/** The parts of an agent that its environment is made of. */
export interface AgentParts {
  readonly kind: AgentKind
  readonly tools: readonly Tool[]
  readonly systemPrompt: string | undefined
  readonly reward: AnyReward<AgentTask> | undefined
  /** Ends the conversation if it returns `true` for a reply. */
  readonly stopWhen: ((reply: string) => boolean) | undefined
  readonly toolOptions: Omit<ToolCallOptions, 'role' | 'prefix' | 'onNoCall'>
  readonly triggerTurns: number | undefined
  readonly thoughts: ThoughtTags | 'searched' | undefined
}

/** The conversations to draw, and the limit of turns. */
export interface AgentEnvOptions extends Omit<DrawnChats<AgentTask>, 'systemPrompt'> {
  /** Turns of the policy before an episode is truncated. Default 8. */
  readonly maxTurns?: number
}

/** Default number of turns. */
export const MAX_TURNS = 8

const NO_ANSWER: ReadReply = {
  calls: [{ name: '', arguments: '', problem: 'the thoughts of the reply have no closing tag' }],
  end: 'continue',
}

/** Reads a reply: the agent's stop rule first, then its format, in which thoughts are not read. */
export const readerOf = ({
  kind,
  tools,
  stopWhen,
  thoughts = THINK_TAGS,
}: AgentParts): ((text: string) => ReadReply) => {
  const read = kind.reader?.(tools)
  return (text) => {
    if (stopWhen?.(text) === true) return { calls: [], end: 'terminal' }
    if (read === undefined) return { calls: [], end: 'continue' }
    if (thoughts === 'searched') return read(text)
    return endsInThoughts(text, thoughts) ? NO_ANSWER : read(withoutThoughts(text, thoughts))
  }
}

/** The text side of the policy: how it writes native calls, and its template, if they are known. */
export interface PolicyText {
  /** Undefined for calls in the `toolCalls` of messages. */
  readonly format: ToolCallFormat | undefined
  readonly template: ChatTemplate | undefined
}

/** Finds the calls of a reply, for the transforms of the environment. */
const finderOf = (parts: AgentParts, { format, template }: PolicyText): CallFinder => {
  const read = readerOf(parts)
  const tools = toolSpecs(ToolRegistry(parts.tools))
  const known = template === undefined ? 'none' : thoughtTagsOf(template.source)
  const thoughts = parts.thoughts ?? (known === 'none' ? THINK_TAGS : known)
  const native = callsOfText(format, { tools, thoughts })
  return (reply, malformed, prompt) => {
    const found = read(textOf(reply))
    if (found.end === 'terminal') return { calls: [], malformed: [] }
    if (parts.kind.reader === undefined) return native(reply, malformed, prompt)
    const { isComplete } = reply
    const { message, malformedCalls } = messageOfCalls('', found.calls, { isComplete })
    return { calls: message.toolCalls, malformed: malformedCalls }
  }
}

/** An environment of conversations, whatever else its states have. */
type Chats = Env<HistoryPrompt, HistoryAction>

/** Puts a transform around an environment. Each transform checks what it needs of the states. */
const around = (env: Chats, added: unknown): Chats =>
  pipe(env, append(added as Transform<null, HistoryPrompt, HistoryPrompt>)) // further entries pass through

/** The environment of an agent. */
export const agentEnv = (
  parts: AgentParts,
  { maxTurns = MAX_TURNS, ...drawn }: AgentEnvOptions,
  text: PolicyText,
): Env<AgentState, HistoryAction> => {
  const { kind, tools, systemPrompt, reward, toolOptions, triggerTurns } = parts
  const read = finderOf(parts, text)
  const request = DatasetChatEnv<AgentTask, 'task'>({
    ...drawn,
    keep: 'task',
    ...(systemPrompt !== undefined && { systemPrompt }),
  })
  const tooled = toolTransform({
    ...toolOptions,
    ...kind.results,
    read,
    name: `${kind.name}Tools`,
    registry: ToolRegistry(tools),
    onNoCall: 'terminate',
  })
  const folding = kind.folding && {
    ...kind.folding,
    ...(triggerTurns !== undefined && { triggerTurns }),
    read: (reply: Message) => read(reply, undefined),
  }
  const layers: readonly unknown[] = [
    givenMessages(),
    ...(kind.cutAfter === undefined
      ? []
      : [cutReply({ after: kind.cutAfter, thoughts: parts.thoughts ?? THINK_TAGS })]),
    tooled,
    ...(folding === undefined ? [] : [contextFolding(folding)]),
    StepCounter({ maxSteps: maxTurns }),
    ...(reward === undefined ? [] : [rewardTransform({ reward, onAnswer: 'continue' })]),
  ]
  return layers.reduce<Chats>(around, request as unknown as Chats) as unknown as Env<AgentState, HistoryAction> // by the entries of its parts
}

/** A source over these tasks. */
export type AgentSource = TaskSource<AgentTask>
