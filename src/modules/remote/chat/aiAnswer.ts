/** Parses responses and errors of the AI SDK's language models. */
import { errorMessage, problemList } from '@tandem-rl/base'
import { messageOfCalls } from '@tandem-rl/text'
import * as E from 'fp-ts/lib/Either.js'
import { z } from 'zod'
import type { ChatFinish, ChatTurn, ChatUsage } from './chatAction.js'
import { isWhole, type ReplyProblem } from './chatReply.js'

const part = z.looseObject({
  type: z.string(),
  text: z.string().optional(),
  toolCallId: z.string().optional(),
  toolName: z.string().optional(),
  /** JSON text. */
  input: z.string().optional(),
})

/** The third version counts tokens by kind, the second in total. */
const count = z.union([z.number(), z.looseObject({ total: z.number().nullish() })]).nullish()

const resultSchema = z.looseObject({
  content: z.array(part),
  finishReason: z.union([z.string(), z.looseObject({ unified: z.string() })]),
  usage: z.looseObject({ inputTokens: count, outputTokens: count }).nullish(),
  response: z.looseObject({ modelId: z.string().nullish(), body: z.unknown() }).nullish(),
})

/** An answer, checked. */
export type AIResult = z.infer<typeof resultSchema>

/**
 * An answer of a model. Errors: `Left(ReplyProblem)` with everything that no model of the SDK
 * answers.
 */
export const aiResult = (value: unknown): E.Either<ReplyProblem, AIResult> => {
  const parsed = resultSchema.safeParse(value)
  if (parsed.success) return E.right(parsed.data)
  const found = parsed.error.issues.map(({ path, message }) => `${path.join('.')}: ${message}`)
  return E.left({ kind: 'protocol', reason: `the provider's answer is not as the SDK has it: ${problemList(found)}` })
}

const FINISHES: readonly string[] = ['stop', 'length', 'tool-calls', 'content-filter'] satisfies readonly ChatFinish[]

const isFinish = (name: string): name is ChatFinish => FINISHES.includes(name)

const countOf = (value: z.infer<typeof count>): number | undefined =>
  (typeof value === 'object' ? value?.total : value) ?? undefined

const usageOf = ({ usage }: AIResult): ChatUsage | null => {
  const [promptTokens, completionTokens] = [countOf(usage?.inputTokens), countOf(usage?.outputTokens)]
  return promptTokens === undefined || completionTokens === undefined ? null : { promptTokens, completionTokens }
}

/**
 * An answer as a turn. Sources and files that a provider adds are not part of the message.
 *
 * Errors   `Left(ReplyProblem)` if the provider ended the answer with an error.
 */
export const aiTurn = (result: AIResult, model: string): E.Either<ReplyProblem, ChatTurn> => {
  const { content, finishReason } = result
  const given = typeof finishReason === 'string' ? finishReason : finishReason.unified
  if (given === 'error') return E.left({ kind: 'ended', reason: "the provider ended an answer with 'error'" })
  const textOf = (type: string): string => content.map((each) => (each.type === type ? (each.text ?? '') : '')).join('')
  const finish: ChatFinish = isFinish(given) ? given : 'other'
  const reasoning = textOf('reasoning')
  const calls = content
    .filter((each) => each.type === 'tool-call')
    .map(({ toolCallId: id, toolName, input }) => ({
      ...(id !== undefined && { id }),
      name: toolName ?? '',
      arguments: input ?? '',
    }))
  const { message, malformedCalls } = messageOfCalls(textOf('text'), calls, {
    isComplete: isWhole(finish),
    ...(reasoning !== '' && { reasoning }),
  })
  return E.right({
    message,
    stopReason: finish === 'length' ? 'length' : 'stop',
    answer: { finish, model: result.response?.modelId ?? model, refusal: null, usage: usageOf(result), malformedCalls },
  })
}

const errorSchema = z.looseObject({
  name: z.string().optional(),
  message: z.string(),
  statusCode: z.number().optional(),
  isRetryable: z.boolean().optional(),
  responseHeaders: z.record(z.string(), z.string()).nullish(),
})

/** The details of a provider's error. */
export interface AIError {
  readonly reason: string
  readonly status: number | undefined
  readonly isRetryable: 'yes' | 'no'
  /** The server's header. */
  readonly retryAfter: string | undefined
}

/** An error of the SDK, or whatever else was thrown. */
export const aiError = (thrown: unknown): AIError => {
  const fields = typeof thrown === 'object' && thrown !== null ? thrown : {}
  const message = errorMessage(thrown)
  // The fields of an Error are its own or inherited: they are read by name, for a copy would leave
  // the inherited ones out.
  const read = (name: string): unknown => Reflect.get(fields, name)
  const names = ['name', 'statusCode', 'isRetryable', 'responseHeaders'] as const
  const parsed = errorSchema.safeParse({ ...Object.fromEntries(names.map((name) => [name, read(name)])), message })
  if (!parsed.success) return { reason: message, status: undefined, isRetryable: 'no', retryAfter: undefined }
  const { statusCode: status, isRetryable, responseHeaders } = parsed.data
  return {
    reason: status === undefined ? message : `${status}: ${message}`,
    status,
    isRetryable: isRetryable === true ? 'yes' : 'no',
    retryAfter: responseHeaders?.['retry-after'],
  }
}
