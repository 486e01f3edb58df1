/** TorchRL's `vLLMUpdater`: pushes a decoder's weights to vLLM servers. */
import { checkOptions } from '@tandem-rl/base'
import type { Params } from '../../modules/transformer/params.js'
import { VLLM_UPDATER_OPTIONS } from '../optionKinds.js'
import { type DecoderFormsOptions, decoderForms } from './decoderForms.js'
import { type EngineUpdater, engineUpdater } from './engineUpdater.js'
import type { EngineUpdaterOptions } from './settings.js'

export type VLLMUpdaterOptions = Omit<EngineUpdaterOptions<Params>, 'weights'> & {
  /**
   * The decoder, and a folder for its checkpoints that the servers can read. Without a folder only
   * adapters can be pushed.
   */
  readonly model: DecoderFormsOptions
}

/** An updater that holds a compiled scorer until it is released. */
export interface vLLMUpdater extends EngineUpdater<Params> {
  readonly release: () => void
}

/** Largest gap for a server with 16-bit weights. */
const HALF_TOLERANCE = { worst: 1, mean: 0.05 }

/**
 * Pushes a decoder's parameters to servers with vLLM's protocol, including `tandem serve`.
 *
 * An adapter is pushed under a new name each time. Start the servers with `--enable-lora`,
 * `--max-loras` of at least `maxStaleness + 2`, and `VLLM_ALLOW_RUNTIME_LORA_UPDATING=1`. Whole
 * weights are pushed as a checkpoint folder that the servers read (`reload_weights`), for which
 * they need `VLLM_SERVER_DEV_MODE=1`. The project's own scorer computes the expected values of the
 * probes. For checkpoints in 16 bits, the default tolerance is 0.05 nats on average.
 *
 * vLLM 0.32 on CPUs keeps the old output projection of a model that shares it with the embedding.
 * Whole weights of such a model fail the probes and are undone. Serve an untied copy
 * (`untieEmbeddings`) and set `model.checkpoints.projection` to `own`.
 *
 * Errors   those of `engineUpdater`.
 * Effects  those of `engineUpdater`. Writes checkpoint folders, and removes the obsolete ones.
 * Source   TorchRL's `vLLMUpdater`, `vLLMUpdaterV2` and `VLLMWeightSyncScheme`, which broadcast
 *          tensors over NCCL without verification.
 */
export const vLLMUpdater = (options: VLLMUpdaterOptions): vLLMUpdater => {
  checkOptions('vLLMUpdater', options, VLLM_UPDATER_OPTIONS)
  const { model, verify = {}, ...rest } = options
  const forms = decoderForms(model)
  const isHalf = (model.checkpoints?.float ?? 'F32') !== 'F32'
  const updater = engineUpdater({
    ...rest,
    weights: forms,
    verify: { ...(isHalf && { tolerance: HALF_TOLERANCE }), ...verify },
  })
  return { ...updater, release: forms.release }
}
