/** A model that is trained on a server: losses, optimizer steps and checkpoints, in order. */
import type { Cell } from '@tandem-rl/base'
import { type Either, isLeft, left, right } from 'fp-ts/lib/Either.js'
import type { TaskEither } from 'fp-ts/lib/TaskEither.js'
import { z } from 'zod'
import {
  type AdamParams,
  adamSchema,
  forwardBackwardJson,
  forwardBackwardOutputSchema,
  forwardJson,
} from '../protocol/jsonWire.js'
import { decodeForwardBackwardOutput, encodeForwardBackward } from '../protocol/protobufWire.js'
import {
  combineOutputs,
  type Datum,
  type ForwardBackwardOutput,
  floatTensor,
  type LossConfig,
} from '../protocol/values.js'
import type { CallRequest, Calls, TinkerFailure } from './calls.js'
import type { GradientSums } from './gradientSums.js'
import type { TinkerServer } from './knownServers.js'
import { type Pending, type ResultForm, submitRequest } from './pending.js'
import { makeSampler, type TinkerSampler } from './sampler.js'

/** Data and the loss to compute. */
export interface LossRequest {
  readonly data: readonly Datum[]
  readonly lossFn: string
  readonly lossConfig?: LossConfig
}

/** A task that submits a request, and the promise of its result. */
type Submitting<T> = TaskEither<TinkerFailure, Pending<T>>

/** The lifetime of a checkpoint. */
interface TinkerSaveOptions {
  /** Seconds after which the server may delete it. Default: it is kept. */
  readonly ttlSeconds?: number
}

/** Errors: throws RangeError for a time that is not a whole number above 0. */
const ttlJson = ({ ttlSeconds }: TinkerSaveOptions = {}): object => {
  if (ttlSeconds === undefined) return {}
  if (Number.isSafeInteger(ttlSeconds) && ttlSeconds > 0) return { ttl_seconds: ttlSeconds }
  throw new RangeError(`ttlSeconds must be a whole number above 0, got ${ttlSeconds}`)
}

/**
 * Trains one model. Requests are submitted in the order of the calls, and the server carries them
 * out in that order. Waiting for a promise is not waiting for its result, so several requests may
 * be under way.
 */
export interface TinkerTrainer {
  readonly modelId: string
  readonly server: TinkerServer
  /** The sums or averages of the server, as given to `session.trainer`. */
  readonly gradients: GradientSums
  /** Computes a loss and adds its gradients to those that wait for the optimizer. */
  readonly forwardBackward: (request: LossRequest) => Submitting<ForwardBackwardOutput>
  /** Computes a loss without gradients. */
  readonly forward: (request: LossRequest) => Submitting<ForwardBackwardOutput>
  /** Applies the gradients. Settings that are absent have the defaults of the protocol. */
  readonly optimStep: (adam: Partial<AdamParams>) => Submitting<Readonly<Record<string, number>>>
  /** Saves weights and optimizer. The result is the checkpoint's path. */
  readonly saveState: (name: string, options?: TinkerSaveOptions) => Submitting<string>
  readonly loadState: (path: string, options: { readonly optimizer: 'restored' | 'fresh' }) => Submitting<string>
  /** Saves weights to sample from. The result is the checkpoint's path. */
  readonly saveForSampler: (name: string, options?: TinkerSaveOptions) => Submitting<string>
  /** A sampler with the weights of now, which are not kept as a checkpoint. */
  readonly sampler: () => TaskEither<TinkerFailure, TinkerSampler>
  readonly unload: () => TaskEither<TinkerFailure, void>
}

/** Chunks of data, as large as a request may be. */
export interface ChunkLimits {
  readonly data: number
  readonly bytes: number
}

/**
 * The form of losses. `either`: JSON, until the server refuses it and accepts protobuf, which is
 * then sent to the end.
 */
export type TinkerWire = 'json' | 'protobuf' | 'either'

interface TrainerOptions {
  readonly calls: Calls
  readonly modelId: string
  readonly server: TinkerServer
  readonly gradients: GradientSums
  readonly wire: Cell<TinkerWire>
  readonly chunks: ChunkLimits
  /** The number of the next sampling session. */
  readonly nextSampler: () => number
}

const NUMBER_BYTES = 4

const sizeOf = ({ tokens, inputs }: Datum): number =>
  NUMBER_BYTES * (tokens.length + Object.values(inputs).reduce((sum, { data }) => sum + data.length, 0))

/** A sequence with weights of 0, whose cross-entropy has no gradient. */
export const weightless = ({ tokens, inputs }: Datum): Datum => ({
  tokens,
  inputs: { target_tokens: inputs.target_tokens!, weights: floatTensor(new Float32Array(tokens.length)) },
})

/** Data in chunks that requests may have, in order. */
export const chunksOf = (data: readonly Datum[], limits: ChunkLimits): readonly (readonly Datum[])[] => {
  const chunks: Datum[][] = []
  let bytes = 0
  for (const datum of data) {
    const size = sizeOf(datum)
    const last = chunks.at(-1)
    if (last === undefined || last.length >= limits.data || bytes + size > limits.bytes) {
      chunks.push([datum])
      bytes = size
    } else {
      last.push(datum)
      bytes += size
    }
  }
  return chunks
}

const optimForm: ResultForm<Readonly<Record<string, number>>> = {
  json: z.object({ metrics: z.record(z.string(), z.number()).nullish() }).transform(({ metrics }) => metrics ?? {}),
}

const pathForm: ResultForm<string> = {
  json: z.object({ path: z.string().nullish() }).transform(({ path }) => path ?? ''),
}

const sessionForm: ResultForm<string> = {
  json: z.object({ sampling_session_id: z.string() }).transform(({ sampling_session_id }) => sampling_session_id),
}

const lossForm: ResultForm<ForwardBackwardOutput> = {
  json: forwardBackwardOutputSchema,
  protobuf: decodeForwardBackwardOutput,
}

/** The results of chunks as one. */
const combined = (parts: readonly Pending<ForwardBackwardOutput>[]): Pending<ForwardBackwardOutput> => ({
  requestId: parts.map(({ requestId }) => requestId).join(' '),
  result: async () => {
    const outputs: ForwardBackwardOutput[] = []
    for (const { result } of parts) {
      const output = await result()
      if (isLeft(output)) return output
      outputs.push(output.right)
    }
    return right(combineOutputs(outputs))
  },
})

/** Returns whether a server refused a loss for its form, without reading it. */
const refusesJson = ({ call, status }: TinkerFailure): boolean =>
  status === 415 || (call === '/forward' && (status === 404 || status === 405))

/** Failures after which the state of the model is unknown. */
const leavesUnknown = ({ kind }: TinkerFailure): boolean =>
  kind === 'uncertain' || kind === 'unreachable' || kind === 'lost'

/** Makes a client of a model. */
export const makeTrainer = (options: TrainerOptions): TinkerTrainer => {
  const { calls, modelId, server, gradients, wire, chunks, nextSampler } = options
  let seqId = 1
  let line: Promise<unknown> = Promise.resolve()
  let broken: TinkerFailure | null = null

  /** Runs submissions one after another. */
  const inLine = <T>(work: () => Promise<Either<TinkerFailure, T>>): Promise<Either<TinkerFailure, T>> => {
    const run = async (): Promise<Either<TinkerFailure, T>> => {
      if (broken === null) return work()
      const reason = `the model cannot be used after a failure that leaves its state unknown: ${broken.reason}`
      return left(calls.failure('broken', { call: broken.call, reason }))
    }
    const result = line.then(run)
    line = result
    return result
  }
  /** Ends the use of the model after a failure that leaves its state unknown. */
  const noted = <T>(outcome: Either<TinkerFailure, T>): Either<TinkerFailure, T> => {
    if (isLeft(outcome) && leavesUnknown(outcome.left)) broken ??= outcome.left
    return outcome
  }
  /** Submits a request with the next number, which is used up when the server accepts it. */
  const submit = async <T>(
    make: (seqId: number) => Omit<CallRequest, 'effect'>,
    form: ResultForm<T>,
  ): Promise<Either<TinkerFailure, Pending<T>>> => {
    const submitted = await submitRequest(calls, { ...make(seqId), effect: 'changes' }, form)
    if (isLeft(submitted)) return noted<Pending<T>>(submitted)
    seqId++
    const { requestId, result } = submitted.right
    return right({ requestId, result: async () => noted(await result()) })
  }
  const submitted =
    <T>(path: string, body: () => object, form: ResultForm<T>): Submitting<T> =>
    () =>
      inLine(() => submit((number) => ({ path, json: { model_id: modelId, seq_id: number, ...body() } }), form))

  const lossCall =
    (form: 'json' | 'protobuf', { data, lossFn, lossConfig = {} }: LossRequest, mode: 'forward' | 'backward') =>
    (number: number): Omit<CallRequest, 'effect'> => {
      const request = { modelId, seqId: number, data, lossFn, lossConfig, mode }
      if (form === 'protobuf') return { path: '/forward_backward', protobuf: encodeForwardBackward(request) }
      return mode === 'forward'
        ? { path: '/forward', json: forwardJson(request) }
        : { path: '/forward_backward', json: forwardBackwardJson(request) }
    }
  const submitLoss = async (
    request: LossRequest,
    mode: 'forward' | 'backward',
  ): Promise<Either<TinkerFailure, Pending<ForwardBackwardOutput>>> => {
    const form = wire.get()
    const first = await submit(lossCall(form === 'protobuf' ? form : 'json', request, mode), lossForm)
    if (form !== 'either' || !isLeft(first) || !refusesJson(first.left)) return first
    const second = await submit(lossCall('protobuf', request, mode), lossForm)
    if (isLeft(second)) return second.left.status === 415 ? first : second
    wire.set('protobuf')
    return second
  }
  const loss =
    (request: LossRequest, mode: 'forward' | 'backward'): Submitting<ForwardBackwardOutput> =>
    () =>
      inLine(async () => {
        const parts: Pending<ForwardBackwardOutput>[] = []
        for (const chunk of chunksOf(request.data, chunks)) {
          const part = await submitLoss({ ...request, data: chunk }, mode)
          if (isLeft(part)) {
            if (parts.length > 0 && mode === 'backward') broken = part.left
            return part
          }
          const kind = mode === 'forward' ? 'sentTokens' : 'trainedTokens'
          calls.count(
            kind,
            chunk.reduce((sum, { tokens }) => sum + tokens.length, 0),
          )
          parts.push(part.right)
        }
        return parts.length === 0
          ? left(calls.failure('refused', { call: '/forward_backward', reason: 'data is empty' }))
          : right(combined(parts))
      })

  return {
    modelId,
    server,
    gradients,
    forwardBackward: (request) => loss(request, 'backward'),
    forward: (request) => {
      if (server.forward === 'present') return loss(request, 'forward')
      if (request.lossFn === 'cross_entropy')
        return loss({ ...request, data: request.data.map(weightless) }, 'backward')
      const reason = `${server.name} computes ${request.lossFn} only with gradients`
      return async () => left(calls.failure('unsupported', { call: '/forward', reason }))
    },
    optimStep: (adam) =>
      submitted('/optim_step', () => ({ type: 'optim_step', adam_params: adamSchema.parse(adam) }), optimForm),
    saveState: (name, options) => {
      const json = { type: 'save_weights', path: name, overwrite: true, ...server.saving, ...ttlJson(options) }
      return submitted('/save_weights', () => json, pathForm)
    },
    loadState: (path, { optimizer }) =>
      submitted('/load_weights', () => ({ type: 'load_weights', path, optimizer: optimizer === 'restored' }), pathForm),
    saveForSampler: (name, options) => {
      const json = { type: 'save_weights_for_sampler', path: name, ...ttlJson(options) }
      return submitted('/save_weights_for_sampler', () => json, pathForm)
    },
    sampler: () => async () => {
      const body = () => ({ type: 'save_weights_for_sampler', sampling_session_seq_id: nextSampler() })
      const pending = await submitted('/save_weights_for_sampler', body, sessionForm)()
      if (isLeft(pending)) return pending
      const session = await pending.right.result()
      return isLeft(session) ? session : right(makeSampler(calls, session.right))
    },
    unload: () => async () => {
      const request = {
        path: '/unload_model',
        json: { model_id: modelId, type: 'unload_model' },
        effect: 'none' as const,
      }
      const pending = await submitRequest(calls, request, { json: z.unknown() })
      if (isLeft(pending)) return pending
      const result = await pending.right.result()
      return isLeft(result) ? result : right(undefined)
    },
  }
}
