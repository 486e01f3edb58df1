import * as tf from '@tensorflow/tfjs'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { type Message, textOf } from '../../data/history.js'
import { dataSpec, tensorSpec } from '../../data/spec.js'
import { type Data, type Ragged, raggedRow } from '../../data/tensorDict/leaf.js'
import { type Entry, find, get, TensorDict } from '../../data/tensorDict/tensorDict.js'
import type { TextTokenizer } from '../../data/textTokenizer.js'
import { scope } from '../../engine/scope.js'
import { envFailure } from '../env.js'
import { type GSM8KReward, type GSM8KRewardOptions, gsm8kReward } from '../rewards/gsm8k.js'
import { type Transform, transform } from './transform.js'

/** The parts of the reward, each `[B]` float32, and whether the answer is right, `[B]` bool. Added on every step. */
export type GSM8KParts = {
  readonly rewardAnswer: tf.Tensor
  readonly rewardThink: tf.Tensor
  readonly rewardRight: tf.Tensor
  readonly success: tf.Tensor
}

/** Where the completion is read: the message, its text, or its token ids. */
export type InputMode =
  | { readonly _tag: 'history' }
  | { readonly _tag: 'text' }
  | { readonly _tag: 'tokens'; readonly tokenizer: TextTokenizer }

type OnAnswer = 'terminate' | 'continue'

export interface GSM8KRewardParserOptions extends GSM8KRewardOptions {
  readonly inputMode?: InputMode
  /** Whether an answer ends the episode. Default `terminate`. */
  readonly onAnswer?: OnAnswer
}

const HISTORY: InputMode = { _tag: 'history' }

/** The completions of an action, one text each; undefined if the action has no such view. */
const completions = (action: TensorDict, mode: InputMode): readonly string[] | undefined => {
  const entry: Entry | undefined = find(action, [mode._tag, 'response'])
  if (entry === undefined || entry instanceof tf.Tensor) return undefined
  // Casts: `history.response` holds messages and `text.response` strings, by the schemas of `data/policy.ts`.
  if (mode._tag === 'history' && entry._tag === 'Data') return (entry as Data<Message>).items.map(textOf).toArray()
  if (mode._tag === 'text' && entry._tag === 'Data') return (entry as Data<string>).items.toArray()
  if (mode._tag === 'tokens' && entry._tag === 'Ragged') {
    const rows = entry as Ragged<'int32'>
    return Array.from({ length: rows.offsets.length - 1 }, (_, i) => mode.tokenizer.decode(raggedRow(rows, i), 'keep'))
  }
  return undefined
}

const tensorOr = (td: TensorDict, key: string): tf.Tensor => {
  const entry = find(td, [key])
  return entry instanceof tf.Tensor ? entry : tf.zeros([...td.batchShape], 'bool')
}

const rewarded = (next: TensorDict, scores: readonly GSM8KReward[], onAnswer: OnAnswer): TensorDict<GSM8KParts> => {
  const part = (f: (score: GSM8KReward) => number): tf.Tensor => tf.tensor1d(scores.map(f), 'float32')
  const given = find(next, ['reward'])
  const reward = part((s) => s.reward)
  const answered = tf.tensor1d(
    scores.map((s) => onAnswer === 'terminate' && s.answer === 1),
    'bool',
  )
  return TensorDict(
    {
      reward: given instanceof tf.Tensor ? tf.add(given, reward) : reward,
      rewardAnswer: part((s) => s.answer),
      rewardThink: part((s) => s.think),
      rewardRight: part((s) => s.right),
      success: tf.tensor1d(
        scores.map((s) => s.right === 1),
        'bool',
      ),
      terminated: tf.logicalOr(tensorOr(next, 'terminated'), answered),
      done: tf.logicalOr(tensorOr(next, 'done'), answered),
    },
    next.batchShape,
  )
}

/**
 * Rewards each completion by `gsm8kReward` against the state's `answer`, and ends the episodes in which an answer was given. The
 * reward is added to what is there. Only the completion is read, never the prompt, in every input mode.
 *
 * Errors   `Left(EnvFailure)` if the action lacks the view that `inputMode` names.
 * Source   TorchRL `GSM8KRewardParser`.
 */
export const GSM8KRewardParser = (
  options: GSM8KRewardParserOptions = {},
): Transform<null, { readonly answer: Data<string> }, GSM8KParts> => {
  const { inputMode = HISTORY, onAnswer = 'terminate', ...rewards } = options
  return transform<null, { readonly answer: Data<string> }, GSM8KParts>({
    name: 'GSM8KRewardParser',
    initial: null,
    needs: { observation: { answer: dataSpec<string>('string') }, action: {} },
    adds: {
      rewardAnswer: tensorSpec('float32'),
      rewardThink: tensorSpec('float32'),
      rewardRight: tensorSpec('float32'),
      success: tensorSpec('bool'),
    },
    reset: (td) => TE.right([scope(() => noScores(td)), null]),
    step: (next, { action }) => {
      const texts = completions(action, inputMode)
      if (texts === undefined) {
        return TE.left(
          envFailure('GSM8KRewardParser', `the action has no entry ${inputMode._tag}.response of its kind`),
        )
      }
      const answers = get(next, 'answer').items
      const scores = texts.map((text, i) => gsm8kReward(text, answers.get(i)!, rewards))
      return TE.right([scope(() => rewarded(next, scores, onAnswer)), null])
    },
  })
}

/** Before the first step nothing is scored. */
const noScores = ({ batchShape }: TensorDict): TensorDict<GSM8KParts> =>
  TensorDict(
    {
      rewardAnswer: tf.zeros([...batchShape]),
      rewardThink: tf.zeros([...batchShape]),
      rewardRight: tf.zeros([...batchShape]),
      success: tf.zeros([...batchShape], 'bool'),
    },
    batchShape,
  )
