/** `POST /inference/v1/generate`: token ids in, token ids out. */
import type { GeneratedToken } from '@tandem-rl/text'
import * as E from 'fp-ts/lib/Either.js'
import { z } from 'zod'
import { requestedModel, requestName, sampledPrompts, streamedPromptLogProbs } from '../requests/common.js'
import { type ApiFailure, invalid } from '../requests/failure.js'
import {
  answerFields,
  filledIds,
  parseFields,
  type StreamUsage,
  samplingFields,
  streamUsage,
} from '../requests/fields.js'
import { type Job, type TokenUsage, usageJson, type WholePrompt } from '../requests/generation.js'
import { type Served, unixSeconds } from '../requests/served.js'
import { type ChunkWriter, type Endpoint, endpoint, streamed, writingOf } from './answer.js'
import { generateLogProbs, promptLogProbsJson, type TokenWriting } from './logProbs.js'

const schema = z.object({
  request_id: answerFields.request_id,
  model: answerFields.model,
  token_ids: filledIds,
  sampling_params: z.object({ ...samplingFields, logprobs: z.int().nullish() }),
  stream: answerFields.stream,
  stream_options: answerFields.stream_options,
  cache_salt: answerFields.cache_salt,
})

interface GenerateRequest {
  readonly job: Job
  readonly model: string
  readonly stream: StreamUsage | null
  readonly writing: TokenWriting | null
  readonly promptLength: number
}

/** A request as its body determines it. */
interface ReadGenerate {
  readonly fields: Omit<z.infer<typeof schema>, 'token_ids'>
  readonly ids: Int32Array
}

/** Parses the body of a request. Errors: `Left(ApiFailure)`, 400, with the field. */
export const readGenerate = (_env: unknown, body: unknown): E.Either<ApiFailure, ReadGenerate> =>
  E.map(({ token_ids: ids, ...fields }: z.infer<typeof schema>) => ({ fields, ids: Int32Array.from(ids) }))(
    parseFields(schema, body),
  )

const generateRequest = (
  served: Served,
  { fields: { sampling_params: fields, ...rest }, ids }: ReadGenerate,
  request: Request,
): E.Either<ApiFailure, GenerateRequest> => {
  const model = requestedModel(served, rest.model)
  if (E.isLeft(model)) return model
  const usage = streamUsage(rest)
  if (E.isLeft(usage)) return usage
  const refused = streamedPromptLogProbs(rest.stream, fields.prompt_logprobs)
  if (refused !== undefined) return E.left(refused)
  const { maxConcurrent } = served.engine.info
  if ((fields.n ?? 1) > maxConcurrent) {
    const reason = `sampling_params.n must be at most the server's max_num_seqs (${maxConcurrent}), got ${fields.n}.`
    return E.left(invalid(reason, 'sampling_params.n', fields.n))
  }
  const logProbs = fields.logprobs ?? null
  const prompts = sampledPrompts(served, [ids], {
    fields,
    options: { maxTokens: fields.max_tokens ?? null, logProbs, overflow: 'cut' },
  })
  if (E.isLeft(prompts)) return prompts
  const name = requestName(served, request, rest.request_id)
  return E.right({
    job: {
      name,
      id: `generate-tokens-${name}`,
      prompts: prompts.right,
      adapter: model.right.adapter,
      cacheSalt: rest.cache_salt ?? '',
      specialTokens: 'skip',
    },
    model: model.right.name,
    stream: rest.stream === true ? usage.right : null,
    writing: logProbs === null ? null : writingOf(served, { logProbs, tokensAs: 'ids' }),
    promptLength: ids.length,
  })
}

/** A span of tokens sampled by weights with the same label. */
interface WeightSpan {
  readonly version: string
  readonly start: number
  readonly end: number
}

/** Returns the spans of tokens by the labels of the weights that sampled them. */
const weightSpans = ({ weights }: Served, versions: readonly number[]): readonly WeightSpan[] => {
  const spans: WeightSpan[] = []
  for (const [t, version] of versions.entries()) {
    const label = weights.labelOf(version)
    const last = spans.at(-1)
    if (last?.version === label) spans[spans.length - 1] = { ...last, end: t + 1 }
    else spans.push({ version: label, start: t, end: t + 1 })
  }
  return spans
}

const tokensJson = ({ writing }: GenerateRequest, tokens: readonly GeneratedToken[]) => ({
  token_ids: tokens.map(({ id }) => id),
  logprobs: writing === null ? null : generateLogProbs(tokens, writing),
})

const answerJson = (served: Served, wanted: GenerateRequest, whole: WholePrompt): object => {
  const completion = whole.completions.reduce((sum, { tokens }) => sum + tokens.length, 0)
  return {
    request_id: wanted.job.id,
    model: wanted.model,
    created: unixSeconds(served.world),
    output_mode: 'tokens',
    choices: whole.completions.map(({ tokens, finishReason, stopReason }, index) => ({
      index,
      ...tokensJson(wanted, tokens),
      finish_reason: finishReason,
      stop_reason: stopReason,
      weight_versions: weightSpans(
        served,
        tokens.map(({ version }) => version),
      ),
    })),
    usage: usageJson({ prompt: wanted.promptLength, completion, cached: whole.cachedTokens }),
    prompt_logprobs: promptLogProbsJson(whole.promptLogProbs, served.text.tokenizer),
  }
}

const tokenChunks = (served: Served, wanted: GenerateRequest): ChunkWriter => {
  const versions = new Map<number, number[]>()
  let [cached, completion] = [0, 0]
  const total = (): TokenUsage => ({ prompt: wanted.promptLength, completion, cached })
  return {
    head: { request_id: wanted.job.id, output_mode: 'tokens' },
    chunksOf: (_prompt, event) => {
      if (event._tag === 'Started') cached = event.cachedTokens
      if (event._tag === 'Tokens' && event.tokens.length > 0) {
        completion += event.tokens.length
        const known = versions.get(event.index) ?? []
        versions.set(event.index, known)
        for (const { version } of event.tokens) known.push(version)
        const unfinished = { finish_reason: null, stop_reason: null, weight_versions: null }
        return [{ choice: { index: event.index, ...tokensJson(wanted, event.tokens), ...unfinished }, usage: total() }]
      }
      if (event._tag !== 'Finished') return []
      const end = { finish_reason: event.finishReason, stop_reason: event.stopReason }
      const spans = weightSpans(served, versions.get(event.index) ?? [])
      const choice = { index: event.index, ...tokensJson(wanted, []), ...end, weight_versions: spans }
      return [{ choice, usage: total() }]
    },
    total,
  }
}

/**
 * Answers a request in tokens, whole or as a stream, with the labels of the weights that sampled
 * them. A stream sends the labels at the end of each completion. `max_tokens` is capped to the room
 * left in the context.
 */
export const generate: Endpoint<ReadGenerate> = endpoint(generateRequest, (served, wanted) => ({
  whole: ([prompt]) => answerJson(served, wanted, prompt!),
  frames: streamed(() => tokenChunks(served, wanted)),
}))
