/** The routes of metadata: checkpoints, training runs, sessions and archives. */
import { describe, tarArchive } from '@tandem-rl/base'
import * as E from 'fp-ts/lib/Either.js'
import {
  type CheckpointPath,
  formatTinkerPath,
  isCheckpointName,
  isModelId,
  parseTinkerPath,
} from '../protocol/paths.js'
import type { ListedCheckpoint } from './checkpoints.js'
import { type Answer, type Desk, refusedWith } from './desk.js'

const checkpointJson = ({ path, info }: ListedCheckpoint): object => ({
  checkpoint_id: `${path.kind}/${path.name}`,
  checkpoint_type: path.kind === 'weights' ? 'training' : 'sampler',
  tinker_path: formatTinkerPath(path),
  time: info.time,
  size_bytes: info.size_bytes,
  public: info.public,
  expires_at: info.expires_at ?? null,
})

const cursorOf = (query: URLSearchParams, total: number) => {
  const natural = (name: string, otherwise: number): number => {
    const value = Number(query.get(name) ?? otherwise)
    return Number.isSafeInteger(value) && value >= 0 ? value : otherwise
  }
  return { offset: natural('offset', 0), limit: Math.min(1000, natural('limit', 100)), total_count: total }
}

/** The checkpoints of a model. */
const listed = async (desk: Desk, modelId: string): Promise<Answer<readonly ListedCheckpoint[]>> => {
  if (!isModelId(modelId)) return refusedWith(400, `${modelId} is not the name of a training run`)
  const found = await desk.checkpoints.list(modelId)()
  return E.isLeft(found) ? refusedWith(500, describe(found.left)) : found
}

/** Every checkpoint of every model. */
export const allCheckpoints = async (desk: Desk, query: URLSearchParams): Promise<Answer> => {
  const models = await desk.checkpoints.models()()
  if (E.isLeft(models)) return refusedWith(500, describe(models.left))
  const lists = await Promise.all(models.right.map((modelId) => listed(desk, modelId)))
  const all = lists.flatMap((list) => (E.isLeft(list) ? [] : list.right))
  const cursor = cursorOf(query, all.length)
  const page = all.slice(cursor.offset, cursor.offset + cursor.limit)
  return E.right({ checkpoints: page.map(checkpointJson), cursor })
}

/** The training settings of a checkpoint. */
export const weightsInfo = async (desk: Desk, text: string): Promise<Answer> => {
  const path = parseTinkerPath(text)
  if (path === undefined) return refusedWith(400, `tinker_path must be tinker://MODEL/weights/NAME, got ${text}`)
  const info = await desk.checkpoints.info(path)()
  if (E.isLeft(info)) return refusedWith(404, describe(info.left))
  const { lora, base_model } = info.right
  if (lora === null) return E.right({ base_model, is_lora: false })
  const { rank: lora_rank, train_unembed, train_mlp, train_attn } = lora
  return E.right({ base_model, is_lora: true, lora_rank, train_unembed, train_mlp, train_attn })
}

const runJson = (modelId: string, checkpoints: readonly ListedCheckpoint[], live: Desk['models']): object => {
  const model = live.get(modelId)
  const first = checkpoints[0]?.info
  const lora = model === undefined ? (first?.lora ?? null) : model.lora
  const latest = (kind: CheckpointPath['kind']) => {
    const newest = checkpoints
      .filter(({ path }) => path.kind === kind)
      .toSorted((a, b) => (a.info.time < b.info.time ? 1 : -1))[0]
    return newest === undefined ? null : checkpointJson(newest)
  }
  return {
    training_run_id: modelId,
    base_model: model?.host.name ?? first?.base_model ?? '',
    model_owner: 'tandem',
    is_lora: lora !== null,
    lora_rank: lora?.rank ?? null,
    last_request_time: checkpoints.at(-1)?.info.time ?? new Date(0).toISOString(),
    last_checkpoint: latest('weights'),
    last_sampler_checkpoint: latest('sampler_weights'),
  }
}

/** The models that a client trains. */
const ownModels = ({ models, sessions, owner }: Desk): Desk['models'] =>
  new Map([...models].filter(([, { sessionId }]) => (sessions.get(sessionId)?.owner ?? null) === owner))

/** The models that are trained or have checkpoints. */
export const trainingRuns = async (desk: Desk, query: URLSearchParams): Promise<Answer> => {
  const stored = await desk.checkpoints.models()()
  if (E.isLeft(stored)) return refusedWith(500, describe(stored.left))
  const live = ownModels(desk)
  const names = [...new Set([...live.keys(), ...stored.right])]
  const runs: object[] = []
  for (const modelId of names) {
    const found = await listed(desk, modelId)
    if (E.isRight(found) && (found.right.length > 0 || live.has(modelId)))
      runs.push(runJson(modelId, found.right, live))
  }
  const cursor = cursorOf(query, runs.length)
  return E.right({ training_runs: runs.slice(cursor.offset, cursor.offset + cursor.limit), cursor })
}

/** The routes below `training_runs/MODEL`. */
const RUN = /^\/training_runs\/([^/]+)(?:\/checkpoints(?:\/(weights|sampler_weights)\/([^/]+)(\/[a-z]+)?)?)?$/

const archive = async (desk: Desk, path: CheckpointPath): Promise<Answer<Response>> => {
  const found = await desk.checkpoints.files(path)()
  if (E.isLeft(found)) return refusedWith(404, describe(found.left))
  const headers = {
    'content-type': 'application/x-tar',
    'content-disposition': `attachment; filename="${path.name}.tar"`,
  }
  return E.right(new Response(tarArchive(found.right) as Uint8Array<ArrayBuffer>, { headers })) // never a shared buffer
}

const ofCheckpoint = async (
  desk: Desk,
  path: CheckpointPath,
  { request, action }: { readonly request: Request; readonly action: string },
): Promise<Answer<object | Response>> => {
  const { method } = request
  if (!isModelId(path.modelId) || !isCheckpointName(path.name))
    return refusedWith(400, 'the path of the checkpoint is not valid')
  if (method === 'GET' && action === '/archive') {
    const info = await desk.checkpoints.info(path)()
    if (E.isLeft(info)) return refusedWith(404, describe(info.left))
    const location = new URL(request.url)
    location.pathname = location.pathname.replace(/archive$/, 'download')
    return E.right(new Response(null, { status: 302, headers: { location: location.href } }))
  }
  if (method === 'GET' && action === '/download') return archive(desk, path)
  if (action === '/publish' && (method === 'POST' || method === 'DELETE')) {
    const changed = await desk.checkpoints.publish(path, method === 'POST' ? 'public' : 'private')()
    return E.isLeft(changed) ? refusedWith(404, describe(changed.left)) : E.right(new Response(null, { status: 204 }))
  }
  if (action === '' && method === 'DELETE') {
    const removed = await desk.checkpoints.remove(path)()
    return E.isLeft(removed) ? refusedWith(404, describe(removed.left)) : E.right(new Response(null, { status: 204 }))
  }
  return refusedWith(405, `${method} is not allowed here`)
}

/** A path with its escapes decoded, or the path itself if they are malformed: no route has one. */
const decoded = (path: string): string => {
  try {
    return decodeURIComponent(path)
  } catch {
    return path
  }
}

/** Answers a route below `training_runs`; undefined for a path that is not one. */
export const runRoute = async (
  desk: Desk,
  path: string,
  request: Request,
): Promise<Answer<object | Response> | undefined> => {
  const [all, modelId, kind, name, action = ''] = RUN.exec(decoded(path)) ?? []
  if (all === undefined || modelId === undefined) return undefined
  if (name !== undefined && kind !== undefined)
    return ofCheckpoint(desk, { modelId, kind: kind as CheckpointPath['kind'], name }, { request, action }) // by the pattern
  if (request.method !== 'GET') return refusedWith(405, `${request.method} is not allowed here`)
  const found = await listed(desk, modelId)
  if (E.isLeft(found)) return found
  if (path.endsWith('/checkpoints')) return E.right({ checkpoints: found.right.map(checkpointJson) })
  const live = ownModels(desk)
  if (found.right.length === 0 && !live.has(modelId)) return refusedWith(404, `there is no training run ${modelId}`)
  return E.right(runJson(modelId, found.right, live))
}
