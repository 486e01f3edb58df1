/**
 * The endpoints of vLLM's development mode: pausing, aborting, loading weights, caches. They
 * require no key.
 */
import { boundedList, type PauseMode } from '@tandem-rl/text'
import * as E from 'fp-ts/lib/Either.js'
import { z } from 'zod'
import { type ApiFailure, apiFailure, jsonResponse } from '../requests/failure.js'
import { parseFields } from '../requests/fields.js'
import { REQUEST_LIMITS } from '../requests/limits.js'
import type { Served } from '../requests/served.js'

type Answer = Promise<E.Either<ApiFailure, Response>>

const MODES: readonly PauseMode[] = ['abort', 'wait', 'keep']

const isMode = (text: string): text is PauseMode => MODES.some((mode) => mode === text)

const BOOLEANS: Readonly<Record<string, 'yes' | 'no'>> = {
  true: 'yes',
  '1': 'yes',
  yes: 'yes',
  on: 'yes',
  t: 'yes',
  y: 'yes',
  false: 'no',
  '0': 'no',
  no: 'no',
  off: 'no',
  f: 'no',
  n: 'no',
}

/** Parses a boolean of the query. */
const flag = (query: URLSearchParams, name: string, otherwise: 'yes' | 'no'): E.Either<ApiFailure, 'yes' | 'no'> => {
  const given = query.get(name)
  if (given === null) return E.right(otherwise)
  const read = Object.hasOwn(BOOLEANS, given.toLowerCase()) ? BOOLEANS[given.toLowerCase()] : undefined
  return read === undefined
    ? E.left(apiFailure(400, `${name}: expected true or false, got '${given}'`, name))
    : E.right(read)
}

/**
 * `POST /pause?mode=abort|wait|keep&clear_cache=true`: responds when the mode's condition holds.
 *
 * Errors   `Left(ApiFailure)`, 400, for an unknown mode.
 */
export const pause = async (served: Served, query: URLSearchParams): Answer => {
  const mode = query.get('mode') ?? 'abort'
  if (!isMode(mode)) return E.left(apiFailure(400, `mode: expected 'abort', 'wait' or 'keep', got '${mode}'`, 'mode'))
  const clear = flag(query, 'clear_cache', 'yes')
  if (E.isLeft(clear)) return clear
  const wait = flag(query, 'wait_for_inflight_requests', 'no')
  if (E.isLeft(wait)) return wait
  await served.engine.pause({
    mode: wait.right === 'yes' ? 'wait' : mode,
    cache: clear.right === 'yes' ? 'clear' : 'keep',
  })
  return E.right(jsonResponse({ status: 'paused' }))
}

/** `POST /resume` */
export const resume = async (served: Served): Answer => {
  await served.engine.resume()
  return E.right(jsonResponse({ status: 'resumed' }))
}

/** `GET /is_paused` */
export const isPaused = async (served: Served): Answer =>
  E.right(jsonResponse({ is_paused: await served.engine.isPaused() }))

const abortSchema = z.object({ request_ids: boundedList(z.string(), REQUEST_LIMITS.names).nullish() })

/**
 * `POST /abort_requests`: aborts the requests with these names, or all.
 *
 * Errors   `Left(ApiFailure)`, 400, for an invalid body.
 */
export const abortRequests = async (served: Served, body: unknown): Answer => {
  const fields = parseFields(abortSchema, body)
  if (E.isLeft(fields)) return fields
  const names = fields.right.request_ids ?? []
  const ids = served.requests.find(names)
  const aborted =
    names.length === 0 ? await served.engine.abort() : ids.length === 0 ? 0 : await served.engine.abort(ids)
  return E.right(jsonResponse({ status: 'aborted', aborted }))
}

const rpcSchema = z.object({
  method: z.string({ error: "Missing 'method' in request body" }),
  args: boundedList(z.unknown(), REQUEST_LIMITS.names).nullish(),
  kwargs: z.record(z.string(), z.unknown()).nullish(),
})

const reloadSchema = z.strictObject({ weights_path: z.string().min(1).nullish() })

/**
 * `POST /collective_rpc`: supports vLLM's worker method `reload_weights`, from
 * `kwargs.weights_path` or from the model's origin. Running requests continue with the new weights,
 * and their keys and values are computed again.
 *
 * Errors   `Left(ApiFailure)`: 501 for another method, 400 for other arguments, 500 if the weights
 *          are unusable; the old ones then stay.
 */
export const collectiveRpc = async (served: Served, body: unknown): Answer => {
  const fields = parseFields(rpcSchema, body)
  if (E.isLeft(fields)) return fields
  const { method, args, kwargs } = fields.right
  if (method !== 'reload_weights') {
    return E.left(
      apiFailure(501, `The method '${method}' is not supported: this server has 'reload_weights'.`, 'method'),
    )
  }
  if (args != null && args.length > 0) {
    return E.left(apiFailure(400, "reload_weights: arguments go into 'kwargs'", 'args'))
  }
  const read = parseFields(reloadSchema, kwargs ?? {})
  if (E.isLeft(read)) return read
  const path = read.right.weights_path ?? served.model.root
  const version = (await served.engine.version()) + 1
  const loaded = await served.engine.loadWeights({ _tag: 'Folder', path }, { version, running: 'recompute' })()
  return E.isLeft(loaded)
    ? E.left(apiFailure(500, loaded.left.reason, 'weights_path'))
    : E.right(jsonResponse({ results: [null] }))
}

const versionSchema = z.object({ new_version: z.string() })

/**
 * `POST /update_weight_version`: labels the current weights of the engine. `/weight_info` and
 * `/inference/v1/generate` report the label. Other weights have no label until they get one.
 *
 * Errors   `Left(ApiFailure)`, 400, without `new_version`.
 */
export const updateWeightVersion = async (served: Served, body: unknown): Answer => {
  const fields = parseFields(versionSchema, body)
  if (E.isLeft(fields)) return fields
  served.weights.name(await served.engine.version(), fields.right.new_version)
  return E.right(jsonResponse({ success: true, new_version: fields.right.new_version }))
}

/**
 * `GET /weight_info`: the label, and in addition to vLLM the version with which the engine stamps
 * tokens.
 */
export const weightInfo = async (served: Served): Answer => {
  const version = await served.engine.version()
  return E.right(jsonResponse({ weight_version: served.weights.labelOf(version), engine_version: version }))
}

/** `GET /server_info`: the part of vLLM's configuration that clients need for log-probabilities. */
export const serverInfo = async ({ engine, features, limits }: Served): Answer => {
  const { maxModelLength, maxConcurrent } = engine.info
  const model = {
    max_model_len: maxModelLength,
    logprobs_mode: features.logProbsMode,
    max_logprobs: limits.maxLogProbs,
  }
  return E.right(
    jsonResponse({ vllm_config: { model_config: model, scheduler_config: { max_num_seqs: maxConcurrent } } }),
  )
}

/** `GET /get_world_size`: one worker. */
export const worldSize = async (): Answer => E.right(jsonResponse({ world_size: 1 }))

/** `POST /reset_prefix_cache` */
export const resetPrefixCache = async (served: Served): Answer => {
  await served.engine.resetPrefixCache()
  return E.right(jsonResponse({ success: true }))
}
