/** The generation engine of a model folder, for use on a thread of its own. */
import { checkOptions, errorMessage, type Failure } from '@tandem-rl/base'
import { type BackendName, type SelectOptions, selectBackend } from '@tandem-rl/tfjs-onnxruntime'
import { scope } from '@tandem-rl/tfjs-onnxruntime/scope'
import { pipe } from 'fp-ts/lib/function.js'
import * as TE from 'fp-ts/lib/TaskEither.js'
import { FOLDER_ENGINE_MODULE_OPTIONS, FOLDER_ENGINE_OPTIONS } from '../optionKinds.js'
import { modelFolders } from '../pretrained/modelFolder.js'
import { loadArrays, loadPretrained, makeParams, type Pretrained } from '../pretrained/pretrained.js'
import type { EngineLimits, LocalLLMEngine } from './llmEngine.js'
import { modelEngine } from './modelEngine.js'
import type { EngineModule } from './onDevice.js'
import type { Rounding } from './runner/modelRunner.js'

/** A model folder and its serving options. Plain data that can be sent to a thread. */
export interface FolderEngineOptions {
  /** A model by a name that `loadPretrained` resolves. */
  readonly folder: string
  /**
   * `loaded`: text and stop strings with the folder's tokenizer. `absent`: tokens only. Default
   * `loaded`.
   */
  readonly text?: 'loaded' | 'absent'
  readonly backend?: BackendName
  /** Threads inside one operation. */
  readonly threads?: number
  readonly limits?: Partial<EngineLimits>
  readonly rounding?: Rounding
}

const select = ({ backend, threads }: FolderEngineOptions): TE.TaskEither<Failure, unknown> => {
  const options: SelectOptions = { ...(backend && { backend }), ...(threads !== undefined && { threads }) }
  return TE.tryCatch(
    () => selectBackend(options),
    (error) => ({ _tag: 'BackendFailure', reason: errorMessage(error) }),
  )
}

/**
 * Selects the tensor backend of this thread, loads a model and starts its engine with version 0.
 *
 * Errors   `Left` if no backend loads, or if the folder is unusable; the failure names the file.
 * Effects  sets tfjs's backend in this thread. The weights live until the engine is closed.
 */
export const folderEngine = (options: FolderEngineOptions): TE.TaskEither<Failure, LocalLLMEngine> => {
  checkOptions('folderEngine', options, FOLDER_ENGINE_OPTIONS)
  const { folder, text = 'loaded', limits, rounding } = options
  const loaded: TE.TaskEither<Failure, Omit<Pretrained, 'text'> & Partial<Pick<Pretrained, 'text'>>> =
    text === 'loaded' ? loadPretrained(folder) : pipe(modelFolders(folder), TE.chain(loadArrays))
  return pipe(
    select(options),
    TE.chain(() => loaded),
    TE.map((model) =>
      scope(() =>
        modelEngine({
          config: model.config,
          params: makeParams(model.arrays),
          ...(model.text && { tokenizer: model.text.tokenizer }),
          ...(limits && { limits }),
          ...(rounding && { rounding }),
        }),
      ),
    ),
  )
}

/** Returns `folderEngine` as a module for `LLMOnDevice`, which starts it on its own thread. */
export const folderEngineModule = (options: FolderEngineOptions): EngineModule => {
  checkOptions('folderEngineModule', options, FOLDER_ENGINE_MODULE_OPTIONS)
  return {
    module: import.meta.url,
    exportName: 'folderEngine',
    options,
  }
}
