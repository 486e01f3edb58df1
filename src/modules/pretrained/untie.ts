/** Conversion of models with a tied output projection to models with a separate one. */
import type { HostArray } from '../../core/hostArray.js'
import { type DecoderConfig, untiedConfig } from '../transformer/config.js'

/** A decoder's config and arrays. */
interface Numbers {
  readonly config: DecoderConfig
  readonly arrays: ReadonlyMap<string, HostArray>
}

/**
 * Gives a model its own output projection, equal to the embedding, without changing its results. A
 * model that already has one is returned unchanged. Such a checkpoint is needed for servers that
 * keep old numbers of a tied table after a reload (vLLM 0.32 on CPUs).
 *
 * Shapes   adds `lm_head.weight` `[V, D]`: the embedding's own array, not a copy.
 * Errors   throws RangeError if the embedding is missing.
 */
export const untieEmbeddings = <M extends Numbers>(model: M): M => {
  const { config, arrays } = model
  if (!config.tiedEmbeddings) return model
  const name = `${config.embedding.name}.weight`
  const table: HostArray | undefined = arrays.get(name)
  if (table === undefined) throw new RangeError(`untieEmbeddings: parameter '${name}' is missing`)
  return {
    ...model,
    config: untiedConfig(config),
    arrays: new Map([...arrays, ['lm_head.weight', table]]),
  }
}
