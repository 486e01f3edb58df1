/** Detection of a server's properties and abilities, once per connection. */
import { type HttpFailure, type HttpRequest, parseJsonAs } from '@tandem-rl/base'
import type { GenerationFailure } from '@tandem-rl/text'
import * as E from 'fp-ts/lib/Either.js'
import { z } from 'zod'
import type { EngineAbilities, EngineFailure } from '../../../data/engineClient.js'
import type { ServerLogProbs } from '../../generation/policy/knownModes.js'
import { controlFailure, engineFailure, errorOf, requestFailure } from '../failures.js'
import { sendTo, type VLLMServer } from './calls.js'
import { hasFeature, needed, parseRelease, type Release } from './features.js'
import { probeLogProbs } from './probeLogProbs.js'
import { SAMPLING_PATHS, type SamplingEndpoint } from './wireRequest.js'

/** The caller's facts about a server, and its requirements. */
export interface VLLMFacts {
  readonly model: string
  readonly endpoint: 'auto' | SamplingEndpoint
  /** `shared` if there is a shared folder for adapters. */
  readonly adapters: 'shared' | 'none'
  readonly logProbsMode?: ServerLogProbs
  readonly vocabularySize?: number
  /**
   * Maximum number of completions per request: the server's `max_num_seqs`. Default: its own value
   * in development mode, otherwise 32.
   */
  readonly maxConcurrent?: number
  readonly endTokens?: readonly number[]
}

/** The detected properties of a server. */
export interface DetectedVLLM {
  readonly abilities: EngineAbilities
  readonly endpoint: SamplingEndpoint
  readonly logProbs: ServerLogProbs
  /** Maximum number of log-probabilities per position. */
  readonly maxLogProbs: number
  /** `null` if the server does not report it. */
  readonly release: Release | null
  /** Names of the base model. */
  readonly baseModels: readonly string[]
  /** `yes` if the weights have a label. */
  readonly labels: 'yes' | 'no'
}

/**
 * The reason why a server is unusable, as a control failure and as the kind of a request failure.
 */
export interface ConnectFailure {
  readonly failure: EngineFailure
  readonly kind: GenerationFailure['kind']
}

type Found<T> = E.Either<ConnectFailure, T>

/**
 * Limits for servers that do not report their own. A request for more completions than
 * `max_num_seqs` is refused, and one for fewer costs little, so the guess is below usual values:
 * 128 or 256 in vLLM, 64 in `tandem serve`.
 */
const DEFAULTS = { maxConcurrent: 32, maxLogProbs: 20 }

const refusal = ({ name }: VLLMServer, reason: string): Found<never> =>
  E.left({ failure: engineFailure(name, 'refused', reason), kind: 'invalid' })

const fromHttp = ({ name }: VLLMServer, failure: HttpFailure): Found<never> =>
  E.left({ failure: controlFailure(name, failure, 'reads'), kind: requestFailure(failure, null).kind })

const fromText = <T>(server: VLLMServer, schema: z.ZodType<T>, path: string, text: string): Found<T> => {
  const read = parseJsonAs(schema, text)
  if (E.isRight(read)) return read
  const reason = `${path} gave an answer that vLLM never gives: is this the address of a vLLM server?`
  return E.left({ failure: engineFailure(server.name, 'protocol', reason), kind: 'protocol' })
}

/** Reads a path, or returns null if it does not exist or is not accessible. */
const lookUp = async <T>(server: VLLMServer, path: string, schema: z.ZodType<T>): Promise<Found<T | null>> => {
  const reply = await sendTo(server, { method: 'GET', path, repeat: 'safe' })()
  if (E.isRight(reply)) return fromText(server, schema, path, reply.right.text)
  const { status } = reply.left
  return status !== undefined && status < 500 && status !== 401 ? E.right(null) : fromHttp(server, reply.left)
}

/** The existence of a path, detected with an invalid request. */
type Presence = 'there' | 'absent' | 'closed'

const presenceOf = async (server: VLLMServer, path: string, json: unknown): Promise<Found<Presence>> => {
  const request: HttpRequest = { method: 'POST', path, json, repeat: 'safe' }
  const reply = await sendTo(server, request)()
  if (E.isRight(reply)) return E.right('there')
  const { status } = reply.left
  if (status === 400 || status === 422) return E.right('there')
  if (status === 403) return E.right('closed')
  return status === 404 || status === 405 || status === 501 ? E.right('absent') : fromHttp(server, reply.left)
}

export const modelsSchema = z.object({
  data: z.array(z.object({ id: z.string(), parent: z.string().nullish(), max_model_len: z.int().min(1).nullish() })),
})

interface Models {
  readonly baseModels: readonly string[]
  readonly maxModelLength: number
}

const modelsOf = async (server: VLLMServer, { model }: VLLMFacts): Promise<Found<Models>> => {
  const path = '/v1/models'
  const reply = await sendTo(server, { method: 'GET', path, repeat: 'safe' })()
  if (E.isLeft(reply)) return fromHttp(server, reply.left)
  const listed = fromText(server, modelsSchema, path, reply.right.text)
  if (E.isLeft(listed)) return listed
  const { data } = listed.right
  const names = data.map(({ id }) => id)
  if (!names.includes(model)) return refusal(server, `there is no model '${model}': the server has ${names.join(', ')}`)
  const bases = data.filter(({ parent }) => parent == null)
  const lengths = bases.flatMap(({ max_model_len: length }) => length ?? [])
  if (lengths.length === 0) return refusal(server, `${path} has no max_model_len: is this a vLLM server?`)
  return E.right({ baseModels: bases.map(({ id }) => id), maxModelLength: Math.min(...lengths) })
}

const endpointOf = async (
  server: VLLMServer,
  wanted: VLLMFacts['endpoint'],
  release: Release | null,
): Promise<Found<SamplingEndpoint>> => {
  const generate = await presenceOf(server, SAMPLING_PATHS.generate, { token_ids: [], sampling_params: {} })
  if (E.isLeft(generate)) return generate
  if (wanted !== 'completions' && generate.right === 'there') return E.right('generate')
  if (wanted === 'generate') {
    const why = generate.right === 'closed' ? 'start it with --enable-scale-out' : needed('/inference/v1/generate')
    return refusal(server, `the server has no ${SAMPLING_PATHS.generate}: ${why}`)
  }
  const feature = 'token ids in answers of /v1/completions'
  if (release !== null && !hasFeature(release, feature)) return refusal(server, needed(feature))
  return E.right('completions')
}

/**
 * The schema of `/server_info` in development mode. Older servers return text, which is ignored.
 */
const serverInfo = z.object({
  vllm_config: z
    .object({
      model_config: z
        .object({ logprobs_mode: z.string().nullish(), max_logprobs: z.int().nullish() })
        .nullish()
        .catch(null),
      scheduler_config: z
        .object({ max_num_seqs: z.int().min(1).nullish() })
        .nullish()
        .catch(null),
    })
    .nullish()
    .catch(null),
})

interface Settings {
  readonly logProbsMode: string | null
  readonly maxLogProbs: number
  readonly maxConcurrent: number
}

const settingsOf = async (server: VLLMServer): Promise<Found<Settings>> => {
  const found = await lookUp(server, '/server_info?config_format=json', serverInfo)
  return E.map((reported: z.infer<typeof serverInfo> | null): Settings => {
    const { model_config: model, scheduler_config: scheduler } = reported?.vllm_config ?? {}
    const most = model?.max_logprobs ?? DEFAULTS.maxLogProbs
    return {
      logProbsMode: model?.logprobs_mode ?? null,
      maxLogProbs: most === -1 ? Number.POSITIVE_INFINITY : most,
      maxConcurrent: scheduler?.max_num_seqs ?? DEFAULTS.maxConcurrent,
    }
  })(found)
}

/** Determines the mode of log-probabilities from the server, the caller, or a probe. */
const logProbsOf = async (
  server: VLLMServer,
  { model, logProbsMode: given }: VLLMFacts,
  reported: string | null,
): Promise<Found<ServerLogProbs>> => {
  const modes: Readonly<Record<string, ServerLogProbs>> = { raw_logprobs: 'raw', processed_logprobs: 'processed' }
  if (reported !== null && modes[reported] === undefined) {
    return refusal(
      server,
      `the server reports '${reported}': start it with --logprobs-mode raw_logprobs or processed_logprobs`,
    )
  }
  const known = reported === null ? undefined : modes[reported]
  if (known !== undefined && given !== undefined && known !== given) {
    return refusal(server, `the server reports '${reported}', but the option logProbsMode is '${given}'`)
  }
  const mode = known ?? given
  if (mode !== undefined) return E.right(mode)
  const probed = await probeLogProbs(server, model)
  if (E.isLeft(probed)) return fromHttp(server, probed.left)
  return probed.right === 'undecided'
    ? refusal(server, 'it is unknown whether its log-probabilities are raw: set the option logProbsMode')
    : E.right(probed.right)
}

/**
 * Determines the size of the vocabulary from the refusal of an invalid id. Returns Infinity if the
 * server does not report it.
 */
const vocabularyOf = async (server: VLLMServer, model: string, release: Release | null): Promise<Found<number>> => {
  if (release === null || !hasFeature(release, '/inference/v1/generate')) return E.right(Number.POSITIVE_INFINITY)
  const json = { model, prompt: [0], max_tokens: 1, logit_bias: { [2 ** 31 - 1]: 1 } }
  const reply = await sendTo(server, { method: 'POST', path: SAMPLING_PATHS.completions, json, repeat: 'safe' })()
  if (E.isRight(reply)) return E.right(Number.POSITIVE_INFINITY)
  const found = /Vocabulary size: (\d{1,9})\b/.exec(errorOf(reply.left)?.message ?? '')
  if (found !== null) return E.right(Number(found[1]))
  return reply.left.status === undefined ? fromHttp(server, reply.left) : E.right(Number.POSITIVE_INFINITY)
}

interface Control {
  readonly control: 'yes' | 'no'
  readonly labels: 'yes' | 'no'
  readonly updates: EngineAbilities['updates']
}

const controlOf = async (
  server: VLLMServer,
  { adapters }: VLLMFacts,
  release: Release | null,
): Promise<Found<Control>> => {
  const paused = await lookUp(server, '/is_paused', z.object({ is_paused: z.boolean() }))
  if (E.isLeft(paused)) return paused
  const info = await lookUp(server, '/weight_info', z.object({ weight_version: z.string() }))
  if (E.isLeft(info)) return info
  const lora =
    adapters === 'shared' ? await presenceOf(server, '/v1/load_lora_adapter', {}) : E.right('absent' as const)
  if (E.isLeft(lora)) return lora
  const control = paused.right === null ? 'no' : 'yes'
  const reloads = control === 'yes' && (release === null || hasFeature(release, 'reload_weights from a folder'))
  return E.right({
    control,
    labels: info.right === null ? 'no' : 'yes',
    updates: [...(lora.right === 'there' ? (['adapter'] as const) : []), ...(reloads ? (['full'] as const) : [])],
  })
}

/**
 * Detects a server's version, model, endpoints, and kind of log-probabilities.
 *
 * Errors   `Left(ConnectFailure)`: no answer, an unknown model, a version without token ids in
 *          answers, logits instead of log-probabilities, or an undetectable mode of
 *          log-probabilities.
 * Effects  sends at most nine requests, for which the server samples one token at most.
 */
export const detectVLLM = async (server: VLLMServer, facts: VLLMFacts): Promise<Found<DetectedVLLM>> => {
  const models = await modelsOf(server, facts)
  if (E.isLeft(models)) return models
  const version = await lookUp(server, '/version', z.object({ version: z.string() }))
  if (E.isLeft(version)) return version
  const release = version.right === null ? null : parseRelease(version.right.version)
  const endpoint = await endpointOf(server, facts.endpoint, release)
  if (E.isLeft(endpoint)) return endpoint
  const control = await controlOf(server, facts, release)
  if (E.isLeft(control)) return control
  const settings = await settingsOf(server)
  if (E.isLeft(settings)) return settings
  const logProbs = await logProbsOf(server, facts, settings.right.logProbsMode)
  if (E.isLeft(logProbs)) return logProbs
  const vocabulary =
    facts.vocabularySize === undefined
      ? await vocabularyOf(server, facts.model, release)
      : E.right(facts.vocabularySize)
  if (E.isLeft(vocabulary)) return vocabulary
  const hasSpans = release !== null && hasFeature(release, 'spans of labels in answers')
  const { control: controls, labels, updates } = control.right
  return E.right({
    endpoint: endpoint.right,
    logProbs: logProbs.right,
    maxLogProbs: settings.right.maxLogProbs,
    release,
    baseModels: models.right.baseModels,
    labels,
    abilities: {
      server: `vllm ${version.right?.version ?? 'of an unknown version'}`,
      maxModelLength: models.right.maxModelLength,
      vocabularySize: vocabulary.right,
      maxConcurrent: facts.maxConcurrent ?? settings.right.maxConcurrent,
      endTokens: facts.endTokens ?? [],
      logProbs: logProbs.right,
      promptLogProbs: 'yes',
      stamps: endpoint.right === 'generate' && labels === 'yes' && hasSpans ? 'yes' : 'no',
      updates,
      control: controls,
    },
  })
}
