/** The routes that sample: sampling sessions, completions, and log-probabilities of prompts. */
import { cell, describe, keyFromSeed } from '@tandem-rl/base'
import { liveFiles } from '@tandem-rl/host'
import { own, scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import * as E from 'fp-ts/lib/Either.js'
import { samplingParams } from 'tandem-rl/generation'
import { loadAdapter, loadWeights, makeParams } from 'tandem-rl/models'
import type { TrainedWeights } from 'tandem-rl/objectives'
import { type RequestBodies, sampleResultJson } from '../protocol/jsonWire.js'
import { parseTinkerPath } from '../protocol/paths.js'
import { encodeSampleResult } from '../protocol/protobufWire.js'
import type { SampleResult } from '../protocol/values.js'
import {
  type Answer,
  closeSampler,
  type Desk,
  failedWith,
  type Host,
  hostOf,
  refusedWith,
  type SamplerEntry,
  type Sent,
  sessionOf,
  settleWith,
  submit,
} from './desk.js'
import type { FutureResult } from './futures.js'
import { sampleResultOf } from './samplers.js'

type SamplerAbout = Pick<SamplerEntry, 'id' | 'sessionId' | 'host' | 'modelPath'>

/** Requests of a session that a client may still ask for. */
const FINISHED = 4096

const addEntry = (desk: Desk, about: SamplerAbout, sampler: SamplerEntry['sampler']): void => {
  desk.samplers.set(about.id, {
    ...about,
    sampler,
    running: new Map(),
    finished: cell<ReturnType<SamplerEntry['finished']['get']>>([]),
    wake: cell<readonly (() => void)[]>([]),
  })
}

/**
 * Closes the idle samplers that were not used for longest, until there is room for one more. A
 * sampler of a base model holds no weights of its own, and stays.
 */
const makeRoom = async (desk: Desk): Promise<void> => {
  const own = [...desk.samplers.values()].filter(({ host, sampler }) => sampler !== host.samplers.base)
  const idle = own.filter(({ running }) => running.size === 0)
  const tooMany = Math.max(0, own.length + 1 - desk.limits.samplers)
  for (const { id } of idle.slice(0, tooMany)) await closeSampler(desk, id)
}

/**
 * Adds a sampling session with weights of its own. Errors: `Left` for an adapter that does not fit.
 */
export const addSampler = async (
  desk: Desk,
  about: SamplerAbout,
  snapshot: TrainedWeights,
): Promise<E.Either<string, void>> => {
  await closeSampler(desk, about.id)
  await makeRoom(desk)
  const opened = await about.host.samplers.open(`${about.id} ${desk.world.ids.fresh()}`, snapshot)
  if (E.isLeft(opened)) return opened
  addEntry(desk, about, opened.right)
  return E.right(undefined)
}

/** The weights of a checkpoint. */
const snapshotAt = async (desk: Desk, modelPath: string): Promise<Answer<{ snapshot: TrainedWeights; host: Host }>> => {
  const path = parseTinkerPath(modelPath)
  if (path === undefined)
    return refusedWith(400, `model_path must be tinker://MODEL/sampler_weights/NAME, got ${modelPath}`)
  const info = await desk.checkpoints.info(path)()
  if (E.isLeft(info)) return refusedWith(404, describe(info.left))
  const host = hostOf(desk, info.right.base_model)
  if (E.isLeft(host)) return host
  const folder = desk.checkpoints.folderOf(path)
  if (info.right.lora !== null) {
    const loaded = await loadAdapter(folder, host.right.model.config, liveFiles)()
    if (E.isLeft(loaded)) return refusedWith(500, describe(loaded.left))
    return E.right({ host: host.right, snapshot: { _tag: 'Adapter', adapter: loaded.right.adapter } })
  }
  const loaded = await loadWeights(folder, liveFiles)()
  if (E.isLeft(loaded)) return refusedWith(500, describe(loaded.left))
  const params = own(scope(() => makeParams(loaded.right.arrays)))
  return E.right({ host: host.right, snapshot: { _tag: 'Weights', params } })
}

/** Starts to sample from a base model or a checkpoint. */
export const createSamplingSession = async (
  desk: Desk,
  body: RequestBodies['create_sampling_session'],
): Promise<Answer> => {
  const session = sessionOf(desk, body.session_id)
  if (E.isLeft(session)) return session
  const id = `${body.session_id}-sample-${body.sampling_session_seq_id}`
  const answer = E.right({ type: 'create_sampling_session', sampling_session_id: id })
  const present = desk.samplers.get(id)
  const modelPath = body.model_path ?? null
  if (present !== undefined)
    return present.modelPath === modelPath
      ? answer
      : refusedWith(409, `sampling_session_seq_id ${body.sampling_session_seq_id} was used for another sampler`)
  if (modelPath === null) {
    if (!body.base_model) return refusedWith(400, 'create_sampling_session needs a base_model or a model_path')
    const host = hostOf(desk, body.base_model)
    if (E.isLeft(host)) return host
    if (desk.samplers.size >= desk.limits.samplingSessions)
      return refusedWith(429, `${desk.limits.samplingSessions} sampling sessions are open already: finish a session`)
    addEntry(desk, { id, sessionId: body.session_id, host: host.right, modelPath }, host.right.samplers.base)
    return answer
  }
  const found = await snapshotAt(desk, modelPath)
  if (E.isLeft(found)) return found
  const about = { id, sessionId: body.session_id, host: found.right.host, modelPath }
  const added = await addSampler(desk, about, found.right.snapshot)
  return E.isLeft(added) ? refusedWith(400, added.left) : answer
}

const samplerOf = (desk: Desk, id: string): Answer<SamplerEntry> => {
  const entry = desk.samplers.get(id)
  if (entry === undefined) {
    const why = `it ended, or more than ${desk.limits.samplers} samplers were opened after it`
    return refusedWith(404, `there is no sampling session ${id}: ${why}`)
  }
  const session = sessionOf(desk, entry.sessionId)
  if (E.isLeft(session)) return session
  desk.samplers.delete(id) // the last in order is the last used
  desk.samplers.set(id, entry)
  return E.right(entry)
}

/** The stop rule of a request: null stops at end tokens, an empty list at nothing. */
const stopsOf = (stop: RequestBodies['asample']['sampling_params']['stop']) => {
  const listed = typeof stop === 'string' ? [stop] : (stop ?? [])
  const isOff = Array.isArray(stop) && stop.length === 0
  return {
    stop: listed.filter((each) => typeof each === 'string'),
    stopTokens: listed.filter((each) => typeof each === 'number'),
    endTokens: isOff ? ('ignore' as const) : ('stop' as const),
  }
}

const paramsOf = (desk: Desk, body: RequestBodies['asample']) => {
  const { max_tokens, seed, stop, temperature, top_k, top_p } = body.sampling_params
  const top = body.topk_prompt_logprobs ?? 0
  return samplingParams({
    n: body.num_samples,
    maxTokens: max_tokens ?? null,
    temperature,
    topK: Math.max(0, top_k),
    topP: top_p,
    ...stopsOf(stop),
    key: seed === null || seed === undefined ? desk.nextKey() : keyFromSeed(seed),
    promptLogProbs: body.prompt_logprobs || top > 0 ? top : null,
  })
}

const sampleProblem = (desk: Desk, { host }: SamplerEntry, body: RequestBodies['asample']): string | undefined => {
  const { config } = host.model
  const ids = body.prompt
  if (ids.length === 0) return 'prompt is empty'
  if (body.num_samples > desk.limits.samples)
    return `num_samples is at most ${desk.limits.samples}, got ${body.num_samples}`
  if (ids.length >= config.maxPositions)
    return `prompt has ${ids.length} tokens, and the model reads ${config.maxPositions}`
  const wrong = ids.find((id) => id >= config.vocabularySize)
  if (wrong !== undefined) return `token ${wrong} is not in the model's vocabulary of ${config.vocabularySize} tokens`
  const lastN = body.prompt_logprobs_last_n ?? null
  if (lastN !== null && !(body.prompt_logprobs && lastN < ids.length))
    return 'prompt_logprobs_last_n needs prompt_logprobs, and is below the length of the prompt'
  return undefined
}

const finish = (entry: SamplerEntry, id: string, { _tag }: FutureResult): void => {
  entry.running.delete(id)
  const state = _tag === 'Done' ? ('finished' as const) : ('failed' as const)
  entry.finished.update((all) => [...all.slice(-FINISHED), { cursor: (all.at(-1)?.cursor ?? 0) + 1, id, state }])
  const wake = entry.wake.get()
  entry.wake.set([])
  for (const go of wake) go()
}

/** About how many bytes a result takes in memory. */
const sampleResultBytes = ({ sequences, promptLogProbs, topPromptLogProbs }: SampleResult): number => {
  const tokens = sequences.reduce((sum, each) => sum + each.tokens.length, 0)
  const top = (topPromptLogProbs ?? []).reduce((sum, row) => sum + (row?.length ?? 0), 0)
  return 1024 + 8 * tokens + 16 * (promptLogProbs?.length ?? 0) + 80 * top
}

/** Samples completions. */
export const sample = (desk: Desk, body: RequestBodies['asample'], sent: Sent): Answer => {
  if (!body.sampling_session_id)
    return refusedWith(400, 'asample needs a sampling_session_id: call create_sampling_session')
  const found = samplerOf(desk, body.sampling_session_id)
  if (E.isLeft(found)) return found
  const entry = found.right
  const problem = sampleProblem(desk, entry, body)
  if (problem !== undefined) return refusedWith(400, problem)
  const params = paramsOf(desk, body)
  if (E.isLeft(params)) return refusedWith(400, params.left.reason)
  const wishes = {
    logProbs: body.prompt_logprobs ? ('all' as const) : ('none' as const),
    lastN: body.prompt_logprobs_last_n ?? null,
    top: body.topk_prompt_logprobs ?? 0,
  }
  const id = `${entry.id}:${body.seq_id ?? `x${desk.world.ids.fresh()}`}`
  const made = submit(desk, { ...sent, id }, (request) => {
    const controller = new AbortController()
    entry.running.set(request, controller)
    const work = async (): Promise<FutureResult> => {
      const wanted = { id: request, prompt: Int32Array.from(body.prompt), sampling: params.right }
      const generated = await entry.sampler.generate(wanted, controller.signal)
      if (E.isLeft(generated)) {
        const isUser = generated.left.kind === 'invalid'
        return failedWith(generated.left.reason, isUser ? 'user' : 'server')
      }
      const result = sampleResultOf(generated.right, wishes)
      if (E.isLeft(result)) return failedWith(result.left)
      const { right } = result
      return {
        _tag: 'Done',
        bytes: sampleResultBytes(right),
        json: () => sampleResultJson(right),
        protobuf: () => encodeSampleResult(right),
      }
    }
    void settleWith(desk, request, work).then((settled) => finish(entry, request, settled))
    return undefined
  })
  return E.map(({ request_id }: { readonly request_id: string }) => ({
    request_id,
    sample_sequence_ids: Array.from({ length: body.num_samples }, (_, i) => `${request_id}:${i}`),
  }))(made)
}

/** Ends sampling requests. Others go on. */
export const cancelFutures = (desk: Desk, body: RequestBodies['cancel_future']): Answer => {
  const ids = [...(body.request_ids ?? []), ...(body.request_id ? [body.request_id] : [])]
  const own = [...desk.samplers.values()].filter(
    ({ sessionId }) => (desk.sessions.get(sessionId)?.owner ?? null) === desk.owner,
  )
  for (const entry of own) for (const id of ids) entry.running.get(id)?.abort()
  return E.right({ type: 'cancel_future' })
}

/**
 * Returns the requests of a sampling session that finished since a cursor. Waits for the next one
 * if the list is empty.
 */
export const finishedFutures = async (desk: Desk, body: RequestBodies['retrieve_futures']): Promise<Answer> => {
  const found = samplerOf(desk, body.target.sampling_session_id)
  if (E.isLeft(found)) return found
  const entry = found.right
  const since = () => entry.finished.get().filter(({ cursor }) => cursor > body.prev_cursor)
  const limitMs = Math.min(desk.limits.pollMs, 1000 * (body.timeout ?? Number.POSITIVE_INFINITY))
  if (since().length === 0 && limitMs > 0)
    await new Promise<void>((resolve) => {
      const cancel = desk.world.timers.after(limitMs, resolve)
      const go = (): void => {
        cancel()
        resolve()
      }
      entry.wake.update((all) => [...all, go])
    })
  return E.right({
    completions: since().map(({ id, state }) => ({ state, request_id: id })),
    cursor: since().at(-1)?.cursor ?? body.prev_cursor,
  })
}

/** The description of a sampling session. */
export const samplerInfo = (desk: Desk, id: string): Answer =>
  E.map(({ host, modelPath }: SamplerEntry) => ({ sampler_id: id, base_model: host.name, model_path: modelPath }))(
    samplerOf(desk, id),
  )
