/** Conversations of several agents that are played by scripted policies of tokens. */

import { type AgentSpeech, agentTemplate, MultiAgentEnv, type MultiAgentEnvOptions } from '@tandem-rl/agents'
import { orThrow, uniformInteger } from '@tandem-rl/base'
import { scriptedPolicy } from '@tandem-rl/testing'
import { textTokenizer, trainBytePairEncoding } from '@tandem-rl/text'
import { pipe } from 'fp-ts/lib/function.js'
import { DataLoadingPrimer } from '../../src/envs/transforms/dataLoadingPrimer.js'
import { append } from '../../src/envs/transforms/transform.js'
import { END_OF_TURN, tasks, template, tokenizer } from './conversation.js'
import { ownTemplate } from './ownTemplates.js'

/** ChatML, with the tokenizer of the other tests. */
export const CHAT_ML_SPEECH: AgentSpeech = { template, endOfTurn: END_OF_TURN, tokenizer }

const HEADERS_END = '<|eot|>'

/** Another model: headers, and a tokenizer of its own. */
export const HEADERS_SPEECH: AgentSpeech = {
  template: ownTemplate('headers'),
  endOfTurn: HEADERS_END,
  tokenizer: orThrow(
    textTokenizer(trainBytePairEncoding(['There are 18 pens.'], { vocabularySize: 280, specialTokens: [HEADERS_END] })),
  ),
}

/**
 * Samples one to six ids and ends its turn, by its key alone, in an order that no text encodes to.
 */
export const speaker = ({ tokenizer: of, endOfTurn }: AgentSpeech) => {
  const [words, end] = [of.encode('Therearesomanypens'), of.idOf(endOfTurn)!] // templates take away spaces at the ends
  return scriptedPolicy({
    answers: (_, key) => [
      ...Array.from({ length: 1 + uniformInteger(key, 6) }, (_each, t) => words[(7 * t) % words.length]!),
      end,
    ],
  })
}

/** A discussion of a task by several agents, in groups of `repeats`. */
export const discussion = (
  options: Omit<MultiAgentEnvOptions, 'batchSize'>,
  speech: AgentSpeech | { readonly byAgent: Readonly<Record<string, AgentSpeech>> },
  { repeats = 1, start = 0 }: { readonly repeats?: number; readonly start?: number } = {},
) =>
  pipe(
    MultiAgentEnv({ batchSize: repeats, ...options }),
    append(DataLoadingPrimer({ source: tasks(5), batchSize: repeats, repeats, start })),
    append(agentTemplate({ speech })),
  )
