/** The chat template of a model from its files. */
import * as E from 'fp-ts/lib/Either.js'
import { z } from 'zod'
import type { TemplateFailure } from '../../core/failure.js'
import type { TemplateVariables } from '../chatTemplate.js'

const token = z.union([z.string(), z.looseObject({ content: z.string() })]).nullish()

const templates = z.array(z.object({ name: z.string(), template: z.string() }))

const configSchema = z.looseObject({
  chat_template: z.union([z.string(), templates]).nullish(),
  bos_token: token,
  eos_token: token,
  pad_token: token,
  unk_token: token,
})

export interface TemplateChoice {
  /** The name of the template, where the model has several. Without it: `tool_use` if it exists and tools are given, else `default`. */
  readonly name?: string
  readonly tools?: readonly object[]
  /** The contents of `chat_template.jinja`: it wins over the config. */
  readonly file?: string
}

export interface TemplateSource {
  readonly source: string
  /** The special tokens of the config. */
  readonly variables: TemplateVariables
}

type Result<T> = E.Either<TemplateFailure, T>

const refuse = (reason: string): Result<never> => E.left({ _tag: 'TemplateFailure', reason })

const choose = (named: z.infer<typeof templates>, { name, tools }: TemplateChoice): Result<string> => {
  const find = (wanted: string): string | undefined => named.find((item) => item.name === wanted)?.template
  const found =
    name === undefined ? ((tools === undefined ? undefined : find('tool_use')) ?? find('default')) : find(name)
  const names = named.map((item) => `'${item.name}'`).join(', ')
  return found === undefined
    ? refuse(`there is no chat template '${name ?? 'default'}', but ${names || 'none'}`)
    : E.right(found)
}

/**
 * The source of a model's chat template and its special tokens, from the parsed `tokenizer_config.json`.
 *
 * Errors   `Left(TemplateFailure)` with every problem of the config, and for a template that is not there.
 * Source   Transformers `PreTrainedTokenizerBase.get_chat_template`.
 *
 * @example
 * templateSource({ chat_template: 'x', eos_token: '</s>' }) // right({ source: 'x', variables: { eos_token: '</s>' } })
 */
export const templateSource = (config: unknown, choice: TemplateChoice = {}): Result<TemplateSource> => {
  const parsed = configSchema.safeParse(config)
  if (!parsed.success) return refuse(`tokenizer_config.json: ${z.prettifyError(parsed.error)}`)
  const { chat_template: template, ...rest } = parsed.data
  const variables = Object.fromEntries(
    (['bos_token', 'eos_token', 'pad_token', 'unk_token'] as const).flatMap((name) => {
      const value = rest[name]
      const text = typeof value === 'string' ? value : value?.content
      return text === undefined ? [] : [[name, text]]
    }),
  )
  const withTokens = E.map((source: string): TemplateSource => ({ source, variables }))
  if (choice.file !== undefined) return withTokens(E.right(choice.file))
  if (template === undefined || template === null) return refuse('the model has no chat template')
  if (typeof template !== 'string') return withTokens(choose(template, choice))
  return choice.name === undefined || choice.name === 'default'
    ? withTokens(E.right(template))
    : refuse(`there is no chat template '${choice.name}': the model has one, without a name`)
}
