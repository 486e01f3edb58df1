/** Environments and transforms refuse options that they do not have, as plain JavaScript would pass them. */
import { describe, expect, it } from 'vitest'
import * as envs from '../../src/envs/index.js'
import { useEngine } from '../kit/engine.js'

useEngine()

const FACTORIES: Readonly<Record<string, unknown>> = { ...envs }

/** A factory and an option of it, misspelled. The check comes first: nothing else has to be right. */
const MISSPELLED = {
  AddThinkingPrompt: ['undo_done', 'undoDone'],
  ChatEnv: ['batch_size', 'batchSize'],
  CountdownEnv: ['maxStep', 'maxSteps'],
  CountdownRewardParser: ['correctRewards', 'correctReward'],
  DataLoadingPrimer: ['repeat', 'repeats'],
  DatasetChatEnv: ['prompt', 'prompts'],
  DecodedPrompt: ['tokeniser', 'tokenizer'],
  FormatPenalty: ['block', 'blocks'],
  GSM8KEnv: ['compute_reward', 'computeReward'],
  GSM8KPrepareQuestion: ['prompts', 'prompt'],
  GSM8KRewardParser: ['onAnswers', 'onAnswer'],
  IFEvalEnv: ['max_steps', 'maxSteps'],
  IfEvalScorer: ['judge', 'judged'],
  IncrementalTokenizer: ['tokeniser', 'tokenizer'],
  KLComputation: ['coeficient', 'coefficient'],
  LLMEnv: ['eosTokenID', 'eosTokenId'],
  LLMHashingEnv: ['vocabSize', undefined],
  LLMTextEnv: ['eos_text', 'eosText'],
  MATHEnv: ['rewards', 'reward'],
  MATHRewardParser: ['place', 'places'],
  MultiAgentEnv: ['agent', 'agents'],
  MultiTurnEnv: ['max_turns', 'maxTurns'],
  OverlongPenalty: ['factors', 'factor'],
  RewardSum: ['entry', undefined],
  RewardTransform: ['endOfTurns', 'endOfTurn'],
  StepCounter: ['max_steps', 'maxSteps'],
  TemplateTransform: ['end_of_turn', 'endOfTurn'],
  TokenBudget: ['token', 'tokens'],
  Tokenizer: ['tokeniser', 'tokenizer'],
  makeGSM8KEnv: ['eostext', 'eosText'],
} as const satisfies Readonly<Record<string, readonly [string, string | undefined]>>

describe('options that a factory does not have', () => {
  it.each(Object.entries(MISSPELLED))('%s refuses one, and suggests the nearest', (name, [wrong, meant]) => {
    const factory = FACTORIES[name] as (options: never) => unknown // each takes a record of options
    const suggestion = meant === undefined ? ' ' : `: did you mean '${meant}'?`
    expect(() => factory({ [wrong]: 1 } as never)).toThrow(RangeError)
    expect(() => factory({ [wrong]: 1 } as never)).toThrow(`${name}: unknown option '${wrong}'${suggestion}`)
  })
})
