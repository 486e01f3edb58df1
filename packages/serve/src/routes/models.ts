/** `/v1/models`, and loading and unloading of adapters at run time. */
import { describe } from '@tandem-rl/base'
import * as E from 'fp-ts/lib/Either.js'
import { z } from 'zod'
import { type ApiFailure, apiFailure, jsonResponse } from '../requests/failure.js'
import { parseFields } from '../requests/fields.js'
import type { Served } from '../requests/served.js'

/** Lists the model under each of its names, then the adapters. */
export const listModels = (served: Served): Response => {
  const { names, root } = served.model
  const card = (id: string, more: object): object => ({
    id,
    object: 'model',
    created: served.created,
    owned_by: 'tandem',
    ...more,
    permission: [],
  })
  const models = names.map((id) => card(id, { root, parent: null, max_model_len: served.engine.info.maxModelLength }))
  const adapters = [...served.adapters.values()].map(({ name, path }) =>
    card(name, { root: path, parent: names[0]!, max_model_len: null }),
  )
  return jsonResponse({ object: 'list', data: [...models, ...adapters] })
}

const badInput = (reason: string): ApiFailure => ({ ...apiFailure(400, reason), type: 'InvalidUserInput' })

const text = (message: string): Response =>
  new Response(message, { headers: { 'content-type': 'text/plain; charset=utf-8' } })

const loadSchema = z.object({
  lora_name: z.string().nullish(),
  lora_path: z.string().nullish(),
  load_inplace: z.boolean().nullish(),
})

/**
 * Makes the failure of an unreadable adapter. A missing folder is the client's error; an adapter
 * that does not match is 500, as in vLLM.
 */
const notRead = (name: string, path: string, reason: string, kind: 'missing' | 'unusable'): ApiFailure =>
  kind === 'missing'
    ? apiFailure(404, `Loading lora ${name} failed: No adapter found for ${path}`)
    : apiFailure(500, reason)

const isMissing = (failure: { readonly _tag: string }): boolean => 'code' in failure && failure.code === 'ENOENT'

/**
 * Loads an adapter from a folder. It can be used once the response has arrived.
 *
 * Errors   `Left(ApiFailure)`: 400 for a missing field, a name in use and `load_inplace`; 404 for a
 *          missing folder; 500 for an adapter that is unreadable or rejected by the engine; 501 if
 *          adapters are disabled.
 */
export const loadAdapterRoute = async (served: Served, body: unknown): Promise<E.Either<ApiFailure, Response>> => {
  const { readAdapter } = served.features
  if (readAdapter === null) return E.left(apiFailure(501, 'This server was started without --enable-lora.'))
  const fields = parseFields(loadSchema, body)
  if (E.isLeft(fields)) return fields
  const { lora_name: name, lora_path: path, load_inplace: inPlace } = fields.right
  if (!name || !path) return E.left(badInput("Both 'lora_name' and 'lora_path' must be provided."))
  if (inPlace === true) {
    return E.left(
      apiFailure(400, '`load_inplace` is not supported: load the adapter under a new name.', 'load_inplace'),
    )
  }
  const isTaken = [served.adapters, served.loading, new Set(served.model.names)].some((names) => names.has(name))
  if (isTaken) return E.left(badInput(`The lora adapter '${name}' has already been loaded.`))
  served.loading.add(name)
  const read = await readAdapter(path)()
  const loaded = E.isLeft(read)
    ? E.left(notRead(name, path, describe(read.left), isMissing(read.left) ? 'missing' : 'unusable'))
    : E.mapLeft(({ reason }: { readonly reason: string }) => apiFailure(500, reason))(
        await served.engine.loadAdapter(name, read.right)(),
      )
  served.loading.delete(name)
  if (E.isLeft(loaded)) return loaded
  served.adapters.set(name, { name, path })
  return E.right(text(`Success: LoRA adapter '${name}' added successfully.`))
}

const unloadSchema = z.object({ lora_name: z.string().nullish() })

/**
 * Unloads an adapter. Requests that use it finish first.
 *
 * Errors   `Left(ApiFailure)`: 400 without a name, 404 for an unknown name, 500 if the engine
 *          refuses.
 */
export const unloadAdapter = async (served: Served, body: unknown): Promise<E.Either<ApiFailure, Response>> => {
  const fields = parseFields(unloadSchema, body)
  if (E.isLeft(fields)) return fields
  const { lora_name: name } = fields.right
  if (!name) return E.left(badInput("'lora_name' needs to be provided to unload a LoRA adapter."))
  const adapter = served.adapters.get(name)
  if (adapter === undefined) return E.left(apiFailure(404, `The lora adapter '${name}' cannot be found.`))
  served.adapters.delete(name)
  const unloaded = await served.engine.unloadAdapter(name)()
  if (E.isLeft(unloaded)) {
    served.adapters.set(name, adapter)
    return E.left(apiFailure(500, unloaded.left.reason))
  }
  return E.right(text(`Success: LoRA adapter '${name}' removed successfully.`))
}
