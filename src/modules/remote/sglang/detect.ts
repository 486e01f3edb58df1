/** What a server is and can do: asked once, when a client connects. */
import * as E from 'fp-ts/lib/Either.js'
import { z } from 'zod'
import type { EngineAbilities, EngineFailure } from '../../../data/engineClient.js'
import { parseJsonAs } from '../../../data/schemaJson.js'
import { controlFailure, engineFailure } from '../failures.js'
import { readAt, type SGLangServer } from './calls.js'
import { modelInfoSchema, sglangModels } from './control.js'
import type { SGLangLogProbs } from './request.js'

/** What the caller knows of a server, which the server does not tell. */
export interface SGLangFacts {
  /** Where log-probabilities come from; `probe` has the server sample a token, and sees. */
  readonly logProbs: SGLangLogProbs | 'probe'
  /** Default: not known; the server refuses ids that it has not. */
  readonly vocabularySize?: number
  /** Default: not known. */
  readonly endTokens?: readonly number[]
}

/** A server that was looked at. */
export interface DetectedSGLang {
  readonly abilities: EngineAbilities
  readonly logProbs: SGLangLogProbs
  /** Whether frames of a stream have only what is new: otherwise a stream of T tokens takes O(T^2) bytes. */
  readonly frames: 'cumulative' | 'incremental'
  /** Ranks of tensor parallelism. */
  readonly ranks: number
}

const size = z.int().min(1).nullish().catch(null)

const serverInfo = z.object({
  version: z.string().nullish(),
  tp_size: size,
  max_running_requests: size,
  enable_lora: z.boolean().nullish(),
  incremental_streaming_output: z.boolean().nullish(),
  internal_states: z.array(z.object({ effective_max_running_requests_per_dp: size })).nullish(),
})

type ServerInfo = z.infer<typeof serverInfo>

/** Where the server does not tell its own. */
const MOST_RUNNING = 256

const concurrencyOf = ({ internal_states: states, max_running_requests: most }: ServerInfo): number => {
  const each = (states ?? []).flatMap((state) => state.effective_max_running_requests_per_dp ?? [])
  return each.length > 0 ? each.reduce((sum, n) => sum + n, 0) : (most ?? MOST_RUNNING)
}

/** Gaps between log-probabilities are a quarter as large after it as before. */
const PROBE_TEMPERATURE = 4

/** How many of the most probable tokens are compared. */
const PROBE_TOKENS = 5

/** Smaller gaps say nothing: a distribution that is flat looks the same at every temperature. */
const LEAST_GAP = 0.05

/** First tokens that are tried before the model counts as flat. */
const PROBES = 3

const tops = z.array(z.array(z.tuple([z.number().nullable(), z.int()]).rest(z.unknown())).nullable())

const probed = z.object({ meta_info: z.object({ input_top_logprobs: tops, output_top_logprobs: tops }) })

type Probed = z.infer<typeof probed>['meta_info']

/** One token after others, with the most probable ones at each place. */
const probeAfter = async (
  { transport, controlMs, name }: SGLangServer,
  ids: readonly number[],
): Promise<E.Either<EngineFailure, Probed>> => {
  const parameters = {
    max_new_tokens: 1,
    temperature: PROBE_TEMPERATURE,
    top_p: 1,
    top_k: -1,
    min_p: 0,
    ignore_eos: true,
  }
  const json = {
    input_ids: ids,
    sampling_params: parameters,
    return_logprob: true,
    logprob_start_len: 0,
    top_logprobs_num: PROBE_TOKENS,
  }
  const reply = await transport.send({
    method: 'POST',
    path: '/generate',
    json,
    repeat: 'fresh',
    deadlineMs: controlMs,
  })()
  if (E.isLeft(reply)) return E.left(controlFailure(name, reply.left, 'reads'))
  const read = parseJsonAs(probed, reply.right.text)
  return E.isRight(read)
    ? E.right(read.right.meta_info)
    : E.left(engineFailure(name, 'protocol', '/generate answered a probe of one token with something else'))
}

/** From the most to the least probable of some tokens. */
const gapOf = (place: Probed['input_top_logprobs'][number] | undefined): number => {
  const logProbs = (place ?? []).flatMap(([logProb]) => logProb ?? [])
  return logProbs.length === 0 ? 0 : Math.max(...logProbs) - Math.min(...logProbs)
}

/**
 * Whether the server tells log-probabilities before or after temperature: compares the most probable tokens after one token as sampling at
 * temperature 4 has them, and as a prompt has them, which is always raw.
 *
 * Errors   `Left(EngineFailure)`: `protocol` if there is nothing to compare, as in a model that finds all tokens equally probable.
 * Effects  two requests of one token; up to six for a model that is flat.
 */
const probeLogProbs = async (server: SGLangServer): Promise<E.Either<EngineFailure, SGLangLogProbs>> => {
  for (let id = 0; id < PROBES; id++) {
    const sampled = await probeAfter(server, [id])
    if (E.isLeft(sampled)) return sampled
    const given = await probeAfter(server, [id, id])
    if (E.isLeft(given)) return given
    const raw = gapOf(given.right.input_top_logprobs[1])
    if (raw > LEAST_GAP) {
      return E.right(gapOf(sampled.right.output_top_logprobs[0]) > raw / 2 ? 'edited' : 'tempered')
    }
  }
  const reason =
    'its most probable tokens are about equally probable: nothing tells whether log-probabilities are taken'
  return E.left(engineFailure(server.name, 'protocol', `${reason} before or after temperature; set logProbs`))
}

/**
 * Asks a server what it is.
 *
 * Errors   `Left(EngineFailure)`: `missing` where a path of SGLang's is not there, `unreachable`, `refused`, and `protocol` for answers of another
 *          form or without the length of the context.
 */
export const detectSGLang = async (
  server: SGLangServer,
  facts: SGLangFacts,
): Promise<E.Either<EngineFailure, DetectedSGLang>> => {
  const info = await readAt(server, '/server_info', serverInfo)
  if (E.isLeft(info)) return info
  const models = await readAt(server, '/v1/models', sglangModels)
  if (E.isLeft(models)) return models
  const model = await readAt(server, '/model_info', modelInfoSchema)
  if (E.isLeft(model)) return model
  const maxModelLength = models.right.data.find(({ parent }) => parent == null)?.max_model_len
  if (maxModelLength == null) {
    return E.left(engineFailure(server.name, 'protocol', '/v1/models does not tell the length of the context'))
  }
  const logProbs = facts.logProbs === 'probe' ? await probeLogProbs(server) : E.right(facts.logProbs)
  if (E.isLeft(logProbs)) return logProbs
  const { version, tp_size: ranks, enable_lora: hasLora, incremental_streaming_output: incremental } = info.right
  return E.right({
    abilities: {
      // The scheduler keeps one place of the context for itself.
      maxModelLength: maxModelLength - 1,
      vocabularySize: facts.vocabularySize ?? Number.MAX_SAFE_INTEGER,
      maxConcurrent: concurrencyOf(info.right),
      endTokens: facts.endTokens ?? [],
      server: `sglang ${version ?? 'of unknown version'}`,
      logProbs: logProbs.right === 'edited' ? 'raw' : 'tempered',
      promptLogProbs: 'yes',
      stamps: model.right.weight_version == null ? 'no' : 'yes',
      updates: hasLora === true ? ['adapter', 'full'] : ['full'],
      control: 'yes',
    },
    logProbs: logProbs.right,
    frames: incremental === true ? 'incremental' : 'cumulative',
    ranks: ranks ?? 1,
  })
}
