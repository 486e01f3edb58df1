import * as tf from '@tensorflow/tfjs-core'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { child, type Key, keyFromSeed, uniformInteger } from '../../core/key.js'
import { aFunction, aList, aText, checkOptions, eitherOf, oneOf } from '../../core/options.js'
import type { HistoryPrompt } from '../../data/policy.js'
import { dataSpec } from '../../data/spec.js'
import { data } from '../../data/tensorDict/leaf.js'
import type { DeepMerge } from '../../data/tensorDict/merge.js'
import { get, TensorDict } from '../../data/tensorDict/tensorDict.js'
import { scope } from '../../engine/scope.js'
import {
  appendMessage,
  type ContentPart,
  type History,
  hashHistory,
  lastMessage,
  type Message,
  message,
  textOf,
} from '../../text/history/history.js'
import { endedRows, type Outcome } from '../base/env.js'
import { allKept, isOpen, KEPT_SPEC, type KeptEntries, keptOf } from './keptReply.js'
import { type Transform, transform } from './transform.js'

/** The conversation with the prompts, and how much of each last reply stands. */
export type ThinkingEntries = DeepMerge<HistoryPrompt, KeptEntries>

export interface AddThinkingPromptOptions {
  /**
   * Which elements get a prompt, by the state after a step: one answer for each, true or not 0.
   * Pure.
   */
  readonly cond: (next: TensorDict<Outcome>) => ArrayLike<number | boolean>
  /** What is said, or several of which one is drawn. */
  readonly prompt: string | readonly string[]
  /** Whose message it is, where it is one of its own. Default assistant. */
  readonly role?: string
  /**
   * `close`: it replaces the last answer block of the policy's reply, whose turn then ends.
   * `continue`: the same, and the policy goes on in that turn. `no`: it is a message of its own.
   * Default close.
   */
  readonly editLastTurn?: 'close' | 'continue' | 'no'
  /** Default zero where a turn is edited, else keep. */
  readonly zeroReward?: 'zero' | 'keep'
  /**
   * What is undone of an episode's end. `terminated` leaves one that a `StepCounter` or a budget
   * cut off as it is. Default terminated.
   */
  readonly undoDone?: 'terminated' | 'all' | 'none'
}

const NAME = 'AddThinkingPrompt'
const [OPENING, CLOSING] = ['<answer>', '</answer>']

/**
 * How much of a reply stands in front of the prompt, and what parts them: up to its last answer
 * block, or all if there is none.
 */
const keptText = (text: string): readonly [kept: number, between: string] => {
  const closing = text.lastIndexOf(CLOSING)
  const opening = closing < 0 ? -1 : text.lastIndexOf(OPENING, closing)
  return opening < 0 ? [text.trimEnd().length, '\n\n'] : [opening, '']
}

/** A conversation and how much of its last reply stands. */
interface Turned {
  readonly history: History
  readonly kept: number | null
}

const isPlain = ({ content, toolCalls }: Message): boolean =>
  toolCalls.length === 0 && content.every(({ type }) => type === 'text')

/**
 * The next conversation of an episode whose turn was left open: what the policy went on with
 * belongs to the message that it goes on.
 */
const joined = (history: History, reply: number, before: string): History => {
  const said = history.messages.get(reply)!
  const content: readonly ContentPart[] = isPlain(said)
    ? [{ type: 'text', text: before + textOf(said) }]
    : [{ type: 'text', text: before }, ...said.content]
  return { ...history, messages: history.messages.splice(reply - 1, 2, { ...said, content }) }
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
 * The condition that the reward of the step is not above a limit. Rewards are float32, and so is
 * the limit: 0.1 is at most 0.1.
 */
export const rewardAtMost =
  (limit: number): AddThinkingPromptOptions['cond'] =>
  (next) =>
    get(next, 'reward')
      .dataSync()
      .map((reward) => (reward <= Math.fround(limit) ? 1 : 0))

/**
 * Asks the policy to think again where a condition holds, and reopens the episode. It belongs
 * behind the rewards and below the template.
 *
 * Its text is never the policy's: spans say `rendered` of all of its tokens, rows of a collector
 * have it in prompts, and no loss sees a gradient there. Where it replaces an answer, the ids in
 * front of the answer stay as they were sampled; if a token reaches over the border, its letters in
 * front of it are encoded again, and are nobody's either. The row of the turn itself keeps the
 * whole reply, as it was sampled.
 *
 * An episode that stays done, since it was cut off and `undoDone` does not undo that, or since it
 * was done before, gets no prompt and keeps its reward. So does, where a turn is to be edited, a
 * reply that calls tools or that somebody has answered.
 *
 * With several prompts one is drawn by the key of the reset and by what was said: equal
 * conversations get equal prompts.
 *
 * Errors   `Left(EnvFailure)` from the template above it if that does not show what was kept of a
 *          reply as it was written. Throws RangeError for options that contradict each other, and
 *          for a condition that does not answer once for each element.
 * Source   TorchRL `AddThinkingPrompt`, which edits text that is learned, undoes truncation and
 *          draws without a seed; its `role` and `edit_last_turn` have the same meaning, with
 *          `close`. What follows the block in a reply is dropped here, and kept there.
 *
 * @example
 * AddThinkingPrompt({ cond: rewardAtMost(0.1), prompt: 'But wait, let me check that.' }).name // 'AddThinkingPrompt'
 */
export const AddThinkingPrompt = (
  options: AddThinkingPromptOptions,
): Transform<Key, HistoryPrompt, ThinkingEntries> => {
  checkOptions('AddThinkingPrompt', options, {
    cond: aFunction,
    prompt: eitherOf(aText, aList),
    role: aText,
    editLastTurn: oneOf('close', 'continue', 'no'),
    zeroReward: oneOf('zero', 'keep'),
    undoDone: oneOf('terminated', 'all', 'none'),
  })
  const { cond, role = 'assistant', editLastTurn = 'close', undoDone = 'terminated' } = options
  const { zeroReward = editLastTurn === 'no' ? 'keep' : 'zero' } = options
  const prompts = requireSettings(options)

  const drawn = (history: History, key: Key): string =>
    prompts[uniformInteger(child(key, String(hashHistory(history))), prompts.length)]!

  /**
   * The conversation with its prompt; undefined if it is left alone. `open` is what the message
   * said when the policy went on with it.
   */
  const turned = (
    history: History,
    { reply, open }: { readonly reply: number; readonly open: string },
    key: Key,
  ): Turned | undefined => {
    if (editLastTurn === 'no')
      return { history: appendMessage(history, message(role, drawn(history, key))), kept: null }
    const said = history.messages.get(reply)
    if (said === undefined || reply !== history.messages.size - 1 || !isPlain(said)) return undefined
    const text = textOf(said).slice(open.length)
    const [kept, between] = keptText(text)
    const edited = message(said.role, open + text.slice(0, kept) + between + drawn(history, key), {
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
      const asked = get(previous as TensorDict<HistoryPrompt>, 'history', 'prompt').items // needed of the state
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
          const before = asked.get(i)!
          const open = isOpen(before, keptBefore(i)) ? textOf(lastMessage(before)!) : ''
          const said = open === '' ? history : joined(history, before.messages.size, open)
          const reply = before.messages.size - (open === '' ? 0 : 1)
          const staysDone =
            hadEnded[i]! || (undoDone === 'none' && terminated[i]!) || (undoDone !== 'all' && truncated[i]!)
          const result = isWanted[i]! && !staysDone ? turned(said, { reply, open }, key) : undefined
          return { ...(result ?? { history: said, kept: null }), isAsked: result !== undefined }
        })
      const entries = {
        history: { prompt: data(all.map(({ history }) => history)), kept: data(all.map(({ kept }) => kept)) },
      }
      const bools = (values: readonly boolean[]): tf.Tensor => tf.tensor1d([...values], 'bool')
      const added = scope(() => {
        const isAsked = bools(all.map((each) => each.isAsked))
        const ends = {
          terminated: tf.logicalAnd(get(outcome, 'terminated'), tf.logicalNot(isAsked)),
          truncated: tf.logicalAnd(get(outcome, 'truncated'), tf.logicalNot(isAsked)),
        }
        const reward = get(outcome, 'reward')
        const after = zeroReward === 'zero' ? tf.where(isAsked, tf.zerosLike(reward), reward) : tf.clone(reward)
        return TensorDict(
          { ...entries, ...ends, done: tf.logicalOr(ends.terminated, ends.truncated), reward: after },
          next.batchShape,
        )
      })
      return TE.right([added, key])
    },
  })
}
