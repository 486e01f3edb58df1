/** The reward of IFEval: how many instructions a reply keeps. */
import { checkOptions } from '@tandem-rl/base'
import { withoutThoughts } from '@tandem-rl/text'
import type { IfEvalRow } from '../../../data/datasets/ifEval.js'
import type { RowTask } from '../../../data/task.js'
import { IFEVAL_REWARD_OPTIONS } from '../../optionKinds.js'
import { replyOf } from '../reply.js'
import type { Answered, Reward, Scored } from '../reward.js'
import type { CheckContext } from './check.js'
import { type IFEvalScoreData, ifEvalScore } from './ifEvalScore.js'
import { isBlankText } from './pythonText.js'

/** The parsed reply and its verdicts. */
export interface IfEvalReading {
  readonly score: IFEvalScoreData
  /** The contents of closed blocks, unchanged. */
  readonly thinkBlocks: readonly string[]
  readonly answerBlocks: readonly string[]
  /** False for a reply that was truncated. */
  readonly isComplete: boolean
}

/** Converts verdicts to a reward. */
export interface IfEvalAggregator {
  readonly range: Reward['range']
  /** Pure; not NaN. */
  readonly reward: (reading: IfEvalReading) => number
}

/** The weight of each verdict; verdicts on instructions are shares. */
export interface IfEvalWeights {
  readonly promptLevelStrict: number
  readonly instLevelStrict: number
  readonly promptLevelLoose: number
  readonly instLevelLoose: number
  /** Weight of exactly one answer block. */
  readonly answerBlock: number
  /** Weight of exactly one think block beside an answer. */
  readonly thinkBlock: number
}

export interface IfEvalRewardOptions extends CheckContext {
  /**
   * The text that is judged: the first answer block (the default, as in TorchRL), or the whole
   * reply, as IFEval defines it. An instruction such as a reply in quotation marks can be kept with
   * surrounding blocks only if the block alone is judged.
   */
  readonly judged?: 'answer' | 'reply'
  /**
   * Default: `weightedIfEval()`, without the two weights of blocks if the whole reply is judged.
   */
  readonly aggregate?: IfEvalAggregator
}

const WEIGHTS: IfEvalWeights = {
  promptLevelStrict: 0.4,
  instLevelStrict: 0.3,
  promptLevelLoose: 0.2,
  instLevelLoose: 0.1,
  answerBlock: 0.1,
  thinkBlock: 0.05,
}

const share = (verdicts: readonly boolean[]): number => verdicts.filter(Boolean).length / verdicts.length

const isWritten = (block: string | undefined): boolean => block !== undefined && !isBlankText(block)

const PERFECT: IfEvalReading = {
  score: { promptLevelStrict: true, promptLevelLoose: true, instLevelStrict: [true], instLevelLoose: [true] },
  thinkBlocks: ['x'],
  answerBlocks: ['x'],
  isComplete: true,
}

/**
 * Makes the weighted sum of the four verdicts and of the reply's format.
 *
 * Equation $r = 0.4 p_s + 0.3 \bar i_s + 0.2 p_l + 0.1 \bar i_l + 0.1 a + 0.05 t$, with $p$ the
 * verdict on the prompt and $\bar i$ the share of its instructions, strict and loose; $a$: there is
 * exactly one answer block; $t$: and one think block. $a$ and $t$ are 0 if the first answer block
 * is blank.
 * Errors   throws RangeError for weights that are negative or not finite.
 * Source   TorchRL `IfEvalScorer.default_reward_aggregator`, which also pays for empty blocks.
 *
 * @example
 * weightedIfEval({ answerBlock: 0, thinkBlock: 0 }).range[0] // 0
 */
export const weightedIfEval = (options: Partial<IfEvalWeights> = {}): IfEvalAggregator => {
  const weights = { ...WEIGHTS, ...options }
  const problems = Object.entries(weights).filter(([, weight]) => !(Number.isFinite(weight) && weight >= 0))
  if (problems.length > 0) {
    const got = problems.map(([name, weight]) => `${name} = ${weight}`).join(', ')
    throw new RangeError(`weightedIfEval: weights must be finite and not negative, got ${got}`)
  }
  const reward = ({ score, thinkBlocks, answerBlocks }: IfEvalReading): number => {
    const hasAnswer = isWritten(answerBlocks[0])
    return (
      weights.promptLevelStrict * Number(score.promptLevelStrict) +
      weights.instLevelStrict * share(score.instLevelStrict) +
      weights.promptLevelLoose * Number(score.promptLevelLoose) +
      weights.instLevelLoose * share(score.instLevelLoose) +
      weights.answerBlock * Number(hasAnswer && answerBlocks.length === 1) +
      weights.thinkBlock * Number(hasAnswer && thinkBlocks.length === 1)
    )
  }
  return { range: [0, reward(PERFECT)], reward }
}

/** Returns the contents of all closed blocks of a tag, from left to right. Linear in the text. */
const blocksOf = (text: string, tag: string): readonly string[] => {
  const [open, close] = [`<${tag}>`, `</${tag}>`]
  const found: string[] = []
  for (let start = text.indexOf(open); start >= 0; ) {
    const end = text.indexOf(close, start + open.length)
    if (end < 0) break
    found.push(text.slice(start + open.length, end))
    start = text.indexOf(open, end + close.length)
  }
  return found
}

/** A score with its verdicts. */
export interface IfEvalScored extends Scored {
  readonly verdicts: IFEvalScoreData
}

/** IFEval's reward, which also returns the verdicts. */
export interface IfEvalReward extends Reward<RowTask<IfEvalRow>> {
  readonly score: (answered: Answered<RowTask<IfEvalRow>>) => IfEvalScored
}

/**
 * Makes a reward of the share of the task's instructions that a reply keeps. A reply that keeps all
 * of them strictly is a success. The parts are `answer` (1 if there is text to judge), `think` (1
 * if there is one think block), and the verdicts, those on instructions as shares.
 *
 * Errors   `score` throws RangeError for a task with instructions outside IFEval (`IFEVAL` rejects
 *          such rows), and if the aggregate is NaN.
 * Source   TorchRL `IfEvalScorer`.
 *
 * @example
 * ifEvalReward({ detectLanguage: () => 'en', judged: 'reply' }).range[0] // 0
 */
export const ifEvalReward = (options: IfEvalRewardOptions): IfEvalReward => {
  checkOptions('ifEvalReward', options, IFEVAL_REWARD_OPTIONS)
  const { detectLanguage, judged = 'answer' } = options
  const { aggregate = weightedIfEval(judged === 'reply' ? { answerBlock: 0, thinkBlock: 0 } : {}) } = options
  return {
    name: 'ifEval',
    partNames: ['answer', 'think', 'promptLevelStrict', 'instLevelStrict', 'promptLevelLoose', 'instLevelLoose'],
    range: aggregate.range,
    score: ({ task, history }) => {
      const reply = replyOf({ history })
      const answer = withoutThoughts(reply)
      const [thinkBlocks, answerBlocks] = [blocksOf(reply, 'think'), blocksOf(answer, 'answer')]
      const text = judged === 'reply' ? answer : (answerBlocks[0] ?? '')
      const verdicts = ifEvalScore(text, task.row.instructions, { detectLanguage })
      const isComplete = history.messages.last()?.isComplete ?? false
      const reward = aggregate.reward({ score: verdicts, thinkBlocks, answerBlocks, isComplete })
      if (Number.isNaN(reward)) throw new RangeError(`ifEvalReward: the aggregate of task ${task.id} is NaN`)
      return {
        reward,
        success: verdicts.promptLevelStrict,
        verdicts,
        parts: {
          answer: Number(!isBlankText(text)),
          think: Number(thinkBlocks.length === 1),
          promptLevelStrict: Number(verdicts.promptLevelStrict),
          instLevelStrict: share(verdicts.instLevelStrict),
          promptLevelLoose: Number(verdicts.promptLevelLoose),
          instLevelLoose: share(verdicts.instLevelLoose),
        },
      }
    },
  }
}
