import { checkOptions, child, type Key, keyFromSeed, uniformInteger } from '@tandem-rl/base'
import {
  appendMessage,
  type ContentPart,
  type History,
  hashHistory,
  lastMessage,
  type Message,
  message,
  textOf,
} from '@tandem-rl/text'
import { scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as tf from '@tensorflow/tfjs-core'
import * as TE from 'fp-ts/lib/TaskEither.js'
import type { HistoryPrompt } from '../../data/policy.js'
import { dataSpec } from '../../data/spec.js'
import { data } from '../../data/tensorDict/leaf.js'
import type { DeepMerge } from '../../data/tensorDict/merge.js'
import { get, TensorDict } from '../../data/tensorDict/tensorDict.js'
import { endedRows, type Outcome } from '../base/env.js'
import { ADD_THINKING_PROMPT_OPTIONS } from '../optionKinds.js'
import { allKept, isOpen, KEPT_SPEC, type KeptEntries, keptOf } from './keptReply.js'
import { type Transform, transform } from './transform.js'

/** The conversation with the prompts, and the kept part of each last reply. */
export type ThinkingEntries = DeepMerge<HistoryPrompt, KeptEntries>

export interface AddThinkingPromptOptions {
  /**
   * Selects the elements that get a prompt from the state after a step: one value for each, true or
   * non-zero. Pure.
   */
  readonly cond: (next: TensorDict<Outcome>) => ArrayLike<number | boolean>
  /** The prompt, or several of which one is drawn. */
  readonly prompt: string | readonly string[]
  /** The role of the prompt if it is a separate message. Default assistant. */
  readonly role?: string
  /**
   * `close`: the prompt replaces the last answer block of the policy's reply, whose turn then ends.
   * `continue`: the same, and the policy continues the turn. `no`: the prompt is a separate
   * message. Default close.
   */
  readonly editLastTurn?: 'close' | 'continue' | 'no'
  /** Default: zero if a turn is edited, else keep. */
  readonly zeroReward?: 'zero' | 'keep'
  /**
   * The ends of an episode that are undone. `terminated` does not undo a truncation by a
   * `StepCounter` or a budget. Default terminated.
   */
  readonly undoDone?: 'terminated' | 'all' | 'none'
}

const NAME = 'AddThinkingPrompt'
const [OPENING, CLOSING] = ['<answer>', '</answer>']

/**
 * Returns the length of the reply in front of the prompt, and the separator: up to its last answer
 * block, or the whole reply without one.
 */
const keptText = (text: string): readonly [kept: number, between: string] => {
  const closing = text.lastIndexOf(CLOSING)
  const opening = closing < 0 ? -1 : text.lastIndexOf(OPENING, closing)
  return opening < 0 ? [text.trimEnd().length, '\n\n'] : [opening, '']
}

/** A conversation and the kept length of its last reply. */
interface Turned {
  readonly history: History
  readonly kept: number | null
}

const isPlain = ({ content, toolCalls }: Message): boolean =>
  toolCalls.length === 0 && content.every(({ type }) => type === 'text')

/** Merges the continuation of an open turn into the message that it continues. */
const joined = (history: History, reply: number, before: string): History => {
  const current = history.messages.get(reply)!
  const content: readonly ContentPart[] = isPlain(current)
    ? [{ type: 'text', text: before + textOf(current) }]
    : [{ type: 'text', text: before }, ...current.content]
  return { ...history, messages: history.messages.splice(reply - 1, 2, { ...current, content }) }
}

const requireSettings = ({
  prompt,
  role = 'assistant',
  editLastTurn = 'close',
}: AddThinkingPromptOptions): readonly string[] => {
  const prompts = typeof prompt === 'string' ? [prompt] : prompt
  const problems = [
    ...(prompts.length > 0 && prompts.every((text) => text !== '')
      ? []
      : ['prompt must be a text, or a list of texts']),
    ...(editLastTurn === 'no' || role === 'assistant'
      ? []
      : [`editLastTurn '${editLastTurn}' edits what the assistant said, so role must be assistant, got ${role}`]),
  ]
  if (problems.length > 0) throw new RangeError(`${NAME}: ${problems.join('; ')}`)
  return prompts
}

/**
 * Makes the condition that a step's reward is at most a limit. Rewards are float32, and so is the
 * limit: 0.1 is at most 0.1.
 */
export const rewardAtMost =
  (limit: number): AddThinkingPromptOptions['cond'] =>
  (next) =>
    get(next, 'reward')
      .dataSync()
      .map((reward) => (reward <= Math.fround(limit) ? 1 : 0))

/**
 * Asks the policy to think again where a condition holds, and reopens the episode. Place it outside
 * the rewards and inside the template.
 *
 * The prompt never counts as the policy's text: all of its tokens have the span `rendered`, rows of
 * a collector have it in prompts, and losses mask it out. If it replaces an answer, the ids in
 * front of the answer stay as sampled. If a token crosses the border, its characters in front of
 * the border are encoded again and are masked out too. The row of the turn itself keeps the whole
 * reply, as sampled.
 *
 * An episode that stays done, because it was truncated and `undoDone` does not undo that, or
 * because it was done before, gets no prompt and keeps its reward. If a turn is to be edited, this
 * also holds for replies that call tools or have been answered.
 *
 * One of several prompts is drawn by the key of the reset and the conversation: equal conversations
 * get equal prompts.
 *
 * Errors   `Left(EnvFailure)` from the template outside if it does not render the kept part of a
 *          reply unchanged. Throws RangeError for contradictory options, and for a condition that
 *          does not return one value for each element.
 * Source   TorchRL `AddThinkingPrompt`, which edits text that is trained on, undoes truncation and
 *          draws without a seed; its `role` and `edit_last_turn` have the same meaning, with
 *          `close`. Text after the block in a reply is dropped here, and kept there.
 *
 * @example
 * AddThinkingPrompt({ cond: rewardAtMost(0.1), prompt: 'But wait, let me check that.' }).name // 'AddThinkingPrompt'
 */
export const AddThinkingPrompt = (
  options: AddThinkingPromptOptions,
): Transform<Key, HistoryPrompt, ThinkingEntries> => {
  checkOptions('AddThinkingPrompt', options, ADD_THINKING_PROMPT_OPTIONS)
  const { cond, role = 'assistant', editLastTurn = 'close', undoDone = 'terminated' } = options
  const { zeroReward = editLastTurn === 'no' ? 'keep' : 'zero' } = options
  const prompts = requireSettings(options)

  const drawn = (history: History, key: Key): string =>
    prompts[uniformInteger(child(key, String(hashHistory(history))), prompts.length)]!

  /**
   * Returns the conversation with its prompt; undefined without one. `open` is the text of the
   * message when the policy continued it.
   */
  const turned = (
    history: History,
    { reply, open }: { readonly reply: number; readonly open: string },
    key: Key,
  ): Turned | undefined => {
    if (editLastTurn === 'no')
      return { history: appendMessage(history, message(role, drawn(history, key))), kept: null }
    const current = history.messages.get(reply)
    if (current === undefined || reply !== history.messages.size - 1 || !isPlain(current)) return undefined
    const text = textOf(current).slice(open.length)
    const [kept, between] = keptText(text)
    const edited = message(current.role, open + text.slice(0, kept) + between + drawn(history, key), {
      isComplete: editLastTurn === 'close',
    })
    return { history: { ...history, messages: history.messages.set(reply, edited) }, kept }
  }

  return transform<Key, HistoryPrompt, ThinkingEntries>({
    name: NAME,
    initial: keyFromSeed(0),
    needs: { observation: { history: { prompt: dataSpec<History>('History') } }, action: {} },
    adds: { history: { prompt: dataSpec<History>('History'), kept: KEPT_SPEC } },
    reset: (td, _, key) => {
      const kept = allKept(td.batchShape[0] ?? 0)
      return TE.right([
        TensorDict({ history: { prompt: get(td, 'history', 'prompt'), kept } }, td.batchShape),
        child(key, NAME),
      ])
    },
    step: (next, { previous }, key) => {
      const outcome = next as TensorDict as TensorDict<Outcome & HistoryPrompt> // every step has an outcome
      const request = get(previous as TensorDict<HistoryPrompt>, 'history', 'prompt').items // needed of the state
      const keptBefore = keptOf(previous)
      const hadEnded = endedRows(previous, 'done')
      const [terminated, truncated] = [endedRows(next, 'terminated'), endedRows(next, 'truncated')]
      const isWanted = scope(() => Array.from(cond(outcome), (x) => x === true || (typeof x === 'number' && x !== 0)))
      if (isWanted.length !== terminated.length) {
        throw new RangeError(
          `${NAME}: cond must answer once for each of ${terminated.length} elements, got ${isWanted.length}`,
        )
      }
      const all = get(outcome, 'history', 'prompt')
        .items.toArray()
        .map((history, i) => {
          const before = request.get(i)!
          const open = isOpen(before, keptBefore(i)) ? textOf(lastMessage(before)!) : ''
          const current = open === '' ? history : joined(history, before.messages.size, open)
          const reply = before.messages.size - (open === '' ? 0 : 1)
          const staysDone =
            hadEnded[i]! || (undoDone === 'none' && terminated[i]!) || (undoDone !== 'all' && truncated[i]!)
          const result = isWanted[i]! && !staysDone ? turned(current, { reply, open }, key) : undefined
          return { ...(result ?? { history: current, kept: null }), isRequested: result !== undefined }
        })
      const entries = {
        history: { prompt: data(all.map(({ history }) => history)), kept: data(all.map(({ kept }) => kept)) },
      }
      const bools = (values: readonly boolean[]): tf.Tensor => tf.tensor1d([...values], 'bool')
      const added = scope(() => {
        const isRequested = bools(all.map((each) => each.isRequested))
        const ends = {
          terminated: tf.logicalAnd(get(outcome, 'terminated'), tf.logicalNot(isRequested)),
          truncated: tf.logicalAnd(get(outcome, 'truncated'), tf.logicalNot(isRequested)),
        }
        const reward = get(outcome, 'reward')
        const after = zeroReward === 'zero' ? tf.where(isRequested, tf.zerosLike(reward), reward) : tf.clone(reward)
        return TensorDict(
          { ...entries, ...ends, done: tf.logicalOr(ends.terminated, ends.truncated), reward: after },
          next.batchShape,
        )
      })
      return TE.right([added, key])
    },
  })
}
