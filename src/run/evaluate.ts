/** Accuracy on problems, answered greedily. */

import { LLMCollector } from '../collectors/llmCollector.js'
import { orThrow } from '../core/failure.js'
import type { Key } from '../core/key.js'
import { lastMessage, textOf } from '../data/history.js'
import type { Policy, TokenAction, TokenPrompt } from '../data/policy.js'
import type { TaskSource } from '../data/task.js'
import { rowLengths } from '../data/tensorDict/leaf.js'
import { get } from '../data/tensorDict/tensorDict.js'
import type { ModelText } from '../modules/pretrained.js'
import { wordProblemEnv } from './pipeline.js'

/** How one problem went. */
export interface ProblemResult {
  readonly taskId: string
  readonly query: string
  readonly completion: string
  readonly isRight: boolean
  readonly isWorked: boolean
  readonly tokens: number
}

export interface EvaluationOptions {
  readonly text: ModelText
  readonly policy: Policy<TokenPrompt, TokenAction>
  readonly source: TaskSource
  /** Problems `0 .. problems - 1` of the source. */
  readonly problems: number
  readonly key: Key
  /** Problems answered at a time. Default 200. */
  readonly batch?: number
}

/**
 * Answers problems, a batch at a time.
 *
 * Errors   throws FailureError if the environment or the policy fails.
 */
export async function* evaluateProblems(options: EvaluationOptions): AsyncGenerator<readonly ProblemResult[]> {
  const { text, policy, source, problems, key, batch = 200 } = options
  for (let start = 0; start < problems; start += batch) {
    const prompts = Math.min(batch, problems - start)
    const rest: TaskSource = { ...source, at: (index) => source.at(start + index) }
    const collector = LLMCollector({ env: wordProblemEnv(rest, text, { prompts }), policy, key })
    using owned = orThrow(await collector.collect(collector.start)()).batch
    const td = owned.value
    const [success, think] = [get(td, 'next', 'success').dataSync(), get(td, 'next', 'rewardThink').dataSync()]
    const histories = get(td, 'next', 'history', 'prompt').items
    const lengths = rowLengths(get(td, 'tokens', 'response'))
    yield lengths.map((tokens, i) => ({
      taskId: get(td, 'taskId').items.get(i)!,
      query: get(td, 'query').items.get(i)!,
      completion: textOf(lastMessage(histories.get(i)!)!), // the last message is the policy's
      isRight: success[i] === 1,
      isWorked: think[i] === 1,
      tokens,
    }))
  }
}

export interface EvaluationScores {
  readonly problems: number
  readonly accuracy: number
  /** Share of completions that work the problem out before they answer. */
  readonly worked: number
  readonly completionTokens: number
}

/** Means over results. Errors: throws RangeError for none. */
export const scoresOf = (results: readonly ProblemResult[]): EvaluationScores => {
  if (results.length === 0) throw new RangeError('scoresOf: there are no results')
  const mean = (f: (result: ProblemResult) => number): number =>
    results.reduce((sum, result) => sum + f(result), 0) / results.length
  return {
    problems: results.length,
    accuracy: mean((r) => (r.isRight ? 1 : 0)),
    worked: mean((r) => (r.isWorked ? 1 : 0)),
    completionTokens: mean((r) => r.tokens),
  }
}
