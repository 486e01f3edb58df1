/** The backend of a configuration. */
import { AsyncVerlBackend } from './asyncVerl.js'
import { AsyncVLLMBackend } from './asyncVLLM.js'
import type { LLMBackend } from './backend.js'
import { ClientBackend } from './client.js'
import type { BackendConfig } from './configs.js'
import type { BackendModel } from './modelTexts.js'

/** Makes the backend that a configuration describes. */
export const makeBackend = (model: BackendModel, config: BackendConfig): LLMBackend => {
  switch (config.backend) {
    case 'async_vllm':
      return AsyncVLLMBackend(model, config)
    case 'client':
      return ClientBackend(model, config)
    case 'async_verl':
      return AsyncVerlBackend(model, config)
  }
}
