/** Template and tokenizer of a backend's model. */

import { type Failure, modelFailure } from '@tandem-rl/base'
import type { ChatTemplate } from '@tandem-rl/text'
import { pipe } from 'fp-ts/lib/function.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import type { ModelText } from 'tandem-rl'
import { loadText } from 'tandem-rl/models'

/** The model of an agent, by name or folder, and its chat template. */
export interface BackendModel {
  readonly modelNameOrPath: string
  /**
   * A template, or the name of one. The family of the model, such as `qwen2.5`, names the model's
   * own template. Default: the model's own.
   */
  readonly template?: string | ChatTemplate
}

/** `qwen` of `qwen2.5-vl`. */
const familyOf = (template: string): string => /^[a-z]+/i.exec(template)?.[0].toLowerCase() ?? ''

/**
 * Loads template and tokenizer, unless they are given.
 *
 * Errors   as `loadText`: an unknown model, or one without a template of this name. A given text
 *          side has its own template only.
 */
export const modelText = (
  { modelNameOrPath, template }: BackendModel,
  given: ModelText | undefined,
): TE.TaskEither<Failure, ModelText> => {
  const withTemplate = (text: ModelText): ModelText => (typeof template === 'object' ? { ...text, template } : text)
  const isOwn =
    typeof template !== 'string' ||
    (familyOf(template) !== '' && modelNameOrPath.toLowerCase().includes(familyOf(template)))
  if (given !== undefined)
    return isOwn
      ? TE.right(withTemplate(given))
      : TE.left(
          modelFailure(
            modelNameOrPath,
            `the backend has a text side, which has no template named '${template}': leave template out, or pass the template itself`,
          ),
        )
  return pipe(
    loadText(modelNameOrPath, undefined, isOwn ? {} : { templateName: template as string }), // else it is not a string
    TE.bimap(
      (failure): Failure => failure,
      ({ text }) => withTemplate(text),
    ),
  )
}
