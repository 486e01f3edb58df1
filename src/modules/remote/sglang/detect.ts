/** Detection of a server's properties and abilities, once per connection. */
import * as E from 'fp-ts/lib/Either.js'
import { z } from 'zod'
import type { EngineAbilities, EngineFailure } from '../../../data/engineClient.js'
import { parseJsonAs } from '../../../data/schemaJson.js'
import { controlFailure, engineFailure } from '../failures.js'
import { readAt, type SGLangServer } from './calls.js'
import { modelInfoSchema, sglangModels } from './control.js'
import type { SGLangLogProbs } from './request.js'

/** The caller's facts about a server, which the server does not report. */
export interface SGLangFacts {
  /** The stage at which log-probabilities are computed. `probe` samples a token to detect it. */
  readonly logProbs: SGLangLogProbs | 'probe'
  /** Default: unknown. The server refuses invalid ids. */
  readonly vocabularySize?: number
  /** Default: unknown. */
  readonly endTokens?: readonly number[]
}

/** The detected properties of a server. */
export interface DetectedSGLang {
  readonly abilities: EngineAbilities
  readonly logProbs: SGLangLogProbs
  /**
   * `incremental` if frames of a stream contain only new tokens. Otherwise a stream of T tokens
   * takes O(T^2) bytes.
   */
  readonly frames: 'cumulative' | 'incremental'
  /** Number of ranks of tensor parallelism. */
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

/** Default concurrency of servers that do not report it. */
const MOST_RUNNING = 256

const concurrencyOf = ({ internal_states: states, max_running_requests: most }: ServerInfo): number => {
  const each = (states ?? []).flatMap((state) => state.effective_max_running_requests_per_dp ?? [])
  return each.length > 0 ? each.reduce((sum, n) => sum + n, 0) : (most ?? MOST_RUNNING)
}

/**
 * At this temperature, gaps between log-probabilities are a quarter as large after temperature as
 * before.
 */
const PROBE_TEMPERATURE = 4

/** Number of most probable tokens to compare. */
const PROBE_TOKENS = 5

/** Smallest conclusive gap. A flat distribution looks the same at every temperature. */
const LEAST_GAP = 0.05

/** Number of first tokens to try before the model counts as flat. */
const PROBES = 3

const tops = z.array(z.array(z.tuple([z.number().nullable(), z.int()]).rest(z.unknown())).nullable())

const probed = z.object({ meta_info: z.object({ input_top_logprobs: tops, output_top_logprobs: tops }) })

type Probed = z.infer<typeof probed>['meta_info']

/** Samples one token after others, with the most probable ones at each position. */
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

/** Returns the gap between the most and the least probable of some tokens. */
const gapOf = (place: Probed['input_top_logprobs'][number] | undefined): number => {
  const logProbs = (place ?? []).flatMap(([logProb]) => logProb ?? [])
  return logProbs.length === 0 ? 0 : Math.max(...logProbs) - Math.min(...logProbs)
}

/**
 * Detects whether the server computes log-probabilities before or after temperature. Compares the
 * most probable tokens of sampling at temperature 4 with those in a prompt, which are always raw.
 *
 * Errors   `Left(EngineFailure)`: `protocol` if the probe is inconclusive, as for a model in which
 *          all tokens are equally probable.
 * Effects  two requests of one token each; up to six for a flat model.
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
    'its most probable tokens are about equally probable, so the probe cannot detect whether log-probabilities are taken'
  return E.left(engineFailure(server.name, 'protocol', `${reason} before or after temperature; set logProbs`))
}

/**
 * Detects a server's properties.
 *
 * Errors   `Left(EngineFailure)`: `missing` if one of SGLang's paths does not exist, `unreachable`,
 *          `refused`, and `protocol` for answers of another format or without the context length.
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
    return E.left(engineFailure(server.name, 'protocol', '/v1/models does not report the length of the context'))
  }
  const logProbs = facts.logProbs === 'probe' ? await probeLogProbs(server) : E.right(facts.logProbs)
  if (E.isLeft(logProbs)) return logProbs
  const { version, tp_size: ranks, enable_lora: hasLora, incremental_streaming_output: incremental } = info.right
  return E.right({
    abilities: {
      // The scheduler reserves one position of the context.
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
