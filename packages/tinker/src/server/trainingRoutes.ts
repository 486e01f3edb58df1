/** The routes that train: models, losses, optimizer steps and checkpoints. */
import { describe, type Failure, keyFromSeed } from '@tandem-rl/base'
import { liveFiles } from '@tandem-rl/host'
import * as E from 'fp-ts/lib/Either.js'
import { forwardBackwardOutputJson, type RequestBodies, type TinkerLora } from '../protocol/jsonWire.js'
import {
  type CheckpointKind,
  type CheckpointPath,
  formatTinkerPath,
  isCheckpointName,
  parseTinkerPath,
} from '../protocol/paths.js'
import { encodeForwardBackwardOutput } from '../protocol/protobufWire.js'
import type { ForwardBackwardRequest } from '../protocol/values.js'
import { lossProblem } from './builtInLosses.js'
import { adapterSettings, computeLoss, stepAdam } from './clientModel.js'
import {
  type Answer,
  closeModel,
  type Desk,
  failedWith,
  finishedWith,
  type Host,
  hostOf,
  type ModelEntry,
  refusedWith,
  type Sent,
  sessionOf,
  settleWith,
  submit,
} from './desk.js'
import type { FutureResult } from './futures.js'
import { addSampler } from './samplingRoutes.js'
import { makeTurns } from './turns.js'

type Promised = Answer<{ readonly request_id: string; readonly model_id?: string }>

/** A model to be made: its identity, its base and its adapter. */
interface NewModel {
  readonly sessionId: string
  readonly number: number
  readonly host: Host
  readonly lora: TinkerLora | null
}

const modelIdOf = ({ sessionId, number }: Pick<NewModel, 'sessionId' | 'number'>): string =>
  `${sessionId}:train:${number}`

/** Makes a model. Errors: an adapter that the model cannot have, and too many models. */
const addModel = (desk: Desk, about: NewModel): Answer<ModelEntry> => {
  const { host, lora, sessionId } = about
  const settings = lora === null ? null : adapterSettings(host.model.config, lora)
  if (settings !== null && E.isLeft(settings)) return refusedWith(400, settings.left)
  const problem = host.trainer.problem(settings?.right ?? null, desk.world.memory.free())
  if (problem !== undefined) return refusedWith(400, problem)
  if (desk.models.size >= desk.limits.models)
    return refusedWith(429, `${desk.limits.models} models are trained already: unload one`)
  const id = modelIdOf(about)
  const entry: ModelEntry = {
    id,
    sessionId,
    lora,
    host,
    turns: makeTurns(desk.world.timers, desk.limits),
    model: host.trainer.start({
      lora: settings === null ? null : { ...settings.right, baseModel: host.name },
      key: keyFromSeed(lora?.seed ?? 0),
    }),
  }
  desk.models.set(id, entry)
  return E.right(entry)
}

/** A session and one of its base models. */
const placeOf = (desk: Desk, sessionId: string, baseModel: string): Answer<Host> => {
  const session = sessionOf(desk, sessionId)
  return E.isLeft(session) ? session : hostOf(desk, baseModel)
}

/** Makes a model that a session trains. */
export const createModel = (desk: Desk, body: RequestBodies['create_model'], sent: Sent): Promised => {
  const host = placeOf(desk, body.session_id, body.base_model)
  if (E.isLeft(host)) return host
  const about = {
    sessionId: body.session_id,
    number: body.model_seq_id,
    host: host.right,
    lora: body.lora_config ?? null,
  }
  const id = modelIdOf(about)
  const made = submit(desk, { ...sent, id: `${id}:create` }, (request) => {
    const added = addModel(desk, about)
    if (E.isLeft(added)) return added.left
    void settleWith(desk, request, () => finishedWith({ type: 'create_model', model_id: id }))
    return undefined
  })
  return E.map((promise: { readonly request_id: string }) => ({ ...promise, model_id: id }))(made)
}

const modelOf = (desk: Desk, id: string): Answer<ModelEntry> => {
  const entry = desk.models.get(id)
  if (entry === undefined)
    return refusedWith(404, `there is no model ${id}: it was unloaded, or the server was started again`)
  const session = sessionOf(desk, entry.sessionId)
  return E.isLeft(session) ? session : E.right(entry)
}

/** A request of a model, in its turn. */
interface ModelRequest extends Sent {
  readonly modelId: string
  readonly seqId: number | null | undefined
  readonly work: (entry: ModelEntry) => Promise<FutureResult> | FutureResult
}

const inTurn = (desk: Desk, { modelId, seqId = null, work, ...sent }: ModelRequest): Promised => {
  const found = modelOf(desk, modelId)
  if (E.isLeft(found)) return found
  const entry = found.right
  const id = `${modelId}:${seqId ?? `x${desk.world.ids.fresh()}`}`
  const made = submit(desk, { ...sent, id }, (request) => {
    const problem = entry.turns.take(seqId, {
      run: async () => void (await settleWith(desk, request, () => work(entry))),
      fail: (reason) => desk.futures.settle(request, failedWith(reason)),
    })
    if (problem === undefined) return undefined
    const isOver = problem.startsWith('seq_id')
    return { status: isOver ? 409 : 429, detail: problem, category: isOver ? 'user' : 'server' }
  })
  return E.map((promise: { readonly request_id: string }) => ({ ...promise, model_id: modelId }))(made)
}

/** Computes a loss, and its gradients unless the request asks for a forward pass. */
export const forwardBackward = (desk: Desk, request: ForwardBackwardRequest, sent: Sent): Promised => {
  const found = modelOf(desk, request.modelId)
  if (E.isLeft(found)) return found
  const { config } = found.right.host.model
  const problem = lossProblem(request, { maxLength: config.maxPositions, vocabularySize: config.vocabularySize })
  if (problem !== undefined) return refusedWith(400, problem)
  const work = ({ model }: ModelEntry): FutureResult => {
    const computed = computeLoss(model, request, desk.limits.microBatchTokens)
    if (E.isLeft(computed)) return failedWith(computed.left)
    const output = computed.right
    const numbers = output.outputs
      .flatMap((each) => Object.values(each))
      .reduce((sum, { data }) => sum + data.length, 0)
    return {
      _tag: 'Done',
      bytes: 1024 + 8 * numbers,
      json: () => forwardBackwardOutputJson(output),
      protobuf: () => encodeForwardBackwardOutput(output),
    }
  }
  return inTurn(desk, { ...sent, modelId: request.modelId, seqId: request.seqId, work })
}

/** Applies the gradients that were computed since the last step. */
export const optimStep = (desk: Desk, body: RequestBodies['optim_step'], sent: Sent): Promised =>
  inTurn(desk, {
    ...sent,
    modelId: body.model_id,
    seqId: body.seq_id,
    work: ({ model }) => {
      const stepped = stepAdam(model, body.adam_params)
      return E.isLeft(stepped) ? failedWith(stepped.left) : finishedWith({ type: 'optim_step', metrics: stepped.right })
    },
  })

/** Saves the files of a model under a path. */
const save = async (
  desk: Desk,
  path: CheckpointPath,
  { model, host, lora }: ModelEntry,
  ttlSeconds: number | null,
): Promise<E.Either<Failure, void>> => {
  const files = model.files(path.kind === 'weights' ? 'training' : 'weights')
  return desk.checkpoints.save(path, { base_model: host.name, lora, ttlSeconds }, files)()
}

const named = (modelId: string, kind: CheckpointKind, name: string): Answer<CheckpointPath> =>
  isCheckpointName(name)
    ? E.right({ modelId, kind, name })
    : refusedWith(400, `path must be a name of letters, digits, dots, underscores and hyphens, got ${name}`)

/** Saves weights and optimizer state. */
export const saveWeights = (desk: Desk, body: RequestBodies['save_weights'], sent: Sent): Promised => {
  const path = named(body.model_id, 'weights', body.path ?? `checkpoint-${body.seq_id ?? desk.world.ids.fresh()}`)
  if (E.isLeft(path)) return path
  const work = async (entry: ModelEntry): Promise<FutureResult> => {
    const isThere = E.isRight(await desk.checkpoints.info(path.right)())
    if (isThere && body.overwrite !== true)
      return failedWith(`${formatTinkerPath(path.right)} exists: choose another name, or set overwrite`)
    const saved = await save(desk, path.right, entry, body.ttl_seconds ?? null)
    return E.isLeft(saved)
      ? failedWith(describe(saved.left), 'server')
      : finishedWith({ type: 'save_weights', path: formatTinkerPath(path.right) })
  }
  return inTurn(desk, { ...sent, modelId: body.model_id, seqId: body.seq_id, work })
}

/**
 * Makes weights that can be sampled from: a checkpoint with a path, or a sampling session without
 * one.
 */
export const saveWeightsForSampler = (
  desk: Desk,
  body: RequestBodies['save_weights_for_sampler'],
  sent: Sent,
): Promised => {
  const { path: name, sampling_session_seq_id: sessionSeq } = body
  if (!name && (sessionSeq === undefined || sessionSeq === null))
    return refusedWith(400, 'save_weights_for_sampler needs a path or a sampling_session_seq_id')
  const path = name ? named(body.model_id, 'sampler_weights', name) : null
  if (path !== null && E.isLeft(path)) return path
  const work = async (entry: ModelEntry): Promise<FutureResult> => {
    if (path !== null) {
      const saved = await save(desk, path.right, entry, body.ttl_seconds ?? null)
      return E.isLeft(saved)
        ? failedWith(describe(saved.left), 'server')
        : finishedWith({ type: 'save_weights_for_sampler', path: formatTinkerPath(path.right) })
    }
    const id = `${entry.sessionId}-sample-${sessionSeq}`
    const about = { id, sessionId: entry.sessionId, host: entry.host, modelPath: null }
    const added = await addSampler(desk, about, entry.model.snapshot())
    return E.isLeft(added)
      ? failedWith(added.left)
      : finishedWith({ type: 'save_weights_for_sampler', path: null, sampling_session_id: id })
  }
  return inTurn(desk, { ...sent, modelId: body.model_id, seqId: body.seq_id, work })
}

/** Lists the settings of a checkpoint's adapter that differ from those of a model. */
const differentParts = (saved: TinkerLora, model: TinkerLora): readonly string[] =>
  (['rank', 'train_unembed', 'train_mlp', 'train_attn'] as const)
    .filter((name) => saved[name] !== model[name])
    .map((name) => `${name} ${saved[name]}`)

const loading =
  (desk: Desk, body: RequestBodies['load_weights'], path: CheckpointPath) =>
  async ({ id, model, host, lora }: ModelEntry): Promise<FutureResult> => {
    const info = await desk.checkpoints.info(path)()
    if (E.isLeft(info)) return failedWith(describe(info.left))
    if (info.right.base_model !== host.name)
      return failedWith(`${body.path} belongs to the base model ${info.right.base_model}, not ${host.name}`)
    const parts = info.right.lora !== null && lora !== null ? differentParts(info.right.lora, lora) : []
    if (parts.length > 0)
      return failedWith(
        `${body.path} has an adapter with ${parts.join(', ')}: create the model with these settings, or from the checkpoint`,
      )
    const optimizer = body.optimizer ? 'restored' : 'fresh'
    const loaded = await model.load(desk.checkpoints.folderOf(path), { files: liveFiles, optimizer })()
    return E.isLeft(loaded)
      ? failedWith(describe(loaded.left))
      : finishedWith({ type: 'load_weights', path: body.path, model_id: id })
  }

/** Makes a model of a checkpoint: its first request is to load it. */
const createFrom = async (
  desk: Desk,
  body: RequestBodies['load_weights'],
  { path, sent }: { readonly path: CheckpointPath; readonly sent: Sent },
): Promise<Promised> => {
  const { session_id: sessionId, model_seq_id: number } = body
  if (!sessionId || number === null || number === undefined)
    return refusedWith(422, 'load_weights needs a model_id, or a session_id and a model_seq_id')
  const info = await desk.checkpoints.info(path)()
  if (E.isLeft(info)) return refusedWith(404, describe(info.left))
  const host = placeOf(desk, sessionId, body.base_model ?? info.right.base_model)
  if (E.isLeft(host)) return host
  const id = modelIdOf({ sessionId, number })
  return submit(desk, { ...sent, id: `${id}:create` }, (request) => {
    const added = addModel(desk, { sessionId, number, host: host.right, lora: info.right.lora })
    if (E.isLeft(added)) return added.left
    const entry = added.right
    entry.turns.take(null, {
      run: async () => void (await settleWith(desk, request, () => loading(desk, body, path)(entry))),
      fail: (reason) => desk.futures.settle(request, failedWith(reason)),
    })
    return undefined
  })
}

/** Loads the weights of a checkpoint of the same base model, with or without the optimizer. */
export const loadModelWeights = async (
  desk: Desk,
  body: RequestBodies['load_weights'],
  sent: Sent,
): Promise<Promised> => {
  const path = parseTinkerPath(body.path)
  if (path === undefined || path.kind !== 'weights')
    return refusedWith(400, `path must be tinker://MODEL/weights/NAME, got ${body.path}`)
  if (!body.model_id) return createFrom(desk, body, { path, sent })
  return inTurn(desk, { ...sent, modelId: body.model_id, seqId: body.seq_id, work: loading(desk, body, path) })
}

/** The description of a model. */
export const modelInfo = (desk: Desk, body: RequestBodies['model']): Answer =>
  E.map(({ id, lora, host }: ModelEntry) => ({
    type: 'get_info',
    model_data: { arch: host.model.config.architecture, model_name: host.name, tokenizer_id: host.name },
    model_id: id,
    is_lora: lora !== null,
    lora_rank: lora?.rank ?? null,
    model_name: host.name,
  }))(modelOf(desk, body.model_id))

/** Frees a model. */
export const unloadModel = (desk: Desk, body: RequestBodies['model'], sent: Sent): Promised => {
  const found = modelOf(desk, body.model_id)
  if (E.isLeft(found)) return found
  return submit(desk, { ...sent, id: `${body.model_id}:unload` }, (request) => {
    void settleWith(desk, request, async () => {
      await closeModel(desk, body.model_id)
      return finishedWith({ type: 'unload_model', model_id: body.model_id })
    })
    return undefined
  })
}
