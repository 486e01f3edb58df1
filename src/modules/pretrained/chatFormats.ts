/** Chat formats for models without one: new models, and base models. */
import type { ModelFailure } from '@tandem-rl/base'
import type { TextTokenizer } from '@tandem-rl/text'
import * as E from 'fp-ts/lib/Either.js'
import { fileProblem } from '../../data/folderFiles.js'

/** A chat template, and the special tokens that it writes. */
export interface ChatFormat {
  /** A Jinja template. */
  readonly template: string
  /** All special tokens. Each becomes one token, with the last ids. */
  readonly specialTokens: readonly string[]
  /** The special token that ends the policy's turn. */
  readonly endOfTurn: string
  /** The special token that fills rows. */
  readonly padToken: string
}

/**
 * A format for a base model. Without `endOfTurn`, turns end with the `eos_token` of the model. The
 * tokenizer must have every special token that the template writes.
 */
export type FallbackFormat = Pick<ChatFormat, 'template'> & Partial<Pick<ChatFormat, 'endOfTurn' | 'specialTokens'>>

/** The format of Qwen: `<|im_start|>`, the role, a line break, the text, `<|im_end|>`. */
export const CHAT_ML: ChatFormat = {
  template: `{%- for message in messages -%}
{{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>' + '\\n' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}
{{- '<|im_start|>assistant\\n' -}}
{%- endif -%}
`,
  specialTokens: ['<|endoftext|>', '<|im_start|>', '<|im_end|>'],
  endOfTurn: '<|im_end|>',
  padToken: '<|endoftext|>',
}

/**
 * A format without role markers, for tiny models: the texts of the messages, and `<|end|>` after
 * each turn of the assistant.
 */
export const BARE_CHAT: ChatFormat = {
  template:
    "{% for message in messages %}{{ message.content }}{% if message.role == 'assistant' %}<|end|>{% endif %}{% endfor %}",
  specialTokens: ['<|pad|>', '<|end|>'],
  endOfTurn: '<|end|>',
  padToken: '<|pad|>',
}

/**
 * A format for any base model: `### `, the role, a line break, the text, and the model's own
 * `eos_token`. It needs no token that the model does not have. Its markers are plain text, so a
 * message can imitate the heading of a turn, but cannot end one.
 */
export const PLAIN_CHAT: FallbackFormat = {
  template: `{%- for message in messages -%}
{{- '### ' + message.role + '\\n' + message.content + eos_token + '\\n' -}}
{%- endfor -%}
{%- if add_generation_prompt -%}
{{- '### assistant\\n' -}}
{%- endif -%}
`,
}

/** The files of a model that define the format of conversations. */
interface FormatFiles {
  readonly settings: object
  readonly template: string | undefined
  readonly templates?: Readonly<Record<string, string>>
}

/** The parts of a model's text side that a format determines. */
interface FormattedText {
  readonly tokenizer: Pick<TextTokenizer, 'idOf' | 'specialTokens'>
  readonly template: { readonly source: string }
}

const hasTemplate = ({ settings, template, templates = {} }: FormatFiles): boolean => {
  const given = 'chat_template' in settings ? settings.chat_template : undefined
  const inSettings = Array.isArray(given) ? given.length > 0 : given !== undefined && given !== null
  return template !== undefined || inSettings || Object.keys(templates).length > 0
}

/** Adds the format to the files of a model without a template. Returns other files unchanged. */
export const withFormat = <F extends FormatFiles>(files: F, { template, endOfTurn }: FallbackFormat): F =>
  hasTemplate(files)
    ? files
    : {
        ...files,
        template,
        ...(endOfTurn !== undefined && { settings: { ...files.settings, eos_token: endOfTurn } }),
      }

/** Rejects a fallback format that writes special tokens which the tokenizer lacks. */
export const checkFallback = (
  folder: string,
  format: FallbackFormat | undefined,
  text: FormattedText,
): E.Either<ModelFailure, unknown> => {
  if (format === undefined) return E.right(null)
  const { template, specialTokens = [] } = format
  const missing = specialTokens.filter(
    (token) => template.includes(token) && text.tokenizer.specialTokens.get(token) === undefined,
  )
  return text.template.source !== template || missing.length === 0
    ? E.right(null)
    : E.left(
        fileProblem(
          folder,
          'tokenizer.json',
          `the tokenizer has no special token ${missing.join(', ')}, which fallbackFormat writes: PLAIN_CHAT needs no special tokens`,
        ),
      )
}
