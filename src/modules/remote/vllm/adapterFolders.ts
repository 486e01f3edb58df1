/** Transfer of adapters to a server through a shared folder. */
import { describe, type FileFailure, type Files, type HttpRequest, type Ids } from '@tandem-rl/base'
import type { AdapterWeights } from '@tandem-rl/text'
import * as E from 'fp-ts/lib/Either.js'
import type { EngineFailure } from '../../../data/engineClient.js'
import { adapterModules } from '../../lora/adapter.js'
import { loraConfig } from '../../lora/config.js'
import { adapterFiles } from '../../lora/peft.js'
import { controlFailure, engineFailure, errorOf } from '../failures.js'
import { sendTo, type VLLMServer } from './calls.js'

/** The shared folder for adapters. */
export interface SharedFolder {
  readonly files: Files
  readonly ids: Ids
  /** Its path in this process. */
  readonly folder: string
  /** Its path on the server. */
  readonly serverFolder: string
}

/** Loads adapters on a server and unloads them. Mutable: it tracks the folders that it wrote. */
export interface AdapterFolders {
  readonly load: (name: string, adapter: AdapterWeights) => Promise<E.Either<EngineFailure, void>>
  readonly unload: (name: string) => Promise<E.Either<EngineFailure, void>>
  /** Removes the client's own folder if no adapter is left in it. */
  readonly close: () => Promise<void>
}

/** Names that are safe as a part of a path on any machine. */
const NAME = /^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/

const filesOf = ({ rank, alpha, tensors }: AdapterWeights) => {
  const config = loraConfig({ rank, alpha, targetModules: adapterModules(tensors.keys()) })
  return adapterFiles({ config, arrays: tensors })
}

/**
 * Makes the transfer of adapters in PEFT's layout.
 *
 * Each adapter has a new folder, inside a folder of this client, because servers may cache files by
 * path. It stays while the adapter is loaded, because a server reads it again after dropping the
 * adapter from memory.
 *
 * Errors   `Left(EngineFailure)`: `refused` for a name that is not valid in a path, a folder that
 *          cannot be written, and refusals of the server, such as a name in use, a rank that is too
 *          high or an unknown module; `unknown` without an answer, in which case the folder stays.
 * Effects  writes and removes folders.
 */
export const adapterFolders = (
  server: VLLMServer,
  { files, ids, folder, serverFolder }: SharedFolder,
): AdapterFolders => {
  const own = `tandem-${ids.fresh()}`
  const written = new Map<string, string>()
  let count = 0

  const call = (path: string, json: object) => {
    const request: HttpRequest = { method: 'POST', path, json, repeat: 'never' }
    return sendTo(server, request)()
  }
  const fileFailure = (failure: FileFailure): E.Either<EngineFailure, never> =>
    E.left(engineFailure(server.name, 'refused', `the adapter cannot be transferred: ${describe(failure)}`))
  const remove = async (name: string): Promise<E.Either<EngineFailure, void>> => {
    const place = written.get(name)
    if (place === undefined) return E.right(undefined)
    written.delete(name)
    const removed = await files.remove(`${folder}/${own}/${place}`)()
    return E.isLeft(removed) ? fileFailure(removed.left) : E.right(undefined)
  }

  return {
    load: async (name, adapter) => {
      if (!NAME.test(name)) {
        const reason = `'${name}' is not a valid adapter name: use letters, digits, '.', '_' and '-'`
        return E.left(engineFailure(server.name, 'refused', reason))
      }
      const place = `${count++}-${name}`
      const made = await files.writeFolder(`${folder}/${own}/${place}`, filesOf(adapter))()
      if (E.isLeft(made)) return fileFailure(made.left)
      const reply = await call('/v1/load_lora_adapter', {
        lora_name: name,
        lora_path: `${serverFolder}/${own}/${place}`,
      })
      if (E.isRight(reply)) {
        written.set(name, place)
        return E.right(undefined)
      }
      const failure = loadFailure(server.name, reply.left)
      if (failure.kind === 'unknown') written.set(name, place)
      else await files.remove(`${folder}/${own}/${place}`)()
      return E.left(failure)
    },
    unload: async (name) => {
      const reply = await call('/v1/unload_lora_adapter', { lora_name: name })
      return E.isLeft(reply) ? E.left(controlFailure(server.name, reply.left)) : remove(name)
    },
    close: async () => {
      if (written.size === 0) await files.remove(`${folder}/${own}`)()
    },
  }
}

/**
 * Converts the failure of a load. vLLM answers 500 for an unusable adapter and then does not have
 * it.
 */
const loadFailure = (name: string, failure: Parameters<typeof controlFailure>[1]): EngineFailure => {
  const reported = errorOf(failure)
  const kept = controlFailure(name, failure)
  return failure.status === 500 && reported?.type === 'InternalServerError' ? { ...kept, kind: 'refused' } : kept
}
