/** New weights for a server: a folder that it reads, or tensors in the bodies of requests. */
import * as E from 'fp-ts/lib/Either.js'
import { storedArray } from '../../../data/codecs/safetensors.js'
import { storageBytes, storedBytes } from '../../../data/codecs/storage.js'
import type { EngineFailure } from '../../../data/engineClient.js'
import type { AdapterWeights, PlainArray } from '../../../data/generation.js'
import { adapterModules } from '../../lora/adapter.js'
import { formatAdapterConfig } from '../../lora/adapterConfig.js'
import { loraConfig } from '../../lora/config.js'
import { PEFT_PREFIX } from '../../lora/peft.js'
import { engineFailure } from '../failures.js'
import { base64 } from './base64.js'
import { changeSGLang, type SGLangCall, type SGLangServer } from './calls.js'
import type { ChangedServer } from './control.js'
import { pickledTensors, type TensorFloat } from './pickle.js'

/** The transfer of tensors. */
export interface TensorOptions {
  readonly float: TensorFloat
  /** Maximum number of bytes of tensors per call. */
  readonly maxCallBytes: number
  /**
   * Number of ranks of tensor parallelism. Each gets a copy of all tensors and extracts its part.
   */
  readonly ranks: number
}

/** The settings of an update other than the weights. */
export interface UpdateOptions extends TensorOptions {
  readonly version: number
  /** `keep`: requests are frozen with their cache, so clearing it would fail. */
  readonly cache: 'clear' | 'keep'
}

/** Maximum number of characters of a string in V8, with a margin. */
const MOST_CHARACTERS = 2 ** 29 - 2 ** 20

/** Returns the maximum number of bytes of tensors per call, with a copy for each rank. */
const callBytes = ({ maxCallBytes, ranks }: TensorOptions): number =>
  Math.min(maxCallBytes, Math.floor((MOST_CHARACTERS * 3) / 4 / ranks))

const bytesOf = ({ data }: PlainArray, float: TensorFloat): number => data.length * storageBytes(float)

type Tensors = ReadonlyMap<string, PlainArray>

/**
 * Divides tensors into calls of bounded size, in order.
 *
 * Errors   `Left` with a message that names the tensors that are too large for any call.
 */
export const tensorCalls = (tensors: Tensors, options: TensorOptions): E.Either<string, readonly Tensors[]> => {
  const limit = callBytes(options)
  const tooLarge = [...tensors].filter(([, array]) => bytesOf(array, options.float) > limit).map(([name]) => name)
  if (tooLarge.length > 0) {
    const reason = `${tooLarge.join(', ')}: more than the ${limit} bytes of a call; transfer the weights in a folder`
    return E.left(options.float === 'F32' ? `${reason}, or send 16-bit numbers` : reason)
  }
  const calls: Map<string, PlainArray>[] = []
  let room = 0
  for (const [name, array] of tensors) {
    const bytes = bytesOf(array, options.float)
    if (bytes > room || calls.length === 0) {
      calls.push(new Map())
      room = limit
    }
    calls.at(-1)!.set(name, array)
    room -= bytes
  }
  return E.right(calls)
}

/** Returns true if the server reports new weights, but a cache that still has the old ones. */
const isUpdated = ({ reason }: EngineFailure): boolean => /weights were updated/i.test(reason)

/** Makes a failure after which the weights in use are unknown. */
const unknown = (failure: EngineFailure, where: string): E.Either<EngineFailure, never> =>
  E.left({ ...failure, kind: 'unknown', reason: `${where}: ${failure.reason}` })

/**
 * Loads base weights from a folder on the server. On failure it keeps the old ones.
 *
 * Errors   `Left(EngineFailure)`; `unknown` also if the weights are new but the cache could not be
 *          cleared.
 */
export const loadFolder = async (
  server: SGLangServer,
  path: string,
  { version, cache }: UpdateOptions,
): Promise<ChangedServer> => {
  const loaded = await changeSGLang(server, {
    path: '/update_weights_from_disk',
    json: {
      model_path: path,
      weight_version: String(version),
      flush_cache: cache === 'clear',
      abort_all_requests: false,
    },
    deadlineMs: server.updateMs,
  })
  return E.isLeft(loaded) && isUpdated(loaded.left) ? unknown(loaded.left, 'the weights are new') : loaded
}

/**
 * Starts a session of updates, which newer servers require for tensors. `absent`: the server is
 * older and has no sessions.
 */
const beginSession = async (server: SGLangServer): Promise<E.Either<EngineFailure, 'open' | 'absent'>> => {
  const call = (path: string): SGLangCall => ({ path, json: {}, deadlineMs: server.updateMs })
  const begun = await changeSGLang(server, call('/begin_weight_update'))
  if (E.isRight(begun)) return E.right('open')
  if (begun.left.kind === 'missing') return E.right('absent')
  if (begun.left.kind !== 'refused' || !/already open/i.test(begun.left.reason)) return begun
  const ended = await endSession(server, 'open')
  if (E.isLeft(ended)) return ended
  return E.map((): 'open' => 'open')(await changeSGLang(server, call('/begin_weight_update')))
}

const endSession = async (server: SGLangServer, session: 'open' | 'absent'): Promise<ChangedServer> =>
  session === 'absent'
    ? E.right(undefined)
    : changeSGLang(server, { path: '/end_weight_update', json: {}, deadlineMs: server.updateMs })

const tensorCall = (tensors: Tensors, options: UpdateOptions, place: 'before' | 'last'): SGLangCall['json'] => {
  const payload = base64(pickledTensors(tensors, { form: 'list', float: options.float }))
  return {
    serialized_named_tensors: Array.from({ length: options.ranks }, () => payload),
    flush_cache: place === 'last' && options.cache === 'clear',
    abort_all_requests: false,
    ...(place === 'last' && { weight_version: String(options.version) }),
  }
}

/**
 * Sends base weights in calls of bounded size. The last call clears the cache and sets the label.
 * Must be called while the server is paused.
 *
 * Errors   `Left(EngineFailure)`: `refused` if the server refused before accepting any tensor, and
 *          for a tensor that is too large; `unknown` for all later failures, because some tensors
 *          are then new. Nothing is sent twice.
 */
export const loadTensors = async (
  server: SGLangServer,
  tensors: Tensors,
  options: UpdateOptions,
): Promise<ChangedServer> => {
  const calls = tensorCalls(tensors, options)
  if (E.isLeft(calls)) return E.left(engineFailure(server.name, 'refused', calls.left))
  if (calls.right.length === 0) return E.left(engineFailure(server.name, 'refused', 'there is no tensor to load'))
  const session = await beginSession(server)
  if (E.isLeft(session)) return session
  for (const [i, call] of calls.right.entries()) {
    const json = () => tensorCall(call, options, i + 1 === calls.right.length ? 'last' : 'before')
    const sent = await changeSGLang(server, { path: '/update_weights_from_tensor', json, deadlineMs: server.updateMs })
    if (E.isRight(sent)) continue
    // The server responded, so the session can be closed. The update has failed in any case.
    if (sent.left.kind === 'refused') await endSession(server, session.right)
    const isUntouched = i === 0 && sent.left.kind !== 'unknown' && !isUpdated(sent.left)
    return isUntouched ? sent : unknown(sent.left, `call ${i + 1} of ${calls.right.length} with tensors failed`)
  }
  const ended = await endSession(server, session.right)
  return E.isLeft(ended) ? unknown(ended.left, 'all tensors arrived, but the update was not ended') : ended
}

const hex = (bytes: Uint8Array): string => [...bytes].map((byte) => byte.toString(16).padStart(2, '0')).join('')

/** Returns the SHA-256 of the stored numbers. */
const checksum = async (array: PlainArray, float: TensorFloat): Promise<string> => {
  const bytes = new Uint8Array(bytesOf(array, float))
  let at = 0
  for (const piece of storedBytes(storedArray(float, array.shape, array.data))) {
    bytes.set(piece, at)
    at += piece.length
  }
  return hex(new Uint8Array(await crypto.subtle.digest('SHA-256', bytes)))
}

/**
 * Returns true if validation reports that a field of the older format is missing, so nothing was
 * done.
 */
const wantsOldForm = ({ kind, reason }: EngineFailure): boolean =>
  kind === 'refused' && /serialized_tensors/.test(reason) && /required|missing/i.test(reason)

/**
 * Loads an adapter on the server. Newer servers compare the received data with a checksum of each
 * tensor.
 *
 * Errors   `Left(EngineFailure)`: `refused` for a name in use, a rank that is too high, an unknown
 *          module, or corrupted data.
 * Effects  none here. The server may drop the least recently used adapter.
 */
export const loadAdapterTensors = async (
  server: SGLangServer,
  { name, adapter }: { readonly name: string; readonly adapter: AdapterWeights },
  options: TensorOptions,
): Promise<ChangedServer> => {
  const { rank, alpha } = adapter
  const modules = adapterModules(adapter.tensors.keys())
  const tensors = new Map([...adapter.tensors].map(([path, array]) => [PEFT_PREFIX + path, array]))
  const calls = tensorCalls(tensors, options)
  if (E.isLeft(calls) || calls.right.length > 1) {
    const reason = E.isLeft(calls) ? calls.left : `the adapter '${name}' is larger than ${callBytes(options)} bytes`
    return E.left(engineFailure(server.name, 'refused', reason))
  }
  const checksums = await Promise.all(
    [...tensors].map(async ([path, array]) => [path, await checksum(array, options.float)] as const),
  )
  const payload = base64(pickledTensors(tensors, { form: 'dict', float: options.float }))
  const head = {
    lora_name: name,
    config_dict: formatAdapterConfig(loraConfig({ rank, alpha, targetModules: 'all-linear' }), {
      modules,
      layout: 'out-in',
    }),
  }
  const send = (json: object): Promise<ChangedServer> =>
    changeSGLang(server, { path: '/load_lora_adapter_from_tensors', json, deadlineMs: server.updateMs })
  const loaded = await send({
    ...head,
    serialized_named_tensors: Array.from({ length: options.ranks }, () => payload),
    expected_checksums: Object.fromEntries(checksums),
  })
  return E.isLeft(loaded) && wantsOldForm(loaded.left) ? send({ ...head, serialized_tensors: payload }) : loaded
}

/** Unloads an adapter after its requests have finished. */
export const unloadSGLangAdapter = (server: SGLangServer, name: string): Promise<ChangedServer> =>
  changeSGLang(server, { path: '/unload_lora_adapter', json: { lora_name: name }, deadlineMs: server.updateMs })
