/** The JSON form of the Tinker protocol: schemas of requests and results, and their values. */
import { boundedList, naturalList, numberList, table } from '@tandem-rl/text'
import { z } from 'zod'
import { TINKER_REQUEST_LIMITS as MOST } from './limits.js'
import type {
  Datum,
  ForwardBackwardOutput,
  ForwardBackwardRequest,
  SampledSequence,
  SampleResult,
  WireTensor,
} from './values.js'

const LARGEST_TOKEN = 2 ** 31 - 1

const natural = z.number().int().nonnegative()
const token = natural.max(LARGEST_TOKEN)
const tokens = naturalList(LARGEST_TOKEN, MOST.numbers)
const name = z.string().max(MOST.name)
const stopText = z.string().max(MOST.stopLength)

/** A tensor. Sparse ones are refused. */
const tensorSchema = z
  .object({
    data: numberList(MOST.numbers),
    dtype: z.enum(['float32', 'int64']),
    shape: naturalList(Number.MAX_SAFE_INTEGER, MOST.axes).nullish(),
    sparse_crow_indices: z.null().optional(),
    sparse_col_indices: z.null().optional(),
  })
  .transform(({ data, dtype, shape }): WireTensor => ({ data, dtype, shape: shape ?? [data.length] }))

/** A list of token ids, in chunks of text. */
const tokensSchema = z
  .object({
    chunks: boundedList(z.object({ type: z.literal('encoded_text').default('encoded_text'), tokens }), MOST.chunks),
  })
  .transform(({ chunks }) => (chunks.length === 1 ? chunks[0]!.tokens : chunks.flatMap((chunk) => chunk.tokens)))

const datumSchema = z
  .object({ model_input: tokensSchema, loss_fn_inputs: table(tensorSchema, MOST.fields) })
  .transform((datum): Datum => ({ tokens: datum.model_input, inputs: datum.loss_fn_inputs }))

const lossSchema = z.object({
  data: boundedList(datumSchema, MOST.data),
  loss_fn: name,
  loss_fn_config: table(z.union([z.number(), name]), MOST.fields).nullish(),
})

const seqId = natural.nullish()

type LossInput = z.infer<typeof lossSchema>

const lossRequest = (
  { model_id, seq_id }: { readonly model_id: string; readonly seq_id?: number | null | undefined },
  { data, loss_fn, loss_fn_config }: LossInput,
  mode: ForwardBackwardRequest['mode'],
): ForwardBackwardRequest => ({
  modelId: model_id,
  seqId: seq_id ?? null,
  data,
  lossFn: loss_fn,
  lossConfig: loss_fn_config ?? {},
  mode,
})

/** The body of `forward_backward`. */
export const forwardBackwardSchema = z
  .object({
    model_id: name,
    seq_id: seqId,
    forward_backward_input: lossSchema,
    forward_only: z.boolean().nullish(),
  })
  .transform((body) => lossRequest(body, body.forward_backward_input, body.forward_only ? 'forward' : 'backward'))

/** The body of `forward`, which older clients send. */
export const forwardSchema = z
  .object({ model_id: name, seq_id: seqId, forward_input: lossSchema })
  .transform((body) => lossRequest(body, body.forward_input, 'forward'))

const tensorJson = ({ data, dtype, shape }: WireTensor): object => ({ data: Array.from(data), dtype, shape })

/** The JSON form of a request to compute a loss. */
export const forwardBackwardJson = (request: ForwardBackwardRequest): object => ({
  model_id: request.modelId,
  ...(request.seqId !== null && { seq_id: request.seqId }),
  forward_backward_input: {
    data: request.data.map(({ tokens, inputs }) => ({
      model_input: tokensJson(tokens),
      loss_fn_inputs: Object.fromEntries(Object.entries(inputs).map(([name, tensor]) => [name, tensorJson(tensor)])),
    })),
    loss_fn: request.lossFn,
    loss_fn_config: Object.keys(request.lossConfig).length === 0 ? null : request.lossConfig,
  },
  ...(request.mode === 'forward' && { forward_only: true }),
})

/** The body of the older route `forward`. */
export const forwardJson = (request: ForwardBackwardRequest): object => {
  const {
    forward_backward_input,
    forward_only: _,
    ...rest
  } = forwardBackwardJson(request) as Readonly<Record<string, unknown>> // a record by its construction
  return { ...rest, forward_input: forward_backward_input }
}

/** Token ids as the protocol sends them. */
export const tokensJson = (tokens: ArrayLike<number>): object => ({
  chunks: [{ type: 'encoded_text', tokens: Array.from(tokens) }],
})

/** The result of a loss. */
export const forwardBackwardOutputSchema = z
  .object({
    loss_fn_outputs: boundedList(table(tensorSchema, MOST.fields), MOST.data),
    metrics: table(z.number(), MOST.fields),
  })
  .transform(({ loss_fn_outputs, metrics }): ForwardBackwardOutput => ({ outputs: loss_fn_outputs, metrics }))

/** The JSON form of the result of a loss. */
export const forwardBackwardOutputJson = ({ outputs, metrics }: ForwardBackwardOutput): object => ({
  loss_fn_output_type: 'ArrayRecord',
  loss_fn_outputs: outputs.map((each) =>
    Object.fromEntries(Object.entries(each).map(([name, tensor]) => [name, tensorJson(tensor)])),
  ),
  metrics,
})

const nullable = <T extends z.ZodType>(schema: T) => schema.nullish().transform((value) => value ?? null)

const sequenceSchema = z
  .object({
    stop_reason: z.enum(['stop', 'length']),
    tokens,
    logprobs: numberList(MOST.numbers).nullish(),
  })
  .transform(
    ({ stop_reason, tokens: sampled, logprobs }): SampledSequence => ({
      stopReason: stop_reason,
      tokens: Int32Array.from(sampled),
      logProbs: logprobs ? Float32Array.from(logprobs) : null,
    }),
  )

/** The result of sampling. */
export const sampleResultSchema = z
  .object({
    sequences: boundedList(sequenceSchema, MOST.data),
    prompt_logprobs: nullable(boundedList(z.number().nullable(), MOST.numbers)),
    topk_prompt_logprobs: nullable(
      boundedList(boundedList(z.tuple([token, z.number()]), MOST.topTokens).nullable(), MOST.numbers),
    ),
    prompt_cache_hit_tokens: natural.nullish(),
  })
  .transform(
    (body): SampleResult => ({
      sequences: body.sequences,
      promptLogProbs: body.prompt_logprobs,
      topPromptLogProbs: body.topk_prompt_logprobs,
      cachedTokens: body.prompt_cache_hit_tokens ?? 0,
    }),
  )

/** The JSON form of the result of sampling. */
export const sampleResultJson = (result: SampleResult): object => ({
  type: 'sample',
  sequences: result.sequences.map(({ stopReason, tokens, logProbs }) => ({
    stop_reason: stopReason,
    tokens: Array.from(tokens),
    logprobs: logProbs === null ? null : Array.from(logProbs),
  })),
  prompt_logprobs: result.promptLogProbs,
  topk_prompt_logprobs: result.topPromptLogProbs,
  prompt_cache_hit_tokens: result.cachedTokens,
})

/** Settings of Adam. A `grad_clip_norm` of 0 does not clip. */
export const adamSchema = z.object({
  learning_rate: z.number().min(0).max(MOST.adam).default(1e-4),
  beta1: z.number().min(0).lt(1).default(0.9),
  beta2: z.number().min(0).lt(1).default(0.95),
  eps: z.number().min(0).max(MOST.adam).default(1e-12),
  weight_decay: z.number().min(0).max(MOST.adam).default(0),
  grad_clip_norm: z.number().min(0).max(MOST.clipNorm).default(0),
})

/** Settings of an optimizer step. */
export type AdamParams = z.infer<typeof adamSchema>

/** Settings of an adapter. */
export const loraSchema = z.object({
  rank: natural.min(1).max(MOST.rank),
  seed: z.number().int().nullish(),
  train_unembed: z.boolean().default(true),
  train_mlp: z.boolean().default(true),
  train_attn: z.boolean().default(true),
})

/** Settings of an adapter, as clients send them. */
export type TinkerLora = z.infer<typeof loraSchema>

const metadata = table(z.unknown(), MOST.fields).nullish()
const path = z.string().min(1).max(256)

/**
 * The fields of a sampling request about its prompt, and those of newer clients, which have to be
 * off.
 */
const PROMPT_FIELDS = {
  prompt_logprobs: z.boolean().nullish(),
  topk_prompt_logprobs: natural.max(MOST.topTokens).nullish(),
  prompt_logprobs_last_n: natural.min(1).nullish(),
  topk_sample_logprobs: z.literal(0).nullish(),
  prompt_alt_tokens_k: z.literal(0).nullish(),
  target_prompt_logprobs: z.null().optional(),
}

/** The bodies of requests, by route. */
export const REQUESTS = {
  create_session: z.object({
    tags: boundedList(name, MOST.fields).optional(),
    user_metadata: metadata,
    sdk_version: name.default(''),
  }),
  session_heartbeat: z.object({ session_id: name }),
  create_model: z.object({
    session_id: name,
    model_seq_id: natural,
    base_model: name,
    lora_config: loraSchema.nullish(),
    optimizer_config: z.object({ type: z.literal('adamw') }).nullish(),
    user_metadata: metadata,
  }),
  model: z.object({ model_id: name }),
  optim_step: z.object({ model_id: name, seq_id: seqId, adam_params: adamSchema }),
  save_weights: z.object({
    model_id: name,
    seq_id: seqId,
    path: path.nullish(),
    overwrite: z.boolean().nullish(),
    ttl_seconds: z.number().positive().max(MOST.ttlSeconds).nullish(),
  }),
  save_weights_for_sampler: z.object({
    model_id: name,
    seq_id: seqId,
    path: path.nullish(),
    sampling_session_seq_id: natural.nullish(),
    kind: z.literal('snapshot').nullish(),
    ttl_seconds: z.number().positive().max(MOST.ttlSeconds).nullish(),
  }),
  load_weights: z.object({
    model_id: name.nullish(),
    seq_id: seqId,
    path: name,
    optimizer: z.boolean(),
    /** Makes a model of the checkpoint, where there is no `model_id`. */
    session_id: name.nullish(),
    model_seq_id: natural.nullish(),
    base_model: name.nullish(),
  }),
  create_sampling_session: z.object({
    session_id: name,
    sampling_session_seq_id: natural,
    base_model: name.nullish(),
    model_path: name.nullish(),
  }),
  asample: z.object({
    sampling_session_id: name.nullish(),
    base_model: name.nullish(),
    model_path: name.nullish(),
    seq_id: natural.nullish(),
    num_samples: natural.min(1).default(1),
    prompt: tokensSchema,
    sampling_params: z.object({
      max_tokens: natural.nullish(),
      seed: z.number().int().nullish(),
      stop: z.union([stopText, boundedList(stopText, MOST.stops), naturalList(LARGEST_TOKEN, MOST.stops)]).nullish(),
      temperature: z.number().default(1),
      top_k: z.number().int().default(-1),
      top_p: z.number().default(1),
    }),
    ...PROMPT_FIELDS,
  }),
  retrieve_future: z.object({ request_id: name, allow_metadata_only: z.boolean().nullish() }),
  retrieve_futures: z.object({
    target: z.object({ sampling_session_id: name, cloned_sampler_id: natural.nullish() }),
    prev_cursor: natural.default(0),
    timeout: z.number().nonnegative().nullish(),
  }),
  cancel_future: z.object({ request_id: name.nullish(), request_ids: boundedList(name, MOST.cancelled).nullish() }),
  weights_info: z.object({ tinker_path: name }),
} as const

/** The bodies of requests. */
export type RequestBodies = { readonly [K in keyof typeof REQUESTS]: z.infer<(typeof REQUESTS)[K]> }
