/** Requests of `POST /v1/chat/completions`. */
import {
  hasSpecialTags,
  lastMessage,
  type TextTokenizer,
  type ThoughtSetting,
  type Thoughts,
  type ToolCallFormat,
  textOf,
  thoughtsAfter,
} from '@tandem-rl/text'
import * as E from 'fp-ts/lib/Either.js'
import { z } from 'zod'
import { requestedModel, requestName, sampledPrompts, streamedPromptLogProbs } from './common.js'
import { type ApiFailure, apiFailure, invalid } from './failure.js'
import { answerFields, parseFields, type StreamUsage, samplingFields, streamUsage } from './fields.js'
import type { Job } from './generation.js'
import { type Conversation, chatFields, conversation, echoedText } from './messages.js'
import type { Served, ServedText } from './served.js'

const schema = z.object({
  ...samplingFields,
  ...answerFields,
  ...chatFields,
  logprobs: z.boolean().nullish(),
  top_logprobs: z.int().nullish(),
  max_completion_tokens: z.int().nullish(),
  echo: z.boolean().nullish(),
  parallel_tool_calls: z.boolean().nullish(),
  tool_choice: z
    .union([z.string(), z.looseObject({ function: z.looseObject({ name: z.string().min(1) }) })], {
      error: 'expected "none", "auto", "required" or {"type": "function", "function": {"name": ...}}',
    })
    .nullish(),
})

type Fields = z.infer<typeof schema>

/** The fields of a chat request besides its conversation. */
type ChatSettings = Omit<Fields, 'messages' | 'documents' | 'chat_template_kwargs'>

/** The parsing of tool calls in an answer. */
export interface RequestedTools {
  readonly format: ToolCallFormat
  /** `first` reports only the first call of an answer. */
  readonly calls: 'first' | 'all'
  readonly tools: readonly object[]
}

/** A checked chat request. */
export interface ChatRequest {
  readonly job: Job
  readonly model: string
  readonly role: string
  readonly prompt: Int32Array
  readonly n: number
  readonly stream: StreamUsage | null
  /** Text in front of the generated answer. */
  readonly echo: string
  /** Number of alternatives per token, or null without log-probabilities. */
  readonly logProbs: number | null
  readonly promptLogProbs: 'included' | 'omitted'
  readonly tokenIds: 'included' | 'omitted'
  readonly tokensAs: 'text' | 'ids'
  readonly tools: RequestedTools | null
  readonly thoughts: Thoughts | 'searched'
}

/** The refusal of tools that the model would never see. */
export const TOOLS_NOT_SHOWN =
  "The chat template of the served model shows no tools, so the model would never see them. Write them into the system message: `--tool-prompt hermes`, or `toolPrompt: 'hermes'` of `capture`."

const CONSTRAINED = 'needs constrained decoding, which this server does not have; use "auto"'

const REQUIRED = `\`tool_choice\` "required" ${CONSTRAINED}. To treat it as "auto", start the server with \`--tool-choice-required auto\`, or set \`toolChoiceRequired: 'auto'\` of \`capture\`.`

/**
 * Returns the requested tools. Of the choices, only "none" and "auto" are supported, and "required"
 * as "auto" if the server's features allow it.
 */
const requestedTools = (served: Served, fields: ChatSettings): E.Either<ApiFailure, RequestedTools | null> => {
  const { tools, tool_choice: choice } = fields
  if (choice === 'none' || (choice == null && tools == null)) return E.right(null)
  if (tools == null) return E.left(invalid('When using `tool_choice`, `tools` must be set.', 'tool_choice'))
  if (typeof choice === 'object' && choice !== null) {
    const { name } = choice.function
    return tools.some((tool) => tool.function.name === name)
      ? E.left(apiFailure(400, `\`tool_choice\` of one tool ${CONSTRAINED}.`, 'tool_choice'))
      : E.left(
          invalid('The tool specified in `tool_choice` does not match any of the specified `tools`', 'tool_choice'),
        )
  }
  const { toolCalls, toolChoiceRequired } = served.features
  if (choice === 'required' && toolChoiceRequired === 'refuse') return E.left(apiFailure(400, REQUIRED, 'tool_choice'))
  if (choice != null && choice !== 'auto' && choice !== 'required') {
    return E.left(
      invalid(
        `Invalid value for \`tool_choice\`: ${choice}! Only named tools, "none", "auto" or "required" are supported.`,
        'tool_choice',
      ),
    )
  }
  if (served.text.template.tools === 'ignored') return E.left(apiFailure(400, TOOLS_NOT_SHOWN, 'tools'))
  return toolCalls === 'none'
    ? E.left(apiFailure(400, '"auto" tool choice requires --tool-call-parser to be set', 'tool_choice'))
    : E.right({ format: toolCalls, calls: fields.parallel_tool_calls === false ? 'first' : 'all', tools })
}

/**
 * Returns true if tags of tool calls or of thoughts are special tokens, which the text must then
 * include.
 */
export const areTagsSpecial = (
  tools: RequestedTools | null,
  thoughts: Thoughts | 'searched',
  { specialTokens }: TextTokenizer,
): boolean =>
  (tools !== null && hasSpecialTags(tools.format, specialTokens)) ||
  (thoughts !== 'searched' && thoughts.tags.some((tag) => specialTokens.has(tag)))

/** The most characters of a prompt in which an opening tag is searched at the end. */
const PROMPT_END = 64

type Continues = Pick<Fields, 'continue_final_message'>

/** Returns the text that may open an answer's thoughts: a prompt's end, or a continued message. */
export const textBefore = (
  { continue_final_message: continues }: Continues,
  { text, history }: Pick<Conversation, 'text' | 'history'>,
): string => {
  const last = continues === true ? lastMessage(history) : undefined
  return last === undefined ? text.slice(-PROMPT_END) : textOf(last)
}

/** Returns how the thoughts of an answer are read after this text. */
export const readThoughts = (
  setting: ThoughtSetting,
  { continue_final_message: continues }: Continues,
  before: string,
): Thoughts | 'searched' => {
  if (continues !== true || typeof setting === 'string') return thoughtsAfter(before, setting)
  const [open, close] = setting
  return thoughtsAfter(before.lastIndexOf(open) > before.lastIndexOf(close) ? open : '', setting)
}

const requestedLogProbs = ({ logprobs, top_logprobs: top }: ChatSettings): E.Either<ApiFailure, number | null> => {
  if (top != null && top < -1)
    return E.left(invalid('`top_logprobs` must be a positive value or -1.', 'top_logprobs', top))
  if (logprobs === true) return E.right(top ?? 0)
  return top == null || top === 0
    ? E.right(null)
    : E.left(invalid('when using `top_logprobs`, `logprobs` must be set to true.', 'top_logprobs'))
}

interface Options {
  readonly usage: StreamUsage
  readonly logProbs: number | null
  readonly tools: RequestedTools | null
}

/** Returns the options that do not depend on the prompt. */
const optionsOf = (served: Served, fields: ChatSettings): E.Either<ApiFailure, Options> => {
  const usage = streamUsage(fields)
  if (E.isLeft(usage)) return usage
  const refused = streamedPromptLogProbs(fields.stream, fields.prompt_logprobs)
  if (refused !== undefined) return E.left(refused)
  const logProbs = requestedLogProbs(fields)
  if (E.isLeft(logProbs)) return logProbs
  const tools = requestedTools(served, fields)
  if (E.isLeft(tools)) return tools
  return E.right({ usage: usage.right, logProbs: logProbs.right, tools: tools.right })
}

/** A chat request as its body, the tokenizer and the template determine it. */
export interface ReadChat {
  readonly fields: ChatSettings
  readonly conversation: E.Either<
    ApiFailure,
    Pick<Conversation, 'ids' | 'role'> & { readonly echo: string; readonly before: string }
  >
}

/**
 * Parses the body of a chat request, and renders and encodes its conversation.
 *
 * Errors   `Left(ApiFailure)`, 400, with the field. A failure of the conversation is in the result,
 *          because those of other fields come first.
 */
export const readChat = (text: ServedText, body: unknown): E.Either<ApiFailure, ReadChat> => {
  const parsed = parseFields(schema, body)
  if (E.isLeft(parsed)) return parsed
  const { messages: _, documents: _documents, chat_template_kwargs: _variables, ...fields } = parsed.right
  const talk = (text.conversation ?? conversation)(text, parsed.right)
  return E.right({
    fields,
    conversation: E.map((made: Conversation) => ({
      ids: made.ids,
      role: made.role,
      echo: fields.echo === true ? echoedText(made) : '',
      before: textBefore(fields, made),
    }))(talk),
  })
}

/**
 * Checks a chat request.
 *
 * Errors   `Left(ApiFailure)`: 400 with the field, 404 for an unknown model.
 */
export const chatRequest = (
  served: Served,
  { fields, conversation: talk }: ReadChat,
  request: Request,
): E.Either<ApiFailure, ChatRequest> => {
  const model = requestedModel(served, fields.model)
  if (E.isLeft(model)) return model
  const options = optionsOf(served, fields)
  if (E.isLeft(options)) return options
  if (E.isLeft(talk)) return talk
  const prompts = sampledPrompts(served, [talk.right.ids], {
    fields,
    options: {
      maxTokens: fields.max_completion_tokens ?? fields.max_tokens ?? null,
      logProbs: options.right.logProbs,
      truncate: { keep: fields.truncate_prompt_tokens ?? null, side: fields.truncation_side ?? 'left' },
    },
  })
  if (E.isLeft(prompts)) return prompts
  const name = requestName(served, request, fields.request_id)
  if (fields.tool_choice === 'required') served.relaxedChoices.add() // otherwise it is refused above
  const thoughts = readThoughts(served.features.thoughts, fields, talk.right.before)
  const isSpecial = areTagsSpecial(options.right.tools, thoughts, served.text.tokenizer)
  return E.right({
    job: {
      name,
      id: `chatcmpl-${name}`,
      prompts: prompts.right,
      adapter: model.right.adapter,
      cacheSalt: fields.cache_salt ?? '',
      specialTokens: fields.skip_special_tokens === false ? 'keep' : isSpecial ? 'inside' : 'skip',
    },
    model: model.right.name,
    role: talk.right.role,
    prompt: prompts.right[0]!.ids,
    n: fields.n ?? 1,
    stream: fields.stream === true ? options.right.usage : null,
    echo: talk.right.echo,
    logProbs: options.right.logProbs,
    promptLogProbs: fields.prompt_logprobs == null ? 'omitted' : 'included',
    tokenIds: fields.return_token_ids === true ? 'included' : 'omitted',
    tokensAs: fields.return_tokens_as_token_ids === true ? 'ids' : 'text',
    tools: options.right.tools,
    thoughts,
  })
}
