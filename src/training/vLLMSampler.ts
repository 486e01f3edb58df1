/** Runs whose completions come from servers: `tandem serve`, or vLLM. */
import * as E from 'fp-ts/lib/Either.js'
import { vLLMUpdater } from '../collectors/updaters/vLLMUpdater.js'
import { orThrow } from '../core/failure.js'
import { aList, aRecord, aText, checkOptions, eitherOf, type OptionKinds } from '../core/options.js'
import type { WeightFailure } from '../data/weights.js'
import { liveFiles } from '../live/files.js'
import { temporaryFolder } from '../live/temporaryFolder.js'
import { type Pretrained, saveModel } from '../modules/pretrained.js'
import { vLLMWrapper } from '../modules/remote/vLLMWrapper.js'
import type { PolicySampler } from './policyRun.js'
import type { PolicySettings } from './settings.js'

export interface VLLMSamplerOptions {
  /** The address of the server, or of each replica. */
  readonly url: string | readonly string[]
  /** The name under which the servers have the model. */
  readonly name: string
  /** The model that the run begins with. */
  readonly model: Pretrained
  readonly sampling: Pick<PolicySettings['sampling'], 'temperature' | 'maxNewTokens'>
  /** A folder that this process and the servers see: weights go through it. Default: a temporary one. */
  readonly folder?: string
}

const VLLM_SAMPLER_OPTIONS: OptionKinds<VLLMSamplerOptions> = {
  url: eitherOf(aText, aList),
  name: aText,
  model: aRecord,
  sampling: aRecord,
  folder: aText,
}

/**
 * Samples on servers that speak vLLM's protocol, and pushes each new version of the weights into them.
 *
 * When the run begins, the servers get the weights of `model`, whatever an earlier run left in them, so that a run that was killed resumes on
 * the same servers. Start `tandem serve` with `--dev` (and `--enable-lora` for runs with `lora.rank`), vLLM as `vLLMUpdater` needs it.
 *
 * Errors   `begin` throws FailureError if the folder cannot be written, or if a server does not answer or cannot load those weights.
 * Effects  HTTP requests until `close`; a folder for each version, removed when no server can need it.
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
  const stop = text.tokenizer.idOf(text.endOfTurn)
  const policy = vLLMWrapper({
    ...{ url, model: name, mixedVersions: 'each', server: { sharedFolder: folder } },
    sampling: { temperature, maxTokens: maxNewTokens, ...(stop !== undefined && { stopTokens: [stop] }) },
  })
  const updater = vLLMUpdater({
    clients: policy.clients,
    model: { config, checkpoints: { folder, text } },
    start: { version: 0, source: { _tag: 'Folder', path: start } },
  })
  return {
    ...{ policy, updater },
    begin: async () => {
      orThrow(await saveModel(start, model)())
      for (const { server, problem } of await updater.recover()) {
        const failure: WeightFailure = { _tag: 'WeightFailure', receiver: server, reason: String(problem) }
        if (problem !== null) orThrow(E.left(failure))
      }
    },
    close: async () => {
      updater.release()
      await policy.close()
      await liveFiles.remove(given.folder === undefined ? folder : start)()
    },
  }
}
