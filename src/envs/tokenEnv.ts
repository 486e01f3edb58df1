/** Environments of conversations as environments of token ids. */
import { pipe } from 'fp-ts/lib/function.js'
import type { HistoryAction, HistoryPrompt, TokenAction, TokenPrompt } from '../data/policy.js'
import type { DeepMerge } from '../data/tensorDict/merge.js'
import type { Env } from './base/env.js'
import { TemplateTransform, type TemplateTransformOptions, type TextEntries } from './transforms/templateTransform.js'
import { Tokenizer } from './transforms/tokenizer.js'
import { append } from './transforms/transform.js'

/** The state of an environment with the texts and token ids of its conversations. */
export type TokenEnvState<O extends HistoryPrompt> = DeepMerge<DeepMerge<O, TextEntries>, TokenPrompt>

/** The template and tokenizer of a model: `text` of `loadPretrained`. */
export type TokenEnvText = TemplateTransformOptions & Parameters<typeof Tokenizer>[0]

/**
 * Encodes the conversations of an environment with a model's template and tokenizer, and decodes
 * completions: appends `TemplateTransform`, then `Tokenizer`.
 *
 * Errors   those of both transforms, when the environment is played.
 */
export const tokenEnv = <O extends HistoryPrompt>(
  env: Env<O, HistoryAction>,
  { template, endOfTurn, otherEnds = [], tools, tokenizer, files = {} }: TokenEnvText,
): Env<TokenEnvState<O>, TokenAction> =>
  pipe(
    env as unknown as Env<HistoryPrompt, HistoryAction>, // other entries are kept
    append(TemplateTransform({ template, endOfTurn, otherEnds, ...(tools !== undefined && { tools }) })),
    append(Tokenizer({ tokenizer, files })),
  ) as unknown as Env<TokenEnvState<O>, TokenAction> // both add to O
