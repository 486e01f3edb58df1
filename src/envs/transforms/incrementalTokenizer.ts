import { checkOptions } from '@tandem-rl/base'
import type { TextTokenizer } from '@tandem-rl/text'
import * as TE from 'fp-ts/lib/TaskEither.js'
import type { HistoryAction, HistoryPrompt, TokenPrompt } from '../../data/policy.js'
import { dataSpec, raggedSpec } from '../../data/spec.js'
import { type Ragged, raggedRow } from '../../data/tensorDict/leaf.js'
import type { DeepMerge } from '../../data/tensorDict/merge.js'
import { get, TensorDict } from '../../data/tensorDict/tensorDict.js'
import { type EnvFailure, envFailure } from '../base/env.js'
import { TEXT_OPTIONS } from '../optionKinds.js'
import {
  TemplateTransform,
  type TemplateTransformOptions,
  type TextEntries,
  type TextTransformOptions,
} from './templateTransform.js'
import { Tokenizer } from './tokenizer.js'
import { compose, type Transform, transform } from './transform.js'

const NAME = 'IncrementalTokenizer'

type Both = DeepMerge<TextEntries, TokenPrompt>

export interface IncrementalTokenizerOptions extends TemplateTransformOptions {
  readonly tokenizer: TextTokenizer
}

/** Some letters of a text from a place on, for a message. */
const shown = (text: string, at: number): string => JSON.stringify(text.slice(at, at + 20))

/** Returns the first position at which two texts differ; undefined if they are equal. */
const parting = (a: string, b: string): number | undefined => {
  if (a === b) return undefined
  let at = 0
  while (at < a.length && a.charCodeAt(at) === b.charCodeAt(at)) at++
  return at
}

/** A transform that adds nothing, and fails where ids and text of a prompt differ. */
const agreement = (tokenizer: TextTokenizer): Transform<null, Both, unknown> => {
  const check = (td: TensorDict<Both>): TE.TaskEither<EnvFailure, readonly [TensorDict, null]> => {
    const [ids, texts] = [get(td, 'tokens', 'prompt'), get(td, 'text', 'prompt').items]
    for (const [i, text] of texts.entries()) {
      const reply = tokenizer.decode(raggedRow(ids, i), 'keep')
      const at = parting(reply, text)
      if (at === undefined) continue
      const reason = `conversation ${i}: the tokens decode to ${shown(reply, at)} and the text has ${shown(text, at)}, from letter ${at} on`
      return TE.left(envFailure(NAME, reason))
    }
    return TE.right([TensorDict({}, td.batchShape), null])
  }
  return transform<null, Both, unknown>({
    name: 'agreement',
    initial: null,
    needs: {
      observation: { text: { prompt: dataSpec('string') }, tokens: { prompt: raggedSpec('int32') } },
      action: {},
    },
    adds: {},
    reset: check,
    step: check,
  })
}

/**
 * `TemplateTransform` and `Tokenizer` in one, with the check that both agree: `tokens.prompt`
 * beside `history.prompt`, where each turn's ids are those of the turn before, what was sampled,
 * and what the template added.
 *
 * The ids of every prompt decode to its text, which is the rendering of its history. A tokenizer
 * that loses something of a text (its case, its spaces) fails at the first reset:
 * `TemplateTransform` and `Tokenizer` alone do not ask for this.
 *
 * Errors   `Left(EnvFailure)` where tokens and text part, with the place; and as
 *          `TemplateTransform` does.
 * Cost     one decoding of each prompt besides.
 * Source   TorchRL `IncrementalTokenizer`, which copies `tokens.full` without checking that it
 *          matches the history.
 */
export const IncrementalTokenizer = (
  options: IncrementalTokenizerOptions,
): Transform<
  readonly [readonly [null, null], null],
  HistoryPrompt,
  Both,
  HistoryAction,
  { readonly tokens: TensorDict<{ readonly response: Ragged<'int32'> }> }
> => {
  checkOptions<TextTransformOptions>(NAME, options, TEXT_OPTIONS)
  const { tokenizer } = options
  const all = compose(compose(TemplateTransform(options), Tokenizer({ tokenizer })), agreement(tokenizer))
  return { ...all, name: NAME }
}
