/** How much memory a prepared run will take. */

import type { MemoryRequest } from '../collectors/memoryEstimate.js'
import type { Pretrained } from '../modules/pretrained.js'
import { parameterCount } from '../modules/transformer/params.js'
import { stateNumbers } from './optimizerChoice.js'
import type { RunSettings } from './settings.js'
import type { Trainable } from './weights.js'

/** Tokens that a chat template puts around a question, about. */
const TEMPLATE_TOKENS = 32

/** Tokens of the longest of a few questions as the model reads it, or of as much as it can read. */
export const promptTokens = ({ config, text }: Pretrained, questions: readonly string[]): number => {
  const lengths = questions.map((question) => text.tokenizer.encode(question).length)
  return Math.min(config.maxPositions, Math.max(0, ...lengths) + TEMPLATE_TOKENS)
}

/** What a run asks of the machine. */
export const runMemoryRequest = (
  settings: RunSettings,
  { model, adapter }: Trainable,
  prompt: number,
): MemoryRequest => {
  const adapted = adapter === null ? [] : [...adapter.arrays.values()]
  return {
    config: model.config,
    trained: adapter === null ? parameterCount(model.config) : adapted.reduce((sum, { data }) => sum + data.length, 0),
    stateNumbers: stateNumbers(settings),
    batch: {
      prompts: settings.prompts,
      group: settings.group,
      promptTokens: prompt,
      completionTokens: settings.maxNewTokens,
    },
    microBatchTokens: settings.microBatch,
    recompute: settings.recompute,
    threads: settings.workers - 1 + (settings.maxLag > 0 ? 1 : 0),
  }
}
