/** Samples on servers: `tandem serve` or vLLM. */
import { checkOptions, orThrow } from '@tandem-rl/base'
import { liveFiles, temporaryFolder } from '@tandem-rl/host'
import type { WeightFailure } from '@tandem-rl/text'
import * as E from 'fp-ts/lib/Either.js'
import { vLLMUpdater } from '../../collectors/updaters/vLLMUpdater.js'
import type { Pretrained } from '../../modules/pretrained/pretrained.js'
import { saveModel } from '../../modules/pretrained/saveModel.js'
import { vLLMWrapper } from '../../modules/remote/vllm/vLLMWrapper.js'
import { VLLM_SAMPLER_OPTIONS } from '../optionKinds.js'
import type { PolicySettings } from '../parts/settings.js'
import type { PolicySampler } from './policyParts.js'

export interface VLLMSamplerOptions {
  /** URL of the server, or of each replica. */
  readonly url: string | readonly string[]
  /** Name of the model on the servers. */
  readonly name: string
  /** The initial model of the run. */
  readonly model: Pretrained
  readonly sampling: Pick<PolicySettings['sampling'], 'temperature' | 'maxNewTokens'>
  /** A folder shared with the servers, for transferring weights. Default: a temporary folder. */
  readonly folder?: string
}

const WAY_OUT = 'Check that it runs and lets its weights be changed, as tandem serve --dev does'

/**
 * Makes a sampler that uses servers with vLLM's protocol, and pushes each new version of the
 * weights to them.
 *
 * At the start of the run, the servers load the weights of `model`, replacing those of an earlier
 * run, so a killed run can resume on the same servers. Start `tandem serve` with `--dev` (and
 * `--enable-lora` for runs with `lora.rank`), or vLLM as `vLLMUpdater` requires.
 *
 * Errors   `begin` throws FailureError if the folder cannot be written, a server does not respond,
 *          or a server cannot load the weights. If a server stops during the run, the run fails in
 *          that step after several attempts, and can be resumed.
 * Effects  HTTP requests until `close`. Writes a folder for each version, and removes it when no
 *          server needs it.
 */
export const vLLMSampler = async (options: VLLMSamplerOptions): Promise<PolicySampler> => {
  checkOptions('vLLMSampler', options, VLLM_SAMPLER_OPTIONS)
  const {
    url,
    name,
    model,
    sampling: { temperature, maxNewTokens },
    ...given
  } = options

  const { config, text } = model
  const folder = given.folder ?? (await temporaryFolder('weights'))
  const start = `${folder}/start`
  const policy = vLLMWrapper({
    url,
    model: name,
    mixedVersions: 'each',
    server: { sharedFolder: folder },
    sampling: { temperature, maxTokens: maxNewTokens, stopTokens: config.endTokens },
  })
  const updater = vLLMUpdater({
    clients: policy.clients,
    model: { config, checkpoints: { folder, text } },
    start: { version: 0, source: { _tag: 'Folder', path: start } },
  })
  return {
    policy,
    updater,
    ...(policy.clients.length === 1 && { client: policy.clients[0]! }),
    begin: async () => {
      orThrow(await saveModel(start, model)())
      for (const { server, problem } of await updater.recover()) {
        if (problem === null) continue
        const reason = `${server} did not take the first weights of the run: ${problem}. ${WAY_OUT}`
        const failure: WeightFailure = { _tag: 'WeightFailure', receiver: server, reason }
        orThrow(E.left(failure))
      }
    },
    close: async () => {
      updater.release()
      await policy.close()
      await liveFiles.remove(given.folder === undefined ? folder : start)()
    },
  }
}
