/** TorchRL's `vLLMUpdater`: a decoder's weights into vLLM servers. */
import { aRecord, checkOptions } from '../../core/options.js'
import type { Params } from '../../modules/transformer/params.js'
import { type DecoderFormsOptions, decoderForms } from './decoderForms.js'
import { type EngineUpdater, engineUpdater, UPDATER_OPTIONS } from './engineUpdater.js'
import type { EngineUpdaterOptions } from './settings.js'

export type VLLMUpdaterOptions = Omit<EngineUpdaterOptions<Params>, 'weights'> & {
  /** The decoder, and where its checkpoints go: a folder that the servers see. Only adapters can be pushed without one. */
  readonly model: DecoderFormsOptions
}

/** An updater that holds a compiled scorer until it is released. */
export interface vLLMUpdater extends EngineUpdater<Params> {
  readonly release: () => void
}

/** How far a server that holds 16 bits may be from the trainer. */
const HALF_TOLERANCE = { worst: 1, mean: 0.05 }

/**
 * Pushes a decoder's parameters into servers that speak as vLLM does, `tandem serve` among them.
 *
 * Parameters with an adapter go as one, under a name of its own for each push: start the servers with `--enable-lora`, `--max-loras` of at least
 * `maxStaleness + 2`, and `VLLM_ALLOW_RUNTIME_LORA_UPDATING=1`. Others go as a checkpoint folder that the servers read (`reload_weights`), for
 * which they need `VLLM_SERVER_DEV_MODE=1`. The probes are scored by the project's own scorer; where checkpoints are stored in 16 bits, the
 * tolerance is 0.05 nats on average unless told otherwise.
 *
 * vLLM 0.32 on CPUs goes on with the old output projection of a model that shares it with the embedding: whole weights of such a model fail
 * the probes there, and are undone. Serve an untied copy (`untieEmbeddings`) and set `model.checkpoints.projection` to `own`.
 *
 * Errors   as `engineUpdater`.
 * Effects  as `engineUpdater`; writes checkpoint folders and removes them when they are outside of the window.
 * Source   TorchRL's `vLLMUpdater`, `vLLMUpdaterV2` and `VLLMWeightSyncScheme`, which broadcast tensors over NCCL and verify nothing.
 */
export const vLLMUpdater = (options: VLLMUpdaterOptions): vLLMUpdater => {
  checkOptions('vLLMUpdater', options, { ...UPDATER_OPTIONS, model: aRecord })
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
