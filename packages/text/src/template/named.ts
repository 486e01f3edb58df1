/** The chat template of a model from its files. */
import type { TemplateFailure } from '@tandem-rl/base'
import * as E from 'fp-ts/lib/Either.js'
import { z } from 'zod'
import type { TemplateVariables } from './chatTemplate.js'

const token = z
  .union([z.string(), z.looseObject({ content: z.string() })])
  .transform((value) => (typeof value === 'string' ? value : value.content))
  .nullish()

const templates = z.array(z.object({ name: z.string(), template: z.string() }))

const configSchema = z.looseObject({
  chat_template: z.union([z.string(), templates]).nullish(),
  bos_token: token,
  eos_token: token,
  pad_token: token,
  unk_token: token,
  sep_token: token,
  cls_token: token,
  mask_token: token,
  extra_special_tokens: z.union([z.array(z.unknown()), z.record(z.string(), token)]).nullish(),
})

type Config = z.infer<typeof configSchema>

/**
 * Returns the special tokens by the names that templates use: the seven usual ones, those with a
 * name in `extra_special_tokens`, and every other token in an entry whose name ends with `_token`.
 */
const variablesOf = ({ extra_special_tokens: extra, ...config }: Config): TemplateVariables => {
  const named = Object.entries(extra === null || extra === undefined || Array.isArray(extra) ? {} : extra)
  const entries = Object.entries(config).filter(([name]) => name.endsWith('_token'))
  return Object.fromEntries(
    [...entries, ...named].flatMap(([name, value]) => {
      const text = token.safeParse(value)
      return text.success && typeof text.data === 'string' ? [[name, text.data]] : []
    }),
  )
}

export interface TemplateChoice {
  /**
   * The name of the template, if the model has several. Default: `tool_use` if it exists and
   * `tools` are present, otherwise `default`.
   */
  readonly name?: string
  readonly tools?: readonly object[]
  /**
   * The contents of `chat_template.jinja`. It overrides the config and is the template 'default'.
   */
  readonly file?: string
  /** The contents of the files of `additional_chat_templates`, by the names of their templates. */
  readonly others?: Readonly<Record<string, string>>
}

export interface TemplateSource {
  readonly source: string
  /** The special tokens of the config. */
  readonly variables: TemplateVariables
}

type Result<T> = E.Either<TemplateFailure, T>

const refuse = (reason: string): Result<never> => E.left({ _tag: 'TemplateFailure', reason })

const NO_TEMPLATE =
  'the model has no chat template: add chat_template.jinja to its folder, or load it with fallbackFormat, such as CHAT_ML or PLAIN_CHAT'

const choose = (named: z.infer<typeof templates>, { name, tools }: TemplateChoice): Result<string> => {
  const find = (wanted: string): string | undefined => named.find((item) => item.name === wanted)?.template
  const found =
    name === undefined ? ((tools === undefined ? undefined : find('tool_use')) ?? find('default')) : find(name)
  const names = named.map((item) => `'${item.name}'`).join(', ')
  return found === undefined
    ? refuse(`no chat template '${name ?? 'default'}'; the model has ${names || 'none'}`)
    : E.right(found)
}

/**
 * Selects a model's chat template from the parsed `tokenizer_config.json`, with its special tokens.
 *
 * Errors   `Left(TemplateFailure)` with every problem of the config, and for a missing template.
 * Source   Transformers 5.17 `PreTrainedTokenizerBase.get_chat_template` and `special_tokens_map`.
 *
 * @example
 * templateSource({ chat_template: 'x', eos_token: '</s>' }) // right({ source: 'x', variables: { eos_token: '</s>' } })
 */
export const templateSource = (config: unknown, choice: TemplateChoice = {}): Result<TemplateSource> => {
  const parsed = configSchema.safeParse(config)
  if (!parsed.success) return refuse(`tokenizer_config.json: ${z.prettifyError(parsed.error)}`)
  const variables = variablesOf(parsed.data)
  const { file, others = {} } = choice
  const template = file ?? parsed.data.chat_template ?? undefined
  const named = [
    ...(typeof template === 'string' ? [{ name: 'default', template }] : (template ?? [])),
    ...Object.entries(others).map(([name, source]) => ({ name, template: source })),
  ]
  if (template === undefined && named.length === 0) return refuse(NO_TEMPLATE)
  return E.map((source: string): TemplateSource => ({ source, variables }))(choose(named, choice))
}
